"""Stopping runs, watching them, and asking for one id twice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.lab import HANDLED, block, call, each, graph, job, line, node, obj, out, turns
from ropewalk.app.app import App
from ropewalk.engine.engine import Engine
from ropewalk.events import Event
from ropewalk.expr.ast import Lit, Ref
from ropewalk.ir import OnError, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Sleep
from ropewalk.testing import ScriptedTools, fails, hangs, held, in_turn

STORES = ["memory", "durable", "sqlite"]


def made(kind: str, folder: Path) -> Store:
    return SqliteStore(folder / "s.db") if kind == "sqlite" else MemoryStore(durable=kind == "durable")


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("thread", [False, True])
async def test_a_stopped_run_cancels_its_tools_keeps_what_finished_and_ends(
    kind: str, thread: bool, tmp_path: Path
) -> None:
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(first=1, slow=hangs(), never=1)
    body = line(call("first"), block("b", call("s1", "slow"), call("s2", "slow")), call("never"))
    task = asyncio.ensure_future(engine.run(job(body, tools)))
    await tools.called("slow", 2)
    if thread:
        stopped = await asyncio.to_thread(engine.stop, "r")
    else:
        stopped = engine.stop("r")
    assert stopped
    row = store.get_run("r")
    assert row is not None
    assert row.status == "stopped", "at once, before its tools are done"
    result = await task
    assert (result["status"], result["outputs"]) == ("stopped", {"first": 1})
    assert result["error"].startswith("RunStopped")
    assert [c.status for c in tools.calls] == ["done", "cancelled", "cancelled"]
    assert not engine.stop("r")
    assert not engine.stop("unknown")
    assert await engine.run(job(body, tools)) == result  # what is stopped stays stopped
    store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_tool_that_keeps_one_cancellation_to_itself_is_stopped_all_the_same(kind: str, tmp_path: Path) -> None:
    async def stubborn() -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(stubborn=stubborn, after=1)
    task = asyncio.ensure_future(engine.run(job(line(call("stubborn"), call("after")), tools)))
    await tools.called("stubborn")
    engine.stop("r")
    assert (await task)["status"] == "stopped"
    assert [c.status for c in tools.calls] == ["cancelled"]
    store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_stopping_wins_over_stand_ins_and_retries(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(slow=hangs(), after=1)
    policy = Policy(retry=Retry(attempts=5), timeout=50, on_error=OnError())
    body = line(block("b", call("slow", policy=policy), policy=HANDLED), call("after"))
    task = asyncio.ensure_future(engine.run(job(body, tools)))
    await tools.called("slow")
    engine.stop("r")
    assert (await task)["status"] == "stopped"
    assert tools.count("after") == 0
    assert tools.count("slow") == 1
    store.close()


@pytest.mark.parametrize("op", ["sleep", "pause"])
async def test_a_run_that_only_waits_is_stopped_at_once(op: str) -> None:
    engine, tools = Engine(MemoryStore()), ScriptedTools(first=1, bad=fails("no"))
    waits = (
        node("p", Sleep(seconds=Lit(3600)))
        if op == "sleep"
        else call("bad", policy=Policy(retry=Retry(attempts=2, delay=3600)))
    )
    task = asyncio.ensure_future(engine.run(job(line(call("first"), waits), tools)))
    await tools.called("first" if op == "sleep" else "bad")
    await turns()
    engine.stop("r")
    assert (await task)["status"] == "stopped"


async def test_a_tool_may_stop_its_own_run() -> None:
    for kind in ("memory", "durable"):
        engine = Engine(made(kind, Path()))

        async def suicide() -> int:
            engine.stop("r")  # noqa: B023 - called within this round
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return 1

        result = await engine.run(job(line(call("suicide"), call("b", "suicide")), ScriptedTools(suicide=suicide)))
        assert result["status"] == "stopped"


async def test_a_stop_that_comes_too_late_to_cancel_anything_still_stands() -> None:
    """The row says stopped from the moment of the request; the result must not say otherwise."""
    for kind in ("memory", "durable"):
        store = made(kind, Path())
        engine = Engine(store)

        def suicide() -> int:
            engine.stop("r")  # noqa: B023 - called within this round
            return 1

        result = await engine.run(job(line(call("suicide")), ScriptedTools(suicide=suicide)))
        row = store.get_run("r")
        assert row is not None
        assert result["status"] == row.status == "stopped"
        await asyncio.sleep(0)  # no cancellation is on its way


# --- the same id twice ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES)
async def test_the_same_id_twice_at_once_runs_once(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(slow=held("once"))
    body = graph(call("slow"), result=out("slow"))
    tasks = [asyncio.ensure_future(engine.run(job(body, tools))) for _ in range(5)]
    await tools.called("slow")
    await turns()
    tools.release("slow", 5)
    results = await asyncio.gather(*tasks)
    assert {r["value"] for r in results} == {"once"}
    assert (await engine.run(job(body, tools)))["value"] == "once"
    assert tools.count("slow") == 1
    store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_cancelled_waiter_cancels_nobody_else(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(slow=held("once"))
    body = graph(call("slow"), result=out("slow"))
    first = asyncio.ensure_future(engine.run(job(body, tools)))
    await tools.called("slow")
    second = asyncio.ensure_future(engine.run(job(body, tools)))
    await turns()
    second.cancel()
    await asyncio.wait([second])
    tools.release("slow")
    assert (await first)["value"] == "once"
    store.close()


@pytest.mark.parametrize("kind", STORES)
async def test_a_waiter_takes_over_when_the_first_caller_is_cancelled(kind: str, tmp_path: Path) -> None:
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(first=1, slow=in_turn(hangs(), "second"))
    body = line(call("first"), call("slow"), result=out("slow"))
    first = asyncio.ensure_future(engine.run(job(body, tools)))
    await tools.called("slow")
    waiters = [asyncio.ensure_future(engine.run(job(body, tools))) for _ in range(3)]
    await turns()
    first.cancel()
    results = await asyncio.gather(*waiters)
    assert [r["value"] for r in results] == ["second"] * 3
    assert first.cancelled()
    if kind != "memory":
        assert tools.count("first") == 1
    store.close()


BEGINNINGS = [
    *[pytest.param("durable", steps) for steps in range(6)],
    pytest.param("sqlite", 0),
    ("sqlite", 1),
    ("sqlite", 2),
]


@pytest.mark.parametrize(("kind", "steps"), BEGINNINGS)
async def test_cancelled_at_its_beginning_a_run_can_be_run_again(kind: str, steps: int, tmp_path: Path) -> None:
    """Also while the store is asked for it."""
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(first=lambda: asyncio.sleep(0, 1))
    body = line(call("first"), call("second", "first"), result=out("second"))
    task = asyncio.ensure_future(engine.run(job(body, tools)))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    again = await engine.run(job(body, tools))
    assert again["status"] == (
        "stopped" if kind == "memory" and tools.count("first") == 1 and steps > 1 else "completed"
    )
    assert not engine.live
    store.close()


async def test_an_error_that_is_no_ending_reaches_every_waiter() -> None:
    from ropewalk.errors import StoreError
    from ropewalk.testing import DyingStore

    engine, tools = Engine(DyingStore(MemoryStore(durable=True), 1)), ScriptedTools(slow=held(1))
    tasks = [asyncio.ensure_future(engine.run(job(line(call("slow")), tools))) for _ in range(3)]
    await tools.called("slow")
    tools.release("slow")
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, StoreError)


@pytest.mark.parametrize("kind", STORES)
async def test_a_run_that_was_stopped_without_a_result_says_so_when_asked_again(kind: str, tmp_path: Path) -> None:
    """Nobody was there any more to make a result of it."""
    chain = {"id": "c", "nodes": [{"id": "a", "type": "tool", "tool": "slow"}]}
    tools = ScriptedTools(slow=hangs())
    async with App(made(kind, tmp_path)) as app:
        running = asyncio.ensure_future(app.run(chain, run_id="x", executor=tools))
        await tools.called("slow")
        running.cancel()
        await asyncio.wait([running])
        app.runs.stop("x")
        done = await app.run(chain, run_id="x", executor=tools)
        assert (done.run_id, done.status) == ("x", "stopped")
        done = await app.resume("x", executor=tools)
        assert (done.run_id, done.status) == ("x", "stopped")
    assert tools.count("slow") == 1


# --- watching ------------------------------------------------------------------------------------


async def test_a_watcher_that_raises_breaks_nothing_and_is_told_to_the_loop() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["message"]))

    def watcher(event: Event) -> None:
        raise RuntimeError(event.kind)

    tools = ScriptedTools(t=1, bad=fails("no"))
    body = graph(call("a", "t"), each("m", [1, 2], call("t")), call("bad", policy=HANDLED))
    result = await Engine(MemoryStore()).run(job(body, tools, watcher=watcher))
    assert result["status"] == "completed"
    assert any("raised an exception at event node.finished" in message for message in told)


async def test_events_tell_each_node_once_and_in_a_possible_order() -> None:
    events: list[Event] = []
    tools = ScriptedTools(t=1, bad=in_turn(fails("no"), 1))
    never = call("skipped", "t", when=Ref("input", ("go",)))
    body = line(
        call("a", "t"), each("m", [5, 6], call("t")), call("bad", policy=Policy(retry=Retry(attempts=2))), never
    )
    await Engine(MemoryStore()).run(job(body, tools, watcher=events.append))
    assert [(e.kind, e.path) for e in events] == [
        ("run.started", ""),
        ("node.started", "a"), ("node.finished", "a"),
        ("node.started", "m"),
        ("node.started", "m[0]/t"), ("node.finished", "m[0]/t"),
        ("node.started", "m[1]/t"), ("node.finished", "m[1]/t"),
        ("node.finished", "m"),
        ("node.started", "bad"), ("attempt.failed", "bad"), ("node.finished", "bad"),
        ("node.skipped", "skipped"),
        ("run.finished", ""),
    ]  # fmt: skip
    assert all(e.run_id == "r" and e.at > 1e9 for e in events)
    assert events[-2].data == {"reason": "condition is false: $input.go"}


@pytest.mark.parametrize("kind", STORES)
async def test_a_run_is_watched_from_another_task_until_it_ends(kind: str, tmp_path: Path) -> None:
    tools = ScriptedTools(first=1, slow=held(2))
    chain = {"nodes": [{"id": "a", "type": "tool", "tool": "first"}, {"id": "b", "type": "tool", "tool": "slow"}]}
    async with App(made(kind, tmp_path)) as app:
        running = asyncio.ensure_future(app.run(chain, run_id="x", executor=tools))
        await tools.called("slow")
        seen: list[tuple[str, str]] = []
        async for event in app.runs.watch("x", poll=0.01):
            seen.append((event.kind, event.path))
            if ("node.finished", "a") in seen and not running.done() and tools.running:
                assert app.runs.get("x")["currentNode"] == "b"
                tools.release("slow")
        await running
    assert seen == [("node.finished", "a"), ("node.finished", "b"), ("run.finished", "")]


def test_a_run_is_stopped_from_another_thread_and_loop(tmp_path: Path) -> None:
    for kind in STORES:
        folder = tmp_path / kind
        folder.mkdir()
        app = App(made(kind, folder))
        tools = ScriptedTools(slow=hangs())
        under_way, results = threading.Event(), []

        async def runs() -> None:
            chain = {"mode": "parallel", "nodes": [{"id": f"n{i}", "type": "tool", "tool": "slow"} for i in range(3)]}
            task = asyncio.ensure_future(app.run(chain, run_id="x", executor=tools))  # noqa: B023
            await tools.called("slow", 3)  # noqa: B023
            under_way.set()  # noqa: B023
            results.append((await task).status)  # noqa: B023

        thread = threading.Thread(target=lambda: asyncio.run(runs()))
        thread.start()
        assert under_way.wait(50)
        assert app.runs.stop("x")
        thread.join(50)
        assert results == ["stopped"]
        asyncio.run(app.close())


async def test_state_of_a_stopped_run_is_what_finished_wrote() -> None:
    """Invariant 6: of the run itself, what finished is kept."""
    from engine.lab import flow

    engine, tools = Engine(MemoryStore()), ScriptedTools(first=1, slow=hangs())
    body = flow(
        graph(
            call("first", writes=obj(seen=Ref("out", ("first",)))),
            block("b", call("inner", "first", writes=obj(inside=Lit(1))), call("slow")),
        ),
        state={"seen": 0, "inside": 0},
    )
    task = asyncio.ensure_future(engine.run(job(body, tools)))
    await tools.called("slow")
    await tools.called("first", 2)
    await turns()
    engine.stop("r")
    result = await task
    assert (result["status"], result["state"]) == ("stopped", {"seen": 1, "inside": 0})


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("first", ["stop", "cancel"])
async def test_a_stop_in_the_tick_of_a_cancellation_does_not_swallow_it(kind: str, first: str, tmp_path: Path) -> None:
    """Whoever cancelled the task waits for its CancelledError; a stop at the same moment is no reason to return."""
    store = made(kind, tmp_path)
    engine, tools = Engine(store), ScriptedTools(slow=hangs())
    went_on: list[Any] = []

    async def caller() -> None:
        went_on.append(await engine.run(job(line(call("slow")), tools)))

    task = asyncio.ensure_future(caller())
    await tools.called("slow")
    if first == "cancel":
        task.cancel()
    assert engine.stop("r")
    if first == "stop":
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.shield(task)
    assert task.cancelled()
    assert went_on == []
    assert [c.status for c in tools.calls] == ["cancelled"]
    row = store.get_run("r")
    assert row is None or row.status == "stopped"
    store.close()
