"""The names that syntax reads, binds, changes and calls, computed once for each node.

The compiler asks these questions again and again, for a statement and for each statement around it. Every answer is
kept at its node, and that of a compound statement is made of the answers of its parts. Syntax is therefore never
changed once it was asked about: `derived` makes a changed copy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from ...expr.python.exits import named_exit
from ...expr.python.method_table import MUTATING, changed_argument
from ...expr.python.scope import COMPREHENSIONS, FUNCTION_NODES

N = TypeVar("N", bound=ast.AST)

_WITHOUT_PARTS: Final = ("annotation", "ctx", "kind", "op", "ops", "returns", "type_comment", "type_ignores")
_fields_of: dict[type[ast.AST], tuple[str, ...]] = {}
_LEAVES: Final = frozenset((ast.Name, ast.Constant))
_NO_NODES: Final = frozenset((type(None), str, int, bool, float, complex, bytes, type(...)))
_FACTS: Final = "_facts"
_NODES: Final = "_nodes"
_MATCHES: Final = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


class Facts:
    """The facts about a piece of syntax."""

    # `awaits`: Whether it awaits, outside of inner functions.
    # `calls`: The calls of named functions in it, outside of inner functions.
    # `scope_names`: The names that occur in it outside of inner functions.
    # `names`: The names that occur in it.
    # `bound`: The names that it binds in its own function.
    # `changes`: The names through which it may change values, each with the depths at which they change.
    # `returns`: Whether it returns, outside of inner functions.
    # `reraises`: Whether it has a bare `raise`, outside of inner functions.

    __slots__ = ("awaits", "bound", "calls", "changes", "names", "reraises", "returns", "scope_names")

    def __init__(self) -> None:
        self.awaits = self.returns = self.reraises = False
        self.calls: list[ast.Call] = []
        self.scope_names: set[str] = set()
        self.names: set[str] = set()
        self.bound: set[str] = set()
        self.changes: dict[str, set[int]] = {}

    def add(self, part: Facts, in_function: bool) -> None:
        """Add what a part does."""
        self.names |= part.names
        for name, depths in part.changes.items():
            self.changes[name] = self.changes[name] | depths if name in self.changes else depths
        if in_function:
            return
        self.bound |= part.bound
        self.scope_names |= part.scope_names
        self.calls += part.calls
        self.awaits |= part.awaits
        self.returns |= part.returns
        self.reraises |= part.reraises


def parts_of(node: ast.AST) -> list[ast.AST]:
    """Return the direct parts of a node in the order of the text, without contexts and operators."""

    # Annotations do not count: they are not evaluated, so the names in them need not be defined.
    kind = type(node)
    fields = _fields_of.get(kind)
    if fields is None:
        fields = _fields_of[kind] = tuple(field for field in kind._fields if field not in _WITHOUT_PARTS)
    values: dict[str, Any] = node.__dict__
    parts: list[ast.AST] = []
    for field in fields:
        value: Any = values.get(field)
        if type(value) is list:
            parts += [part for part in value if type(part) not in _NO_NODES]
        elif type(value) not in _NO_NODES:
            parts.append(value)
    return parts


def walk(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and all of their parts, in the order of the text."""
    stack = [nodes] if isinstance(nodes, ast.AST) else list(nodes)[::-1]
    while stack:
        node = stack.pop()
        yield node
        if type(node) not in _LEAVES:
            stack += parts_of(node)[::-1]


def nodes_by_type(tree: ast.AST) -> dict[type[ast.AST], list[Any]]:
    """Return the nodes of a program by their type, each list in the order of the text."""
    known: dict[type[ast.AST], list[Any]] | None = tree.__dict__.get(_NODES)
    if known is None:
        known = tree.__dict__[_NODES] = {}
        for node in walk(tree):
            known.setdefault(type(node), []).append(node)
    return known


def derived(node: N, **fields: Any) -> N:
    """Return a copy of a node at the same place with other fields."""
    copy = type(node)()
    for name, value in node.__dict__.items():
        if name != _FACTS:
            copy.__dict__[name] = value
    copy.__dict__.update(fields)
    return copy


def facts_of(node: ast.AST) -> Facts:
    """Return what a node does."""
    known: Facts | None = node.__dict__.get(_FACTS)
    if known is None:
        known = node.__dict__[_FACTS] = _read(node)
    return known


def facts_of_all(nodes: ast.AST | Iterable[ast.AST]) -> Facts:
    """Return what nodes do together."""
    if isinstance(nodes, ast.AST):
        return facts_of(nodes)
    every = Facts()
    for node in nodes:
        every.add(facts_of(node), False)
    return every


def _read(root: ast.AST) -> Facts:
    facts = Facts()
    stack = [(root, False, False)]
    while stack:
        node, in_function, in_comprehension = stack.pop()
        if node is not root:
            # A target of a comprehension binds nothing outside of it, so what is known of it alone is of no use.
            known = facts_of(node) if isinstance(node, ast.stmt) else node.__dict__.get(_FACTS)
            if known is not None and not (in_comprehension and known.bound):
                facts.add(known, in_function)
                continue
        _note(node, facts, in_function, in_comprehension)
        is_function = isinstance(node, FUNCTION_NODES)
        if isinstance(node, COMPREHENSIONS):
            in_comprehension = True
        in_function = in_function or is_function
        for part in parts_of(node):
            if type(part) is ast.Name:
                _note_name(part, facts, in_function, in_comprehension)
            elif type(part) is not ast.Constant:
                stack.append((part, in_function, in_comprehension))
    return facts


def _note(node: ast.AST, facts: Facts, in_function: bool, in_comprehension: bool) -> None:
    """Add what a node does itself, without its parts."""
    kind = type(node)
    if kind is ast.Name:
        _note_name(node, facts, in_function, in_comprehension)
    elif kind is ast.Constant:
        return
    elif kind is ast.Call:
        _note_call(node, facts, in_function)  # type: ignore[arg-type]
    elif kind is ast.Attribute or kind is ast.Subscript:
        if type(node.ctx) is not ast.Load:  # type: ignore[attr-defined]
            _note_change(node.value, facts)  # type: ignore[attr-defined]
    elif kind is ast.AugAssign:
        if isinstance(node.target, ast.Name) and not isinstance(node.value, (ast.Constant, ast.JoinedStr)):  # type: ignore[attr-defined]
            _note_change(node.target, facts)  # type: ignore[attr-defined]
    elif not in_function:
        _note_rare(node, facts)


def _note_name(node: Any, facts: Facts, in_function: bool, in_comprehension: bool) -> None:
    name: str = node.id
    facts.names.add(name)
    if not in_function:
        facts.scope_names.add(name)
        if not in_comprehension and type(node.ctx) is not ast.Load:
            facts.bound.add(name)


def _note_call(node: ast.Call, facts: Facts, in_function: bool) -> None:
    function = node.func
    if isinstance(function, ast.Attribute):
        if function.attr in MUTATING:
            _note_change(function.value, facts)
    elif not isinstance(function, ast.Name):
        return
    changed = changed_argument(node)
    if changed is not None:
        _note_change(changed, facts)
    if not in_function:
        facts.calls.append(node)


def _note_rare(node: ast.AST, facts: Facts) -> None:
    if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
        facts.awaits = True
    elif isinstance(node, ast.Return) or named_exit(node) is not None:
        facts.returns = True
    elif isinstance(node, ast.Raise):
        facts.reraises |= node.exc is None
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        facts.bound.add(node.name)
    elif isinstance(node, ast.NamedExpr):
        facts.bound.add(node.target.id)
    elif isinstance(node, _MATCHES) and node.name:
        facts.bound.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        facts.bound.add(node.rest)


def _note_change(node: ast.AST, facts: Facts) -> None:
    """Note that the value of an access such as `a.b[0]` may change: that of `a`, at the depth 2."""
    depth = 0
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            node, depth = node.value, depth + 1
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            break
    if isinstance(node, ast.Name):
        known = facts.changes.get(node.id)
        facts.changes[node.id] = {depth} if known is None else known | {depth}
