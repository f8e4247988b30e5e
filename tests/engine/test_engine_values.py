"""What tools may and may not give, and what a flow may make of it."""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from engine.lab import HANDLED, Way, call, compute, each, every_way, flow, graph, line, lit, node, obj, on, once, out
from ropewalk.app.app import App
from ropewalk.expr.ast import Fn, Ref
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Loop
from ropewalk.testing import ScriptedTools
from ropewalk.values import MAX_BYTES


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


NOT_JSON: dict[str, Any] = {
    "very deep": deep(20_000),
    "object": object(),
    "complex": 1j,
}
FINE: dict[str, Any] = {
    "null": None,
    "largest": [2**63 - 1, -(2**63), 1.5e300, -0.0],
    "text": "é \U0001f600 \x01",
    "deep": deep(199),
    "empty": [{}, [], ""],
}


@every_way
@pytest.mark.parametrize("value", NOT_JSON.values(), ids=list(NOT_JSON))
async def test_what_is_no_json_fails_its_node_with_the_place(way: Way, value: Any) -> None:
    tools = ScriptedTools(t=lambda: value, after=1)
    for body in (line(call("t")), graph(call("t"), call("t2", "t"))):
        done = await way(body, tools)
        assert done["status"] == "failed"
        assert "result" in done["error"]
    done = await way(line(call("t", policy=HANDLED), call("after")), tools)
    assert done["status"] == "completed"


@every_way
@pytest.mark.parametrize("value", FINE.values(), ids=list(FINE))
async def test_json_comes_through_unchanged(way: Way, value: Any) -> None:
    body = graph(call("t"), call("t2", "t"), result=out("t"))
    done = await way(body, ScriptedTools(t=lambda: value))
    assert done["value"] == value
    assert type(done["value"]) is type(value)


@every_way
@pytest.mark.parametrize("value", [(1, (2,)), OrderedDict(a=1)], ids=["tuple", "OrderedDict"])
async def test_what_is_nearly_json_means_the_same_on_every_way(way: Way, value: Any) -> None:
    """Refused or made plain: but not one in memory and the other in the journal."""
    from engine.lab import bare

    body = graph(call("t"), result=out("t"))
    expected = await bare(body, ScriptedTools(t=lambda: value))
    assert await way(body, ScriptedTools(t=lambda: value)) == expected


@every_way
async def test_what_a_tool_does_to_its_result_later_is_not_seen(way: Way) -> None:
    rows: list[int] = []

    def grow(n: int) -> list[int]:
        rows.append(n)
        return rows

    tools = ScriptedTools(grow=grow)
    done = await way(
        line(each("m", [0, 1, 2], call("grow", args=obj(n=Ref("item"))), result=out("grow")), result=out("m")), tools
    )
    assert [len(one) for one in done["value"]] == [1, 2, 3]


@every_way
async def test_what_a_tool_does_to_its_arguments_is_not_seen(way: Way) -> None:
    def spoil(rows: list[Any]) -> int:
        rows[0]["a"].append("spoiled")
        rows.clear()
        return 1

    source = compute("source", lit([{"a": [1]}]))
    body = graph(
        source,
        call("spoil", args=obj(rows=out("source"))),
        call("s2", "spoil", obj(rows=out("source"))),
        result=out("source"),
    )
    done = await way(body, ScriptedTools(spoil=spoil))
    assert (done["status"], done["value"]) == ("completed", [{"a": [1]}])


CYCLES: dict[str, tuple[Any, str]] = {"list": ([], "result[1]"), "object": ({"a": 1}, "result.b.c")}
CYCLES["list"][0].extend([1, CYCLES["list"][0]])
CYCLES["object"][0]["b"] = {"c": CYCLES["object"][0]}


@every_way
@pytest.mark.parametrize("kind", CYCLES)
async def test_a_value_that_holds_itself_is_told_as_that(way: Way, kind: str) -> None:
    value, place = CYCLES[kind]
    done = await way(line(call("odd")), ScriptedTools(odd=lambda: value))
    assert done["error"].endswith(f"{place}: contains itself (through result), which JSON cannot express")


@every_way
async def test_the_place_of_what_is_too_deep_is_shortened(way: Way) -> None:
    done = await way(line(call("odd")), ScriptedTools(odd=lambda: deep(20_000)))
    assert len(done["error"]) < 150
    assert done["error"].endswith("…: nested deeper than 200")


@every_way
async def test_a_value_that_grows_too_deep_fails_clearly(way: Way) -> None:
    wrap = line(compute("w", obj(in_=Ref("prev"))), call("t", args=obj(v=Ref("prev"))), result=out("w"))
    body = line(node("l", Loop(body=wrap, limit=400)), result=out("l"))
    done = await way(body, ScriptedTools(t=1))
    assert done["status"] == "failed"
    assert "nested deeper" in done["error"]


async def test_a_result_past_a_hundred_megabytes_fails_its_node_and_the_store_lives(tmp_path: Any) -> None:
    store = SqliteStore(tmp_path / "s.db")
    try:
        tools = ScriptedTools(big=lambda: "x" * (MAX_BYTES + 1), small=1)
        done = await on(store, line(call("big", policy=HANDLED), call("small")), tools)
        assert done["status"] == "completed"
        assert (await on(store, line(call("big")), tools, "r2"))["status"] == "failed"
        assert (await on(store, line(call("small")), tools, "r3"))["status"] == "completed"
    finally:
        store.close()


async def test_wide_results_are_no_problem() -> None:
    rows = [{"id": i, "name": f"n{i}"} for i in range(50_000)]
    ending = await once(graph(call("t"), result=out("t", 49_999, "name")), ScriptedTools(t=lambda: rows))
    assert ending.value == "n49999"
    await asyncio.sleep(0)


def spoil(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        spoil(item)
    if isinstance(value, dict):
        value["spoiled"] = True
    elif isinstance(value, list):
        value.append("spoiled")


@pytest.mark.parametrize("store", ["memory", "runs.db"])
async def test_what_a_caller_does_to_a_result_touches_no_later_run(store: str, tmp_path: Path) -> None:
    def echo(**args: Any) -> Any:
        return args

    chain = {
        "id": "c",
        "variables": {"list": [], "object": {"of": [1]}},
        "nodes": [
            {"id": "a", "type": "tool", "tool": "echo", "params": {"v": "$var.list", "lit": [[1], {"x": []}]}},
            {"id": "b", "type": "tool", "tool": "echo", "params": {"v": [[], "$input", "$var.object"]}},
        ],
    }
    tools, given = ScriptedTools(echo=echo), {"rows": [{"n": 1}]}
    async with App(store if store == "memory" else str(tmp_path / store)) as app:
        seen = []
        for number in range(3):
            done = await app.run(chain, given, run_id=str(number), executor=tools)
            seen.append((copy.deepcopy(done.results), copy.deepcopy(done.variables)))
            for part in (done.results, done.variables, done.to_dict(), app.runs.get(str(number))):
                spoil(part)
        assert seen[0] == seen[1] == seen[2]
        assert given == {"rows": [{"n": 1}]}


@every_way
async def test_a_result_that_cannot_be_made_ends_the_run_as_failed(way: Way) -> None:
    for body in (
        line(compute("a", lit(0)), result=Fn("/", (lit(1), out("a")))),
        graph(result=Fn("/", (lit(1), lit(0)))),
    ):
        ended = await way(flow(body), ScriptedTools())
        assert (ended["status"], ended["value"]) == ("failed", None)
        assert ended["error"].startswith("ExpressionError: result: division by zero")
