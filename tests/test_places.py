"""Where a problem is, whatever the keys on the way to it are called."""

from __future__ import annotations

import pytest

from ropewalk.errors import InvalidFlow, Problem
from ropewalk.notations import node_fields as node_fields  # which knows other words of keys
from ropewalk.source.document import with_places
from ropewalk.source.load import load

TEXT = "a:\n  b c:\n    d: 1\n  $x: 1\n  it's: 1\n  \\: 1\n"


@pytest.mark.parametrize(
    ("path", "line"),
    [("a['b c'].d", 3), ('a["b c"].d', 3), ("a['$x']", 4), ('a["it\'s"]', 5), ("a['\\\\']", 6), ("a['none']", 1)],
)
def test_a_key_in_quotes_of_either_kind_is_found(path: str, line: int) -> None:
    assert load(TEXT, name="c.yaml").locate(path).line == line


@pytest.mark.parametrize(
    ("path", "line"),
    [("nodes[0].maxRetries", 2), ("nodes[0].onError.value", 4), ("nodes[0].condition", 5), ("nodes[0].fallback", 2)],
)
def test_a_key_is_found_in_another_spelling(path: str, line: int) -> None:
    text = "nodes:\n  - max_retries: 1\n    on_error:\n      value: 1\n    when: true\n"
    assert load(text, name="c.yaml").locate(path).line == line


ALIASED = """\
query: &q
  "find ${input.x}"
call: &c
  params: {n: &n 1, typ: 2}
&k nodes:
  - params: {q: *q}
  - *c
  - [*c, *n, *k]
"""


@pytest.mark.parametrize(
    ("problem", "line", "at", "alias"),
    [
        (Problem(path="nodes[0].params.q", message="bad", column=6), 2, "${input.x}", "*q at 6:17"),
        (Problem(path="nodes[0].params.q", message="bad"), 2, '"find', "*q at 6:17"),
        (Problem(path="nodes[1].params.typ", message="unknown key", suggestion="type"), 4, "typ: 2", "*c at 7:5"),
        (Problem(path="nodes[1].tool", message="required"), 3, "call: &c", "*c at 7:5"),
        (Problem(path="nodes[2][0].params.n", message="bad"), 4, "1, typ", "*c at 8:6"),
        (Problem(path="nodes[2][1]", message="bad"), 4, "1, typ", "*n at 8:10"),
        (Problem(path="nodes[0].params.q", message="unknown key"), 6, "q: *q", None),
        (Problem(path="call.params.n", message="bad"), 4, "1, typ", None),
        (Problem(path="nodes[2][2]", message="bad"), 5, "nodes", "*k at 8:14"),
    ],
)
def test_a_fault_behind_an_alias_is_told_where_it_is_written_with_the_place_of_the_alias(
    problem: Problem, line: int, at: str, alias: str | None
) -> None:
    (told,) = with_places([problem], load(ALIASED, name="c.yaml"))
    assert told.place is not None
    assert (told.place.line, told.place.text[told.place.column - 1 :][: len(at)]) == (line, at)
    assert told.message == problem.message + (f" (through the alias {alias})" if alias else "")


def test_a_number_out_of_range_behind_an_alias_is_told_where_it_is_written() -> None:
    with pytest.raises(InvalidFlow) as caught:
        load("a: &a\n  - 18446744073709551617\nb: *a\n")
    (told,) = caught.value.problems
    assert told.place is not None
    assert (told.place.line, told.place.column) == (2, 5)
