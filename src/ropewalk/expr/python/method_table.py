"""Which methods values have in a program; `methods` fills the tables."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

Method: TypeAlias = Callable[..., Any]

METHODS: Final[dict[type[Any], dict[str, Method]]] = {}
"""The methods of each type. A method takes the evaluation and the value first."""
STATIC_METHODS: Final[dict[type[Any], dict[str, Any]]] = {}
"""Functions and constants of types: `dict.fromkeys`, `datetime.fromisoformat`."""

_of_builtin: dict[type[Any], dict[str, Method]] = {}
_of_others: WeakKeyDictionary[type[Any], dict[str, Method]] = WeakKeyDictionary()
"""The classes of a program die with its run, so nothing may hold them."""


def method_of(kind: type[Any], name: str) -> Method | None:
    """Return the method `name` of a type, which takes the evaluation and the value first, or None."""
    known = _of_builtin.get(kind)
    if known is None:
        known = _of_others.get(kind)
    if known is None:
        known = {}
        for base in reversed(kind.__mro__):
            known.update(METHODS.get(base, {}))
        # METHODS[object] has every special method.
        known = {name: run for name, run in known.items() if not name.startswith("__") or hasattr(kind, name)}
        if kind.__module__ == "builtins":
            _of_builtin[kind] = known
        else:
            _of_others[kind] = known
    return known.get(name)


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
