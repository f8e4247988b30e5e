"""Death at every write of a run, then resume: the same answer, and nothing recorded is done again."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from engine.lab import job, resumed
from properties.made_flows import World, brief, flows
from properties.reference import Reference
from ropewalk.engine.engine import Engine
from ropewalk.errors import StoreError
from ropewalk.ir import Flow
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Entry, Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import DyingStore
from tiers import examples

INPUT = {"n": 2}
pytestmark = pytest.mark.timeout(1800)  # a failing example takes its time to be made small
CALLS = ("call", "call_failed")


def calls_in(entries: list[Entry]) -> Counter[str]:
    """The calls that are recorded, by idempotency key: the path without its attempts."""
    return Counter("r/" + re.sub(r"@\d+", "", e.path) for e in entries if e.kind in CALLS)


def attempts_in(entries: list[Entry]) -> Counter[str]:
    return Counter("r/" + re.sub(r"@\d+", "", e.path) for e in entries if e.kind == "call_failed")


async def die_at(at: int, written: bool, flow: Flow, seed: int, store: Store) -> tuple[DyingStore, World]:
    dying, world = DyingStore(store, at, written=written), World(seed)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(flow, world, input=INPUT))
    return dying, world


async def goes_on(flow: Flow, store: Store, world: World, expected: Reference) -> None:
    """Resume on what was acknowledged, in a world that remembers; see what is called."""
    past = store.history("r")
    world.failed = attempts_in(past)  # a failure nobody recorded is met again: the world repeats itself
    before = world.calls_done.copy()
    second = DyingStore(store)
    result = await resumed(second, flow, world, input=INPUT)
    assert (result["status"], result["value"], result["state"]) == (expected.status, expected.value, expected.state)
    known = {(e.path, e.kind) for e in past if e.kind in CALLS}
    again = [e.path for e in second.appended if (e.path, e.kind) in known]
    assert not again, f"recorded again: {again}"
    called = world.calls_done - before
    assert called == calls_in(second.appended), "called without need, or a call was not recorded"


@examples(40)
@given(flows(most=8), st.integers(0, 2**32), st.booleans())
def test_a_run_goes_on_from_any_write_in_memory(flow: Flow, seed: int, written: bool) -> None:
    """Invariants 8 and 9."""
    note(brief(flow))
    expected = Reference(flow, INPUT)
    assume(sum(expected.calls.values()) > 0)

    async def test() -> None:
        whole, world = DyingStore(MemoryStore(durable=True)), World(seed)
        await Engine(whole).run(job(flow, world, input=INPUT))
        for at in range(1, whole.writes + (not written)):
            note(f"dies at write {at} of {whole.writes}")
            dying, world = await die_at(at, written, flow, seed, MemoryStore(durable=True))
            await goes_on(flow, await dying.survivor(), world, expected)

    asyncio.run(test())


@examples(6)
@given(flows(most=8), st.integers(0, 2**32), st.data())
def test_a_run_goes_on_from_any_write_in_sqlite(flow: Flow, seed: int, data: Any) -> None:
    """Invariants 8 and 9."""
    note(brief(flow))
    expected = Reference(flow, INPUT)

    async def test(folder: Path) -> None:
        whole, world = DyingStore(MemoryStore(durable=True)), World(seed)
        await Engine(whole).run(job(flow, world, input=INPUT))
        for n in range(3):
            at = data.draw(st.integers(1, whole.writes))
            dying, world = await die_at(at, False, flow, seed, SqliteStore(folder / f"{n}.db"))
            dying.close()
            store = SqliteStore(folder / f"{n}.db")
            try:
                await goes_on(flow, store, world, expected)
            finally:
                store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(test(Path(folder)))
