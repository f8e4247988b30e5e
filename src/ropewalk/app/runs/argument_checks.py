"""Checks of the arguments of `app.runs`, so that a store never gets a value of a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isfunction
from typing import Any, Final, TypeVar

from ...argument_checks import wrong_type
from ...errors import InvalidInput, InvalidValue, Problem
from ...journal.protocol import statuses
from ...values import did_you_mean

T = TypeVar("T")
_MOST = 2**63 - 1


def checks_arguments(service: type[T]) -> type[T]:
    """Let the public methods of a service check their arguments by their annotations, those in CHECKS."""

    # An async generator would be a plain function if it were wrapped, so it calls `require` itself.
    for name, method in list(vars(service).items()):
        if isfunction(method) and not isasyncgenfunction(method) and not name.startswith("_"):
            setattr(service, name, _checked(method))
    return service


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    names, kinds = method.__code__.co_varnames, method.__annotations__

    def check(arguments: tuple[object, ...], options: dict[str, object]) -> None:
        named = {**dict(zip(names, arguments, strict=False)), **options}
        require((name, kinds.get(name, ""), item) for name, item in named.items())

    @wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        check(arguments, options)
        return method(*arguments, **options)

    @wraps(method)
    async def call_async(*arguments: Any, **options: Any) -> Any:
        check(arguments, options)
        return await method(*arguments, **options)

    return call_async if iscoroutinefunction(method) else call


def require(arguments: Iterable[tuple[str, str, object]]) -> None:
    """Raise one InvalidInput for all arguments, given as name, annotation and value, that do not fit."""
    problems: list[Problem] = []
    for name, annotation, item in arguments:
        kind, optional, _ = annotation.partition(" | None")
        what, fits = CHECKS.get(kind, ("", None))
        if fits is None or fits(item) or (optional and item is None):
            continue
        expected = f"{what}{',' if ' or ' in what else ''} or None" if optional else what
        if "number" in what and isinstance(item, (int, float)) and not isinstance(item, bool):  # too small or large
            problems.append(Problem(path=name, message=f"must be {expected}, not {item:g}"))
        else:
            problems += wrong_type(name, expected, item).problems
    if problems:
        raise InvalidInput(problems)


def known_statuses(status: Any, known: Sequence[str]) -> None:
    """Check that `status` is a known status, a list of them, or None."""
    if status is not None and not isinstance(status, str) and not _is_list(status):
        raise wrong_type("status", "a status or a list of them", status)
    for item in statuses(status or ()):
        one_of(status=item, known=known, what=f"{item!r} is not a status of runs")


def one_of(*, known: Sequence[str], what: str, **values: str) -> None:
    """Check that every value is a known one."""
    for name, item in values.items():
        if item not in known:
            near = did_you_mean(item, known)
            hint = f"did you mean {near}?" if near else f"use one of: {', '.join(known)}"
            raise InvalidValue(name, f"{what}; {hint}")


def _is_number(item: object) -> bool:
    return isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) <= _MOST


def _is_list(item: object) -> bool:
    return isinstance(item, (list, tuple, set, frozenset)) and all(isinstance(inner, str) for inner in item)


CHECKS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "str": ("a string", lambda item: isinstance(item, str)),
    "float": ("a number", _is_number),
    "int": ("a whole number of 0 or more", lambda item: isinstance(item, int) and _is_number(item) and item >= 0),
    "Sequence[str]": ("a list of strings", _is_list),
}
"""By annotation: what an argument must be. Numbers are those that a store holds, up to 2^63-1."""
