"""Which methods values have in a program; `methods` fills the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Method: TypeAlias = Callable[..., Any]

METHODS: Final[dict[type[Any], dict[str, Method]]] = {}
"""The methods of each type. A method takes the evaluation and the value first."""
STATIC_METHODS: Final[dict[type[Any], dict[str, Any]]] = {}
"""Functions and constants of types: `dict.fromkeys`, `datetime.fromisoformat`."""

_known_methods: dict[tuple[type[Any], str], Method | None] = {}


def method_of(kind: type[Any], name: str) -> Method | None:
    """Return the method `name` of a type, which takes the evaluation and the value first, or None."""
    key = kind, name
    if key not in _known_methods:
        found = (METHODS[base].get(name) for base in kind.__mro__ if base in METHODS)
        _known_methods[key] = next(filter(None, found), None)
    return _known_methods[key]


MUTATING: Final = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "difference_update",
        "discard",
        "extend",
        "extendleft",
        "insert",
        "intersection_update",
        "move_to_end",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "reverse",
        "rotate",
        "setdefault",
        "sort",
        "subtract",
        "symmetric_difference_update",
        "update",
    ]
)
"""The methods that change their value."""
