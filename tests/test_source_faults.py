"""What cannot be read is told whole, each fault at its place."""

from __future__ import annotations

import pytest

from ropewalk.errors import InvalidFlow
from ropewalk.source import load


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
    assert "needs quotes around it: there brackets mean lists" in problem.message
    assert (problem.place.column, problem.suggestion) == (column, meant)
