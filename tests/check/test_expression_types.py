"""Types flow through the whole expression language: a wrong member or operand is a problem before any call.

Each case is a right expression and the near-misses made from it. The check reports every near-miss and no right
expression, and what a right expression gives fits the type that was inferred for it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from ropewalk.check import ToolCard, check
from ropewalk.check.inference import infer
from ropewalk.errors import ExpressionError
from ropewalk.expr import compile_expr, parse
from ropewalk.expr.ast import Expr, Ref, rebind
from ropewalk.ir import Flow
from ropewalk.schema import compile_schema
from tiers import examples

from .flows import Cards, call, flow, obj, ordered, schema

ITEM = schema(("id", "score"), id="string", score="number", tags={"type": "array", "items": {"type": "string"}})
ITEM["properties"]["owner"] = schema(("name",), name="string", age="integer")
ITEMS: dict[str, Any] = {"type": "array", "items": ITEM}
CLOSED = {**schema(("low", "high"), low="number", high="number"), "additionalProperties": False}
OUTPUT = {
    **schema(
        ("items", "best", "mixed", "numbers", "byName", "flag", "count", "title", "range", "either", "pair"),
        items=ITEMS,
        best=ITEM,
        mixed={"anyOf": [ITEMS, {"type": "string"}]},
        maybe={"oneOf": [{"type": "null"}, ITEMS]},
        numbers={"type": "object", "additionalProperties": {"type": "number"}},
        byName={"type": "object", "additionalProperties": {"$ref": "#/$defs/item"}},
        flag="boolean",
        count="integer",
        title="string",
        range=CLOSED,
        either={"anyOf": [{"$ref": "#/$defs/item"}, {"type": "string"}, {"type": "null"}]},
        pair={"type": "array", "prefixItems": [ITEM, {"type": "integer"}], "items": False, "minItems": 2},
    ),
    "$defs": {"item": ITEM},
}
TOOLS = Cards(load=ToolCard(schema(), OUTPUT))

LISTS = (
    "$t.items",
    "$t.mixed",
    "$t.maybe",
    "($t.flag ? [] : $t.items)",
    "($t.flag ? $t.items : $t.mixed)",
    "coalesce($t.items, [])",
    "coalesce($t.maybe, $t.items)",
    "sort($t.items)",
    "$t.items.sort(e, e.id)",
    '$t.items.sort(e, e.score, "desc")',
    "$t.items.filter(e, e.score > 1)",
    "values($t.byName)",
    "values(group_by_id)[0]",
    "unique($t.items)",
    "concat($t.items, $t.best)",
    "flatten([$t.items, [$t.best]])",
    "($t.items + [$t.best])",
    "$t.items.map(e, e)",
    "$t.items.flat_map(e, [e])",
    "$t.items.reduce(all, e, all + [e], [])",
    "values($t.byName).sort(e, e.score)",
    "[$t.best]",
)
"""Expressions that give a list of items."""

OBJECTS = (
    "$t.best",
    "$t.either",
    "($t.flag ? $t.best : $t.items[0])",
    "coalesce($t.items[0], $t.best)",
    '$t.byName["ann"]',
    "$t.byName[$t.title]",
    "$t.items[$t.count]",
    "$t.pair[0]",
    "$t.items.reduce(top, e, e.score > top.score ? e : top, $t.best)",
    "zip($t.items, $t.items)[0][1]",
    '{"a": $t.best}.a',
)
"""Expressions that give one item."""

RIGHT_OPERANDS = {
    "values($t.numbers).any(v, v > 2)": 'values($t.numbers).any(v, v > "t")',
    "values($t.numbers).map(v, v - 1)": 'values($t.numbers).map(v, v - "t")',
    "values($t.numbers).all(v, 1 <= v)": 'values($t.numbers).all(v, "a" <= v)',
    "$t.items.filter(e, e.score >= 1)": "$t.items.filter(e, e.id >= 1)",
    "$t.items.map(e, e.score * 2)": "$t.items.map(e, e.id * 2)",
    "$t.items.map(e, e.score + 2)": "$t.items.map(e, e.id + 2)",
    '$t.items.map(e, e.id + "x")': '$t.items.map(e, e.score + "x")',
    "$t.items.map(e, upper(e.id))": "$t.items.map(e, upper(e.score))",
    "$t.items.map(e, length(e.tags))": "$t.items.map(e, length(e.score))",
    '$t.items.any(e, "a" in e.tags)': '$t.items.any(e, "a" in e.id)',
    '$t.items.map(e, startsWith(e.id, "a"))': '$t.items.map(e, startsWith(e.score, "a"))',
    "sum($t.items.map(e, e.score))": "sum($t.items.map(e, e.id))",
    "sum(values($t.numbers))": "sum(keys($t.numbers))",
    "$t.items.map($index + $item.score)": "$t.items.map($index + $item.id)",
    "$t.items.reduce(n, e, n + e.score, 0)": "$t.items.reduce(n, e, n + e.id, 0)",
    '$t.items.reduce(s, e, s + e.id, "")': '$t.items.reduce(s, e, s + e.score, "")',
    "!$t.flag": "!$t.title",
    "$t.flag ? 1 : 2": "$t.title ? 1 : 2",
    "$t.items.map(e, -e.score)": "$t.items.map(e, -e.id)",
    "keys($t.numbers)": "keys($t.items)",
    'join($t.best.tags, ",")': 'join($t.items, ",")',
    "abs($t.best.score)": "abs($t.best.id)",
    'split($t.title, ",")[0] < "x"': 'split($t.title, ",")[0] < 3',
    "max($t.items.map(e, e.score)) > 1": 'max($t.items.map(e, e.score)) > "1"',
}
"""Right expressions with operands, and the same with one of the wrong type."""


def cases() -> list[tuple[str, str]]:
    """Return pairs of a right expression and a near-miss: about 150 of them."""
    pairs: list[tuple[str, str]] = []

    def add(right: str) -> None:
        for member, wrong in (("id", "idd"), ("score", "scor"), ("name", "nmae")):
            if right.endswith(f".{member}") or f".{member})" in right.rpartition("(")[2] + "":
                at = right.rindex(f".{member}")
                pairs.append((right, f"{right[:at]}.{wrong}{right[at + len(member) + 1 :]}"))
                return
        raise AssertionError(right)

    for text in LISTS:
        text = text.replace("group_by_id", "$t.items.group_by(e, e.id)")
        add(f"{text}[0].id")
        add(f"{text}[0].owner.name")
        add(f"{text}.map(x, x.score)")
        add(f"length({text}.sort(x, x.id))")
        add(f"{text}.group_by(x, x.id)")
    for text in OBJECTS:
        add(f"{text}.id")
        add(f"({text}).owner.name")
    for text in ("$t.range", "($t.flag ? $t.range : $t.range)"):
        pairs.append((f"{text}.low", f"{text}.lwo"))
    pairs += RIGHT_OPERANDS.items()
    return pairs


PAIRS = cases()


def bound(text: str) -> Expr:
    """Parse a text in which `$t` is the output of the tool."""

    def bind(ref: Ref) -> Ref:
        return Ref("out", ("t", *ref.path), False, ref.column) if ref.root == "input" else ref

    return rebind(parse(text.replace("$t.", "$input.")), bind)


def flow_of(text: str) -> Flow:
    return flow(ordered(call("t", "load", args_=obj()), result=bound(text)))


def reported(text: str) -> list[str]:
    return [str(problem) for problem in check(flow_of(text), TOOLS).problems]


@pytest.mark.parametrize(("right", "wrong"), PAIRS, ids=[wrong for _, wrong in PAIRS])
def test_a_near_miss_is_reported_and_the_right_expression_is_not(right: str, wrong: str) -> None:
    assert reported(right) == []
    assert len(reported(wrong)) >= 1


UNKNOWN = Cards(load=ToolCard(schema(), None))
OF_ANY_TYPE = [text for pair in PAIRS if pair[0] not in RIGHT_OPERANDS for text in pair] + list(RIGHT_OPERANDS)
"""Expressions that are right if the type of the output is unknown."""


@pytest.mark.parametrize("text", OF_ANY_TYPE)
def test_nothing_is_reported_about_the_members_of_an_unknown_type(text: str) -> None:
    assert [str(problem) for problem in check(flow_of(text), UNKNOWN).problems] == []


@pytest.mark.parametrize(
    "text",
    [
        "has($t.items[0].extra) ? $t.items[0].extra : 1",
        "has(sort($t.items)[0].extra) ? sort($t.items)[0].extra.deep : 1",
        "coalesce(sort($t.items)[0].extra, 1)",
        "$t.items.filter(e, has(e.extra)).map(e, e.id)",
        "$t.items.filter(e, has(e.extra) && e.extra.deep > 1)",
        "[1, 2][5]",
        "($t.flag ? null : $t.best).id",
        "$t.numbers.anything + 1",
        "$t.mixed.map(e, e.id)",
        "$t.items.reduce(last, e, e, null).id",
    ],
)
def test_no_false_alarm(text: str) -> None:
    assert reported(text) == []


def test_a_tested_member_hides_no_mistake_below_a_declared_one() -> None:
    assert "has no 'idd'" in reported("has($t.best.owner) ? $t.best.owner.idd : 1")[0]


def test_messages_name_the_operand() -> None:
    assert reported('values($t.numbers).any(v, v > "t")') == ["result: '>' cannot order a number and a string"]
    (problem,) = check(flow_of("$t.items.sort(e, e.id)[0].idd"), TOOLS).problems
    assert problem.message.endswith("has no 'idd'; it has: id, score, tags, owner")
    assert problem.suggestion == "id"


# --- right expressions on random values ----------------------------------------------------------


def values(node: Any) -> st.SearchStrategy[Any]:
    """Return values that fit a schema of this file."""
    if "$ref" in node:
        return values(ITEM)
    for word in ("anyOf", "oneOf"):
        if word in node:
            return st.one_of(*map(values, node[word]))
    if "prefixItems" in node:
        return st.tuples(*map(values, node["prefixItems"])).map(list)
    kind = node["type"]
    if kind == "array":
        return st.lists(values(node["items"]), max_size=3)
    if kind == "object" and "properties" not in node:
        return st.dictionaries(st.sampled_from(["ann", "bob", "a"]), values(node["additionalProperties"]), max_size=3)
    if kind == "object":
        required = node.get("required", ())
        fields = {name: values(inner) for name, inner in node["properties"].items()}
        optional = {name: inner for name, inner in fields.items() if name not in required}
        return st.fixed_dictionaries({name: fields[name] for name in required}, optional=optional)
    return {
        "string": st.sampled_from(["", "a", "b", "a,b", "true"]),
        "number": st.integers(-3, 3) | st.sampled_from([0.5, 2.0]),
        "integer": st.integers(0, 3),
        "boolean": st.booleans(),
        "null": st.none(),
    }[kind]


@st.composite
def lists(draw: Any, depth: int = 2) -> str:
    base: str = draw(st.sampled_from(LISTS)).replace("group_by_id", "$t.items.group_by(e, e.id)")
    if not depth or draw(st.booleans()):
        return base
    first, second = draw(lists(depth - 1)), draw(lists(depth - 1))
    forms = (
        "{0}.filter(x, x.score > 0)",
        "{0}.filter(x, exists(x.owner) && x.owner.name != $t.title)",
        '{0}.sort(x, [x.score, x.id], "desc")',
        "unique({0})",
        "concat({0}, {1})",
        "flatten([{0}, {1}])",
        "({0} + {1})",
        "($t.flag ? {0} : {1})",
        "coalesce({0}, {1})",
        "values({0}.group_by(x, x.score))[0]",
        "{0}.flat_map(x, {1})",
        "{0}.reduce(all, x, concat(all, x), {1})",
        "zip({0}, {1})[0]",
        "{0}.map(x, x)",
    )
    return str(draw(st.sampled_from(forms)).format(first, second))


@st.composite
def expressions(draw: Any) -> str:
    one, two = draw(lists()), draw(lists())
    item = draw(st.sampled_from([*OBJECTS, f"{one}[0]", f"($t.flag ? {one}[1] : {two}[0])", f"coalesce({one}[0], 0)"]))
    forms = (
        "{0}", "{2}", "({2}).id", "({2}).owner", "({2}).owner.name", "({2}).tags[0]", "{0}.map(x, x.score)",
        "{0}.map(x, x.owner)", "max({0}.map(x, x.score))", "min({0}.map(x, x.id))", "{0}.group_by(x, x.id)",
        "keys({0}.group_by(x, x.id))", "zip({0}, {1})", "length({0})", "{0}.reduce(n, x, n + x.score, 0)",
        "{0}.reduce(top, x, x, null)", '{{"a": {0}, "b": [{2}]}}', "{0}.map(x, split(x.id, \",\"))",
        "values({0}.group_by(x, x.id)).map(g, g[0].score)", "{0}.any(x, x.score > 1)", "{0}.map(x, {1}[0].id)",
        "$t.byName", "$t.numbers", "values($t.numbers)", "$t.maybe[0].id", "$t.pair", "$t.pair[1]",
    )  # fmt: skip
    return str(draw(st.sampled_from(forms)).format(one, two, item))


@examples(400)
@given(expressions(), values({**OUTPUT}))
def test_right_expressions_report_nothing_and_their_values_fit(text: str, output: Any) -> None:
    assert reported(text) == []
    inferred = infer(flow_of(text), TOOLS)
    evaluate = compile_expr(bound(text), lambda ref: ((lambda frame: frame), ref.path[1:]))
    try:
        value = evaluate(output)
    except ExpressionError as error:
        event(f"fails: {error.message[:20]}")  # a string in place of the list, a null in place of a number
        return
    note(f"{text} {output!r} {value!r} {inferred}")
    event("a type is known" if inferred else "no type is known")
    if inferred is not None:
        assert compile_schema(inferred).problems(value, "value") == []
