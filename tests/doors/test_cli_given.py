"""Values on a command line: what is JSON, what is text, and what is neither."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.doors.cli.arguments import read_input, read_pairs
from ropewalk.doors.cli.dispatch import UsageError

PAST = [
    ("12345678901234567890123", 1, "integer past 64 bits"),
    ("1e999", 1, "inf is not JSON (its numbers end at 1.8e308)"),
    ('{"a":1,"a":2}', 8, "repeated key 'a'"),
    ('"a\\u0000b"', 1, "string with a NUL character"),
    ('"\\ud800"', 1, "string with a lone surrogate"),
    ('{"n": [1, 12345678901234567890123]}', 11, "integer past 64 bits"),
    ("[" * 201 + "]" * 201, 201, "nested deeper than 200"),
]


@pytest.mark.parametrize(("value", "column", "said"), PAST)
@pytest.mark.parametrize("option", ["--var", "argument"])
def test_json_past_the_limits_is_an_error_with_its_place(value: str, column: int, said: str, option: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pairs([f"x={value}"], option)
    (problem,) = caught.value.problems
    assert problem.place is not None
    assert (problem.place.file, problem.place.line, problem.place.column) == (f"{option} x", 1, column)
    assert said in problem.message
    assert str(caught.value).startswith(f"{option} x cannot be used")


@pytest.mark.parametrize(("value", "column", "said"), PAST)
def test_of_an_input_too_and_it_is_not_called_no_json(value: str, column: int, said: str) -> None:
    with pytest.raises(UsageError, match=r"^--input cannot be used") as caught:
        read_input(value)
    assert said in caught.value.problems[0].message


@pytest.mark.parametrize("text", ["hello", "it's", "", "[1,", "{a: 1}", "NaN", "-Infinity", "1 2", "007"])
def test_what_is_no_json_is_text(text: str) -> None:
    assert read_pairs([f"x={text}"]) == {"x": text}


def test_what_is_json_is_that() -> None:
    assert read_pairs(["a=5", "b= true", 'c={"d": [null]}', 'e="5"']) == {
        "a": 5, "b": True, "c": {"d": [None]}, "e": "5",
    }  # fmt: skip
    for text in ("hello", ""):
        with pytest.raises(UsageError, match=r"^--input is not JSON"):
            read_input(text)


def test_the_command_says_the_place(project: Any) -> None:
    done = project("run", "shout.yaml", "--var", "suffix=12345678901234567890123", "--input", '{"text": "a"}')
    assert done.code == 2
    assert done.err.splitlines()[:2] == [
        "error: --var suffix cannot be used; text needs quotes: suffix='\"...\"'",
        "--var suffix:1:1: integer past 64 bits; send it as a string",
    ]
    done = project("tools", "call", "add", 'a={"a": 1, "a": 2}')
    assert (done.code, "argument a:1:10: repeated key 'a'" in done.err) == (2, True)
