"""Imports of servers: `from ropewalk.servers import fs` names a server that a program can call by that name anyway.

They are for type checkers and editors. The tree that everything else sees has no such import, and one name for each
server.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from ...expr.python.tree import walk
from .problems import Problem, problem_at

MODULE: Final = "ropewalk.servers"
IMPORT: Final = f"from {MODULE} import NAME"


def use_servers(tree: ast.Module, text: str) -> Iterator[Problem]:
    """Remove the imports of servers from a tree, and let their other names (`as`) be those of the servers."""
    if MODULE not in text:
        return
    nodes = walk(tree)
    places = [(block, block.index(node), node) for block, node in _statements(nodes) if _is_import(node)]
    others: dict[str, str] = {}
    servers: set[str] = set()
    for block, index, node in places:
        block[index] = ast.copy_location(ast.Pass(), node)
        for alias in node.names:
            if alias.name == "*":
                yield problem_at(alias, f"name the servers: {IMPORT}")
            elif alias.asname not in (None, alias.name):
                others[alias.asname] = alias.name
            servers.add(alias.name)
    for node in walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            node.id = others.get(node.id, node.id)
            node.is_server = node.id in servers  # type: ignore[attr-defined]
            continue
        for name in _bound(node):
            if name in others:
                yield problem_at(node, f"{name} is another name of the server {others[name]}; use another name here")


def _statements(nodes: list[ast.AST]) -> Iterator[tuple[list[Any], Any]]:
    """Yield every statement with the block that it is in."""
    for node in nodes:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from ((block, statement) for statement in block)


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == MODULE and not node.level


def _bound(node: Any) -> Iterator[str | None]:
    """Yield the names that a node binds itself."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.alias(name=name):
            yield name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
            yield node.name
        case ast.MatchAs() | ast.MatchStar():
            yield node.name
