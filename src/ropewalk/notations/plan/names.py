"""The names in a program, before anything is known of its tools."""

from __future__ import annotations

import ast

from ...errors import InvalidFlow
from .facts import nodes_by_type
from .program import python_name
from .source import parse


def names_in(code: str) -> set[str]:
    """Return every name and `name.member` in a program, and the texts that `call_tool` is given."""
    try:
        tree = parse(code)
    except InvalidFlow:
        return set()
    nodes = nodes_by_type(tree)
    names = {node.id for node in nodes.get(ast.Name, ())}
    for node in nodes.get(ast.Attribute, ()):
        if isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    for node in nodes.get(ast.Call, ()):
        if isinstance(node.func, ast.Name) and node.func.id == "call_tool" and node.args:
            text = node.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                names.add(python_name(text.value))
    return names


def values_in(code: str) -> set[str]:
    """Return the places of recorded values that a program reads by literal texts: `value("RUN/NODE")`."""
    try:
        calls = nodes_by_type(parse(code)).get(ast.Call, ())
    except InvalidFlow:
        return set()
    named = (call.args[0] for call in calls if getattr(call.func, "id", "") == "value" and call.args)
    return {part.value for part in named if isinstance(part, ast.Constant) and isinstance(part.value, str)}
