"""References in documents: every sentence of the language about them, as a case."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import App
from ropewalk.errors import ExpressionError, Problem
from ropewalk.expr import Arr, Fn, Lit, Obj, Ref, lift, parse

from .expr_scope import ALL, lifted, run

SCOPE = {
    "input": {"foo": 1, "any key": 2, "name": "Ann", "list": [10, [20, 30]], "0": "zero"},
    "prev": {"bar": "b"},
    "steps": [{"output": {"data": 5}}, {"data": 6}],
    "output": {"fetch-it": {"rows": [1, 2]}},
    "var": {"count": 3, "text": "$input.foo"},
    "state": {"rows": [{"amount": 1, "k": "a"}, {"amount": 5, "k": "b"}], "field": True, "limit": 2},
    "item": {"price": 2},
    "index": 4,
    "iteration": 0,
    "error": {"message": "no"},
    "secret": {"KEY": "s"},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$input", SCOPE["input"]),
        ("$input.foo", 1),
        ("$prev", {"bar": "b"}),
        ("$prev.bar", "b"),
        ("$steps[0]", {"output": {"data": 5}}),
        ("$steps[0].output.data", 5),
        ("$steps.1.data", 6),
        ("$output.fetch-it.rows.1", 2),
        ("$var.count", 3),
        ("$state.field", True),
        ("$.field", True),
        ("$item.price", 2),
        ("$index", 4),
        ("$iteration", 0),
        ("$error.message", "no"),
        ("$secret.KEY", "s"),
        ('$input["any key"]', 2),
        ("$input['any key']", 2),
        ("$input.list[1][0]", 20),
        ("$input.list.1.1", 30),
        ('$input["0"]', "zero"),
        # What does not exist is null.
        ("$input.nope", None),
        ("$input.nope.deeper[3].still", None),
        ("$input.foo.deeper", None),
        ("$input.list[9]", None),
        ("$input.name[0]", None),
        ("$input.list.name", None),
        ("$input[0]", None),
        # Escapes and text.
        ("$$input.foo", "$input.foo"),
        ("$$", "$"),
        ("costs $5", "costs $5"),
        ("$${input.foo}", "${input.foo}"),
        ("a $${b} c", "a ${b} c"),
        ("plain", "plain"),
        ("", ""),
        # Interpolation.
        ("${input.foo}", 1),
        ("${ $input.list }", [10, [20, 30]]),
        ("Hello ${input.name}!", "Hello Ann!"),
        ("${input.foo}${input.foo}", "11"),
        ("${input.foo} ", "1 "),
        ("n=${input.nope};", "n=;"),
        ("l=${input.list}", "l=[10,[20,30]]"),
        ('${ {"a": "}"} }', {"a": "}"}),
        ("x${'}'}y", "x}y"),
        ("$$a ${input.foo}", "$a 1"),
        ("${input.foo + 1}", 2),
        # JSONPath on the state.
        ("$.rows[*].amount", [1, 5]),
        ("$state.rows[*].amount", [1, 5]),
        ("$.rows[?@.amount > 2].k", ["b"]),
        ("$.rows[?@.amount > $.limit].k", ["b"]),
        ("$..amount", [1, 5]),
        ("$.rows[0:1].k", ["a"]),
        ("$.rows[-1].k", "b"),
        ("$.rows[0]['k']", "a"),
        ("$.nope[*]", []),
        # A value that looks like a reference is never read as one.
        ("$var.text", "$input.foo"),
    ],
)
def test_string_gives(text, expected):
    assert lifted(text, **SCOPE) == expected


def test_a_dollar_alone_is_the_state_where_no_node_is_before_another():
    assert lift("$", frozenset(("input", "state"))) == Ref("state")
    with pytest.raises(ExpressionError, match="not a reference; for the text itself write"):
        lift("$", frozenset(("input", "state", "prev")))


def test_references_are_resolved_in_objects_and_arrays_to_any_depth():
    document = {"q": "$input.foo", "list": ["$prev.bar", {"deep": ["x", "$index"]}], "n": 5, "$input.foo": "key"}
    assert lifted(document, **SCOPE) == {"q": 1, "list": ["b", {"deep": ["x", 4]}], "n": 5, "$input.foo": "key"}


def test_constant_document_is_one_literal():
    document = {"a": [1, {"b": None}], "c": "text"}
    assert lift(document, ALL) == Lit(document)
    assert lift({"a": "$$x", "b": [1]}, ALL) == Lit({"a": "$x", "b": [1]})
    assert lift({"a": "$input", "b": [1]}, ALL) == Obj((("a", Ref("input")), ("b", Lit([1]))))
    assert lift([None, "$input"], ALL) == Arr((Lit(None), Ref("input")))


def test_a_constant_is_new_each_time_so_that_a_tool_may_change_its_arguments():
    expr = lift({"a": {"b": []}}, ALL)
    first = run(expr, {})
    first["a"]["b"].append(1)
    assert run(expr, {}) == {"a": {"b": []}}


@pytest.mark.parametrize(
    ("text", "message", "column", "suggestion"),
    [
        ("$5", "not a reference", 1, "$$5"),
        ("$typo.x", "unknown reference $typo", 1, None),
        ("$inputs.z", "unknown reference $inputs", 1, "$input.z"),
        ("$prev.price dollars", "unexpected ' '", 12, "${$prev.price} dollars"),
        ("$prev.price + 1", "an expression belongs in ${...}", 12, "${$prev.price + 1}"),
        ("$steps[-1]", "0 or more", 7, None),
        ("$input.list[*]", "JSONPath works on $state only", 12, None),
        ("$.rows[?@.x >]", "not a JSONPath", 7, None),
        ("$.rows[?match(@.k, 'a')", "not closed", 7, None),
        ("a ${input.", "not closed", 3, None),
        ("a ${}", "needs an expression", 5, None),
        ("a ${inptu.x} b", "unknown name 'inptu'", 5, "input"),
        ("a ${input.x +} b", "ends too early", 14, None),
        ("$secrt.A", "unknown reference", 1, "$secret.A"),
    ],
)
def test_bad_string_is_a_problem_with_its_place(text, message, column, suggestion):
    problems: list[Problem] = []
    assert lift({"items": [0, {"q": text}]}, ALL, path="params", problems=problems) is not None
    (problem,) = problems
    assert problem.path == "params.items[1].q"
    assert message in problem.message
    assert problem.column == column
    assert problem.suggestion == suggestion
    with pytest.raises(ExpressionError, match=r".") as caught:
        lift(text, ALL)
    assert caught.value.column == column


def test_every_problem_is_reported_at_once():
    problems: list[Problem] = []
    lift({"a": "$typo", "b": ["$5", "fine"], "c": "${1 +}"}, ALL, problems=problems)
    assert [problem.path for problem in problems] == ["a", "b[0]", "c"]


def test_a_root_that_this_notation_does_not_have_is_a_problem():
    problems: list[Problem] = []
    lift({"a": "$var.x", "b": "text ${var.x}"}, frozenset(("input", "prev")), problems=problems)
    assert [(p.path, p.column) for p in problems] == [("a", 1), ("b", 8)]
    assert "known: $input, $prev" in problems[0].message


@pytest.mark.parametrize("text", ["$typo.x", "$inputs.z", "$", "$steps[-1]", "$5", "$var.x", "a ${typo} b"])
def test_unrecognised_text_may_be_itself_and_is_told(text):
    problems: list[Problem] = []
    roots = frozenset(("input", "prev", "steps"))
    assert lift({"q": text}, roots, unknown="literal", problems=problems) == Lit({"q": text})
    (problem,) = problems
    assert problem.keyword == "unresolved"
    assert problem.message == f'Unresolved reference "{text}" treated as literal'
    assert lift(text, roots, unknown="literal") == Lit(text)


def test_a_document_nested_too_deep_is_a_problem():
    document: object = "$input"
    for _ in range(100_000):
        document = [document]
    with pytest.raises(ExpressionError, match="deeper than 200"):
        lift(document, ALL)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a{10}", ["a" * 10]),
        ("a{0,12}", ["a", "a" * 10]),
        ("a{2,}", ["a" * 10]),
        ("[a{10}]+", ["a", "a" * 10, "{01}"]),
        ("a{10", []),  # no I-Regexp: it matches nothing
        ("a{,10}", []),
        (r"\\w{1,10}", []),
    ],
)
def test_a_pattern_of_a_query_may_hold_any_quantity(pattern, found):
    rows = [{"t": "a"}, {"t": "a" * 10}, {"t": "{01}"}]
    assert lifted(f"$.rows[?match(@.t, '{pattern}')].t", state={"rows": rows}) == found


def test_a_query_reads_no_more_state_than_it_must():
    assert lift("$.rows[*].amount", ALL) == Fn("query", (Ref("state", ("rows",)), Lit("$[*].amount")))
    assert lift("$.rows[?@.a > $.limit]", ALL) == Fn("query", (Ref("state"), Lit("$.rows[?@.a > $.limit]")))


def test_a_leading_output_is_skipped_where_the_value_has_none():
    ref = Ref("out", ("search", "output", "data"), elide=True)
    from ropewalk.expr import compile_expr

    get = compile_expr(ref, lambda ref: ((lambda frame: frame), ref.path[1:]))
    assert get({"output": {"data": 1}, "data": 2}) == 1
    assert get({"data": 2}) == 2
    assert get([1]) is None
    assert get(None) is None
    whole = compile_expr(Ref("out", ("search", "output"), elide=True), lambda ref: ((lambda f: f), ref.path[1:]))
    assert whole([1]) == [1]


def test_ten_thousand_nodes_are_lifted_in_well_under_a_second():
    document = [
        {"id": f"n{i}", "params": {"b": f"$steps[{i}].output.data", "c": ["x", {"d": "$input.q"}]}}
        for i in range(10_000)
    ]
    start = time.process_time()
    lift(document, ALL)
    assert time.process_time() - start < 2  # about 0.15 s; the slack is for a busy machine


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=("Cs",))))
def test_any_text_can_be_written_with_escapes(text):
    escaped = text.replace("${", "$${")
    if text.startswith("$") and not escaped.startswith("$$"):
        escaped = "$" + escaped
    if "$$" in text:
        return  # a dollar before an escape would need an escape of its own
    assert lifted(escaped) == text


def test_a_plain_reference_in_a_document_and_in_an_expression_is_the_same():
    for text in ("$input.foo", "$steps[0].output", '$input["any key"]', "$.field"):
        assert lift(text, ALL) == parse(text)


@pytest.mark.parametrize(
    "text", ["$input.secret", "${$input.secret}", "$prev", "${NAME}", "$secret.KEY", "{{$input.secret}}"]
)
def test_a_reference_that_a_tool_returns_is_a_text(text):
    taken = []

    def page():
        return {"text": text, "list": [text]}

    def take(value):
        taken.append(value)

    nodes = [
        {"id": "a", "type": "tool", "tool": "page"},
        {
            "id": "b",
            "type": "tool",
            "tool": "take",
            "params": {"value": ["$prev.text", "<${$prev.text}>", "$prev.list"]},
        },
    ]

    async def case():
        async with App("memory", tools=[page, take]) as app:
            return await app.run({"kind": "chain", "nodes": nodes}, {"secret": "s3cret"})

    assert asyncio.run(case()).status == "completed"
    assert taken == [[text, f"<{text}>", [text]]]
