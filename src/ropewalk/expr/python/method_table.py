"""Which methods values have in a program; `methods` fills the tables."""

from __future__ import annotations

import ast
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
        is_known = not name.startswith("__") or hasattr(kind, name)  # METHODS[object] has every special method
        _known_methods[key] = next(filter(None, found), None) if is_known else None
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
CHANGES_OF_HEAPS: Final = ("heapify", "heappop", "heappush", "heappushpop", "heapreplace")
"""The functions of `heapq` that change their first argument."""
_CHANGE_ARGUMENT: Final = frozenset(("next", *CHANGES_OF_HEAPS))


def changed_argument(call: ast.Call) -> ast.expr | None:
    """Return the argument whose value a function such as `heapq.heappush` changes; None for other calls."""
    function = call.func
    name = (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
    return call.args[0] if call.args and name in _CHANGE_ARGUMENT else None
