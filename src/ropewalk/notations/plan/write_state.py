"""The state of a flow as variables of a written plan."""

from __future__ import annotations

import ast
from typing import Any, Final

from ...errors import ExpressionError
from ...expr.ast import Obj
from ...ir import Channel, Node, bodies
from .write_expressions import Typed, called
from .write_types import LIST, NUMBER, UNKNOWN, of_kind

_REDUCERS: Final = {
    "array_append": ("append", LIST),
    "union": ("append", LIST),
    "object_merge": ("merge", of_kind("dict")),
    "sum": ("total", NUMBER),
    "max": ("greater", NUMBER),
    "min": ("smaller", NUMBER),
}
"""The local function of each reducer, from the value and an update to the new value."""
_TYPES: Final = frozenset(("null", "boolean", "integer", "number", "string", "array", "object"))
_FITTING: Final = {
    "boolean": ("bool",),
    "integer": ("int",),
    "number": ("int", "float"),
    "string": ("str",),
    "array": ("list",),
    "object": ("dict",),
    "null": (),
}


def written_channels(node: Node, *, inside: bool = False) -> set[str]:
    """Return the channels that a node writes, including its regions."""
    names = {name for body in bodies(node) for inner in body.nodes for name in written_channels(inner)}
    if not inside and isinstance(node.writes, Obj):
        names.update(name for name, _ in node.writes.fields)
    return names


def reduced(channel: Channel, current: Typed, update: Typed, needed: set[str]) -> Typed:
    """Return the new value of a variable after an update."""
    value = _checked(channel, update, needed)
    if channel.reduce == "last_wins":
        return value
    if channel.reduce not in _REDUCERS:
        raise ExpressionError(f"a plan's variables cannot have the reducer {channel.reduce!r}")
    function, certain = _REDUCERS[channel.reduce]
    needed.add(function)
    node = called(function, current.node, value.node)
    if channel.reduce == "union":
        needed.add("distinct")
        node = called("distinct", node)
    return Typed(node, certain)


def _checked(channel: Channel, update: Typed, needed: set[str]) -> Typed:
    """Return an update that fails unless it has the declared type."""
    declared: Any = channel.schema.get("type") if isinstance(channel.schema, dict) else None
    types = [declared] if isinstance(declared, str) else list(declared or ())
    if not types:
        return update
    if any(name not in _TYPES for name in types):
        raise ExpressionError(f"a plan's variables cannot have the type {declared!r}")
    fitting = {"NoneType", *(kind for name in types for kind in _FITTING[name])}
    if update.certain.is_a(*fitting):
        return update
    needed.add("typed")
    return Typed(called("typed", update.node, *(ast.Constant(name) for name in types)), UNKNOWN)
