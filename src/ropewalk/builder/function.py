"""Calls of the language's functions and macros on references; a lambda is traced once, with
references for what it takes."""

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
from .mistake import mistake
from .value import expression

Reference: TypeAlias = Callable[[Expr], object]

_bound: ContextVar[tuple[str, ...]] = ContextVar("bound", default=())
_IMPLICIT = ("$item", "$index")
_TAKEN = frozenset(("true", "false", "null", "in", "and", "or", "not"))


def call(name: str, target: Expr, args: tuple[object, ...], reference: Reference) -> Expr:
    """`target.name(*args)`, as the language reads it; `reference` makes what a lambda is called with."""
    if name == "choose":
        return _choose(target, args)
    macro = MACROS.get(name)
    if macro is not None and args and callable(args[0]) and not hasattr(type(args[0]), "_expr"):
        return _macro(name, target, args[0], args[1:], reference)
    known = FUNCTIONS.get(name)
    if known is None:
        if macro is not None:
            raise mistake(f"{name} takes a function of an element, such as .{name}(lambda each: ...)")
        raise mistake(f"the language has no function {name!r}", name, ("choose", *FUNCTIONS, *MACROS))
    given = (target, *(expression(arg, f"argument {i} of {name}") for i, arg in enumerate(args, 1)))
    if len(given) < known.least or (known.most is not None and len(given) > known.most):
        raise mistake(f"{name} takes {known.counts}, the value before the dot included, not {len(given)}")
    try:
        check_constants(name, list(given))
    except ExpressionError as wrong:
        raise mistake(f"{name}: {wrong.message}") from wrong
    return Fn(name, given)


def _choose(test: Expr, args: tuple[object, ...]) -> Expr:
    if len(args) != 2:
        raise mistake("choose takes the value where the condition holds and the one where it does not")
    return Fn("?:", (test, expression(args[0]), expression(args[1])))


def _macro(
    name: str, source: Expr, body: Callable[..., object], extra: tuple[object, ...], reference: Reference
) -> Expr:
    kind = MACROS[name].forms[0].kind
    names = parameters(body)
    wanted = (2,) if name == "reduce" else (1, 2)
    if len(names) not in wanted:
        what = "the value so far and an element" if name == "reduce" else "an element, or an element and its position"
        raise mistake(f"the function of {name} takes {what}, not {len(names)} arguments")
    after = tuple(expression(value) for value in extra)
    allowed = {"reduce": (1,), "sort": (0, 1)}.get(name, (0,))
    if len(after) not in allowed:
        raise mistake(
            f"{name} takes a function{' and a start' if name == 'reduce' else ''}, as in {MACROS[name].example}"
        )
    try:
        check_constants(name, [source, NULL, *after])
    except ExpressionError as wrong:
        raise mistake(wrong.message) from wrong
    chosen = _names(names, implicit=name != "reduce" and len(names) == 2)
    token = _bound.set((*_bound.get(), *chosen))
    try:
        result = expression(body(*(reference(Var(one)) for one in chosen)), f"the function of {name}")
    finally:
        _bound.reset(token)
    # The element comes first in a tree, whatever the order of Python's reduce.
    return Each(kind, source, chosen if name != "reduce" else (chosen[1], chosen[0]), result, after)


def _names(given: list[str], *, implicit: bool) -> tuple[str, ...]:
    """The names a lambda binds: its own, made different from those around it. Two names are written in
    the language as `$item` and `$index`, as long as no macro around uses those."""
    taken = _bound.get()
    if implicit and not set(_IMPLICIT) & set(taken):
        return _IMPLICIT
    found: list[str] = []
    for name in given:
        while name in taken or name in found or name in _TAKEN:
            name += "_"
        found.append(name)
    return tuple(found)


def tracing() -> bool:
    """Whether a lambda of the language is being traced, in which nothing can be called."""
    return bool(_bound.get())


@contextmanager
def untraced() -> Iterator[None]:
    """A body of the flow: what is around it is no lambda of the language."""
    token = _bound.set(())
    try:
        yield
    finally:
        _bound.reset(token)


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of what a function takes."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise mistake(f"{function!r} cannot be traced: {error}; write a function or a lambda of its own") from error
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
