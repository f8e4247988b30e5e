"""What operations cost: each of them is measured by bench/cost.py, and none grows with the square of its input."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.errors import InvalidFlow
from ropewalk.expr.closures import SPECIAL
from ropewalk.expr.function_registry import FUNCTIONS
from ropewalk.expr.functions import MACROS
from tiers import Scale, sampled

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from cost import BOUNDED, FACTOR, calls  # noqa: E402
from cost_operations import DOCUMENTS, EXPRESSIONS, OPERATIONS, app  # noqa: E402

COUNTED = [name for name in OPERATIONS if not name.endswith("(yaml)")]
"""What runs in Python. Calls are counted, since no load of the machine changes their number."""
GROWING = {"convert chain of conditions to experience": 9.0, "check values": 7.0}
"""Operations with a higher limit: a result that grows faster than its input, up to a limit on the length of its
expressions, and a check that is cheap at 2,000 values."""

LIMITED = {
    "check wrong: outputs (json)",
    "check wrong: dependencies (json)",
    "check wrong: edges of an experience (json)",
    "check wrong: fields of an experience (json)",
    "check chain of unknown variables (json)",
    "check experience of unknown phases (json)",
    "convert experience of values to composite",
    "convert chain of conditions to experience",
    "convert composition of conditions to experience",
}
"""Operations that grow faster up to a limit of their own, which only large inputs reach."""


SLOW = {
    "check experience of agents (json)",
    "convert experience of values to composite",
    "convert chain of conditions to experience",
}
MATRIX = [name for name in COUNTED if name.startswith(("convert", "plan", "draw", "write"))]
"""Each use of each definition, most of which have much in common."""
CASES = [
    *sampled("cost", [name for name in MATRIX if name not in SLOW], 30),
    *(name for name in COUNTED if name not in SLOW and name not in MATRIX),
    *(pytest.param(name, marks=pytest.mark.campaign("cost", only=True)) for name in sorted(SLOW)),
]


@pytest.fixture(autouse=True, scope="module")
def _bench_off_the_path() -> Iterator[None]:
    yield
    with contextlib.suppress(ValueError):  # a worker may come back to this module
        sys.path.remove(str(ROOT / "bench"))


def test_every_function_macro_and_operator_is_measured() -> None:
    wanted = {*FUNCTIONS, *(f"macro {name}" for name in MACROS), *SPECIAL}
    assert wanted - set(EXPRESSIONS) == set()
    for name in FUNCTIONS:
        assert name == "${}" or re.search(rf"\b{name}\(", EXPRESSIONS[name]), name
    for kind in ("chain", "composition", "composite", "experience", "agent"):
        assert kind in DOCUMENTS
        assert any(name.startswith("wrong: ") for name in DOCUMENTS)


def test_operations_that_grow_faster_are_listed_with_their_bound() -> None:
    assert set(BOUNDED) <= set(OPERATIONS)
    text = (ROOT / "docs" / "security-limits-reference.md").read_text("utf-8")
    for name, bound in BOUNDED.items():
        assert name in text, name
        assert bound in text, name


def test_right_documents_are_right_and_wrong_ones_wrong() -> None:
    """A document that is refused at its first line would be checked quickly at any size."""
    elsewhere = (
        "experience",
        "experience of agents",
        "agent",
        "wrong: experience",
    )  # files and models that are not here
    for name, make in DOCUMENTS.items():
        if name in elsewhere:
            continue
        fresh = app()
        try:
            problems = fresh.check(fresh.load(make(6)), unknown_tools="problem").problems
        except InvalidFlow as error:
            problems = tuple(error.problems)
        assert bool(problems) == name.startswith("wrong: "), (name, problems)


@pytest.mark.campaign("cost")
@pytest.mark.parametrize("name", CASES)
def test_four_times_the_input_makes_at_most_six_times_the_calls(name: str, scale: Scale) -> None:
    make, count = OPERATIONS[name], 1_000 if name in LIMITED else scale(250, 1_000)
    n = 2 * count if name.startswith("check") else count  # the number of problems is limited
    make(n // 8)()  # imports what it needs
    small, large = calls(make(n)), calls(make(4 * n))
    assert large <= GROWING.get(name, FACTOR) * small + 1_000
