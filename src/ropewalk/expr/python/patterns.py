"""The patterns of `match` as closures that test a value and bind names.

`statements.py` compiles each `case` with `compile_pattern`. The closure gets the frame and the value of the subject,
returns True if the value matches, and then has stored the names of the pattern in the frame.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from .builtins import TYPE_NAMES
from .expressions import assign_target, expression
from .failures import EXCEPTIONS, is_instance
from .operations import member
from .scope import Frame, Scope, Setter, Unsupported

Matches: TypeAlias = Callable[[Frame, Any], bool]
"""Returns True if a value matches a pattern, and binds the names of the pattern in the frame."""


def compile_pattern(node: ast.pattern, scope: Scope) -> Matches:
    """Return the closure that tells whether a value matches, and binds the names of the pattern."""
    if isinstance(node, ast.MatchValue):
        get = expression(node.value, scope)
        return lambda frame, value: bool(value == get(frame))
    if isinstance(node, ast.MatchSingleton):
        constant = node.value
        return lambda frame, value: value is constant
    if isinstance(node, ast.MatchOr):
        options = [compile_pattern(part, scope) for part in node.patterns]
        return lambda frame, value: any(option(frame, value) for option in options)
    if isinstance(node, ast.MatchAs):
        return _capture(node, scope)
    if isinstance(node, ast.MatchSequence):
        return _sequence(node, scope)
    if isinstance(node, ast.MatchMapping):
        return _mapping(node, scope)
    if isinstance(node, ast.MatchClass):
        return _class(node, scope)
    raise Unsupported(node, "this pattern is not supported")


def _setter(name: str, node: ast.AST, scope: Scope) -> Setter:
    return assign_target(ast.copy_location(ast.Name(name, ast.Store()), node), scope)


def _capture(node: ast.MatchAs, scope: Scope) -> Matches:
    inner = compile_pattern(node.pattern, scope) if node.pattern is not None else None
    bind = _setter(node.name, node, scope) if node.name else None

    def matches(frame: Frame, value: Any) -> bool:
        if inner is not None and not inner(frame, value):
            return False
        if bind is not None:
            bind(frame, value)
        return True

    return matches


def _sequence(node: ast.MatchSequence, scope: Scope) -> Matches:
    starred = next((index for index, part in enumerate(node.patterns) if isinstance(part, ast.MatchStar)), None)
    rest = node.patterns[starred] if starred is not None else None
    bind = _setter(rest.name, rest, scope) if isinstance(rest, ast.MatchStar) and rest.name else None
    parts = [compile_pattern(part, scope) for part in node.patterns if not isinstance(part, ast.MatchStar)]

    def matches(frame: Frame, value: Any) -> bool:
        if not isinstance(value, (list, tuple, deque, range)):
            return False
        items, extra = list(value), len(value) - len(parts)
        if extra < 0 or (starred is None and extra):
            return False
        if starred is not None:
            if bind is not None:
                bind(frame, items[starred : starred + extra])
            items = items[:starred] + items[starred + extra :]
        return all(part(frame, item) for part, item in zip(parts, items, strict=True))

    return matches


def _mapping(node: ast.MatchMapping, scope: Scope) -> Matches:
    keys = [expression(key, scope) for key in node.keys]
    parts = [compile_pattern(part, scope) for part in node.patterns]
    bind = _setter(node.rest, node, scope) if node.rest else None

    def matches(frame: Frame, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        names = [key(frame) for key in keys]
        if not all(name in value and part(frame, value[name]) for name, part in zip(names, parts, strict=True)):
            return False
        if bind is not None:
            bind(frame, {key: item for key, item in value.items() if key not in names})
        return True

    return matches


def _class(node: ast.MatchClass, scope: Scope) -> Matches:
    kind = None
    # A program may bind the name of a type to something else; only unbound names are certain.
    if isinstance(node.cls, ast.Name) and scope.find(node.cls.id) is None:
        kind = TYPE_NAMES.get(node.cls.id) or EXCEPTIONS.get(node.cls.id)
    if kind is None and scope.language.has_classes:
        return _class_of_program(node, scope)
    if kind is None:
        raise Unsupported(node, "a class pattern names a built-in type, such as str() or dict()")
    # Built-in types have a single positional pattern: the value itself.
    if len(node.patterns) > 1:
        raise Unsupported(node, "a class pattern takes one positional pattern")
    whole = [compile_pattern(part, scope) for part in node.patterns]
    parts = [(name, compile_pattern(part, scope)) for name, part in zip(node.kwd_attrs, node.kwd_patterns, strict=True)]

    def matches(frame: Frame, value: Any) -> bool:
        if not _is_instance(value, kind) or not all(part(frame, value) for part in whole):
            return False
        return _members_match(frame, value, parts)

    return matches


def _is_instance(value: Any, kind: Any) -> bool:
    return is_instance(value, kind) if isinstance(value, BaseException) else isinstance(value, kind)


def _members_match(frame: Frame, value: Any, parts: list[tuple[str, Matches]]) -> bool:
    for name, part in parts:
        try:
            item = member(frame[0], value, name)
        except (AttributeError, KeyError):
            return False
        if not part(frame, item):
            return False
    return True


def _class_of_program(node: ast.MatchClass, scope: Scope) -> Matches:
    """Compile the pattern of a class that the program defines; positional patterns are its fields in order."""
    get = expression(node.cls, scope)
    positional = [compile_pattern(part, scope) for part in node.patterns]
    named = [(name, compile_pattern(part, scope)) for name, part in zip(node.kwd_attrs, node.kwd_patterns, strict=True)]

    def matches(frame: Frame, value: Any) -> bool:
        kind = get(frame)
        if not isinstance(kind, type):
            raise TypeError("called match pattern must be a class")
        if not _is_instance(value, kind):
            return False
        fields: list[str] = list(getattr(kind, "fields_", ()) or getattr(kind, "names_", ()))
        if len(positional) > len(fields):
            raise TypeError(
                f"{kind.__name__}() accepts {len(fields)} positional sub-patterns ({len(positional)} given)"
            )
        return _members_match(frame, value, [*zip(fields, positional, strict=False), *named])

    return matches
