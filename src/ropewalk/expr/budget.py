"""How much one evaluation may do: steps of macros, and bytes of text and lists it builds.

Refused: going on past the budget, and catching the error inside an expression (`||` and the like
absorb other errors, as in CEL, never this one).
"""

from __future__ import annotations

from typing import Final

from ..errors import ExpressionError
from ..values import MAX_BYTES, MAX_DEPTH, Json

MAX_STEPS: Final = 1_000_000


class OverBudget(ExpressionError):
    """The evaluation did more than one evaluation may."""


class Budget:
    """What is left for one evaluation; made per evaluation, never shared between two."""

    __slots__ = ("room", "steps")

    def __init__(self) -> None:
        self.steps, self.room = MAX_STEPS, MAX_BYTES

    def spend(self, steps: int) -> None:
        """Take `steps` off; raises OverBudget when nothing is left."""
        self.steps -= steps
        if self.steps < 0:
            raise OverBudget(f"the expression takes more than {MAX_STEPS:,} steps")


def grow(budget: Budget | None, size: int) -> None:
    """Ask for room for `size` bytes before building them; without a budget the limit is the
    value's own. Raises OverBudget past 100 MB."""
    if budget is None:
        if size > MAX_BYTES:
            raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")
        return
    budget.room -= size
    if budget.room < 0:
        raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")


def weigh(value: Json) -> int:
    """About how many bytes `value` has as JSON, in time linear in its distinct containers.

    A value built by reference may hold one list many times over: a few objects in memory and
    terabytes when written. Raises OverBudget past 100 MB or deeper than a value may be.
    """
    return _weigh(value, MAX_DEPTH, {})


def _weigh(value: Json, depth: int, seen: dict[int, int]) -> int:
    kind = type(value)
    if kind is str:
        return len(value) + 3
    if kind is not list and kind is not dict:
        return 8
    known = seen.get(id(value))
    if known is not None:
        return known
    if not depth:
        raise OverBudget(f"the expression builds a value nested deeper than {MAX_DEPTH}")
    total = 2
    if kind is dict:
        for key, item in value.items():
            total += len(key) + 4 + _weigh(item, depth - 1, seen)
    else:
        for item in value:
            total += _weigh(item, depth - 1, seen)
    if total > MAX_BYTES:
        raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")
    seen[id(value)] = total
    return total
