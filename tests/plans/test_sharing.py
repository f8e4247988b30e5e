"""Changes of values that several names may hold: how much work the check of a long program is."""

from __future__ import annotations

import ast

import pytest

from counting import count_calls
from ropewalk.notations.plan.aliases import problems_of_sharing
from ropewalk.notations.plan.program import Program

PAIRS = "u{0} = [1]\nv{0} = [u{0}]\nu{0}.append({0})\n"
LOOPS = "u{0} = [1]\nv{0} = [u{0}]\nfor x{0} in range(3):\n    u{0}.append(x{0})\n"


def work(code: str) -> int:
    """Return how many Python calls the check of the changes makes."""
    program = Program(code, ast.parse(code), {}, [], False)
    assert list(problems_of_sharing(program)) == []
    return count_calls(lambda: list(problems_of_sharing(program)))


@pytest.mark.parametrize("text", [PAIRS, LOOPS])
def test_a_program_of_twice_the_length_takes_twice_the_work(text: str) -> None:
    short, long = ("".join(text.format(number) for number in range(count)) for count in (40, 160))
    assert work(long) < 6 * work(short)
