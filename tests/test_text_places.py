"""A problem in the middle of a text is told at the character it is about, however the text is written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import App, ExpressionError
from ropewalk.doors.errors import problems_of
from ropewalk.errors import InvalidFlow, Problem
from ropewalk.expr import parse
from ropewalk.source.document import render_problem
from ropewalk.source.load import load
from tiers import examples

HEAD = "kind: chain\nname: c\nnodes:\n  - id: c\n    type: tool\n    tool: echo\n"
HERE = "←"
"""In the documents below: the next character is the one that the problem is about."""


def problems(folder: Path, document: str, name: str) -> list[Problem]:
    file = folder / name
    file.write_bytes(document.encode())
    app = App()
    try:
        return list(app.check(app.load(file)).problems)
    except InvalidFlow as wrong:
        return list(wrong.problems)


def is_told(folder: Path, marked: str, says: str, name: str = "c.yaml") -> None:
    """What is told about each marked character, in their order, `says` this."""
    before = [part.replace("\r\n", "\n").replace("\r", "\n") for part in marked.split(HERE)[:-1]]
    text = marked.replace(HERE, "")
    reached = itertools.accumulate(before)
    expected = [(one.count("\n") + 1, len(one) - one.rfind("\n")) for one in reached]
    found = [one for one in problems(folder, text, name) if says in one.message]
    assert all(one.place is not None for one in found)
    places = [(one.place.line, one.place.column) for one in found if one.place is not None]
    assert sorted(places) == expected
    for one in found:
        assert one.place is not None
        assert one.place.column <= len(one.place.text) + 1, "the caret stands beyond its line"
        assert render_problem(one).splitlines()[1].strip() == one.place.text.strip()


CONDITIONS = [
    # Blocks.
    ("|-\n      $input.x >\n      $prev.y + ←)\n", "unexpected ')'"),
    ("|\n      1 +\n      2 +\n      ←nope(3)\n", "unknown function"),
    (">\n      1 +\n      2 +\n      ←nope(3)\n", "unknown function"),
    ("|\n      1 +\n      2 +←\n", "ends too early"),
    ("|\n      1 +\n      2 +←\n\n\n", "ends too early"),
    (">\n      1 +\n      2 +←\n", "ends too early"),
    (">+\n      1 +\n      2 +  ←\n\n", "ends too early"),
    ("|2-   # as it is\n        1 +\n         2 +\n\n      ←nope(3)\n", "unknown function"),
    (">1+ # > folded +\n        1 +\n         2 +\n\n      ←nope(3)\n", "unknown function"),
    ("&a |\n      1 +\n      ←nope(3)\n", "unknown function"),
    # Plain texts and quotes.
    ("1 +\n      2 +\n      ←nope(3)\n", "unknown function"),
    ("1 +\n\n      2 +←\n", "ends too early"),
    ("&name 1 + ←nope(3)\n", "unknown function"),
    ("&name # of it\n      1 +\n      ←nope(3)\n", "unknown function"),
    ('&name "1 + ←nope(3)"\n', "unknown function"),
    ('"1 +\n      2 + ←nope(3)"\n', "unknown function"),
    ('"1 +\\n 2 +\\n\\\n     \\ ←nope(3)"\n', "unknown function"),
    ('"1 +\\n 2 +\\n ←"\n', "ends too early"),
    ('"1 +\\x20\\u0020\\t\\_\\N ←nope(3)"\n', "unknown function"),
    ('"\\x31\\u0020\\U0000002B\\u00a0←nope(3)"\n', "unknown function"),
    ('"1 +\\\n      2 + ←nope(3)"\n', "unknown function"),
    ("'''a'' +\n\n      ←nope(3)'\n", "unknown function"),
    ("'\"it''s\" +\n      ←nope(3)'\n", "unknown function"),
    # Wide characters, and those of two words.
    ("'\"漢字é𝒳😀\" + ←nope(3)'\n", "unknown function"),
    ('|\n      "漢字é𝒳😀" +\n      "😀" + ←nope(3)\n', "unknown function"),
    ("\"'\\U0001F600漢' +\\n\\u2028 ←nope(3)\"\n", "unknown function"),
]


@pytest.mark.parametrize("breaks", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize(("condition", "says"), CONDITIONS)
def test_a_fault_in_a_condition_is_told_where_it_stands(tmp_path, condition, says, breaks):
    marked = f"{HEAD}    condition: {condition}".replace("\n", breaks)
    is_told(tmp_path, marked, says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"${ 1 +\n 2 + ←nope(3) }"\n', "unknown function"),
        ('"a ${ ←nope(1) } b\n   ${ 1 +\\n ←nope(2) } ${$input.x} ${\\u0020←nope(3) }"\n', "unknown function"),
        ("|\n        ${ 1 +\n        ←nope(1) }\n\n         ${ ←nope(2) }\n", "unknown function"),
        (">-\n        ${ 1 +\n        2 + ←}\n        and\n        ${ 3\n         * ←}\n", "ends too early"),
        ("|\n        text\n        ←${ 1 +\n        2\n", "${ is not closed"),
        ("|\n        text\n        ${ 1 +\n        ←$inptu.x } ${ ←$inptu.y }\n", "unknown reference"),
        ("|\n        text ${ 1 - ←upper('x') }\n        ${ 'a' +\n        ←lower('b') * 2 }\n", "needs numbers"),
    ],
)
def test_a_fault_in_a_template_is_told_where_it_stands(tmp_path, text, says):
    is_told(tmp_path, f"{HEAD}    params:\n      q: {text}", says)


@pytest.mark.parametrize(
    "condition",
    [
        "1 +\\n 2 +\\r\\n ←nope(3)",
        "1\\u0020+\\u000a\\u00a0←nope(3)",
        "'\\ud83d\\ude00\\u6f22\\\\n\\/' +\\n ←nope(3)",
        "'😀漢' +\\t\\n ←nope(3)",
    ],
)
def test_a_fault_in_a_text_of_json_is_told_where_it_stands(tmp_path, condition):
    head = '{"kind": "chain", "name": "c",\n "nodes": [{"id": "c", "type": "tool", "tool": "echo",\n  '
    is_told(tmp_path, f'{head}"condition": "{condition}"}}]}}\n', "unknown function", "c.json")


COMPOSITION = "kind: composition\nname: c\nnodes:\n  - id: a\n    type: conditional\n    then: []\n"
COMPOSITE = "kind: composite\nname: c\nsteps:\n  - tool: echo\n"


@pytest.mark.parametrize("head", [COMPOSITION, COMPOSITE])
def test_other_notations_tell_the_same_place(tmp_path, head):
    is_told(tmp_path, f"{head}    condition: |\n      1 +\n      ←nope(3)\n", "unknown function")


@pytest.mark.parametrize("breaks", ["\n", "\r\n"])
def test_an_expression_alone_is_told_with_the_line_of_the_fault(breaks):
    with pytest.raises(ExpressionError) as caught:
        parse(f"1 +{breaks}\t'\u2028' + nope(3){breaks}")
    (problem,) = problems_of(caught.value)
    assert problem.place is not None
    assert (caught.value.at, caught.value.line, caught.value.column) == (3 + len(breaks) + 7, 2, 8)
    assert (problem.place.line, problem.place.column, problem.place.text) == (2, 8, "\t'\u2028' + nope(3)")


@examples(300)
@given(
    st.lists(st.text("ab漢😀\xa0\u2028\"'\\", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=5),
    st.sampled_from(["|", "|-", "|+", '"']),
    st.sampled_from(["\n", "\r\n"]),
    st.data(),
)
def test_every_visible_character_is_found_again(lines, style, breaks, data):
    value = "\n".join(line.strip() for line in lines)
    written = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    if style != '"':
        written = f"{style}{breaks}{indent(value, '  ')}{breaks}".replace("\r\n", "\n").replace("\n", breaks)
    json_text = style == '"'
    document = load(f'{{"q": {written}}}' if json_text else f"q: {written}", name="q.json" if json_text else "q.yaml")
    text = document.data["q"]  # type: ignore[index, call-overload]
    at = data.draw(st.sampled_from([i for i, char in enumerate(text) if not char.isspace()]))
    place = document.locate("q", at + 1)
    rest = place.text[place.column - 1 :]
    assert rest.startswith((text[at], json.dumps(text[at])[1:-1]))
    if not json_text:
        assert place.line == text.count("\n", 0, at) + 2
