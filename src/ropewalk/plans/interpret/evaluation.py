"""The state that the closures of a running program share: limits, line, machine, and how values are made."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...expr.operators import OverBudget
from ...expr.python.evaluation import CALLABLE_TYPES, Evaluation, Members
from ...expr.python.ordered_set import OrderedFrozenSet, OrderedSet
from .limits import MAX_ITERATORS, StepBudget, check_depth, measure

if TYPE_CHECKING:
    from .machine import Machine


class PlanEvaluation(Evaluation):
    """The evaluation of a program."""

    # machine: The machine that runs it.
    # depth: How many frames the running task has.

    # is_over: Whether the run has ended, so that code of `finally` no longer runs.

    __slots__ = ("_iterators", "is_over", "machine")

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.is_over = False
        self.budget = StepBudget()
        self._iterators: dict[int, weakref.ref[Any]] = {}

    def renew(self) -> None:
        """Give the program its steps and bytes again, after a delivery."""
        self.budget = StepBudget()

    def clock(self, name: str) -> float:
        """Return what a clock shows; the reading is recorded."""
        return self.machine.read_clock(name)

    def new_set(self, items: Iterable[Any] = ()) -> set[Any]:
        """Return a set in the order of its elements."""
        return OrderedSet(items)

    def new_frozenset(self, items: Iterable[Any] = ()) -> frozenset[Any]:
        """Return a frozenset in the order of its elements."""
        return OrderedFrozenSet(items)

    def new_tuple(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Return a tuple."""
        # Raises OverBudget if it is nested too deeply.
        made = tuple(items)
        for item in made:
            if type(item) is tuple:
                check_depth(made)
                break
        return made

    def stored(self, value: Any) -> Any:
        """Reserve room for an element."""
        # Raises OverBudget if it is nested too deeply.
        if type(value) is tuple:
            check_depth(value)
        return super().stored(value)

    def walk(self, *values: Any) -> None:
        """Pay for a walk through nested values."""
        for value in values:
            measure(self.budget, value)

    def _counted(self, values: Iterator[Any]) -> Iterator[Any]:
        counted = super()._counted(values)
        # A chain of iterators over iterators is as deep as the stack of C that reads it.
        key = id(counted)
        self._iterators[key] = weakref.ref(counted, lambda _: self._iterators.pop(key, None))
        if len(self._iterators) > MAX_ITERATORS:
            raise OverBudget(f"more than {MAX_ITERATORS} unfinished iterators over iterators; make lists of them")
        return counted

    def callable(self, function: Any) -> Callable[..., Any]:
        """Return a callable of Python for a function value of the program, its classes included."""
        if isinstance(function, type):
            if issubclass(function, Members) and function not in CALLABLE_TYPES:
                return function
        elif isinstance(function, Members) and callable(function):
            return function
        return super().callable(function)
