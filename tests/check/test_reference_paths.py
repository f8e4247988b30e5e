"""What references, operators and macros may be given, and what the check suggests instead."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.check import ToolCard, check
from ropewalk.check.inference import infer
from ropewalk.expr.ast import NULL, Each, Expr, Fn, Lit, Ref, Var
from ropewalk.ops import Loop, Map

from .flows import Cards, call, compute, dag, flow, node, obj, ordered, out, prev, problems, schema

ROWS = {"type": "array", "items": schema(a="string", n="number")}
OPERATORS = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "-", "/", "%", "[]"), (2, 2)),
    **dict.fromkeys(("&&", "||", "+", "*"), (2, None)),
    **dict.fromkeys(("!", "neg"), (1, 1)),
    "?:": (3, 3),
}
"""The fewest and the most operands of each."""


def told(expr: Expr, **more: Any) -> list[str]:
    return problems(dag(compute("c", expr)), **more)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_as_many_operands_as_the_language_gives_it(name: str) -> None:
    least, most = OPERATORS[name]
    for count in range(5):
        wrong = [problem for problem in told(Fn(name, (Ref("input"),) * count)) if " takes " in problem]
        if least <= count <= (most or count):
            assert wrong == []
        else:
            wanted = {(1, 1): "1 argument", (2, None): "at least 2 arguments"}.get((least, most), f"{least} arguments")
            assert wrong == [f"c.value: '{name}' takes {wanted}, not {count}"]


@pytest.mark.parametrize(
    ("function", "kind"),
    [("upper", "a string"), ("merge", "an object"), ("size", "an integer"), ("has", "a boolean"), ("keys", "a list")],
)
def test_what_a_function_returns_has_a_kind(function: str, kind: str) -> None:
    call, key = Fn(function, (Ref("input"),) * (2 if function == "merge" else 1)), 0 if function == "merge" else "x"
    wanted = f"not a list; it has no {key}" if function == "merge" else f"not an object; it has no {key!r}"
    [problem] = told(Fn("[]", (call, Lit(key))))
    assert problem.startswith(f"c.value: '{function}($input")
    assert problem.endswith(f"is {kind}, {wanted}")


@pytest.mark.parametrize(
    ("kind", "key", "extra", "suggestion"),
    [
        ("sort", "asc", (), 'e, "asc"'), ("sort", "desc", (), 'e, "desc"'), ("sort", "desc", ("asc",), "e.desc"),
        ("sort", "a", (), "e.a"), ("sort", 3, (), "e"), ("sort", [], (), "e"), ("sort", ["a", 1], (), "e"),
        ("sort", ["a", "n"], (), "[e.a, e.n]"), ("group_by", "asc", (), "e.asc"), ("group_by", "a", (), "e.a"),
    ],
)  # fmt: skip
def test_the_same_key_for_every_element_is_a_slip(kind: str, key: Any, extra: tuple[str, ...], suggestion: str) -> None:
    expr = Each(kind, Ref("input"), ("e",), Lit(key), tuple(map(Lit, extra)))
    [problem] = check(flow(dag(compute("c", expr)), input_schema=ROWS)).problems
    assert problem.message.startswith(f"{kind} uses the same key ")
    assert problem.suggestion == suggestion


@pytest.mark.parametrize("names", [("e",), ("total", "e"), ("e", "total", "i")])
def test_a_reduction_knows_its_element(names: tuple[str, ...]) -> None:
    def reduction(name: str, member: str) -> Each:
        return Each("reduce", Ref("input"), names, Var(name, (member,)), (NULL,))

    assert told(reduction(names[0], "a"), input_schema=ROWS) == []
    assert "has no 'b'" in told(reduction(names[0], "b"), input_schema=ROWS)[0]
    if len(names) > 2:
        assert told(reduction("i", "b"), input_schema=ROWS) == [
            "c.value: 'i' is an integer, not an object; it has no 'b'"
        ]


@pytest.mark.parametrize("root", ["round", "index", "item", "error"])
@pytest.mark.parametrize("place", ["outside", "a loop", "a loop over items", "a map"])
def test_what_a_block_binds_exists_in_it_alone(root: str, place: str) -> None:
    inside = compute("c", Ref(root, ("x",)))
    body = {
        "outside": ordered(inside),
        "a loop": ordered(node("l", Loop(body=ordered(inside), limit=2))),
        "a loop over items": ordered(node("l", Loop(body=ordered(inside), items=Lit([{"x": 1}])))),
        "a map": ordered(node("l", Map(body=ordered(inside), items=Lit([{"x": 1}])))),
    }[place]
    places = {"round": ("a loop", "a loop over items"), "index": ("a loop over items", "a map"), "error": ()}
    found = problems(body)
    if place not in places.get(root, ("a loop over items", "a map")):
        assert f"${root} exists only inside" in found[0]
    elif root == "item":
        assert found == []
    else:
        assert found == [f"l/c.value: '{root}' is an integer, not an object; it has no 'x'"]


@pytest.mark.parametrize("root", ["round", "index"])
def test_a_position_is_named_as_in_the_document(root: str) -> None:
    inside = compute("c", Ref(root, ("x", "y"), original=Ref("i", ("position", "x", "y"))))
    body = ordered(node("l", Loop(body=ordered(inside), items=Lit([1]))))
    assert problems(body) == ["l/c.value: '$i.position' is an integer, not an object; it has no 'x'"]


NESTED = Cards(
    t=ToolCard(None, schema(output=schema(inner="string"), name="string")), u=ToolCard(None, schema(name="string"))
)


@pytest.mark.parametrize(
    ("tool", "path", "misses"),
    [
        ("t", (), None), ("t", ("output",), None), ("t", ("output", "inner"), None), ("t", ("output", "name"), "name"),
        ("t", ("name",), None),
        ("t", ("output", "output"), "output"), ("t", ("nmae",), "nmae"), ("t", ("output", "nmae"), "nmae"),
        ("u", (), None), ("u", ("output",), None), ("u", ("output", "name"), None), ("u", ("name",), None),
        ("u", ("output", "output"), "output"), ("u", ("output", "nmae"), "nmae"),
    ],
)  # fmt: skip
def test_a_leading_output_is_left_out_only_where_there_is_none(
    tool: str, path: tuple[str, ...], misses: str | None
) -> None:
    found = problems(ordered(call("s", tool), result=out("s", *path, elide=True)), NESTED)
    assert len(found) == (misses is not None)
    assert all(f"has no {misses!r}" in problem for problem in found)


@pytest.mark.parametrize("function", ["has", "coalesce", "exists"])
def test_a_test_of_one_member_excuses_no_other(function: str) -> None:
    tested = Fn(function, (prev("extra"),))
    for member, is_excused in (("extra", True), ("other", False), ("name", True)):
        found = problems(ordered(call("s", "u"), compute("c", obj(a=tested, b=prev(member)))), NESTED)
        assert (found == []) == is_excused


CLOSED = Cards(closed=ToolCard(None, schema((), True, name="string")))


def test_a_member_that_is_tested_for_may_be_anything() -> None:
    value = Fn("?:", (Fn("has", (out("s", "extra"),)), out("s", "extra"), Lit("none")))
    schema = infer(flow(ordered(call("s", "closed"), result=obj(x=value))), CLOSED)
    assert schema is not None
    assert schema["properties"] == {"x": {}}


@pytest.mark.parametrize(("name", "symbol"), [("neg", "-"), ("-", "-"), ("*", "*"), ("/", "/"), ("%", "%")])
def test_arithmetic_names_its_sign(name: str, symbol: str) -> None:
    [problem] = told(Fn(name, (Lit("x"),) * (1 if name == "neg" else 2)))
    assert problem == f"c.value: '{symbol}' needs numbers; this is a string"


@pytest.mark.parametrize("name", ["!", "&&", "==", "<", "in"])
def test_a_test_is_true_or_false(name: str) -> None:
    test = Fn(name, (Ref("input"),) * (1 if name == "!" else 2))
    assert "is a boolean, not an object; it has no 'x'" in told(Fn("[]", (test, Lit("x"))))[0]
