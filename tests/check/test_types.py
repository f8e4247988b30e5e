"""Types: what is known of values before they exist, and where they cannot fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ropewalk.check import ToolCard, check
from ropewalk.expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Ref, Var
from ropewalk.ir import Channel, Node, OnError, Policy
from ropewalk.ops import Block, Branch, Compute, Loop, Map

from .flows import TRUE, Cards, call, compute, dag, flow, node, obj, ordered, out, prev, problems, schema

HIT = schema(title="string", snippet="string", score="number")
SEARCH = ToolCard(
    schema(("q",), True, q="string", limit="integer", tags={"type": "array", "items": {"type": "string"}}),
    schema(results={"type": "array", "items": HIT}, best=HIT, snippet="string", count="integer"),
)
LOOSE = ToolCard(schema(("q",), q="string"), None)
TOOLS = Cards(search=SEARCH, loose=LOOSE)
FINE = obj(q=Lit("x"))


def told(*nodes: Node, result: Expr = NULL, **more: Any) -> list[str]:
    return problems(ordered(*nodes, result=result), TOOLS, **more)


def search(id: str = "s", **args: Expr) -> Node:
    return call(id, "search", args_=obj(**(args or {"q": Lit("x")})))


# --- what a reference walks into -----------------------------------------------------------------


def test_a_misspelt_property_is_found_before_any_tool_is_called() -> None:
    body = ordered(
        call("s", "search", args_=FINE, source="nodes[0]"),
        call("t", "loose", args_=obj(q=prev("snipet", column=1)), source="nodes[1]", labels={"args": "params"}),
    )
    (problem,) = check(flow(body), TOOLS).problems
    assert problem.path == "nodes[1].params.q"
    assert problem.message == "'prev' has no 'snipet'; it has: results, best, snippet, count"
    assert (problem.suggestion, problem.column) == ("snippet", 1)


def test_paths_go_through_lists_and_objects() -> None:
    assert told(search(), result=out("s", "results", 0, "snippet")) == []
    assert told(search(), result=out("s", "results", 0, "snipet")) == [
        "result: the output of 's.results[0]' has no 'snipet'; it has: title, snippet, score; did you mean snippet?"
    ]
    assert told(search(), result=out("s", "snippet", "x")) == [
        "result: the output of 's.snippet' is a string, not an object; it has no 'x'"
    ]
    assert told(search(), result=out("s", "results", "title")) == [
        "result: the output of 's.results' is a list, not an object; it has no 'title'"
    ]
    assert told(search(), result=out("s", "best", 0)) == [
        "result: the output of 's.best' is an object, not a list; it has no 0"
    ]


def test_a_leading_output_may_be_left_out_or_written() -> None:
    for path in (("output", "snippet"), ("snippet",), ("output",)):
        assert told(search(), result=out("s", *path, elide=True)) == []
    assert "has no 'snipet'" in told(search(), result=out("s", "output", "snipet", elide=True))[0]
    assert "has no 'output'" in told(search(), result=out("s", "output", "snippet"))[0]


def test_the_input_has_a_schema_too() -> None:
    assert problems(dag(result=Ref("input", ("nmae",))), input_schema=schema(name="string")) == [
        "result: 'input' has no 'nmae'; it has: name; did you mean name?"
    ]
    assert problems(dag(result=Ref("input", ("name",))), input_schema=schema(name="string")) == []


def test_asking_whether_something_is_there_is_no_mistake() -> None:
    missing = prev("extra")
    for expr in (
        Fn("has", (missing,)),
        Fn("?:", (Fn("has", (missing,)), prev("extra", "deep"), NULL)),
        Fn("&&", (Fn("exists", (missing,)), Fn(">", (missing, Lit(3))))),
        Fn("coalesce", (missing, Lit(1))),
    ):
        assert told(search(), compute("c", expr)) == []
    guarded = call("c", "loose", when=Fn("has", (missing,)), args_=obj(q=missing))
    assert told(search(), guarded) == []
    assert len(told(search(), compute("c", Fn("has", (missing,))), compute("d", out("s", "extra")))) == 1


OPEN_SCHEMAS: list[Any] = [
    {},
    True,
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"properties": {"a": {}}, "additionalProperties": True},
    {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    {"properties": {"a": {}}, "patternProperties": {"^x": {}}},
    {"anyOf": [{"properties": {"a": {}}}, {"type": "object"}]},
    {"oneOf": [{"type": "string"}, {"properties": {"x": {}}}]},
    {"allOf": [{"properties": {"a": {}}}, {"properties": {"x": {}}}]},
    {"$ref": "#/$defs/gone"},
    {"$ref": "https://else.where/x"},
    {"properties": {"a": {}}, "if": {}, "then": {"properties": {"x": {}}}},
    {"properties": {"a": {}}, "$dynamicRef": "#x"},
    {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {}}}}},
    {"type": ["object", "null"], "properties": {"x": {}}},
    {"properties": {"a": {}}, "unevaluatedProperties": True},
    {"anyOf": [{"type": "null"}, {}]},
    {"$ref": "#"},
    {"type": "null"},
    {"allOf": [{"$ref": "#"}], "anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {"not": {}},
    {"properties": 3, "anyOf": 4, "type": 5},
]

CLOSED_SCHEMAS: list[Any] = [
    {"properties": {"a": {}}},
    {"type": "object", "additionalProperties": False},
    {"type": "string"},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "null"}, {"properties": {"a": {}}}]},
    {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
    {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}}}},
    {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
    {"$ref": "#/$defs/A", "description": "d", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "array"}}},
    {"enum": ["a", 1]},
    {"properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"const": 7},
]


@pytest.mark.parametrize("declared", OPEN_SCHEMAS, ids=str)
def test_no_alarm_where_the_property_may_be_there(declared: Any) -> None:
    tools = Cards(t=ToolCard(None, declared))
    assert problems(ordered(call("a"), compute("b", prev("x")), compute("c", out("a", "x"))), tools) == []


@pytest.mark.parametrize("declared", CLOSED_SCHEMAS, ids=str)
def test_a_problem_where_the_property_cannot_be_there(declared: Any) -> None:
    tools = Cards(t=ToolCard(None, declared))
    assert len(problems(ordered(call("a"), compute("b", prev("x"))), tools)) == 1


def test_a_hostile_schema_costs_little() -> None:
    wide: dict[str, Any] = {"$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 9} for i in range(30)}}
    wide["$ref"] = "#/$defs/d0"
    assert problems(ordered(call("a"), compute("b", prev("x"))), Cards(t=ToolCard(wide, wide))) == []


# --- how types travel ----------------------------------------------------------------------------


def test_types_travel_through_computed_values() -> None:
    made = compute("c", obj(first=out("s", "results", 0), all=out("s", "results"), pair=Arr((Lit(1), out("s")))))
    assert told(search(), made, result=out("c", "first", "title")) == []
    assert told(search(), made, result=out("c", "pair", 1, "best", "score")) == []
    for path, lacks in ((("frist",), "frist"), (("first", "tilte"), "tilte"), (("pair", 1, "bset"), "bset")):
        assert f"has no {lacks!r}" in told(search(), made, result=out("c", *path))[0]
    literal = compute("l", Lit({"a": [{"b": 1}]}))
    assert told(literal, result=out("l", "a", 0, "b")) == []
    assert "did you mean b?" in told(literal, result=out("l", "a", 0, "bb"))[0]


def test_types_travel_through_bodies() -> None:
    block = node("b", Block(body=dag(search("x"), search("y"), result=obj(x=out("x"), y=out("y")))))
    assert told(block, result=prev("x", "snippet")) == []
    assert "has no 'z'" in told(block, result=prev("z"))[0]
    mapped = node(
        "m", Map(items=out("s", "results"), body=ordered(compute("i", Ref("item", ("title",))), result=prev()))
    )
    assert told(search(), mapped, result=out("m", 3)) == []
    assert "is a list" in told(search(), mapped, result=out("m", "title"))[0]
    assert "is a string" in told(search(), mapped, result=out("m", 0, "x"))[0]
    loop = Loop(body=dag(search("x"), result=out("x")), limit=3)
    assert told(node("l", loop), result=out("l", 0, "snippet")) == []
    assert "has no 'snip'" in told(node("l", loop), result=out("l", 0, "snip"))[0]
    each = Loop(items=out("s", "results"), body=dag(compute("i", Ref("item", ("titel",)), when=Ref("index"))))
    assert [p.split(":")[0] for p in told(search(), node("l", each))] == ["l/i.when", "l/i.value"]
    last = Loop(body=dag(search("x"), result=out("x")), limit=3, collect=False)
    assert told(node("l", last), result=out("l", "snippet")) == []


def test_an_item_is_an_element_of_the_items() -> None:
    body = dag(compute("i", Ref("item", ("titel",))))
    assert "did you mean title?" in told(search(), node("m", Map(items=out("s", "results"), body=body)))[0]
    assert told(search(), node("m", Map(items=out("s", "count"), body=body))) == [
        "m.items: must be a list; this is an integer"
    ]


def test_what_any_arm_gives_is_fine() -> None:
    choice = Branch(arms=((TRUE, dag(result=obj(a=Lit(1)))), (TRUE, dag(result=obj(b=Lit(1))))))
    assert told(node("c", choice), result=Arr((prev("a"), prev("b")))) == []
    assert "has no 'd'; it has: a, b" in told(node("c", choice), result=prev("d"))[0]
    half = Branch(
        arms=((TRUE, dag(result=obj(a=Lit(1)))),), default=dag(call("x", "loose", args_=FINE), result=out("x"))
    )
    assert told(node("c", half), result=prev("anything")) == []


def test_prev_after_a_skipped_node_may_be_an_earlier_one() -> None:
    maybe = compute("m", obj(a=Lit(1)), when=Ref("input", ("x",)))
    assert told(compute("z", obj(b=Lit(1))), maybe, result=Arr((prev("a"), prev("b")))) == []
    assert "has no 'c'" in told(compute("z", obj(b=Lit(1))), maybe, result=prev("c"))[0]
    assert len(told(compute("z", obj(b=Lit(1))), compute("m", obj(a=Lit(1))), result=prev("b"))) == 1


def test_a_fallback_value_counts_too() -> None:
    policy = Policy(on_error=OnError(value=obj(failed=TRUE)))
    either = compute("a", obj(x=Lit(1)), policy=policy)
    assert told(either, result=Arr((prev("x"), prev("failed")))) == []
    assert "has no 'y'" in told(either, result=prev("y"))[0]


def test_macros_know_their_elements() -> None:
    def titles(field: str) -> Expr:
        return Each("map", out("s", "results"), ("hit", "$index"), Var("hit", (field,)))

    assert told(search(), compute("c", titles("title")), result=out("c", 0)) == []
    assert "did you mean title?" in told(search(), compute("c", titles("titel")))[0]
    over_object = Each("map", out("s", "best"), ("key",), Var("key"))
    assert told(search(), compute("c", over_object)) == []
    assert "'key' is a string" in told(search(), compute("c", replace(over_object, body=Var("key", ("x",)))))[0]
    reduced = Each(
        "reduce", out("s", "results"), ("$item", "$acc"), Fn("+", (Var("$acc"), Var("$item", ("score",)))), (Lit(0),)
    )
    assert told(search(), compute("c", reduced)) == []


# --- arguments -----------------------------------------------------------------------------------


def test_arguments_are_checked_against_the_tool() -> None:
    args = {"limit": Lit("ten"), "tags": Arr((Lit("a"), Lit(2))), "qq": Lit("x")}
    assert told(search(**args)) == [
        "s.args.limit: must be an integer; this is a string",
        "s.args.tags[1]: must be a string; this is an integer",
        "s.args.qq: unknown argument of tool 'search'; expected one of: q, limit, tags; did you mean q?",
        "s.args: required argument 'q' of tool 'search' is missing; rename 'qq' to 'q'?",
    ]
    assert told(call("s", "search", args_=Lit({"q": 1}))) == ["s.args.q: must be a string; this is an integer"]
    assert told(search(q=Lit("x"), limit=Lit(3), tags=Lit(["a"]))) == []
    assert told(search(q=Lit("x"), tags=Lit(["a", 2]))) == ["s.args.tags[1]: must be a string; this is an integer"]


def test_an_argument_that_the_tool_does_not_list_is_a_warning() -> None:
    found = check(flow(dag(call("a", "loose", args_=obj(q=Lit("x"), qq=Lit("y"))))), TOOLS)
    assert found.ok
    assert [str(w) for w in found.warnings] == [
        "a.args.qq: unknown argument of tool 'loose'; expected one of: q; did you mean q?"
    ]
    closed = check(flow(dag(search(q=Lit("x"), other=Lit("y")))), TOOLS)
    assert not closed.ok
    assert not closed.warnings


def test_an_expression_of_another_kind_is_a_problem() -> None:
    assert told(search(), search("t", q=out("s", "count", column=9))) == [
        "t.args.q: must be a string; this is an integer"
    ]
    assert check(flow(ordered(search(), search("t", q=out("s", "count", column=9)))), TOOLS).problems[0].column == 9
    assert told(search("t", q=Fn("length", (Ref("input"),)))) == ["t.args.q: must be a string; this is an integer"]
    assert told(search("t", q=Fn("==", (Lit(1), Lit(2))))) == ["t.args.q: must be a string; this is a boolean"]
    assert told(search("t", q=Lit("x"), limit=Fn("*", (Ref("input"), Lit(2))))) == []
    assert told(search("t", q=Fn("?:", (TRUE, Lit("a"), Ref("input"))))) == []
    assert len(told(search("t", q=Fn("?:", (TRUE, Lit(1), Lit(2)))))) == 1
    assert told(search("t", q=Fn("+", (Ref("input"), Lit("x"))))) == []


def test_a_whole_object_as_arguments_is_checked() -> None:
    assert told(compute("c", obj(limit=Lit(3), query=Lit("x"))), call("s", "search", args_=prev())) == [
        "s.args: this value has no 'q', which is a required argument of tool 'search'; it has: limit, query"
    ]
    assert told(search(), call("t", "search", args_=out("s", "snippet"))) == [
        "t.args: must be an object; this is a string"
    ]
    assert told(call("t", "search", args_=Ref("input"))) == []


@pytest.mark.parametrize(
    ("declared", "value", "fits"),
    [
        ({"enum": ["asc", "desc"]}, "asc", True),
        ({"enum": ["asc", "desc"]}, "dsc", False),
        ({"type": "integer", "minimum": 1}, 0, False),
        ({"type": "integer"}, 1.5, False),
        ({"type": "integer"}, 2.0, True),
        ({"type": "number"}, 1, True),
        ({"type": "string", "pattern": "^a"}, "b", False),
        ({"type": ["string", "null"]}, None, True),
        ({"type": "string"}, None, False),
        ({"type": "string", "nullable": True}, None, True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, True, False),
        ({"$ref": "#/$defs/Mode"}, "fast", True),
        ({"$ref": "#/$defs/Mode"}, "quick", False),
        ({"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}, {}, False),
        ({"type": "object", "required": ["x"], "properties": {"x": {"default": 1}}}, {}, True),
        ({"type": "string", "pattern": "(?=x)"}, "b", True),
        (True, [], True),
    ],
)
def test_a_literal_is_judged_by_the_whole_schema(declared: Any, value: Any, fits: bool) -> None:
    wanted = {"type": "object", "properties": {"v": declared}, "$defs": {"Mode": {"enum": ["fast", "slow"]}}}
    found = problems(dag(call("a", args_=obj(v=Lit(value)))), Cards(t=ToolCard(wanted)))
    assert (not found) == fits, found


@pytest.mark.parametrize(
    "declared", [None, True, {}, {"type": "object"}, {"type": "object", "additionalProperties": True}]
)
def test_a_tool_without_a_schema_takes_anything(declared: Any) -> None:
    assert problems(dag(call("a", args_=obj(x=Lit(1)))), Cards(t=ToolCard(declared))) == []


def test_an_unknown_tool_is_a_warning_or_a_problem() -> None:
    body = dag(call("a", "serch", source="nodes[0]"))
    found = check(flow(body), TOOLS)
    assert found.ok
    assert [str(w) for w in found.warnings] == ["nodes[0].tool: unknown tool 'serch'; did you mean search?"]
    strict = check(flow(body), TOOLS, unknown_tools="problem")
    assert not strict.warnings
    assert strict.problems == found.warnings
    assert check(flow(body), lambda name: None).warnings[0].suggestion is None
    assert problems(body) == []


# --- conditions, sums, state, results ------------------------------------------------------------


def test_conditions_are_true_or_false() -> None:
    assert told(search(), call("b", "loose", args_=FINE, when=prev("count"))) == [
        "b.when: a condition must be true or false; this is an integer"
    ]
    assert told(search(), call("b", "loose", args_=FINE, when=Fn(">", (prev("count"), Lit(1))))) == []
    assert told(node("c", Branch(arms=((Lit("yes"), dag()),)))) == [
        "c.arms[0][0]: a condition must be true or false; this is a string"
    ]


def test_arithmetic_needs_numbers() -> None:
    assert told(search(), compute("c", Fn("*", (prev("snippet", column=5), Lit(2)), 13))) == [
        "c.value: '*' needs numbers; this is a string"
    ]
    assert told(search(), compute("c", Fn("-", (prev("count"), prev("best", "score"))))) == []


def test_updates_fit_their_channel() -> None:
    state = {
        "text": {"type": "string"},
        "rows": Channel(schema={"type": "array"}, reduce="array_append"),
        "total": Channel(reduce="sum"),
    }
    assert told(
        compute("a", NULL, writes=obj(text=Lit(3), rows=Lit("x"), total=Lit("y"))),
        compute("b", NULL, writes=obj(text=NULL, rows=Arr(()), total=Lit(1.5))),
        compute("c", NULL, writes=Lit({"text": "x", "rows": None, "total": True})),
        compute("d", NULL, writes=Lit([])),
        state=state,
    ) == [
        "a.writes.text: must be a string or null; this is an integer",
        "a.writes.rows: must be a list or null; this is a string",
        "a.writes.total: must be a number or null; this is a string",
        "c.writes.total: must be a number or null; this is a boolean",
        "d.writes: must be an object of state fields; this is a list",
    ]
    assert "is a string" in told(compute("a", Ref("state", ("text", "x"))), state=state)[0]


def test_the_result_fits_the_output_schema() -> None:
    wanted = schema(("answer",), answer="string")
    assert told(search(), result=obj(answer=out("s", "count")), output_schema=wanted) == [
        "result.answer: must be a string; this is an integer"
    ]
    assert (
        told(
            search(), result=obj(anwser=out("s", "snippet")), output_schema=schema(("answer",), True, answer="string")
        )[-1]
        == "result: required property 'answer' of the output is missing; rename 'anwser' to 'answer'?"
    )
    assert told(search(), result=Ref("input"), output_schema=wanted) == []


def test_a_long_row_of_choices_stays_quick() -> None:
    row = [compute(f"n{i}", obj(**{f"k{i}": Lit(1)}), when=Ref("input", (f"x{i}",))) for i in range(2_000)]
    assert problems(ordered(*row, result=prev("k3"))) == []


def test_a_compute_shared_by_two_nodes_is_reported_at_both() -> None:
    shared = Compute(value=obj(a=out("x"), b=out("x")))
    found = problems(dag(node("n", shared), node("m", shared)))
    assert [p.split(":")[0] for p in found] == ["n.value.a", "n.value.b", "m.value.a", "m.value.b"]


@pytest.mark.parametrize(
    ("gives", "takes", "fits"),
    [
        (["string", "null"], ["integer", "null"], False), (["string", "null"], "integer", False),
        (["string", "null"], ["string", "null"], True), (["string", "null"], "string", True),
        (["integer", "null"], ["number", "null"], True), (["array", "null"], ["object", "null"], False),
        ("null", ["integer", "null"], True), (["string", "integer"], ["integer", "null"], True),
    ],
)  # fmt: skip
def test_null_on_both_sides_makes_no_two_types_fit(gives: Any, takes: Any, fits: bool) -> None:
    cards = {
        "one": ToolCard(output_schema={"type": "object", "properties": {"x": {"type": gives}}, "required": ["x"]}),
        "two": ToolCard(input_schema={"type": "object", "properties": {"x": {"type": takes}}}),
    }
    body = ordered(call("a", "one"), call("b", "two", args_=obj(x=out("a", "x"))))
    assert (problems(body, cards.get) == []) is fits
