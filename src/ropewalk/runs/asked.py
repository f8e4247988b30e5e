"""What `app.runs` is asked with: of which type each argument must be, so that no store meets another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InvalidInput, InvalidValue, Problem
from ..errors.given import wants
from ..journal.filters import statuses
from ..values import closest

_MOST = 2**63 - 1


def texts(**given: object) -> None:
    """Each must be a string; InvalidInput tells all that are none."""
    _each(given, "a string", lambda one: isinstance(one, str))


def texts_or_none(**given: object) -> None:
    _each(given, "a string or None", lambda one: one is None or isinstance(one, str))


def numbers_or_none(**given: object) -> None:
    def fits(one: object) -> bool:
        return one is None or (isinstance(one, (int, float)) and not isinstance(one, bool) and abs(one) <= _MOST)

    _each(given, "a number or None", fits)


def amount(**given: object) -> None:
    """Each must be a whole number, of which a store can count so many."""
    _each(given, "a whole number from 0", _is_amount)


def amount_or_none(**given: object) -> None:
    _each(given, "a whole number from 0, or None", lambda one: one is None or _is_amount(one))


def names(**given: object) -> None:
    """Each must be a list of strings, no string by itself."""
    _each(given, "a list of strings", _is_list)


def known_statuses(status: Any, known: Sequence[str]) -> None:
    """A status or several of those that there are."""
    if status is not None and not isinstance(status, str) and not _is_list(status):
        raise wants("status", "a status or a list of them", status)
    for one in statuses(status or ()):
        one_of(status=one, known=known, what=f"no run has the status {one!r}")


def one_of(*, known: Sequence[str], what: str, **given: str) -> None:
    """InvalidValue for what is none of those that there are, with the one that was meant."""
    for name, one in given.items():
        if one not in known:
            near = closest(one, known)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise InvalidValue(name, f"{what}; {hint}")


def _is_amount(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= _MOST


def _is_list(one: object) -> bool:
    return isinstance(one, (list, tuple, set, frozenset)) and all(isinstance(inner, str) for inner in one)


def _each(given: dict[str, object], what: str, fits: Callable[[object], bool]) -> None:
    wrong = [problem for name, one in given.items() if not fits(one) for problem in _problems(name, what, one)]
    if wrong:
        raise InvalidInput(wrong)


def _problems(name: str, what: str, one: object) -> Sequence[Problem]:
    if (
        "number" in what and isinstance(one, (int, float)) and not isinstance(one, bool)
    ):  # of the right type, and too small or large
        return (Problem(path=name, message=f"must be {what}, not {one:g}"),)
    return wants(name, what, one).problems
