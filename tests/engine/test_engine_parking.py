"""Waits over restarts, and leaving while a run only waits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from engine.lab import HANDLED, call, flow, graph, job, line, lit, node, on, out, resumed
from engine.waits_lab import INSIDE, STORES, Started, event
from patience import until
from properties.virtual_time import later
from ropewalk import App
from ropewalk.engine.engine import Engine
from ropewalk.errors import JournalConflict, NotWaiting, RunEnded
from ropewalk.expr.ast import Fn, Obj, Ref
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.open_waits import open_waits
from ropewalk.journal.protocol import Store
from ropewalk.ops import Sleep, Wait
from ropewalk.testing import ScriptedTools, held


@pytest.fixture(params=["durably in memory", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


# --- restarts ------------------------------------------------------------------------------------


async def test_a_restart_waits_only_what_is_left(kept: Store) -> None:
    """DUR-9"""
    tools = ScriptedTools()
    body = line(event("w", timeout=3600, policy=HANDLED), result=out("w"))
    run = await Started(kept, body, tools).waits("w")
    await run.kill()
    with later(3600):
        assert (await resumed(kept, body, tools))["value"] == "handled"
    assert [(e.path, e.data) for e in kept.history("r") if e.kind == "signal"] == [("w", {"late": True})]


async def test_what_was_sent_in_time_while_nobody_ran_it_counts(kept: Store) -> None:
    body = line(event("w", timeout=3600, policy=HANDLED), result=out("w"))
    run = await Started(kept, body).waits("w")
    await run.kill()
    kept.send("r", "w", "in time")
    with later(3600):
        assert (await resumed(kept, body, ScriptedTools()))["value"] == "in time"


async def test_what_has_come_is_not_waited_for_again(kept: Store) -> None:
    tools = ScriptedTools(after=held())
    body = line(event("w"), call("after"), result=out("w"))
    run = await Started(kept, body, tools).waits("w")
    run.send("w", 1)
    await tools.called("after")
    await run.kill()
    tools.release("after")
    assert (await resumed(kept, body, tools))["value"] == 1
    assert [s.taken for s in kept.signals("r")] == ["w"]


async def test_a_wait_for_something_else_than_recorded_is_a_conflict(kept: Store) -> None:
    run = await Started(kept, line(event("w", "a"))).waits("w")
    await run.kill()
    with pytest.raises(JournalConflict, match="this one is for event 'b'"):
        await resumed(kept, line(event("w", "b")), ScriptedTools())


async def test_a_secret_is_not_written_down(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "s3cret-value")
    text = Fn("+", (lit("use "), Ref("secret", ("KEY",))))
    run = await Started(kept, line(node("w", Wait(approval=text)))).waits("w")
    [begun] = open_waits(kept.history("r"))
    assert begun.data["approval"] == "use $secret.KEY"
    await run.kill()


# --- leaving meanwhile -----------------------------------------------------------------------------


async def test_a_run_that_only_waits_is_parked_and_goes_on(kept: Store) -> None:
    tools = ScriptedTools(first=1, after=2)
    body = line(call("first"), event("w", timeout=60), call("after"), result=out("w"))
    run = Started(kept, body, tools, park=True)
    result = await run.task
    assert (result["status"], result["outputs"]) == ("waiting", {"first": 1})
    [waited] = result["waitingFor"]
    assert (waited["path"], waited["event"]) == ("w", "w")
    row = kept.get_run("r")
    assert row is not None
    assert (row.status, row.ended_at) == ("waiting", None)
    assert row.due == open_waits(kept.history("r"))[0].data["due"]
    assert run.events[-1].kind == "run.waiting"
    kept.send("r", "w", "come")
    assert [r.id for r in kept.orphans()] == ["r"]
    result = await resumed(kept, body, tools, park=True)
    assert (result["status"], result["value"]) == ("completed", "come")
    assert [c.tool for c in tools.calls] == ["first", "after"]


async def test_a_parked_run_that_is_resumed_too_early_is_parked_again(kept: Store) -> None:
    body = line(event("w"))
    assert (await on(kept, body, ScriptedTools(), park=True))["status"] == "waiting"
    assert (await resumed(kept, body, ScriptedTools(), park=True))["status"] == "waiting"
    assert (await on(kept, body, ScriptedTools(), park=True))["status"] == "waiting"


async def test_a_run_is_parked_only_when_nothing_else_goes_on(kept: Store) -> None:
    tools = ScriptedTools(slow=held("slow"))
    body = graph(event("w"), node("s", Sleep(seconds=lit(60))), call("slow"), call("after", after="slow"))
    tools.script["after"] = ScriptedTools(after=1).script["after"]
    run = await Started(kept, body, tools, park=True).waits("w")
    await tools.called("slow")
    row = kept.get_run("r")
    assert row is not None
    assert row.status == "running"
    tools.release("slow")
    result = await run.task
    assert (result["status"], result["outputs"]) == ("waiting", {"slow": "slow", "after": 1})
    row = kept.get_run("r")
    assert row is not None
    assert row.due is not None, "the pause is when it goes on by itself"
    assert 50 < row.due - time.time() <= 60


@pytest.mark.parametrize("where", INSIDE)
async def test_a_run_is_parked_wherever_its_waits_stand(kept: Store, where: str) -> None:
    body, paths, value = INSIDE[where]
    assert (await on(kept, body, ScriptedTools(), park=True))["status"] == "waiting"
    assert {e.path for e in open_waits(kept.history("r"))} == set(paths)
    kept.send("r", "a", "A")
    assert (await resumed(kept, body, ScriptedTools(), park=True))["status"] == "waiting"
    kept.send("r", "b", "B")
    result = await resumed(kept, body, ScriptedTools(), park=True)
    assert (result["status"], result["value"]) == ("completed", value)


async def test_a_parked_run_goes_on_when_its_time_is_over(kept: Store) -> None:
    body = line(event("w", timeout=3600))
    assert (await on(kept, body, ScriptedTools(), park=True))["status"] == "waiting"
    row = kept.get_run("r")
    assert row is not None
    assert row.due is not None
    with later(3600):
        assert [r.id for r in kept.orphans()] == ["r"]
        assert (await resumed(kept, body, ScriptedTools(), park=True))["failures"] == [
            "w: timed out after 3600 s waiting for event 'w'"
        ]


async def test_a_parked_run_is_stopped_without_anybody_running_it(kept: Store) -> None:
    engine = Engine(kept)
    assert (await engine.run(job(line(event("w")), ScriptedTools(), park=True)))["status"] == "waiting"
    assert engine.stop("r")
    row = kept.get_run("r")
    assert row is not None
    assert row.status == "stopped"
    with pytest.raises(RunEnded):
        kept.send("r", "w")


async def test_time_spent_parked_or_waiting_is_not_spent(kept: Store) -> None:
    body = flow(line(event("a"), event("b"), call("c")), timeout=60)
    began = time.monotonic()
    run = await Started(kept, body, ScriptedTools(c=1)).waits("a")
    await asyncio.sleep(0.4)
    run.send("a")
    await run.waits("b")
    await run.kill()
    result = await resumed(kept, body, ScriptedTools(c=1), park=True)
    assert result["status"] == "waiting"
    row = kept.get_run("r")
    assert row is not None
    assert row.spent < time.monotonic() - began - 0.39
    kept.send("r", "b")
    assert (await resumed(kept, body, ScriptedTools(c=1)))["status"] == "completed"


async def test_a_store_that_keeps_nothing_parks_nothing() -> None:
    store = MemoryStore()
    run = await Started(store, line(event("w"), result=out("w")), park=True).waits("w")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not run.task.done()
    run.send("w", 1)
    assert (await run.task)["value"] == 1


async def test_no_signal_is_lost_to_a_run_that_is_parked_meanwhile(kept: Store) -> None:
    """Two waits one after another, signals from a thread at any moment, resumed whenever it is running again."""
    body = line(event("a"), event("b"), result=Obj((("a", out("a")), ("b", out("b")))))
    for i in range(30):
        id = f"r{i}"
        engine = Engine(kept)

        def send(id: str = id, i: int = i) -> None:
            kept.send(id, "b", i)
            kept.send(id, "a", i)

        task = asyncio.ensure_future(engine.run(job(body, ScriptedTools(), id, park=True)))
        for _ in range(i % 7):
            await asyncio.sleep(0)
        while kept.get_run(id) is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        sending = asyncio.ensure_future(asyncio.to_thread(send))
        result = await task
        await sending
        while result["status"] == "waiting":
            assert id in [row.id for row in kept.orphans()], "parked, and what was sent has not set it running"
            result = await resumed(kept, body, ScriptedTools(), id, park=True)
        assert result["value"] == {"a": i, "b": i}


# --- a second caller -------------------------------------------------------------------------------


async def test_a_second_caller_that_parks_gets_the_waits_of_a_run_that_waits_in_this_process(tmp_path: Path) -> None:
    ask = {"kind": "chain", "nodes": [{"id": "ask", "type": "wait", "approval": "Go?"},
                                      {"id": "then", "type": "wait", "event": "more"}]}  # fmt: skip
    async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
        await app.run(ask, run_id="r", park=True)
        first = asyncio.create_task(app.resume("r"))
        await until(lambda: "r" in app.engine.live)
        second = await app.run(ask, run_id="r", park=True)
        assert (second.status, [wait["approval"] for wait in second.waiting_for]) == ("waiting", ["Go?"])
        assert not first.done()
        app.runs.approve("r")
        await until(lambda: "more" in str(app.runs.waiting("r")))
        for node in (None, "ask"):  # the run has taken the first answer
            with pytest.raises(NotWaiting, match="ask has been answered already"):
                app.runs.approve("r", node)
        app.runs.send("r", "more", 1)
        ended = await first
        assert (ended.status, ended.waiting_for) == ("completed", [])
