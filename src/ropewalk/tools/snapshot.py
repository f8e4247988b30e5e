"""The state as a Python tool sees it: an object of its own, at no cost before it is used.

Values that flow are shared by everybody and never changed. A Snapshot holds the shared ones; a list or an
object among them is copied when it is first reached. So a large state costs nothing per call, and changing what
one holds does nothing to anybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..values import fresh

_ABSENT: Any = object()


class Snapshot(dict[str, Any]):
    """A dict whose values are copied as they are reached.

    What reads the storage of a dict directly, without changing it (a JSON encoder in C), finds the right values
    too: those not reached yet are the shared ones.
    """

    __slots__ = ("_shared",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._shared = {key for key, value in dict.items(self) if type(value) is dict or type(value) is list}

    def _own(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        if key in self._shared:
            value = fresh(value)
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
        from copy import deepcopy

        return deepcopy(dict(self), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(keys, value)


def plain(value: Any) -> Any:
    """The same with every Snapshot in it as a plain dict: what a tool gives back may hold its state."""
    kind = type(value)
    if kind is Snapshot or kind is dict:
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if kind is list else value
