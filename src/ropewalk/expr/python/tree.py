"""Walks over syntax trees, several times as fast as those of `ast`, without recursion.

They visit expressions, statements and their parts, but no operators and no contexts such as `Load`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Final

_WITHOUT_NODES: Final = frozenset(
    "ctx op ops id attr name asname kind type_comment level module conversion is_async simple rest kwd_attrs".split()  # noqa: SIM905
)


@functools.cache
def _parts(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in _WITHOUT_NODES)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes directly below a node."""
    for name in _parts(type(node)):
        value = getattr(node, name, None)
        if type(value) is list:
            for item in value:
                if isinstance(item, ast.AST):
                    yield item
        elif isinstance(value, ast.AST):
            yield value


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a node and every node below it, level by level."""
    nodes = [tree]
    for node in nodes:
        nodes.extend(children(node))
    return nodes
