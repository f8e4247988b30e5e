"""What documents are told, problem by problem, in the words they are written in."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.check import check
from ropewalk.errors import InvalidFlow
from ropewalk.notations.registry import notation_of


def told(*nodes: dict[str, Any], **more: Any) -> list[str]:
    """The problems of a chain of these nodes, as text; without any its warnings, marked `?`."""
    document = {"nodes": [{"id": f"n{i}", "type": "tool", "tool": "t", **node} for i, node in enumerate(nodes)], **more}
    try:
        compiled = notation_of(document).compile(document)
    except InvalidFlow as refused:
        return [str(problem) for problem in refused.problems]
    found = check(compiled.flow)
    return [str(p) for p in found.problems] or [f"? {p}" for p in (*compiled.warnings, *found.warnings)]


def params(text: str, **more: Any) -> list[str]:
    """The same of one node with this text as its argument."""
    return told({"params": {"q": text}}, **more)


KEYS = [
    ('[3, 1, 2].sort("desc")', 'sort uses the same key "desc" for every element; did you mean $item, "desc"?'),
    ('sort(input.rows, "p")', 'sort uses the same key "p" for every element; did you mean $item.p?'),
    ('input.rows.sort(r, "p")', 'sort uses the same key "p" for every element; did you mean r.p?'),
    ('prev.sort(["p", "q"], "desc")', 'sort uses the same key ["p","q"] for every element; did you mean [$item.p, $item.q]?'),  # noqa: E501
    ('input.rows.sort(r, [r.p, "q"])', 'sort uses the same key "q" for every element; did you mean r.q?'),
    ("input.rows.sort(1)", "sort uses the same key 1 for every element; did you mean $item?"),
    ('input.rows.group_by("kind")', 'group_by uses the same key "kind" for every element; did you mean $item.kind?'),
    ("input.rows.reduce(acc, r, 5, 0)", "reduce always gives 5, because its body ignores the elements"),
    ('input.rows.filter("p")', "the condition of filter must be true or false; this is a string"),
    ("input.rows.all(r, 1)", "the condition of all must be true or false; this is an integer"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), KEYS)
def test_a_body_that_is_the_same_for_every_element_is_a_problem_at_its_place(text: str, said: str) -> None:
    assert params(f"${{{text}}}") == [f"nodes[0].params.q: {said}"]


@pytest.mark.parametrize(
    "text", ["input.rows.map(1)", "input.rows.filter(true)", "input.rows.sort($item.p, 'desc')", "sort(input.rows)",
             "input.rows.sort(r, -r.p)", "input.rows.flat_map([1])", "input.rows.all(r, null)",
             "input.rows.group_by(input.kind)"]
)  # fmt: skip
def test_a_body_that_may_be_meant_is_none(text: str) -> None:
    assert params(f"${{{text}}}") == []


def test_a_transform_whose_key_is_a_text_is_told_at_the_transform() -> None:
    node = {
        "type": "transform",
        "tool": None,
        "input": "$input",
        "transform": {"type": "SORT", "config": {"by": '"p"'}},
    }
    assert told(node) == ['nodes[0].transform: sort uses the same key "p" for every element; did you mean $item.p?']
    assert told({**node, "transform": {"type": "SORT", "config": {"by": "p"}}}) == []
    assert told({**node, "input": "$output.none", "transform": {"type": "SORT", "config": {"by": "p"}}}) == [
        "nodes[0].input: reads 'none', which is not a node of this flow; no output is readable here"
    ]


def test_a_fallback_that_nothing_uses_is_a_warning() -> None:
    unused = "? nodes[0].fallback: is not used: the strategy here is {}; only errorStrategy: fallback uses it"
    assert told({"fallback": 5}) == [unused.format("stop")]
    assert told({"fallback": None}, errorStrategy="skip") == [unused.format("skip")]
    assert told({"fallback": 5}, errorStrategy="fallback") == []
    assert told({"fallback": 5, "errorStrategy": "fallback"}) == []
    jump = {"fallback": 5, "errorStrategy": "fallback", "onError": "n1"}
    assert told(jump, {}) == [
        "? nodes[0].fallback: is not used: onError handles the failure; only errorStrategy: fallback uses it"
    ]


def test_a_strategy_without_the_fallback_that_it_is_for_is_a_warning() -> None:
    alone = "without a fallback this acts like stop; add one (`fallback: null` gives null)"
    assert told({"errorStrategy": "fallback"}) == [f"? nodes[0].errorStrategy: {alone}"]
    none = "? errorStrategy: no node has a fallback, so this acts like stop"
    assert told({}, {}, errorStrategy="fallback") == [none]
    one = "? nodes[0]: has no fallback, so its failure stops the chain; add one (`fallback: null` gives null)"
    assert told({}, {"fallback": 1}, errorStrategy="fallback") == [one]


def test_a_delay_is_told_in_milliseconds() -> None:
    delay = {"type": "delay", "tool": None, "delay": "$input.ms"}
    text = {"type": "object", "properties": {"ms": {"type": "string"}}, "required": ["ms"]}
    assert told(delay, inputSchema=text) == ["nodes[0].delay: must be a number of milliseconds; this is a string"]


@pytest.mark.parametrize(
    ("text", "found", "meant"),
    [
        ("Hello $input.name", "$input.name", "${$input.name}"),
        ("Bearer $secret.KEY", "$secret.KEY", "${$secret.KEY}"),
        ("${$input.a} and $output.f.x[0].y!", "$output.f.x[0].y", "${$output.f.x[0].y}"),
        ("{{input.name}}", "{{input.name}}", "${$input.name}"),
        ("Dear {{ $var.name }}", "{{ $var.name }}", "${$var.name}"),
        ("{{name}}", "{{name}}", "${$input.name}"),
        ("a {{ city.name }}", "{{ city.name }}", "${$input.city.name}"),
    ],
)
def test_a_reference_in_a_longer_text_is_a_warning(text: str, found: str, meant: str) -> None:
    escaped = f"${{'{found}'}}"
    said = f"{found} is text here; if you mean text, write {escaped}; inside a longer text write {meant}"
    assert f"? nodes[0].params.rows[0].q: {said}" in told({"params": {"rows": [{"q": text}]}})
    assert not any(found in said for said in told({"params": {"rows": [{"q": text.replace(found, escaped)}]}}))


@pytest.mark.parametrize(
    "text", ["costs $5", "US$input.x", "$$input.name", "a $${input.name}", "{{ $json.x }}", "{{}}", "${input.a} $5",
             "mutation($input: X!) { create(input: $input) }", "${$input.a + $input.b}"]
)  # fmt: skip
def test_what_is_meant_as_text_is_none(text: str) -> None:
    assert params(text) == []


WRITTEN = [
    ("${1 // comment}", "the comment extends to the end of the line and hides the } of ${...}"),
    ("${1", "${ is not closed; for the text itself write $${"),
    ("${" + "1 + " * 2500 + "1}", "the expression in ${...} has more than 10,000 characters"),
    ("$input.name.", "a name is missing after the dot; did you mean $input.name?"),
    ("$input.n > 3", "a reference ends here; an expression belongs in ${...}; did you mean ${$input.n > 3}?"),
    ("$output.ñ-🚀", "unexpected '🚀' in a reference; put a name with such characters in quotes; "
                     'did you mean $output["ñ-🚀"]?'),
    ("$item", "$item exists only inside a loop over items, a map, a for_each or a pipeline"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRITTEN)
def test_a_text_that_cannot_be_read_is_told_how_it_is_written(text: str, said: str) -> None:
    assert params(text) == [f"nodes[0].params.q: {said}"]


def test_every_mistake_of_a_text_is_told() -> None:
    assert params("${upper($input.x, 2)} ${replace('a')} ${inptu.x}") == [
        "nodes[0].params.q: upper takes 1 argument, not 2",
        "nodes[0].params.q: replace takes 3 arguments, not 1",
        "nodes[0].params.q: unknown name 'inptu'; did you mean input?",
    ]


def test_an_id_with_dots_is_named_in_quotes() -> None:
    (said,) = told({"id": "a.b"}, {"params": {"q": "$output.a.b.c"}})
    assert said.endswith('did you mean $output["a.b"].c?')
    assert told({"id": "a.b"}, {"params": {"q": '$output["a.b"].c'}}) == []


def test_a_type_of_a_schema_that_there_is_not_is_told_with_those_there_are() -> None:
    none = '"objct" is not a JSON type; use string, number, integer, boolean, array, object, null; did you mean object?'
    assert told({}, inputSchema={"type": "objct"}) == [f"inputSchema.type: {none}"]
    one_of = {"properties": {"a": {"type": ["null", "objct"]}}}
    assert told({}, inputSchema=one_of) == [f"inputSchema.properties.a.type: {none}"]


def test_a_number_that_is_not_whole_is_told_as_it_is() -> None:
    assert told({"maxRetries": 1.5}) == ["nodes[0].maxRetries: must be an integer, not 1.5"]


def test_blocks_that_are_nested_too_deep_are_told_once_at_their_node() -> None:
    def nested(depth: int) -> dict[str, Any]:
        node: dict[str, Any] = {"id": "last", "type": "tool", "tool": "t"}
        for i in range(depth):
            node = {"id": f"p{i}", "type": "parallel", "tool": None, "nodes": [node]}
        return node

    assert told({}, nested(63)) == []
    assert told({}, nested(64)) == ["nodes[1]: nested deeper than 64 lists of nodes"]
