"""What is recorded, what a resumed run makes of it, and what does not fit any more."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from engine.lab import (
    block,
    call,
    compute,
    each,
    flow,
    graph,
    job,
    line,
    lit,
    node,
    obj,
    on,
    out,
    resumed,
)  # fmt: skip
from ropewalk.app.app import App
from ropewalk.engine.engine import Engine
from ropewalk.errors import JournalConflict, StoreError
from ropewalk.expr.ast import Ref
from ropewalk.ir import Graph, OnError, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Branch, Loop, Map, Sleep
from ropewalk.testing import DyingStore, ScriptedTools, fails, hangs, in_turn

TWO = line(call("first", args=obj(x=Ref("input"))), call("second", args=obj(x=out("first"))))


async def dies_at(at: int, body: Any, tools: Any, *, written: bool = False, **more: Any) -> Store:
    """What is left of a run whose process died at its `at`-th write."""
    dying = DyingStore(MemoryStore(durable=True), at, written=written)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(body, tools, **more))
    return await dying.survivor()


def kinds(store: Store, run_id: str = "r") -> list[tuple[str, str]]:
    return [(entry.path, entry.kind) for entry in store.history(run_id)]


# --- what is recorded ----------------------------------------------------------------------------


async def test_paths_are_a_function_of_position_index_and_attempt() -> None:
    """Invariant 7."""
    tools = ScriptedTools(t=lambda **_: 1, flaky=in_turn(fails("no"), 1))
    body = line(
        each("m", [5, 6], node("l", Loop(body=line(call("t")), limit=2))),
        node("b", Branch(arms=((lit(False), line(call("x", "t"))), (lit(True), line(call("y", "t")))))),
        call("f", "flaky", policy=Policy(retry=Retry(attempts=2))),
    )
    store = MemoryStore(durable=True)
    await on(store, body, tools)
    assert [p for p, kind in kinds(store) if kind == "call"] == [
        "m[0]/l[0]/t", "m[0]/l[1]/t", "m[1]/l[0]/t", "m[1]/l[1]/t", "b[1]/y", "f@2",
    ]  # fmt: skip


async def test_idempotency_keys_stay_the_same_over_attempts_and_differ_by_place() -> None:
    tools = ScriptedTools(flaky=in_turn(fails("no"), fails("no"), 1), t=1, keys=True)
    body = line(call("flaky", policy=Policy(retry=Retry(attempts=3))), each("m", [1, 2], call("t")))
    await on(None, body, tools)
    assert [c.key for c in tools.calls] == ["r/flaky"] * 3 + ["r/m[0]/t", "r/m[1]/t"]


async def test_a_result_is_recorded_before_anything_that_depends_on_it_begins() -> None:
    """Invariant 8."""
    store = MemoryStore(durable=True)
    seen: list[Any] = []
    tools = ScriptedTools(first=1, second=lambda x: seen.extend(kinds(store)))
    await on(store, TWO, tools)
    assert seen == [("first", "call")]


# --- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "calls"), [(False, 2), (True, 1)])
async def test_only_what_was_not_recorded_is_called_again(written: bool, calls: int) -> None:
    """Invariant 9."""
    tools = ScriptedTools(first=lambda x: x, second=lambda x: x)
    store = await dies_at(2, TWO, tools, written=written, input=7)
    done = await resumed(store, TWO, tools, input=7)
    assert done["status"] == "completed"
    assert (tools.count("first"), tools.count("second")) == (1, calls)


async def test_a_failed_attempt_is_remembered_with_its_message_and_number() -> None:
    tools = ScriptedTools(t=in_turn(fails("the first"), fails("the second"), fails("the third"), fails("a fourth")))
    stand_in = OnError(value=Ref("error", ("message",)))
    body = line(call("t", policy=Policy(retry=Retry(attempts=3), on_error=stand_in)), result=out("t"))
    for at in range(1, 7):
        tools.calls.clear()
        store = await dies_at(at, body, tools, written=True)
        before = tools.count("t")
        assert (await resumed(store, body, tools))["value"] == "the third", at
        assert tools.count("t") == 3, (at, before)


@pytest.mark.virtual_time
async def test_a_timeout_is_remembered_and_not_waited_for_again() -> None:
    """Invariant 8: what time decides is journaled."""
    tools = ScriptedTools(slow=in_turn(hangs(), 2), after=3)
    body = line(call("slow", policy=Policy(timeout=0.8, retry=Retry(attempts=2))), call("after"))
    store = await dies_at(2, body, tools)  # the first write is that the attempt failed
    assert kinds(store) == [("slow", "attempt")]
    start = time.monotonic()
    assert (await resumed(store, body, tools))["status"] == "completed"
    assert time.monotonic() == start
    assert [c.status for c in tools.calls if c.tool == "slow"] == ["cancelled", "done", "done"]


@pytest.mark.virtual_time
async def test_a_block_that_timed_out_is_not_tried_again_after_a_crash() -> None:
    tools = ScriptedTools(quick=1, slow=hangs(), after=3)
    late = Policy(timeout=0.1, on_error=OnError(value=lit("late")))
    body = line(block("b", call("quick"), call("slow"), policy=late), call("after"), result=out("b"))
    for at in (3, 4):
        tools.calls.clear()
        store = await dies_at(at, body, tools)
        slow = tools.count("slow")
        assert ("b", "attempt") in kinds(store)
        assert (await resumed(store, body, tools))["value"] == "late"
        assert tools.count("slow") == slow


@pytest.mark.virtual_time
async def test_a_pause_goes_on_from_where_it_was() -> None:
    tools = ScriptedTools(after=1)
    body = line(node("p", Sleep(seconds=Ref("input", ("pause",)))), call("after"))
    began = time.time()
    store = await dies_at(1, body, tools, written=True, input={"pause": 0.875})
    assert kinds(store) == [("p", "timer")]
    # With another input a pause that began again would take an hour.
    await resumed(store, body, tools, input={"pause": 3600})
    assert time.time() - began == 0.875
    assert tools.count("after") == 1


@pytest.mark.virtual_time
async def test_a_pause_between_attempts_goes_on_from_where_it_was() -> None:
    tools = ScriptedTools(t=in_turn(fails("no"), 1))
    body = line(call("t", policy=Policy(retry=Retry(attempts=2, delay=0.875))))
    store = await dies_at(2, body, tools, written=True)
    await asyncio.sleep(0.5)
    start = time.monotonic()
    assert (await resumed(store, body, tools))["status"] == "completed"
    assert time.monotonic() - start == 0.375
    assert tools.count("t") == 2


async def test_the_items_of_a_map_and_the_arm_of_a_branch_stand() -> None:
    tools = ScriptedTools(t=lambda **_: 1)
    inner = Graph(nodes=(call("t", args=obj(i=Ref("item"))),), ordered=True, result=Ref("item"))
    body = line(
        node("m", Map(items=Ref("input", ("items",)), body=inner)),
        node("b", Branch(arms=((Ref("input", ("left",)), line(compute("x", lit("left")), result=out("x"))),))),
        call("end", "t"), result=obj(m=out("m"), b=out("b")),
    )  # fmt: skip
    store = MemoryStore(durable=True)
    dying = DyingStore(store, 6)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(body, tools, input={"items": [1, 2], "left": True}))
    # Another input would decide otherwise; what was decided stands all the same.
    done = await resumed(await dying.survivor(), body, tools, input={"items": [8, 9, 10], "left": False})
    assert done["value"] == {"m": [1, 2], "b": "left"}


async def test_a_run_that_failed_gives_the_same_failure_when_asked_again() -> None:
    tools = ScriptedTools(first=fails("no"))
    store = MemoryStore(durable=True)
    first = await on(store, TWO, tools)
    assert first["status"] == "failed"
    assert await on(store, TWO, tools) == first
    assert await resumed(store, TWO, tools) == first
    assert tools.count("first") == 1


@pytest.mark.virtual_time
async def test_time_spent_before_a_crash_counts_for_the_timeout_of_the_run() -> None:
    tools = ScriptedTools(t=lambda **_: 1, slow=hangs())
    body = flow(line(call("t"), call("slow")), timeout=2.0)
    store = await dies_at(1, body, tools, written=True)
    log: Any = await store.reopen("r")
    log.touch("t", 1.875)
    await log.release()
    start = time.monotonic()
    done = await resumed(store, body, tools)
    assert done["status"] == "timeout"
    assert time.monotonic() - start == 0.125


async def test_what_a_handled_failure_left_behind_is_the_same_after_a_crash() -> None:
    """Invariant 6: a failed region leaves no writes."""
    tools = ScriptedTools(t=1, bad=fails("no"))
    inside = [compute("w", lit(1), writes=obj(seen=lit("inside"))), call("bad")]
    handled = Policy(on_error=OnError())
    body = flow(
        line(block("b", *inside, ordered=True, policy=handled), call("t"), result=Ref("state")),
        state={"seen": "outside"},
    )
    assert (await on(None, body, tools))["value"] == {"seen": "outside"}
    for at in range(1, 6):
        store = await dies_at(at, body, tools)
        assert (await resumed(store, body, tools))["value"] == {"seen": "outside"}


# --- what does not fit ---------------------------------------------------------------------------


async def test_a_recorded_call_with_other_arguments_is_a_conflict() -> None:
    tools = ScriptedTools(first=lambda x: x, second=lambda x: x)
    store = await dies_at(2, TWO, tools, input=1)
    with pytest.raises(JournalConflict, match=r"first.*other arguments"):
        await resumed(store, TWO, tools, input=2)
    assert tools.count("first") == 1
    # The conflict has changed nothing: with the right arguments the run goes on.
    assert (await resumed(store, TWO, tools, input=1))["status"] == "completed"


async def test_a_conflict_is_no_failure_that_a_stand_in_could_hide() -> None:
    handled = Policy(retry=Retry(attempts=3), on_error=OnError())
    body = line(block("b", *TWO.nodes, ordered=True, policy=handled), call("end"))
    tools = ScriptedTools(first=lambda x: x, second=lambda x: x, end=1)
    store = await dies_at(2, body, tools, input=1)
    with pytest.raises(JournalConflict):
        await resumed(store, body, tools, input=2)


async def test_a_changed_definition_is_a_conflict_and_the_old_one_goes_on() -> None:
    tools = ScriptedTools(first=lambda x: x, second=lambda x: x)
    store = await dies_at(2, TWO, tools)
    for _ in range(2):
        with pytest.raises(JournalConflict, match="another definition"):
            await resumed(store, TWO, tools, fingerprint="two")
        with pytest.raises(JournalConflict, match="another definition"):
            await on(store, TWO, tools, fingerprint="two")
    assert (await resumed(store, TWO, tools))["status"] == "completed"


async def test_a_definition_changed_after_the_crash_does_not_change_the_run() -> None:
    """The run holds its own snapshot of the definition."""
    tools = ScriptedTools(first=1, second=lambda **_: 2, other=3)
    nodes = [{"id": "a", "type": "tool", "tool": "first"}, {"id": "b", "type": "tool", "tool": "second"}]
    dying = DyingStore(MemoryStore(durable=True), 2)
    app = App(dying)
    chain = await app.chains.create_chain({"nodes": nodes}, name="c")
    with pytest.raises(StoreError):
        await app.run({"nodes": nodes}, run_id="x", executor=tools)
    assert chain is not None
    async with App(await dying.survivor()) as again:
        done = await again.resume("x", executor=tools)
        assert done.results == {"a": 1, "b": 2}


class Hiccup(DyingStore):
    """A store that fails at one write, and only there."""

    def count_write(self) -> bool:
        self.writes += 1
        return self.writes == self.at


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_that_a_hiccup_of_the_store_broke_off_goes_on_in_the_same_process(
    kind: str, at: int, tmp_path: Path
) -> None:
    """The third write is the ending."""
    tools = ScriptedTools(first=lambda x: x, second=lambda x: x)
    real: Store = SqliteStore(tmp_path / "s.db") if kind == "sqlite" else MemoryStore(durable=True)
    engine = Engine(Hiccup(real, at))
    with pytest.raises(StoreError):
        await engine.run(job(TWO, tools))
    assert not engine.live
    done = await engine.run(job(TWO, tools))
    assert done["status"] == "completed"
    assert len(tools.calls) == (2 if at == 3 else 3)
    real.close()


async def test_a_result_that_cannot_be_rendered_leaves_the_run_to_be_gone_on_with() -> None:
    def broken(ending: Any) -> Any:
        raise RuntimeError("a bug in a notation")

    tools = ScriptedTools(first=lambda x: x, second=lambda x: x)
    engine = Engine(MemoryStore(durable=True))
    with pytest.raises(RuntimeError, match="a bug"):
        await engine.run(job(TWO, tools, render=broken))
    done = await engine.run(job(TWO, tools))
    assert (done["status"], len(tools.calls)) == ("completed", 2)


async def test_a_store_that_fails_while_nodes_run_side_by_side_leaves_no_task() -> None:
    tools = ScriptedTools(t=1, slow=hangs())
    body = graph(call("slow"), *[call(f"n{i}", "t") for i in range(6)])
    for at in range(1, 6):
        with pytest.raises(StoreError):
            await Engine(DyingStore(MemoryStore(durable=True), at)).run(job(body, tools))
        assert tools.running == 0
