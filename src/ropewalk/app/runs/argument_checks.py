"""Checks of the arguments of `app.runs`, so that a store never gets a value of a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...argument_checks import wrong_type
from ...errors import InvalidInput, InvalidValue, Problem
from ...journal.protocol import statuses
from ...values import did_you_mean

_MOST = 2**63 - 1


def require_texts(**values: object) -> None:
    """Check that every value is a string."""
    _require_each(values, "a string", lambda item: isinstance(item, str))


def optional_texts(**values: object) -> None:
    """Check that every value is a string or None."""
    _require_each(values, "a string or None", lambda item: item is None or isinstance(item, str))


def optional_numbers(**values: object) -> None:
    """Check that every value is None or a number from -2^63+1 to 2^63-1."""

    def fits(item: object) -> bool:
        return item is None or (isinstance(item, (int, float)) and not isinstance(item, bool) and abs(item) <= _MOST)

    _require_each(values, "a number or None", fits)


def require_count(**values: object) -> None:
    """Check that every value is an integer from 0 to 2^63-1."""
    _require_each(values, "a whole number of 0 or more", _is_amount)


def optional_count(**values: object) -> None:
    """Check that every value is None or an integer from 0 to 2^63-1."""
    _require_each(values, "a whole number of 0 or more, or None", lambda item: item is None or _is_amount(item))


def require_names(**values: object) -> None:
    """Check that every value is a list of strings, not a single string."""
    _require_each(values, "a list of strings", _is_list)


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


def _is_amount(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _MOST


def _is_list(item: object) -> bool:
    return isinstance(item, (list, tuple, set, frozenset)) and all(isinstance(inner, str) for inner in item)


def _require_each(values: dict[str, object], what: str, fits: Callable[[object], bool]) -> None:
    wrong = [problem for name, item in values.items() if not fits(item) for problem in _problems(name, what, item)]
    if wrong:
        raise InvalidInput(wrong)


def _problems(name: str, what: str, item: object) -> Sequence[Problem]:
    if (
        "number" in what and isinstance(item, (int, float)) and not isinstance(item, bool)
    ):  # of the right type, and too small or large
        return (Problem(path=name, message=f"must be {what}, not {item:g}"),)
    return wrong_type(name, what, item).problems
