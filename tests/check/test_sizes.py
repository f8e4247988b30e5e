"""Lists and objects in a definition whose size, or whose repeated items, no tool would take."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.check import ToolCard
from ropewalk.expr.ast import Arr, Expr, Lit, Obj, Ref

from .flows import Cards, call, obj, ordered, problems

TAGS = {"type": "array", "minItems": 2, "maxItems": 3, "uniqueItems": True, "items": {"type": ["string", "object"]}}
TOOLS = Cards(
    tag=ToolCard({"type": "object", "properties": {"tags": TAGS, "by": {"type": "object", "minProperties": 1}}}),
    shared=ToolCard({"type": "object", "properties": {"tags": {"$ref": "#/$defs/t"}}, "$defs": {"t": TAGS}}),
    together=ToolCard({"type": "object", "properties": {"tags": {"allOf": [{"type": "array"}, TAGS]}}}),
    either=ToolCard({"type": "object", "properties": {"tags": {"anyOf": [TAGS, {"type": "array"}]}}}),
)
X = Ref("input", ("x",))


def told(tool: str, **args: Expr) -> list[str]:
    return problems(ordered(call("a", tool, args_=obj(**args))), TOOLS)


@pytest.mark.parametrize("tool", ["tag", "shared", "together"])
@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (Lit(["a"]), "needs at least 2 items; this has "),
        (Lit([]), "needs at least 2 items; this has "),
        (Arr((X,)), "needs at least 2 items; this has "),
        (Lit(["a", "b", "c", "d"]), "takes at most 3 items; this has 4"),
        (Arr((X, X, X, X)), "takes at most 3 items; this has 4"),
        (Lit(["a", "b", "a"]), "items must be unique; item"),
        (Arr((Lit("a"), Lit("a"))), "items must be unique; item"),
        (Arr((Obj((("k", Lit(1)),)), Obj((("k", Lit(1)),)))), "items must be unique; item"),
    ],
)
def test_a_list_that_cannot_fit_is_found_before_the_run(tool: str, tags: Any, said: str) -> None:
    (problem,) = told(tool, tags=tags)
    assert said in problem, problem
    assert "args.tags" in problem


@pytest.mark.parametrize("tags", [Lit(["a", "b"]), Arr((X, X)), Arr((X, Lit("a"), Lit("b"))), X, Ref("input")])
def test_a_list_that_may_fit_is_no_problem(tags: Any) -> None:
    assert told("tag", tags=tags) == []


def test_what_only_one_branch_asks_for_is_no_problem() -> None:
    assert told("either", tags=Lit([])) == []


def test_an_object_may_be_too_small() -> None:
    assert "needs at least 1 property; this has 0" in told("tag", by=Lit({}))[0]
    assert told("tag", by=obj(a=X)) == []
