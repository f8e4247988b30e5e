"""Going on with a run that has ended: what is called again, and what is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.lab import call, each, flow, line, node, obj, out
from ropewalk import App
from ropewalk.app.runs import rerun
from ropewalk.app.runs.steps import earlier_endings, steps
from ropewalk.errors import NotFound, NothingToRetry, PartOfRun, RunBusy, StoreError
from ropewalk.expr.ast import Lit, Ref
from ropewalk.ir import Graph, OnError, Policy
from ropewalk.journal.protocol import Entry, RunRow, Store, iso
from ropewalk.notations.registry import write
from ropewalk.ops import Loop
from ropewalk.testing import ScriptedTools, fails, held, in_turn

CHAIN: dict[str, Any] = {
    "kind": "chain",
    "id": "c",
    "name": "c",
    "mode": "sequential",
    "nodes": [
        {"id": "a", "type": "TOOL", "tool": "a", "params": {}},
        {"id": "b", "type": "TOOL", "tool": "b", "params": {"from": "$output.a"}},
        {"id": "c", "type": "TOOL", "tool": "c", "params": {"from": "$output.b"}},
    ],
}
FLOW: dict[str, Any] = {
    **CHAIN,
    "mode": "dag",
    "nodes": [
        {"id": "a", "type": "TOOL", "tool": "a", "params": {}},
        {"id": "x", "type": "TOOL", "tool": "x", "params": {}},
        {"id": "b", "type": "TOOL", "tool": "b", "params": {"from": "$output.a"}, "dependsOn": ["a"]},
        {"id": "c", "type": "TOOL", "tool": "c", "params": {"from": "$output.b"}, "dependsOn": ["b"]},
    ],
}


def names(tools: ScriptedTools, since: int = 0) -> list[str]:
    return [call.tool for call in tools.calls[since:]]


def test_what_a_clock_of_another_host_tells_is_not_taken_for_replayed() -> None:
    row = RunRow(id="r", kind="chain", started_at=100.0)
    [step] = steps([Entry("a", "call", "a", 1, "", 90.0, 91.0)], row)
    assert step["replayed"] is False


async def test_failures_of_before_are_told_as_replayed(store: Store) -> None:
    chain = {**CHAIN, "errorStrategy": "continue", "nodes": [*CHAIN["nodes"][:1], {**CHAIN["nodes"][1], "params": {}}]}
    chain["nodes"].append({"id": "t", "type": "TOOL", "tool": "t", "errorStrategy": "retry", "retryDelay": 1})
    tools = ScriptedTools(a=1, b=fails("no"), t=in_turn(fails("busy"), 2))
    events: list[Any] = []
    async with App(store) as app:
        await app.run(chain, run_id="r", executor=tools, on_event=events.append)
        assert not [event for event in events if (event.data or {}).get("replayed")]
        events.clear()
        await app.runs.retry("r", ["t"], executor=tools, on_event=events.append)
    ends = {(e.kind, e.path): (e.data or {}).get("replayed") for e in events if e.path and e.kind != "node.started"}
    assert (ends["node.finished", "a"], ends["node.failed", "b"], ends["node.finished", "t"]) == (True, True, None)


async def test_a_failed_run_goes_on_from_what_failed(store: Store) -> None:
    tools = ScriptedTools(a=1, b=in_turn(fails("busy"), 2), c=3)
    async with App(store) as app:
        first = await app.run(CHAIN, run_id="r", executor=tools)
        assert (first.status, names(tools)) == ("failed", ["a", "b"])
        second = await app.runs.retry("r", executor=tools)
        assert (second.status, second.run_id, second.results) == ("completed", "r", {"a": 1, "b": 2, "c": 3})
        assert names(tools) == ["a", "b", "b", "c"]
        shown = app.runs.get("r")
        assert shown is not None
        assert shown["error"] is None
        (ending,) = shown["endings"]
        assert (ending["status"], ending["error"]["kind"]) == ("failed", "NodeFailed")
        assert [(n["path"], n["status"]) for n in shown["nodes"]] == [("a", "ok"), ("b", "ok"), ("c", "ok")]
        assert [n["replayed"] for n in shown["nodes"]] == [True, False, False]
        told = [(e["path"], (e["data"] or {}).get("replayed")) for e in shown["events"] if e["kind"] == "node.finished"]
        assert told == [("a", True), ("b", None), ("c", None)]
        followed = [event async for event in app.runs.watch("r") if event.kind == "node.finished"]
        assert [(e.path, (e.data or {}).get("replayed")) for e in followed] == told


async def test_failed_attempts_stay_visible_after_every_retry(store: Store) -> None:
    tools = ScriptedTools(a=1, b=in_turn(fails("one"), fails("two"), fails("three"), fails("four"), 2), c=3)
    chain = {**CHAIN, "nodes": [*CHAIN["nodes"]]}
    chain["nodes"][1] = {**CHAIN["nodes"][1], "errorStrategy": "retry", "maxRetries": 1, "retryDelay": 0}
    async with App(store) as app:
        assert (await app.run(chain, run_id="r", executor=tools)).status == "failed"
        assert (await app.runs.retry("r", executor=tools)).status == "failed"
        assert (await app.runs.retry("r", executor=tools)).status == "completed"
        shown = app.runs.get("r")
    assert shown is not None
    failed = [
        [(s["path"], s["node"], s["status"], s["error"]["message"]) for s in e["failed"]] for e in shown["endings"]
    ]
    assert failed == [
        [("b", "b", "failed", "one"), ("b@2", "b", "failed", "two")],
        [("b", "b", "failed", "three"), ("b@2", "b", "failed", "four")],
    ]
    times = [at for e in shown["endings"] for s in e["failed"] for at in (s["started"], s["ended"])]
    assert times == sorted(times)
    assert [e["failedCount"] for e in shown["endings"]] == [2, 2]
    assert [(n["path"], n["status"]) for n in shown["nodes"]] == [("a", "ok"), ("b", "ok"), ("c", "ok")]
    (first, second) = [e["data"] for e in shown["events"] if e["kind"] == "run.retried"]
    assert (first["status"], first.keys() & {"failed", "failedCount"}, second["status"]) == ("failed", set(), "failed")


async def test_items_that_failed_stay_visible_up_to_a_number(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerun, "MOST_FAILURES", 3)
    reported = Policy(on_error=OnError(value=Lit(0), reported=True))
    document = write(flow(line(each("m", [1, 2, 3, 4, 5], call("t", policy=reported)), result=out("m"))), "flow")
    tools = ScriptedTools(t=in_turn(*[fails(str(n)) for n in range(5)], *range(5)))
    async with App(store) as app:
        assert (await app.run(document, run_id="r", executor=tools)).status == "partial"
        assert (await app.runs.retry("r", executor=tools)).status == "completed"
        (ending,) = (app.runs.get("r") or {})["endings"]
    assert ([step["path"] for step in ending["failed"]], ending["failedCount"]) == (["m[0]/t", "m[1]/t", "m[2]/t"], 5)


def test_a_failed_step_that_a_dead_retry_left_twice_is_shown_once() -> None:
    error = {"message": "no"}
    failed = {"path": "b", "node": "b", "status": "failed", "started": iso(1.0), "ended": iso(2.0), "error": error}
    history = [
        Entry("#1", "ending", "", {"status": "failed", "failed": [failed], "failedCount": 1}, "", 3.0, 3.0),
        Entry("#2", "ending", "", {"status": "failed", "failed": [failed], "failedCount": 1}, "", 4.0, 4.0),
    ]
    assert [len(ending["failed"]) for ending in earlier_endings(history)] == [1, 0]
    still_there = Entry("b", "call_failed", "b", error, "", 1.0, 2.0)
    assert [len(ending["failed"]) for ending in earlier_endings([*history, still_there])] == [0, 0]
    # Another failure in the same millisecond is another step.
    other = Entry("b", "call_failed", "b", {"message": "busy"}, "", 1.0, 2.0)
    assert [len(ending["failed"]) for ending in earlier_endings([*history, other])] == [1, 0]


async def test_retries_begin_with_the_first_attempt_again(store: Store) -> None:
    chain = {**CHAIN, "nodes": [{**CHAIN["nodes"][0], "errorStrategy": "retry", "maxRetries": 1, "retryDelay": 0}]}
    tools = ScriptedTools(a=in_turn(fails("1"), fails("2"), fails("3"), 4))
    async with App(store) as app:
        assert (await app.run(chain, run_id="r", executor=tools)).status == "failed"
        count = tools.count("a")
        assert (await app.runs.retry("r", executor=tools)).results == {"a": 4}
        assert (count, tools.count("a")) == (2, 4)


async def test_from_a_node_runs_it_and_what_depends_on_it(store: Store) -> None:
    tools = ScriptedTools(a=1, x=1, b=in_turn(2, 5), c=in_turn(3, 6))
    async with App(store) as app:
        await app.run(FLOW, run_id="r", executor=tools)
        done = len(tools.calls)
        again = await app.runs.retry("r", ["b"], executor=tools)
        assert again.results == {"a": 1, "x": 1, "b": 5, "c": 6}
        assert names(tools, done) == ["b", "c"]


async def test_only_failed_items_run_again(store: Store) -> None:
    failing = {3, 7}

    def work(n: int) -> int:
        if n in failing:
            raise RuntimeError(f"{n} is unlucky")
        return n * 10

    one = call("work", args=obj(n=Ref("item")), policy=Policy(on_error=OnError(reported=True)))
    chain = write(
        flow(
            line(
                each("each", [1, 3, 5, 7], one, result=out("work")),
                call("sum", "total", args=obj(of=out("each"))),
                result=out("sum"),
            )
        ),
        "flow",
    )
    tools = ScriptedTools(work=work, total=lambda of: [n for n in of if n])
    async with App(store) as app:
        first = await app.run(chain, run_id="r", executor=tools)
        assert (first.status, first.result) == ("partial", [10, 50])
        done = len(tools.calls)
        failing.clear()
        second = await app.runs.retry("r", executor=tools)
        assert (second.status, second.result) == ("completed", [10, 30, 50, 70])
        assert [(c.tool, c.args.get("n")) for c in tools.calls[done:]] == [("work", 3), ("work", 7), ("total", None)]


async def test_a_stopped_run_goes_on_where_it_was(store: Store) -> None:
    tools = ScriptedTools(a=1, b=in_turn(held(), 2), c=3)
    async with App(store) as app:
        running = asyncio.create_task(app.run(CHAIN, run_id="r", executor=tools))
        await tools.called("b")
        with pytest.raises(RunBusy):
            await app.runs.retry("r", executor=tools)
        assert app.runs.stop("r")
        assert (await running).status == "stopped"
        assert (await app.runs.retry("r", executor=tools)).status == "completed"
        assert names(tools) == ["a", "b", "b", "c"]


async def test_what_cannot_be_retried_says_why(store: Store) -> None:
    tools = ScriptedTools(a=1, x=1, b=2, c=fails("no"))
    async with App(store) as app:
        await app.run({**CHAIN, "nodes": CHAIN["nodes"][:2]}, run_id="well", executor=tools)
        await app.run(FLOW, run_id="bad", executor=tools)
        with pytest.raises(NothingToRetry, match="it has completed"):
            await app.runs.retry("well", executor=tools)
        with pytest.raises(NotFound, match="did you mean 'well'"):
            await app.runs.retry("wel", executor=tools)
        with pytest.raises(NotFound, match=r"no node 'bb'; did you mean 'b'\?: no node 'xyz'"):
            await app.runs.retry("well", ["bb", "b", "xyz"], executor=tools)
        with pytest.raises(NotFound, match="no node 'bb'; did you mean 'b'"):
            await app.runs.retry("well", ["bb"], executor=tools)
        with pytest.raises(NothingToRetry, match=r"the run would fail again at c.*add 'c'"):
            await app.runs.retry("bad", ["x"], executor=tools)
        row = store.get_run("bad")
        assert row is not None
        assert (row.status, row.epoch) == ("failed", 1)


async def test_a_retried_composed_tool_retries_its_part(store: Store) -> None:
    done: list[str] = []
    lucky = False

    def first() -> str:
        done.append("first")
        return "one"

    def second(of: str) -> str:
        done.append("second")
        if not lucky:
            raise RuntimeError("no luck")
        return of + " two"

    app = App(store, tools=[first, second])
    inner = {
        **CHAIN,
        "name": "inner",
        "nodes": [
            {"id": "f", "type": "TOOL", "tool": "first", "params": {}},
            {"id": "s", "type": "TOOL", "tool": "second", "params": {"of": "$output.f"}},
        ],
    }
    outer = {**CHAIN, "name": "outer", "nodes": [{"id": "o", "type": "TOOL", "tool": "inner", "params": {}}]}
    async with app:
        app.toolbox.register(app.as_tool(inner))
        assert (await app.run(outer, run_id="r")).status == "failed"
        with pytest.raises(PartOfRun):
            await app.runs.retry("r/o")
        lucky = True
        assert (await app.runs.retry("r")).status == "completed"
        assert done == ["first", "second", "second"]
        assert (await app.runs.retry("r", ["o"])).status == "completed"
        assert done[3:] == ["first", "second"]


async def test_a_store_without_records_cannot_retry() -> None:
    async with App("memory") as app:
        await app.run(CHAIN, run_id="r", executor=ScriptedTools(a=fails("no")))
        with pytest.raises(StoreError, match="keep runs in a file"):
            await app.runs.retry("r", executor=ScriptedTools())


async def test_later_rounds_of_a_loop_run_again_only_where_they_may_depend_on_it(store: Store) -> None:
    lucky = False

    def work(n: int, had: Any = None) -> Any:
        if n == 2 and not lucky:
            raise RuntimeError("no luck")
        return [had, n]

    def loop(*args: Any) -> dict[str, Any]:
        one = call("work", args=obj(n=Ref("item"), **dict(args)), policy=Policy(on_error=OnError(reported=True)))
        over = Loop(items=Lit([1, 2, 3]), body=Graph(nodes=(one,), ordered=True, result=out("work")))
        return write(flow(line(node("loop", over), result=out("loop"))), "flow")

    tools = ScriptedTools(work=work)
    async with App(store) as app:
        await app.run(loop(), run_id="alone", executor=tools)
        await app.run(loop(("had", Ref("prev"))), run_id="carried", executor=tools)
        lucky, before = True, len(tools.calls)
        assert (await app.runs.retry("alone", executor=tools)).result == [[None, 1], [None, 2], [None, 3]]
        assert [c.args["n"] for c in tools.calls[before:]] == [2]
        before = len(tools.calls)
        carried = await app.runs.retry("carried", executor=tools)
        assert carried.result == [[None, 1], [[None, 1], 2], [[[None, 1], 2], 3]]
        assert [c.args["n"] for c in tools.calls[before:]] == [2, 3]


async def test_what_somebody_handled_is_no_failure(store: Store) -> None:
    handled = Policy(on_error=OnError(value=Lit(0)))
    document = write(
        flow(line(call("a", policy=handled), call("b", args=obj(a=out("a"))), result=out("b"))),
        "flow",
    )
    tools = ScriptedTools(a=fails("no"), b=in_turn(fails("no"), lambda a: [a]))
    async with App(store) as app:
        assert (await app.run(document, run_id="r", executor=tools)).status == "failed"
        assert (await app.runs.retry("r", executor=tools)).result == [0]
        assert names(tools) == ["a", "b", "b"]
        assert (await app.runs.retry("r", ["a"], executor=tools)).result == [0]
        assert names(tools)[3:] == ["a", "b"]
        assert [one["status"] for one in (app.runs.get("r") or {})["endings"]] == ["failed", "completed"]
