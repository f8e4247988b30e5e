"""What operations cost: each of them is measured by bench/cost.py, and none grows with the square of its input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ropewalk.expr.calls import FUNCTIONS
from ropewalk.expr.closures import SPECIAL
from ropewalk.expr.macros import MACROS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from cost import BOUNDED, seconds  # noqa: E402
from cost_operations import DOCUMENTS, EXPRESSIONS, OPERATIONS  # noqa: E402

N = 1_000
GENEROUS = 11.0  # times as long for four times the input: the square is 16, a busy machine makes 4 to 8


@pytest.fixture(autouse=True, scope="module")
def _bench_off_the_path() -> Iterator[None]:
    yield
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
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    for name, bound in BOUNDED.items():
        assert name in text, name
        assert bound in text, name


@pytest.mark.parametrize("name", OPERATIONS)
def test_four_times_the_input_takes_about_four_times_as_long(name: str) -> None:
    make = OPERATIONS[name]
    small, large = seconds(make(N), rounds=1), seconds(make(4 * N), rounds=1)
    if large > GENEROUS * small + 0.1 and name not in BOUNDED:  # once more, as the machine has others to serve
        small, large = seconds(make(N)), seconds(make(4 * N))
    assert large <= GENEROUS * small + 0.1 or name in BOUNDED
