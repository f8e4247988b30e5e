"""Recorded runs as cases: made of a run, run again, and every way in which a flow can come to differ."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from properties.virtual_time import run_virtually
from ropewalk import App, Tool, Toolbox
from ropewalk.errors import InvalidFlow
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing.recording import make_case, read_case, replay, value_differences

pytestmark = pytest.mark.anyio


def call(id: str, tool: str, **params: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


def chain(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "chain", "name": "c", "nodes": list(nodes), **more}


LOOP = {"id": "l", "type": "loop", "items": [1, 2], "nodes": [call("in", "double", n="$item")]}


def double(n: int) -> int:
    return 2 * n


class Flaky:
    """Fails the first time."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.count == 1:
            raise RuntimeError("no luck")
        return "well"


async def recorded(flow: dict[str, Any], *tools: Any, input: Any = None) -> dict[str, Any]:
    """The case of a real run."""
    async with App(MemoryStore(durable=True), tools=tools, secrets=["API_KEY"]) as app:
        done = await app.run(flow, input, run_id="r")
        row = app.store.get_run("r")
        assert row is not None
        return await make_case(row, app.runs.history(done.run_id), app.load(flow), flow)


async def replayed(case: dict[str, Any], flow: dict[str, Any] | None = None) -> list[tuple[str, str, Any, Any]]:
    """The differences of a flow from a case; no tool is known."""
    async with App("memory") as app:
        found = await replay(case, app.load(flow or case["flow"]))
        return [(d.path, d.message, d.was, d.now) for d in found.differences]


async def test_a_run_gives_a_case_that_the_same_flow_passes() -> None:
    flow = chain(call("a", "double", n="$input.n"), LOOP, call("b", "double", n="$output.a"))
    case = await recorded(flow, double, input={"n": 3})
    assert case["calls"] == {
        "a": {"tool": "double", "args": {"n": 3}, "gives": 6},
        "l[0]/in": {"tool": "double", "args": {"n": 1}, "gives": 2},
        "l[1]/in": {"tool": "double", "args": {"n": 2}, "gives": 4},
        "b": {"tool": "double", "args": {"n": 6}, "gives": 12},
    }
    assert case["expect"]["status"] == "completed"
    assert case["expect"]["result"]["b"] == 12
    assert await replayed(case) == []


@pytest.mark.parametrize(
    "more", [{}, {"errorStrategy": "fallback", "fallback": "$error"}, {"errorStrategy": "retry", "maxRetries": 2}]
)
async def test_a_result_that_a_strict_tool_may_not_give_is_refused_again(more: dict[str, Any]) -> None:
    flow = chain({**call("a", "count"), **more})
    toolbox = Toolbox([Tool("count", "", {"type": "object"}, {"type": "object"}, handler=int)], strict_output=True)
    async with App(MemoryStore(durable=True), toolbox=toolbox) as app:
        await app.run(flow, run_id="r")
        row = app.store.get_run("r")
        assert row is not None
        case = await make_case(row, app.runs.history("r"), app.load(flow), flow)
    fails = case["calls"]["a"]["fails"]
    assert (fails["kind"], fails["ran"], fails["retryable"]) == ("OutputValidationFailed", True, False)
    assert await replayed(case) == []
    assert await replayed({**case, "calls": {"a": {"fails": {**fails, "kind": "Other"}}}}) != []


async def test_what_was_tried_again_is_tried_again() -> None:
    node = {**call("f", "flaky"), "errorStrategy": "retry", "maxRetries": 2, "retryDelay": 1}
    case = await recorded(chain(node), _named(Flaky(), "flaky"))
    assert [list(one)[-1] for one in case["calls"]["f"]] == ["fails", "gives"]
    assert await replayed(case) == []
    found = await replayed(case, chain({**node, "maxRetries": 0, "errorStrategy": "stop"}))
    assert found[0][:2] == ("f", "calls flaky 1 times; recorded: 2")


def _named(flaky: Flaky, name: str) -> Any:
    def handler() -> str:
        return flaky()

    handler.__name__ = name
    return handler


async def test_a_failed_run_is_expected_to_fail_in_the_same_way() -> None:
    def fail() -> None:
        raise RuntimeError("no luck")

    case = await recorded(chain(call("f", "fail")), fail)
    assert case["expect"]["status"] == "failed"
    assert case["expect"]["errors"][0]["nodeId"] == "f"
    assert case["expect"]["errors"][0].keys().isdisjoint(("at", "stack")), "another line of code is no difference"
    assert await replayed(case) == []


async def test_every_difference_is_told() -> None:
    case = await recorded(chain(call("a", "double", n=1), call("b", "double", n="$output.a")), double)
    other = chain(
        {"id": "a", "type": "tool", "tool": "double", "params": {"n": 2}},
        call("c", "double", n=1),
        {"id": "b", "type": "tool", "tool": "treble", "params": {"n": "$output.a"}},
        errorStrategy="continue",
    )
    found = await replayed(case, other)
    assert ("a", "args.n of double differs", 1, 2) in found
    assert ("c", "calls double, which was not recorded; add its answer under calls", None, {"n": 1}) in found
    assert ("b", "calls a different tool", "double", "treble") in found
    failure = "c failed: no call of double is recorded at c"
    assert ("", f"status differs; {failure}", "completed", "partial") in found
    gone = await replayed(case, chain(call("a", "double", n=1)))
    assert ("b", "no longer calls double", None, None) in gone
    assert ("", "result.b differs", 4, None) in gone


async def test_no_secret_is_in_a_case_and_none_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "correct horse")

    def ask(key: str) -> str:
        return f"asked with {key}"

    case = await recorded(chain(call("a", "ask", key="$secret.API_KEY")), ask)
    assert "correct horse" not in str(case)
    assert case["calls"]["a"]["args"] == {"key": "$secret.API_KEY"}
    monkeypatch.delenv("API_KEY")
    assert await replayed(case) == []
    monkeypatch.setenv("API_KEY", "")
    assert await replayed(case) == []


async def nap(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def broken() -> None:
    await asyncio.sleep(0.02)
    raise RuntimeError("no luck")


QUICK, SLOW = call("x", "nap", seconds=0), call("y", "nap", seconds=30)
BLOCK = {"id": "p", "type": "parallel", "timeout": 50, "nodes": [QUICK, SLOW]}
AGAIN = {"errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}


@pytest.mark.parametrize(
    ("flow", "status"),
    [
        (chain({**SLOW, "timeout": 50}), "failed"),
        (chain({**SLOW, "timeout": 50, **AGAIN}), "failed"),
        (chain({**SLOW, "timeout": 50, "errorStrategy": "continue"}, QUICK), "partial"),
        (chain(BLOCK), "failed"),
        (chain({**BLOCK, **AGAIN}), "failed"),
        (chain(QUICK, SLOW, timeout=50), "timeout"),
        (chain(call("a", "nap", seconds=0.1), {"id": "d", "type": "delay", "delay": 150}, timeout=200), "timeout"),
        (chain(call("x", "broken"), SLOW, mode="parallel"), "failed"),
    ],
    ids=["node", "again", "continued", "block", "block again", "chain", "pause", "cut off by a failure"],
)
def test_a_run_whose_time_was_over_gives_a_case_that_passes(flow: dict[str, Any], status: str) -> None:
    async def test() -> None:
        case = await recorded(flow, nap, broken)
        assert case["expect"]["status"] == status
        assert await replayed(case) == []

    run_virtually(lambda clock: test())


async def test_a_call_that_was_cut_off_hangs() -> None:
    case = await recorded(chain({**SLOW, "timeout": 50}), nap)
    assert case["calls"] == {"y": {"tool": "nap", "args": {"seconds": 30}, "hangs": True}}


async def test_an_event_and_an_approval_come_again(tmp_path: Path) -> None:
    flow = chain(
        {"id": "e", "type": "wait", "event": "paid"},
        {"id": "ok", "type": "wait", "approval": "Ship it?"},
        call("a", "double", n="$output.e.n"),
    )
    async with App(str(tmp_path / "s.db"), tools=[double]) as app:

        def answer(event: Any) -> None:
            if event.kind == "wait.started" and event.path == "e":
                app.store.send("r", "paid", {"n": 4})
            elif event.kind == "wait.started":
                app.store.send("r", "approval:ok", {"approved": True, "by": "me"})

        await app.run(flow, run_id="r", on_event=answer)
        row = app.store.get_run("r")
        assert row is not None
        case = await make_case(row, app.runs.history("r"), app.load(flow), flow)
    assert case["waits"] == {"e": {"n": 4}, "ok": {"approved": True, "by": "me"}}
    assert await replayed(case) == []
    assert ("", "result.a differs", 8, None) not in await replayed(case)


def test_a_case_file_is_checked_as_a_whole_with_places(tmp_path: Path) -> None:
    file = tmp_path / "x.test.yaml"
    file.write_text(
        "kind: test\nflwo: c.yaml\ncalls:\n  a: {give: 1}\n  b: [{gives: 1, arg: {}}]\n  c: {hangs: 1, after: x}\n"
        "  d: [{gives: 1}, {tool: t}]\nexpect: {status: complete}\n"
    )
    with pytest.raises(InvalidFlow) as refused:
        read_case(file)
    told = [(p.place.line if p.place else 0, p.path, p.suggestion) for p in refused.value.problems]
    assert told == [
        (2, "flwo", "flow"),
        (1, "flow", None),
        (8, "expect.status", "completed"),
        (4, "calls.a.give", "gives"),
        (5, "calls.b[0].arg", "args"),
        (6, "calls.c.hangs", None),
        (6, "calls.c.after", None),
        (7, "calls.d[1]", None),
    ]


@pytest.mark.parametrize(
    ("was", "now", "places"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["x.a[1].b"]),
        ([1, 2], [1], ["x"]),
        (1, 1.0, ["x"]),
        (True, 1, ["x"]),
        ({"a": None}, {}, []),
        ({}, {}, []),
    ],
)
def test_a_difference_is_told_where_it_is(was: Any, now: Any, places: list[str]) -> None:
    assert [place for place, _, _ in value_differences(was, now, "x")] == places
