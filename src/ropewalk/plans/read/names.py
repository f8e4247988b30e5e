"""Names and suspension in a syntax tree: the names of a function, nodes that await, functions that recurse."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...expr.python.scope import bound_names, outer_values
from ...expr.python.tree import children
from .tools import VALUE

SUSPENDING: Final = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith, ast.With)
"""The nodes that always suspend; `with` is among them because its closures exist only in the suspending form."""
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES: Final = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
_MARK: Final = "_suspends"


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a function body, without those of nested functions and classes."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, _SCOPES):
            todo += children(node)


def own_names(body: list[ast.stmt]) -> list[str]:
    """Return the names that a function body binds itself."""
    declared = {name for node in own_nodes(body) if isinstance(node, (ast.Nonlocal, ast.Global)) for name in node.names}
    return [name for name in bound_names(body) if name not in declared]


def global_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that functions declare global."""
    return [name for node in nodes if isinstance(node, ast.Global) for name in node.names]


def yields(body: list[ast.stmt]) -> bool:
    """Return True if a function with this body is a generator."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(body))


def suspends(node: ast.AST) -> bool:
    """Return True if evaluating a node may suspend its task or generator, nested functions aside."""
    known: bool | None = getattr(node, _MARK, None)
    if known is None:
        known = _suspends(node)
        setattr(node, _MARK, known)
    return known


def set_suspends(node: Any, value: bool) -> Any:
    """Say whether a node suspends, and return it."""
    setattr(node, _MARK, value)
    return node


def _suspends(node: ast.AST) -> bool:
    if isinstance(node, SUSPENDING) or (isinstance(node, ast.comprehension) and node.is_async):
        return True
    if isinstance(node, _SCOPES):
        return any(suspends(value) for value in outer_values(node))
    if isinstance(node, ast.GeneratorExp):
        return suspends(node.generators[0].iter)
    if isinstance(node, ast.If):  # a long row of `elif`s is a deep tree
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            if suspends(rest[0].test) or any(suspends(part) for part in rest[0].body):
                return True
            rest = rest[0].orelse
        return any(suspends(part) for part in rest)
    return any(suspends(child) for child in children(node))


def mark_recursion(nodes: Iterable[ast.AST]) -> set[str]:
    """Let calls inside of functions that call themselves suspend, so that they need no stack of Python."""
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    calls = {
        name: [
            part
            for part in own_nodes(node.body)
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in functions
        ]
        for name, node in functions.items()
    }
    reached = {name: _reached(name, calls) for name in functions}
    recursive = {name for name in functions if name in reached[name]}
    for name in recursive:
        for part in calls[name]:
            if isinstance(part.func, ast.Name) and part.func.id in recursive:
                set_suspends(part, True)
    return recursive


def mark_values(tree: ast.Module, nodes: Iterable[ast.AST]) -> None:
    """Let `value("RUN/NODE")` suspend where a program can wait for it: in async functions, without an await, too."""
    todo: list[tuple[ast.AST, bool]] = [(tree, True)] if any(map(_is_value, nodes)) else []
    while todo:
        node, can_wait = todo.pop()
        if isinstance(node, ast.Await) and _is_value(node.value):
            node.value.is_awaited = True  # type: ignore[attr-defined]
        elif can_wait and _is_value(node) and not getattr(node, "is_awaited", False):
            set_suspends(node, True)
        if isinstance(node, ast.GeneratorExp):  # only its first iterable belongs to the function around it
            first = node.generators[0]
            rest = [node.elt, first.target, *first.ifs, *node.generators[1:]]
            todo += [(first.iter, can_wait), *((part, False) for part in rest)]
            continue
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            can_wait = isinstance(node, ast.AsyncFunctionDef)
        todo += ((child, can_wait) for child in children(node))


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == VALUE


def mark_closed(nodes: Iterable[ast.AST]) -> None:
    """Mark async generators whose end the program itself decides: by `aclosing(...)` or `@asynccontextmanager`."""
    functions = [node for node in nodes if isinstance(node, ast.AsyncFunctionDef)]
    if not functions:
        return
    closed = {
        id(node.args[0].func)
        for node in nodes
        if isinstance(node, ast.Call) and _label(node.func) == "aclosing" and node.args
        if isinstance(node.args[0], ast.Call)
    }
    others = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in closed
    }
    for node in functions:
        is_manager = "asynccontextmanager" in map(_label, node.decorator_list)
        node.is_closed = is_manager or node.name not in others  # type: ignore[attr-defined]


def _label(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _reached(name: str, calls: dict[str, list[ast.Call]]) -> set[str]:
    reached: set[str] = set()
    todo = [name]
    while todo:
        for part in calls[todo.pop()]:
            called = part.func.id if isinstance(part.func, ast.Name) else ""
            if called not in reached:
                reached.add(called)
                todo.append(called)
    return reached
