"""The engine against the timed interpreter, both on a virtual clock: when each tool is used, what ends it, when the run
ends, and with what."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from engine.lab import block, call, flow, graph, job, leaves_nothing, line, lit, node, obj
from properties.made_flows import brief
from properties.timed_flows import actions, limits, timed_flows
from properties.timed_reference import Outcome, TimedReference
from properties.timed_world import Action, TimedWorld, noted
from properties.virtual_time import VirtualClock, run_virtually
from ropewalk.engine.engine import Engine
from ropewalk.engine.run import Ending
from ropewalk.ir import Flow, Node, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Loop
from tiers import examples

INPUT = {"n": 2}
pytestmark = pytest.mark.timeout(400)  # a failing example takes its time to be made small


def shown(ending: Ending) -> dict[str, Any]:
    failures = sorted(f"{one.path}: {one.kind}: {one.message}" for one in ending.failures)
    return {
        "status": ending.status,
        "value": ending.value,
        "state": ending.state,
        "own": ending.duration,
        "failures": failures,
    }


def played(what: Flow, tool_limits: dict[str, float], done: list[Action], how: dict[str, bool]) -> Outcome:
    """What the engine makes of it."""

    async def work(clock: VirtualClock) -> Outcome:
        store = MemoryStore(durable=how["durable"])
        engine, world = Engine(store), TimedWorld(clock, tool_limits, direct=how["direct"])
        loop = asyncio.get_running_loop()
        watcher = (lambda event: None) if how["watched"] else None

        def act(action: Action) -> None:
            if action.kind == "stop":
                engine.stop("r")
            else:
                store.send("r", action.name, action.payload)

        for action in done:
            loop.call_at(action.when, act, action)
        with leaves_nothing():
            result = await engine.run(job(what, world, input=INPUT, watcher=watcher, render=shown))
        untaken = [signal.name for signal in store.signals("r") if signal.taken is None]
        return Outcome(ended=clock.now, calls=noted(world.calls), untaken=untaken, **result)

    return run_virtually(work)


def interpreted(what: Flow, tool_limits: dict[str, float], planned: list[Action]) -> TimedReference | None:
    """What should come of it; None where the order of what happens at one instant decides that."""
    expected = TimedReference(what, INPUT, tool_limits, planned)
    others = [TimedReference(what, INPUT, tool_limits, planned, seed) for seed in range(4)]
    return expected if all(other.outcome == expected.outcome for other in others) else None


def agrees(expected: TimedReference, found: Outcome) -> None:
    wanted = asdict(expected.outcome)
    differs = {name: (value, wanted[name]) for name, value in asdict(found).items() if value != wanted[name]}
    assert not differs, f"engine, interpreter: {differs}"


ways = st.fixed_dictionaries({name: st.booleans() for name in ("durable", "watched", "direct")})


def slow(id: str, seconds: float, **more: Any) -> Node:
    return call(id, "mix", lit({"v": 0, "n": id, "for": [seconds], **more}))


FOUND = {
    "a tool that swallows the timeout of a block around it does not keep a loop going": flow(
        graph(node("b", Loop(body=line(slow("again", 2, deaf=True)), limit=9), policy=Policy(timeout=1)))
    ),
    "a failure ends what runs next to a tool that cleans up": flow(
        graph(
            block("b", slow("cleans up", 9, clean=0.25), block("c", slow("quick", 1), slow("next", 1), ordered=True)),
            call("bad", "bad", lit({"v": 1, "n": "bad", "for": [0.25]})),
        )
    ),
    "a failure ends a line whose tool swallows the cancellation": flow(
        graph(
            block("b", slow("deaf", 2, deaf=True), slow("next", 1), ordered=True),
            call("bad", "bad", lit({"v": 1, "n": "bad", "for": [1]})),
        )
    ),
    "a result that comes after the stop is not written to the state": flow(
        line(replace(slow("deaf", 2, deaf=True), writes=obj(seen=lit(1)), policy=Policy(retry=Retry(attempts=2)))),
        state={"seen": 0},
    ),
    "a timeout reaches all tools at the same moment": flow(
        graph(block("b", slow("first", 9, clean=0.25), slow("second", 1.0625), policy=Policy(timeout=1)))
    ),
}


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("name", FOUND)
def test_faults_that_the_interpreter_found(name: str, durable: bool, direct: bool) -> None:
    stop = [Action(0.5, "stop")] if "stop" in name else []
    expected = interpreted(FOUND[name], {}, stop)
    assert expected is not None
    agrees(expected, played(FOUND[name], {}, stop, {"durable": durable, "watched": False, "direct": direct}))


@examples(300)
@given(timed_flows(), limits, actions(), ways)
def test_the_engine_agrees_with_the_timed_interpreter(
    what: Flow, tool_limits: dict[str, float], planned: list[Action], how: dict[str, bool]
) -> None:
    note(brief(what))
    note(f"timeout {what.timeout}")
    expected = interpreted(what, tool_limits, planned)
    event("decided by a tie" if expected is None else expected.outcome.status)
    assume(expected is not None)
    if expected is not None:
        agrees(expected, played(what, tool_limits, expected.done, how))
