"""How much one evaluation may do: steps of macros, and bytes of text and lists it builds.

Refused: going on past the budget, and catching the error inside an expression (`||` and the like
absorb other errors, as in CEL, never this one).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from ..errors import ExpressionError
from ..values import MAX_BYTES, MAX_DEPTH, Json

MAX_STEPS: Final = 1_000_000

MAX_SECONDS: Final = 10.0
"""How long one evaluation may take by the clock, where its steps are larger than most."""

SLICE_SECONDS: Final = 0.05
"""How long an evaluation may keep an event loop that can wait for it elsewhere."""

_LOOK: Final = 1 << 14  # steps from one look at the clock to the next: some milliseconds

ERROR: Final = 8
"""How many steps an error costs that a macro or an operator absorbs: making its message takes as long."""
LONG_TEXT: Final = 12
"""Of a text that is compared with others, 2 to the power of this many characters are a step."""

LIST_ELEMENT: Final = 16
"""What one more element of a list counts for, in bytes."""

OBJECT_FIELD: Final = 64
"""What one more field of an object counts for, in bytes: the table of a dict is at least a third empty."""


class OverBudget(ExpressionError):
    """The evaluation did more than one evaluation may."""


class Slow(OverBudget):
    """The evaluation takes longer than the event loop waits: it is to be done in a thread."""


_here = threading.local()


@contextlib.contextmanager
def in_slices() -> Iterator[None]:
    """Have evaluations of this thread raise Slow, in the block, as soon as they take longer than a slice."""
    _here.sliced = True
    try:
        yield
    finally:
        _here.sliced = False


class Budget:
    """What is left for one evaluation; made per evaluation, never shared between two."""

    __slots__ = ("_began", "_next", "patterns", "room", "steps")

    def __init__(self) -> None:
        self.steps, self.room = MAX_STEPS, MAX_BYTES
        self.patterns: set[str] | None = None
        self._next, self._began = MAX_STEPS - _LOOK, 0.0

    def spend(self, steps: int) -> None:
        """Take `steps` off; raises OverBudget when nothing is left, or no time."""
        self.steps -= steps
        if self.steps < self._next:
            self._look()

    def _look(self) -> None:
        if self.steps < 0:
            raise OverBudget(f"the expression takes more than {MAX_STEPS:,} steps")
        self._next = self.steps - _LOOK
        now = time.monotonic()
        if not self._began:  # few evaluations come this far, so the others need no clock
            self._began = now
        elif now - self._began > MAX_SECONDS:
            raise OverBudget(f"the expression takes longer than {MAX_SECONDS:g} seconds")
        elif now - self._began > SLICE_SECONDS and getattr(_here, "sliced", False):
            raise Slow("the expression takes long")


def toil(budget: Budget | None, steps: int) -> None:
    """Pay for work that is more than its arguments are long; without a budget the limit is that of one evaluation.
    Raises OverBudget."""
    (budget or Budget()).spend(steps)


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


def weigh(value: Json, budget: Budget | None = None) -> int:
    """About how many bytes `value` has as JSON, in time linear in its distinct containers, which
    cost steps.

    A value built by reference may hold one list many times over: a few objects in memory and
    terabytes when written. Raises OverBudget past 100 MB or deeper than a value may be.
    """
    return _weigh(value, MAX_DEPTH, {}, budget) if type(value) is list or type(value) is dict else _leaf(value)


def _leaf(value: Json) -> int:
    return len(value) + 3 if type(value) is str else 8


def _weigh(value: Json, depth: int, seen: dict[int, int], budget: Budget | None) -> int:
    known = seen.get(id(value))
    if known is not None:
        return known
    if not depth:
        raise OverBudget(f"the expression builds a value nested deeper than {MAX_DEPTH}")
    if budget is not None:
        budget.spend(len(value) >> 2)
    total = 2 + 8 * len(value)
    inside = value
    if type(value) is dict:
        total += sum(map(len, value))
        inside = value.values()
    for item in inside:
        kind = type(item)
        if kind is str:
            total += len(item)
        elif kind is list or kind is dict:
            total += _weigh(item, depth - 1, seen, budget)
    if total > MAX_BYTES:
        raise OverBudget(f"the expression builds more than {MAX_BYTES:,} bytes")
    seen[id(value)] = total
    return total
