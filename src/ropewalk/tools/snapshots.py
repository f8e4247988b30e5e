"""Snapshots: the state that a Python tool module gets.

Flow values are shared and never changed, so a Snapshot copies a nested object or list only when the tool
reaches it: a large state costs nothing per call, and the tool's changes stay its own. A C encoder that
reads the storage directly finds the shared values, which are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

_MISSING: Any = object()


def _make_snapshot(value: Any) -> Any:
    return Snapshot(value) if type(value) is dict else SnapshotList(value)


class Snapshot(dict[str, Any]):
    """A dict that copies a nested object or list when it is first reached."""

    __slots__ = ("_shared",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._shared = {key for key, value in dict.items(self) if type(value) is dict or type(value) is list}

    def _copy_item(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        if key in self._shared:
            value = _make_snapshot(value)
            dict.__setitem__(self, key, value)
            self._shared.discard(key)
        return value

    def _copy_all(self) -> None:
        for key in tuple(self._shared):
            self._copy_item(key)

    def __getitem__(self, key: str) -> Any:
        return self._copy_item(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._copy_item(key) if key in self else default

    def __setitem__(self, key: str, value: Any) -> None:
        self._shared.discard(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: str) -> None:
        dict.__delitem__(self, key)
        self._shared.discard(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self._copy_item(key)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        if key not in self and default is not _MISSING:
            return default
        value = self._copy_item(key)
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        self._copy_all()
        return dict.popitem(self)

    def clear(self) -> None:
        dict.clear(self)
        self._shared.clear()

    def update(self, *sources: Any, **more: Any) -> None:
        for key, value in dict(*sources, **more).items():
            self[key] = value

    def __ior__(self, other: Any) -> Snapshot:  # type: ignore[override]  # dict's takes pairs as well
        self.update(other)
        return self

    # With an `__iter__` of its own, `dict(x)` and `{**x}` use `keys` and `[]` instead of the raw storage.
    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self)

    def values(self) -> Any:
        self._copy_all()
        return dict.values(self)

    def items(self) -> Any:
        self._copy_all()
        return dict.items(self)

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        copied: dict[str, Any] = copy_plain(self)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (copy_plain(self),)

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(keys, value)


class SnapshotList(list[Any]):
    """A list that copies a nested object or list when it is first reached."""

    __slots__ = ("_shared", "_values")

    def __init__(self, values: list[Any]) -> None:
        super().__init__(values)
        self._values = values
        self._shared: frozenset[int] | None = None  # the `id()` of each shared element, computed on demand

    def _is_shared(self, value: Any, index: SupportsIndex) -> bool:
        """Return True if an element is still the shared one; the tool may have moved it."""
        if type(value) is not dict and type(value) is not list:
            return False
        # Most elements have not moved, so compare by position before building the set of ids.
        if len(self) == len(self._values) and self._values[index] is value:
            return True
        if self._shared is None:
            self._shared = frozenset(map(id, self._values))
        return id(value) in self._shared

    def _copy_all(self) -> None:
        for index in range(len(self)):
            self[index]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        value = list.__getitem__(self, index)
        if self._is_shared(value, index):
            value = _make_snapshot(value)
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
        self._copy_all()  # the key function may change the elements
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
        self._copy_all()
        list.__imul__(self, count)
        return self

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> list[Any]:
        copied: list[Any] = copy_plain(self)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (copy_plain(self),)


def copy_plain(value: Any) -> Any:
    """Copy a value into plain dicts and lists; the result of a tool may contain parts of its Snapshot."""
    if isinstance(value, dict):
        return {key: copy_plain(item) for key, item in dict.items(value)}
    if isinstance(value, list):
        return [copy_plain(item) for item in list.__iter__(value)]
    return value
