"""Calls of plain handlers by the engine's own loop: arguments find their parameters, and are the handler's own."""

from __future__ import annotations

from typing import Any

import pytest

from engine.lab import Way, call, compute, every_way, flow, line, lit, obj, out
from ropewalk import Toolbox
from ropewalk.api.run_chain import Runner
from ropewalk.tools.tool import Tool

OPEN = {"type": "object"}
ROWS = [{"n": 1}, {"n": 2}]


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    async def count(self, step: int, times: int = 1) -> int:
        self.calls += step * times
        return self.calls


async def in_order(a: int, b: int, c: int) -> list[int]:
    return [a, b, c]


async def with_default(a: int, b: int = 7) -> list[int]:
    return [a, b]


async def keyword_only(*, a: int, b: int) -> list[int]:
    return [a, b]


async def anything(**given: int) -> dict[str, int]:
    return given


async def spoils(rows: list[dict[str, int]], row: dict[str, int], n: int) -> int:
    rows[0]["n"] = 100
    rows.clear()
    row["n"] = 100
    return n


async def spoils_one(rows: list[dict[str, int]]) -> int:
    rows[0]["n"] = 100
    return 1


async def spoils_two(rows: list[dict[str, int]], row: dict[str, int]) -> int:
    rows.append(row)
    row["n"] = 100
    return 1


def runner(schema: Any = OPEN) -> Runner:
    handlers = (in_order, with_default, keyword_only, anything, spoils, spoils_one, spoils_two)
    tools = [Tool(h.__name__, "", schema, handler=h) for h in handlers]
    return Runner(Toolbox([*tools, Tool("count", "", schema, handler=Counter().count)]))


SCHEMAS = pytest.mark.parametrize("schema", [OPEN, {"type": "object", "minProperties": 1}], ids=["open", "checked"])


@SCHEMAS
@every_way
@pytest.mark.parametrize(
    ("tool", "args", "value"),
    [
        ("in_order", {"c": 3, "a": 1, "b": 2}, [1, 2, 3]),
        ("with_default", {"a": 1}, [1, 7]),
        ("with_default", {"b": 2, "a": 1}, [1, 2]),
        ("keyword_only", {"b": 2, "a": 1}, [1, 2]),
        ("anything", {"x": 1, "self": 2}, {"x": 1, "self": 2}),
        ("count", {"times": 3, "step": 2}, 6),
        ("count", {"step": 2}, 2),
    ],
)
async def test_arguments_find_their_parameters_by_name(
    way: Way, tool: str, args: dict[str, int], value: Any, schema: Any
) -> None:
    body = line(call("a", tool, obj(**{name: lit(one) for name, one in args.items()})), result=out("a"))
    assert (await way(flow(body), runner(schema)))["value"] == value


@SCHEMAS
@every_way
@pytest.mark.parametrize(
    ("tool", "args"), [("in_order", {"a": 1, "b": 2}), ("with_default", {"b": 2}), ("count", {"step": 1, "self": 2})]
)
async def test_arguments_that_do_not_fit_the_handler_fail_the_node(
    way: Way, tool: str, args: dict[str, int], schema: Any
) -> None:
    body = line(call("a", tool, obj(**{name: lit(one) for name, one in args.items()})))
    ended = await way(flow(body), runner(schema))
    assert ended["status"] == "failed"
    assert "argument" in ended["failures"][0]


@SCHEMAS
@every_way
@pytest.mark.parametrize("tool", ["spoils", "spoils_one", "spoils_two"])
async def test_a_handler_that_changes_its_arguments_changes_nothing_else(way: Way, tool: str, schema: Any) -> None:
    args = {"rows": out("rows"), "row": out("rows", 0), "n": lit(5)}
    taken = {"spoils": 3, "spoils_one": 1, "spoils_two": 2}[tool]
    body = line(
        compute("rows", lit(ROWS)), call("a", tool, obj(**dict(list(args.items())[:taken]))), result=out("rows")
    )
    ended = await way(flow(body), runner(schema))
    assert (ended["status"], ended["value"]) == ("completed", ROWS)
