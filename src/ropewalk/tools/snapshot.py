"""The state as a Python tool sees it: objects and lists of its own, at no cost before they are used.

Values that flow are shared by everybody and never changed. A Snapshot holds the shared ones; a list or an object
among them becomes a snapshot itself when it is first reached. So a large state costs nothing per call, one row of a
large table costs no more than the row, and changing what one holds does nothing to anybody else.

What reads the storage of a dict or a list directly, without changing it (a JSON encoder in C), finds the right values:
those not reached yet are the shared ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

_ABSENT: Any = object()


def _snapshot(value: Any) -> Any:
    return Snapshot(value) if type(value) is dict else SnapshotList(value)


class Snapshot(dict[str, Any]):
    """A dict whose values become one's own as they are reached."""

    __slots__ = ("_shared",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._shared = {key for key, value in dict.items(self) if type(value) is dict or type(value) is list}

    def _own(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        if key in self._shared:
            value = _snapshot(value)
            dict.__setitem__(self, key, value)
            self._shared.discard(key)
        return value

    def _own_all(self) -> None:
        for key in tuple(self._shared):
            self._own(key)

    def __getitem__(self, key: str) -> Any:
        return self._own(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._own(key) if key in self else default

    def __setitem__(self, key: str, value: Any) -> None:
        self._shared.discard(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        dict.__delitem__(self, key)
        self._shared.discard(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self._own(key)

    def pop(self, key: str, default: Any = _ABSENT) -> Any:
        if key not in self and default is not _ABSENT:
            return default
        value = self._own(key)
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        self._own_all()
        return dict.popitem(self)

    def clear(self) -> None:
        dict.clear(self)
        self._shared.clear()

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in dict(*others, **more).items():
            self[key] = value

    def __ior__(self, other: Any) -> Snapshot:  # type: ignore[override]  # dict's takes pairs as well
        self.update(other)
        return self

    # Overridden so that `dict(x)` and `{**x}`, which ask for it, come through `keys` and `[]`.
    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self)

    def values(self) -> Any:
        self._own_all()
        return dict.values(self)

    def items(self) -> Any:
        self._own_all()
        return dict.items(self)

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        made: dict[str, Any] = plain(self)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (plain(self),)

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(keys, value)


class SnapshotList(list[Any]):
    """A list whose elements become one's own as they are reached."""

    __slots__ = ("_shared", "_values")

    def __init__(self, values: list[Any]) -> None:
        super().__init__(values)
        self._values = values
        self._shared: frozenset[int] | None = None  # the ids of the shared elements, once they are asked for

    def _is_shared(self, value: Any, index: SupportsIndex) -> bool:
        """Whether it is one of the shared elements, which may have been moved about."""
        if type(value) is not dict and type(value) is not list:
            return False
        if len(self) == len(self._values) and self._values[index] is value:
            return True
        if self._shared is None:
            self._shared = frozenset(map(id, self._values))
        return id(value) in self._shared

    def _own_all(self) -> None:
        for index in range(len(self)):
            self[index]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        value = list.__getitem__(self, index)
        if self._is_shared(value, index):
            value = _snapshot(value)
            list.__setitem__(self, index, value)
        return value

    def __iter__(self) -> Iterator[Any]:
        index = 0
        while index < len(self):
            yield self[index]
            index += 1

    def __reversed__(self) -> Iterator[Any]:
        for index in range(len(self) - 1, -1, -1):
            if index < len(self):
                yield self[index]

    def pop(self, index: SupportsIndex = -1) -> Any:
        value = self[index] if self else None
        list.pop(self, index)
        return value

    def sort(self, **options: Any) -> None:
        self._own_all()  # the key is a function of somebody's
        list.sort(self, **options)

    def copy(self) -> list[Any]:
        return list(self)

    def __add__(self, other: Any) -> Any:
        return list(self) + other

    def __radd__(self, other: Any) -> Any:
        return other + list(self)

    def __mul__(self, count: SupportsIndex) -> list[Any]:
        return list(self) * count

    __rmul__ = __mul__

    def __imul__(self, count: SupportsIndex) -> SnapshotList:
        self._own_all()
        list.__imul__(self, count)
        return self

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> list[Any]:
        made: list[Any] = plain(self)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (plain(self),)


def plain(value: Any) -> Any:
    """A copy in plain dicts and lists: what a tool gives back may hold parts of its state."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in dict.items(value)}
    return [plain(inner) for inner in list.__iter__(value)] if isinstance(value, list) else value
