"""Sets that iterate in the order in which their elements were added, so that every process sees the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final


def _elements(values: Iterable[Any]) -> dict[Any, None]:
    return dict.fromkeys(values)


class OrderedSet(set[Any]):
    """A set that remembers the order of its elements."""

    __slots__ = ("order",)

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.order = _elements(values)
        super().__init__(self.order)

    def _become(self, order: dict[Any, None]) -> None:
        self.order = order
        super().clear()
        super().update(order)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order)

    def __reversed__(self) -> Iterator[Any]:
        raise TypeError("'set' object is not reversible")

    def add(self, value: Any) -> None:
        super().add(value)
        self.order[value] = None

    def discard(self, value: Any) -> None:
        super().discard(value)
        self.order.pop(value, None)

    def remove(self, value: Any) -> None:
        super().remove(value)
        del self.order[value]

    def pop(self) -> Any:
        if not self.order:
            raise KeyError("pop from an empty set")
        value = next(iter(self.order))
        self.remove(value)
        return value

    def clear(self) -> None:
        self._become({})

    def copy(self) -> OrderedSet:
        return OrderedSet(self.order)

    def update(self, *others: Iterable[Any]) -> None:
        for other in others:
            self.order.update(_elements(other))
        super().update(self.order)

    def union(self, *others: Iterable[Any]) -> OrderedSet:
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others: Iterable[Any]) -> OrderedSet:
        kept = super().intersection(*others)
        return OrderedSet(value for value in self.order if value in kept)

    def difference(self, *others: Iterable[Any]) -> OrderedSet:
        kept = super().difference(*others)
        return OrderedSet(value for value in self.order if value in kept)

    def symmetric_difference(self, other: Iterable[Any]) -> OrderedSet:
        added = _elements(other)
        return OrderedSet(
            [*(value for value in self.order if value not in added), *(v for v in added if v not in self)]
        )

    def intersection_update(self, *others: Iterable[Any]) -> None:
        self._become(self.intersection(*others).order)

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._become(self.difference(*others).order)

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        self._become(self.symmetric_difference(other).order)

    def __or__(self, other: Any) -> Any:
        return self.union(other) if isinstance(other, _SETS) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if isinstance(other, _SETS) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if isinstance(other, _SETS) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if isinstance(other, _SETS) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return OrderedSet(other).union(self) if isinstance(other, _SETS) else NotImplemented

    def __rand__(self, other: Any) -> Any:
        return OrderedSet(other).intersection(self) if isinstance(other, _SETS) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return OrderedSet(other).difference(self) if isinstance(other, _SETS) else NotImplemented

    def __rxor__(self, other: Any) -> Any:
        return OrderedSet(other).symmetric_difference(self) if isinstance(other, _SETS) else NotImplemented

    def __ior__(self, other: Any) -> Any:
        return self._changed(self.update, other)

    def __iand__(self, other: Any) -> Any:
        return self._changed(self.intersection_update, other)

    def __isub__(self, other: Any) -> Any:
        return self._changed(self.difference_update, other)

    def __ixor__(self, other: Any) -> Any:
        return self._changed(self.symmetric_difference_update, other)

    def _changed(self, change: Any, other: Any) -> Any:
        if not isinstance(other, _SETS):
            return NotImplemented
        change(other)
        return self


class OrderedFrozenSet(frozenset[Any]):
    """A frozenset that remembers the order of its elements."""

    order: tuple[Any, ...]

    def __new__(cls, values: Iterable[Any] = ()) -> OrderedFrozenSet:
        order = tuple(_elements(values))
        self = super().__new__(cls, order)
        self.order = order
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.order)

    def copy(self) -> OrderedFrozenSet:
        return self

    def union(self, *others: Iterable[Any]) -> OrderedFrozenSet:
        return OrderedFrozenSet(OrderedSet(self.order).union(*others))

    def intersection(self, *others: Iterable[Any]) -> OrderedFrozenSet:
        return OrderedFrozenSet(OrderedSet(self.order).intersection(*others))

    def difference(self, *others: Iterable[Any]) -> OrderedFrozenSet:
        return OrderedFrozenSet(OrderedSet(self.order).difference(*others))

    def symmetric_difference(self, other: Iterable[Any]) -> OrderedFrozenSet:
        return OrderedFrozenSet(OrderedSet(self.order).symmetric_difference(other))

    def __or__(self, other: Any) -> Any:
        return self.union(other) if isinstance(other, _SETS) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if isinstance(other, _SETS) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if isinstance(other, _SETS) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if isinstance(other, _SETS) else NotImplemented


_SETS: Final[tuple[type[Any], ...]] = (set, frozenset, type({}.keys()), type({}.items()))
