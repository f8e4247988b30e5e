"""The engine against the plainest possible interpreter: under any timing, however it was compiled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from engine.lab import job, leaves_nothing, once, resumed
from properties.made_flows import World, brief, flows
from properties.reference import Reference
from ropewalk.engine.engine import Engine
from ropewalk.ir import Flow
from ropewalk.journal.memory import MemoryStore
from tiers import examples

INPUT = {"n": 2}
pytestmark = pytest.mark.timeout(1800)  # a failing example takes its time to be made small
seeds = st.integers(0, 2**32)


def told(expected: Reference) -> dict[str, Any]:
    return {"status": expected.status, "value": expected.value, "state": expected.state}


def some(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("status", "value", "state")}


@examples(300)
@given(flows(), seeds, st.booleans())
def test_the_engine_agrees_with_the_plainest_interpreter(flow: Flow, seed: int, direct: bool) -> None:
    """Invariants 2 to 6: values, statuses (they are in every region's value), state and its fold order."""
    note(brief(flow))
    expected = Reference(flow, INPUT)
    event(expected.status)

    async def test() -> None:
        for pace in (None, seed):
            with leaves_nothing():
                ending = await once(flow, World(pace, direct=direct), INPUT)
            assert (ending.status, ending.value, ending.state) == tuple(told(expected).values())

    asyncio.run(test())


@examples(150)
@given(flows(), seeds, st.booleans(), st.booleans())
def test_journal_watcher_and_timing_change_nothing(flow: Flow, seed: int, durable: bool, watched: bool) -> None:
    """Invariant 5, and the same however a program was compiled."""
    note(brief(flow))
    expected = Reference(flow, INPUT)
    watcher = (lambda event: None) if watched else None

    async def test() -> None:
        engine = Engine(MemoryStore(durable=durable))
        for number in range(3):
            world = World(None if number == 0 else seed + number)
            with leaves_nothing():
                result = await engine.run(job(flow, world, f"r{number}", input=INPUT, watcher=watcher))
            assert some(result) == told(expected)
            assert len(result["failures"]) == expected.failures + (expected.status == "failed")

    asyncio.run(test())


@examples(60)
@given(flows(), seeds)
def test_a_finished_journal_answers_for_every_call(flow: Flow, seed: int) -> None:
    """Invariants 7 and 9: all of it played again from its journal calls nothing and gives the same."""
    note(brief(flow))

    async def test() -> None:
        store, world = MemoryStore(durable=True), World(seed)
        result = await Engine(store).run(job(flow, world, input=INPUT))
        calls = world.started.copy()
        log = await store.reopen("r", again=True)
        await log.release()
        assert await resumed(store, flow, world, input=INPUT) == result
        assert world.started == calls

    asyncio.run(test())
