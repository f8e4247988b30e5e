"""Questions about Python syntax that the compiler of plans asks: names, scopes, and what a statement may change."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from ...expr.python.scope import COMPREHENSIONS, parameter_names
from .facts import derived, facts_of, facts_of_all, parts_of

N = TypeVar("N", bound=ast.AST)


def at(node: N, place: ast.AST) -> N:
    """Give every part of a made node that has no place the place of another node, and return it."""
    line, column = getattr(place, "lineno", 1), getattr(place, "col_offset", 0)
    last = getattr(place, "end_lineno", None) or line
    last_column = getattr(place, "end_col_offset", None) or column
    stack: list[ast.AST] = [node]
    while stack:
        part = stack.pop()
        if "lineno" in part._attributes:
            if "lineno" in part.__dict__:
                continue  # the parts of a node with a place have one
            part.__dict__.update(lineno=line, col_offset=column, end_lineno=last, end_col_offset=last_column)
        stack += parts_of(part)
    return node


def load(name: str) -> ast.Name:
    """Return the expression that reads a name."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """Return the target that binds a name."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr, place: ast.AST) -> ast.Assign:
    """Return the statement `name = value`."""
    return at(ast.Assign([store(name)], value), place)


def stored(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Return the names that statements bind in their own function; targets of comprehensions are not among them."""
    return facts_of_all(nodes).bound


def mutations(nodes: ast.AST | Iterable[ast.AST]) -> dict[str, set[int]]:
    """Return the names through which statements may change values, each with the depths at which they change."""
    return facts_of_all(nodes).changes


def names_read(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Return every name that occurs in statements, those of inner functions included."""
    return facts_of_all(nodes).names


def escapes(nodes: Iterable[ast.stmt], in_loop: bool = False) -> set[str]:
    """Return which of `break` and `continue` leave these statements."""
    kinds: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Break) and not in_loop:
            kinds.add("break")
        elif isinstance(node, ast.Continue) and not in_loop:
            kinds.add("continue")
        elif isinstance(node, (ast.For, ast.While)):
            kinds |= escapes(node.body, True) | escapes(node.orelse, in_loop)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for inner in inner_blocks(node):
                kinds |= escapes(inner, in_loop)
    return kinds


def inner_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        value = getattr(node, field, None)
        if isinstance(value, list):
            yield value
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def is_text(node: ast.AST) -> bool:
    """Return True for a docstring or another statement that is only a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class Rename:
    """Rename variables, except where an inner function or a comprehension binds the name itself."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def renamed(self, node: N) -> N:
        """Return a renamed copy."""

        # Parts without the names are shared with the node.
        facts = facts_of(node)
        if self.names.keys().isdisjoint(facts.names) and self.names.keys().isdisjoint(facts.bound):
            return node
        if isinstance(node, ast.Name):
            return derived(node, id=self.names.get(node.id, node.id))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return self._function(node)  # type: ignore[no-any-return]
        if isinstance(node, COMPREHENSIONS):
            return self._comprehension(node)  # type: ignore[no-any-return]
        changes = self._parts(node)
        for field in ("name", "rest"):
            name = node.__dict__.get(field)
            if name is not None and isinstance(node, _BINDING):
                changes[field] = self.names.get(name, name)
        return derived(node, **changes)

    def _parts(self, node: ast.AST) -> dict[str, Any]:
        """Return the fields of a node with renamed parts."""
        changes: dict[str, Any] = {}
        for field in node._fields:
            value = node.__dict__.get(field)
            if isinstance(value, ast.AST):
                changes[field] = self.renamed(value)
            elif isinstance(value, list):
                changes[field] = [self.renamed(part) if isinstance(part, ast.AST) else part for part in value]
        return changes

    def _without(self, own: Iterable[str]) -> Rename:
        hidden = set(own)
        return Rename({name: new for name, new in self.names.items() if name not in hidden})

    def _function(self, node: Any) -> Any:
        body = node.body if isinstance(node.body, list) else [node.body]
        inner = self._without((*parameter_names(node.args), *(stored(body) if isinstance(node.body, list) else ())))
        arguments = derived(
            node.args,
            defaults=[self.renamed(default) for default in node.args.defaults],
            kw_defaults=[None if default is None else self.renamed(default) for default in node.args.kw_defaults],
        )
        renamed = [inner.renamed(part) for part in body]
        changes: dict[str, Any] = {"args": arguments, "body": renamed if isinstance(node.body, list) else renamed[0]}
        if hasattr(node, "name"):
            changes["name"] = self.names.get(node.name, node.name)
        return derived(node, **changes)

    def _comprehension(self, node: Any) -> Any:
        inner = self._without(name for part in node.generators for name in stored(part.target))
        first = node.generators[0]
        changes = inner._parts(derived(node, generators=[derived(first, iter=_NOTHING), *node.generators[1:]]))
        # The first iterable is evaluated outside.
        changes["generators"][0] = derived(changes["generators"][0], iter=self.renamed(first.iter))
        return derived(node, **changes)


_BINDING: Final = (
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
    *(ast.FunctionDef, ast.AsyncFunctionDef),
)
"""What binds a name that is no node of its own."""
_NOTHING: Final = ast.Constant(None, lineno=1, col_offset=0)
