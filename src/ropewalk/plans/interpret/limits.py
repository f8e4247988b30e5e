"""The limits of a program: steps, bytes and depth. They depend on the program only, and it cannot catch them.

Each delivery starts the count of steps and bytes again, so that a replay meets the same limits at the same places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from ...expr.operators import Budget, OverBudget
from ...values import MAX_DEPTH

MAX_FRAMES: Final = 600
"""How deep awaited and recursive functions may call each other."""
MAX_ITERATORS: Final = 1_000
"""How many unfinished iterators over iterators a program may hold."""
_NESTED: Final = (list, tuple, dict, set, frozenset, deque)


class StepBudget(Budget):
    """Steps and bytes without a clock, so that the same program stops at the same step everywhere."""

    __slots__ = ()

    def spend(self, steps: int) -> None:
        """Charge steps."""
        # Raises OverBudget if none are left.
        self.steps -= steps
        if self.steps < 0:
            raise OverBudget("the program computes for too many steps between two calls; compute less, or in a tool")

    def check_clock(self) -> None:
        """Do nothing: steps decide."""


def measure(budget: Budget, value: Any) -> int:
    """Return the number of parts that a walk through a value meets; a shared part counts once per place."""
    if type(value) not in _CONTAINERS and not isinstance(value, _NESTED):
        return 1
    size = _measure(value, {}, MAX_DEPTH, budget.steps)
    budget.spend(size >> 3)
    return size


_CONTAINERS: Final = frozenset(_NESTED)


def _measure(value: Any, known: dict[int, int], depth: int, most: int) -> int:
    size = known.get(id(value))
    if size is not None:
        return size
    if depth <= 0:
        raise OverBudget(f"a value is nested more than {MAX_DEPTH} deep; keep it flatter")
    size = 1 + len(value)
    items: Iterable[Any] = value
    if isinstance(value, dict):
        items = value.values()
    for item in items:
        if isinstance(item, _NESTED):
            size += _measure(item, known, depth - 1, most)
            if size > most:
                raise OverBudget("a value that contains itself, or the same part too often, is too large to walk")
    known[id(value)] = size
    return size


def check_depth(value: tuple[Any, ...]) -> None:
    """Raise OverBudget if tuples are nested too deeply for their hash; called when a tuple is built."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [item for part in level for item in part if type(item) is tuple]
        if not level:
            return
        if len(level) > 10_000:
            level = level[:10_000]
    raise OverBudget(f"a value is nested more than {MAX_DEPTH} deep; keep it flatter")
