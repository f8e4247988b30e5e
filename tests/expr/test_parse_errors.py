"""What cannot be read is refused with line, column and a suggestion."""

from __future__ import annotations

import pytest

from ropewalk.errors import ExpressionError
from ropewalk.expr import Ref, parse


@pytest.mark.parametrize(
    ("text", "message", "line", "column", "suggestion"),
    [
        ("", "ends too early", 1, 1, None),
        ("1 +", "ends too early", 1, 4, None),
        ("1 2", "unexpected '2' after the end", 1, 3, None),
        ("input.x == 3 extra", "unexpected 'extra' after the end", 1, 14, None),
        ("(1", "expected ')'", 1, 3, None),
        ("1)", "')' closes nothing", 1, 2, None),
        ("[1, 2", "expected ']'", 1, 6, None),
        ("input.x = 3", "unexpected '='", 1, 9, "=="),
        ("input.x & true", "unexpected '&'", 1, 9, "&&"),
        ("input.x | true", "unexpected '|'", 1, 9, "||"),
        ("2 ^ 3", "unexpected '^'", 1, 3, None),
        ("2 ** 3", "unexpected '*'", 1, 4, None),
        ("inptu.x", "unknown name 'inptu'", 1, 1, "input"),
        ("$inptu.x", "unknown reference $inptu", 1, 1, "$input"),
        ("lenght(input)", "unknown function 'lenght'", 1, 1, "length"),
        ("input.x.lenght()", "unknown function 'lenght'", 1, 9, "length"),
        ("[1].filtr(e, e)", "unknown function 'filtr'", 1, 5, "filter"),
        ("length()", "length takes 1 argument, not 0", 1, 1, None),
        ("length(1, 2)", "length takes 1 argument, not 2", 1, 1, None),
        ("'a'.split(',', 1, 2)", "split takes 1 to 2 arguments, not 4", 1, 5, None),
        ("[1].map(1, 2)", "map needs a plain name here", 1, 9, None),
        ("[1].map(e.x, 2)", "expected ',' after the name", 1, 10, None),
        ("[1].map()", "map is written list.map(e, ...), not with 0 arguments", 1, 5, None),
        ("reduce([1, 2], a, x, a + x)", "reduce is written list.reduce(acc, e, acc + e, 0), not with 3", 1, 1, None),
        ("[1].reduce(e, e, e, 0)", "binds one name twice", 1, 12, None),
        ("true &&\n  inptu.x", "unknown name", 2, 3, "input"),
        ("1 +\n\n  'abc", "not closed on its line", 3, 3, None),
        ("'a\\qb'", "unknown escape", 1, 3, "\\\\q"),
        ("'\\u0000'", "NUL", 1, 1, None),
        ("'\\ud800'", "half of a surrogate pair", 1, 1, None),
        ("'\\U00110000'", "past the last code point", 1, 2, None),
        ("9223372036854775808", "past 64 bits", 1, 1, None),
        ("1e999", "too large", 1, 1, None),
        ("1u", "after a number", 1, 2, "1"),
        ("{a: 1}", "a key of an object is a string in quotes", 1, 2, '"a"'),
        ('{"a": 1, "a": 2}', "is defined twice", 1, 10, None),
        ("input.rows[-1]", "0 or more", 1, 12, None),
        ("$input.rows[-1]", "0 or more", 1, 12, None),
        ("$input.rows[*]", "JSONPath works on $state only", 1, 12, None),
        ("input[true]", "an index is a position or a key", 1, 7, None),
        ("input.", "a name belongs after '.'", 1, 7, None),
        ("x ? 1", "unknown name 'x'", 1, 1, None),
        ("true ? 1", "expected ':'", 1, 9, None),
        ("matches('a', '(')", "bad pattern", 1, 1, None),
        ("query(input, '$[')", "not a JSONPath", 1, 1, None),
        ("custom('nope', input)", "no transform 'nope' is registered", 1, 1, None),
        ("'nope'.custom(input)", "no transform 'nope' is registered", 1, 8, None),
        ("custom(1, input)", "no transform 1 is registered", 1, 1, None),
        ("[1].sort($item, 'down')", 'the order of a sort is "asc" or "desc"', 1, 5, None),
        ("[1].sort(e, e, 'dsc')", 'the order of a sort is "asc" or "desc"', 1, 5, "desc"),
        ("sort([1], e, e, 1)", 'the order of a sort is "asc" or "desc"', 1, 1, None),
        ("$5", "needs a name", 1, 1, "$input"),
        ("in", "unexpected 'in'", 1, 1, None),
    ],
)
def test_refused_with_its_place(text, message, line, column, suggestion):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column, error.suggestion) == (line, column, suggestion)
    assert error.text == text


def test_a_reference_knows_its_column():
    (left, right) = parse("$input.x == prev.y").args
    assert (left.column, right.column) == (1, 13)


def test_parsing_is_cached():
    assert parse("$input.a + 1") is parse("$input.a + 1")


def test_surface_roots_stay_as_written():
    assert parse("$steps[0].output.x") == Ref("steps", (0, "output", "x"))
    assert parse("$.x") == Ref("state", ("x",))
    assert parse("$secret.NAME") == Ref("secret", ("NAME",))
    assert parse("prev") == Ref("prev")
