"""Call functions and macros of the expression language on references. A lambda is traced once, with references as its
arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from ..errors import ExpressionError
from ..expr import FUNCTIONS, MACROS
from ..expr.ast import NULL, Each, Expr, Fn, Var
from ..expr.functions import check_constants
from .values import expression, mistake

Reference: TypeAlias = Callable[[Expr], object]

_bound: ContextVar[tuple[str, ...]] = ContextVar("bound", default=())
_IMPLICIT = ("$item", "$index")
_TAKEN = frozenset(("true", "false", "null", "in", "and", "or", "not"))


def call(name: str, target: Expr, args: tuple[object, ...], reference: Reference) -> Expr:
    """Return the expression of `target.name(*args)`; `reference` makes the arguments of a lambda."""
    if name == "choose":
        return _choose_call(target, args)
    macro = MACROS.get(name)
    if macro is not None and args and callable(args[0]) and not hasattr(type(args[0]), "_expr"):
        return _macro_call(name, target, args[0], args[1:], reference)
    # Not a macro with a function: it must be a function of the language.
    known = FUNCTIONS.get(name)
    if known is None:
        if macro is not None:
            raise mistake(f"{name} takes a function of an element, such as .{name}(lambda each: ...)")
        raise mistake(f"the language has no function {name!r}", name, ("choose", *FUNCTIONS, *MACROS))
    arguments = (target, *(expression(arg, f"argument {i} of {name}") for i, arg in enumerate(args, 1)))
    if len(arguments) < known.least or (known.most is not None and len(arguments) > known.most):
        raise mistake(f"{name} takes {known.counts}, not {len(arguments)}; the value before the dot counts, too")
    try:
        check_constants(name, list(arguments))
    except ExpressionError as wrong:
        raise mistake(f"{name}: {wrong.message}") from wrong
    return Fn(name, arguments)


def _choose_call(test: Expr, args: tuple[object, ...]) -> Expr:
    if len(args) != 2:
        raise mistake("choose takes two values: one if the condition is true, and one if it is false")
    return Fn("?:", (test, expression(args[0]), expression(args[1])))


def _macro_call(
    name: str, source: Expr, body: Callable[..., object], extra: tuple[object, ...], reference: Reference
) -> Expr:
    kind = MACROS[name].forms[0].kind
    names = parameters(body)
    allowed_counts = (2,) if name == "reduce" else (1, 2)
    if len(names) not in allowed_counts:
        arguments = (
            "the value so far and an element" if name == "reduce" else "an element, or an element and its position"
        )
        raise mistake(f"the function of {name} takes {arguments}, not {len(names)} arguments")
    after = tuple(expression(value) for value in extra)
    allowed = {"reduce": (1,), "sort": (0, 1)}.get(name, (0,))
    if len(after) not in allowed:
        raise mistake(
            f"{name} takes a function{' and a start' if name == 'reduce' else ''}, as in {MACROS[name].example}"
        )
    try:
        check_constants(name, [source, NULL, *after])
    except ExpressionError as error:
        raise mistake(error.message) from error
    # Trace the body with references to fresh names.
    fresh_names = _unique_names(names, implicit=name != "reduce" and len(names) == 2)
    token = _bound.set((*_bound.get(), *fresh_names))
    try:
        result = expression(
            body(*(reference(Var(bound_name)) for bound_name in fresh_names)), f"the function of {name}"
        )
    finally:
        _bound.reset(token)
    # The element comes first in a tree, whatever the order of Python's reduce.
    return Each(kind, source, fresh_names if name != "reduce" else (fresh_names[1], fresh_names[0]), result, after)


def _unique_names(parameter_names: list[str], *, implicit: bool) -> tuple[str, ...]:
    """Return the names that a lambda binds, made different from those around it."""

    # Two names become `$item` and `$index` in the language, unless a macro around uses those.
    taken = _bound.get()
    if implicit and not set(_IMPLICIT) & set(taken):
        return _IMPLICIT
    names: list[str] = []
    for name in parameter_names:
        while name in taken or name in names or name in _TAKEN:
            name += "_"
        names.append(name)
    return tuple(names)


def is_tracing() -> bool:
    """Return True while a lambda of the language is traced; nodes cannot be added in it."""
    return bool(_bound.get())


@contextmanager
def pause_tracing() -> Iterator[None]:
    """Suspend tracing for the body of a flow's block, where nodes can be added."""
    token = _bound.set(())
    try:
        yield
    finally:
        _bound.reset(token)


def parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's required parameters."""
    try:
        signature_parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise mistake(f"{function!r} cannot be traced: {error}; write a function or a lambda of its own") from error
    return [
        p.name
        for p in signature_parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
