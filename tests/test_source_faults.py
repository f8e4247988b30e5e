"""What cannot be read is told whole, each fault at its place."""

from __future__ import annotations

import pytest

from ropewalk.errors import InvalidFlow
from ropewalk.source.load import load


@pytest.mark.parametrize(
    ("text", "name"),
    [("{x: .nan, y: [12345678901234567890], z: .inf}", "a.yaml"),
     ('{"x": NaN, "y": [12345678901234567890], "z": Infinity}', "a.json")],
)  # fmt: skip
def test_every_number_that_is_no_json_is_told_at_its_place(text: str, name: str) -> None:
    with pytest.raises(InvalidFlow) as refused:
        load(text, name=name, form=name[2:])
    assert [(one.path, one.place.column - 1) for one in refused.value.problems] == [
        ("x", text.index("NaN" if "NaN" in text else ".nan")),
        ("y[0]", text.index("123")),
        ("z", text.index("Inf" if "Inf" in text else ".inf")),
    ]


@pytest.mark.parametrize(
    ("text", "column", "meant"),
    [
        ("a: {url: $input.rows[0].url}", 10, '"$input.rows[0].url"'),
        ("a: [1, $output.a-b[0], 2]", 8, '"$output.a-b[0]"'),
        ('a: {url: $output["a.b"]}', 10, None),
    ],
)
def test_brackets_of_a_reference_in_braces_are_told_to_need_quotes(text: str, column: int, meant: str | None) -> None:
    with pytest.raises(InvalidFlow) as refused:
        load(text, form="yaml")
    [problem] = refused.value.problems
    assert "must be quoted, because [ ] starts a list there" in problem.message
    assert (problem.place.column, problem.suggestion) == (column, meant)


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("}", "after the end of the document"),
        ("]]]", "after the end of the document"),
        (', {"\\x": 1}]', "after the end of the document"),
        (' "' + '\\"' * 10_000, "after the end of the document"),
    ],
    ids=["brace", "brackets", "escape", "quotes"],
)
def test_json_with_a_repeated_key_that_ends_wrong_is_refused_by_its_syntax(rest, says):
    """Places were looked for in what is no JSON: an IndexError, a JSONDecodeError, or minutes for many quotes."""
    with pytest.raises(InvalidFlow, match=says):
        load('{"a": 1, "a": 2}' + rest, form="json")


def test_json_with_a_repeated_key_before_a_text_without_an_end_is_refused_at_once():
    """From each of its quotes the rest was looked through: 6 s for 16,000 of them."""
    with pytest.raises(InvalidFlow, match="never closed"):
        load('[{"a": 1, "a": 2}, "' + '\\"' * 20_000, form="json")


def test_json_with_a_repeated_key_before_what_is_too_deep_is_refused():
    with pytest.raises(InvalidFlow, match="repeated key 'a'"):
        load('[{"a": 1, "a": 2}, ' + "[" * 100_000 + "]" * 100_000 + "]", form="json")
