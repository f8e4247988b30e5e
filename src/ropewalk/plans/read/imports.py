"""Imports of what a program has anyway: servers from `ropewalk.servers`, names of the language from `ropewalk.plans`.

They are for type checkers and editors. The tree that everything else sees has no such import, and one name for each
server and each name of the language.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

from ...expr.python.tree import walk
from ...values import did_you_mean
from .. import MODULE
from .. import __all__ as NAMES
from .problems import Problem, problem_at

SERVERS: Final = "ropewalk.servers"
PLANS: Final = MODULE
IMPORTS: Final = {module: f"from {module} import NAME" for module in (SERVERS, PLANS)}
"""How a program imports from each module."""


def use_imports(tree: ast.Module, text: str) -> Iterator[Problem]:
    """Remove these imports from a tree, and replace the other names (`as`) that they give."""
    if not any(module in text for module in IMPORTS):
        return
    nodes = walk(tree)
    places = [(block, block.index(node), node) for block, node in _statements(nodes) if _is_import(node)]
    imported: dict[str, dict[str, ast.alias]] = {}
    servers: set[str] = set()
    for block, index, node in places:
        block[index] = ast.copy_location(ast.Pass(), node)
        for alias in node.names:
            if alias.name == "*":
                yield problem_at(alias, f"name what you import: {IMPORTS[node.module]}")
            elif node.module == PLANS and alias.name not in NAMES:
                near = did_you_mean(alias.name, NAMES)
                hint = f"; did you mean {near}?" if near else f"; it has {', '.join(NAMES)}"
                yield problem_at(alias, f"{PLANS} has no {alias.name!r}{hint}")
            else:
                imported.setdefault(alias.asname or alias.name, {})[f"{node.module}.{alias.name}"] = alias
            if node.module == SERVERS:
                servers.add(alias.name)
    # A name has one meaning in the whole program, whichever function imports it.
    for bound, meanings in imported.items():
        if len(meanings) > 1:
            message = f"{bound} is imported as {' and as '.join(meanings)}; import each under a name of its own"
            yield from (problem_at(alias, message) for alias in meanings.values())
    others = {name: alias.name for name in imported for alias in imported[name].values() if alias.name != name}
    renamed = {name: other for other, name in others.items()}
    for node in walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            node.id = others.get(node.id, node.id)
            node.is_server = node.id in servers  # type: ignore[attr-defined]
            continue
        for name in _bound(node):
            if name in others:
                yield problem_at(node, f"{name} is another name of {others[name]}; use another name here")
            elif name in renamed:
                yield problem_at(node, f"{name} is imported under the name {renamed[name]}; use another name here")


def _statements(nodes: list[ast.AST]) -> Iterator[tuple[list[Any], Any]]:
    """Yield every statement with the block that it is in."""
    for node in nodes:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from ((block, statement) for statement in block)


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in IMPORTS and not node.level


def _bound(node: Any) -> Iterator[str | None]:
    """Yield the names that a node binds itself."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.MatchMapping(rest=name) | ast.alias(asname=str(name)):
            yield name
        case _ if "name" in node._fields:
            yield node.name
