"""Regular expressions of users, on RE2: time linear in the text, whatever the pattern.

Linear is not yet short: a pattern may stand for thousands of states, each of which is looked at for each character.
Refused: patterns past MAX_TEXT characters, and texts that are too long for the states of their pattern.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ..errors import ExpressionError
from .budget import Budget, OverBudget
from .faults import MAX_TEXT

MAX_LOOKS: Final = 2**30
"""States times characters of one match: some ten seconds at worst, where the states that are possible at once are too
many to be remembered; nearly always a thousandth of it."""
_LOOKS: Final = 11  # of which 2 to the power of this many are a step


def matched(budget: Budget | None, text: str | None, pattern: str) -> bool:
    """Whether the pattern fits anywhere in the text; null has no place where it could."""
    compiled = pattern_of(pattern)
    states = compiled.programsize
    if budget is not None:
        seen = budget.patterns = budget.patterns or set()
        if pattern not in seen:  # compiling takes time, too
            seen.add(pattern)
            budget.spend(states)
    if text is None:
        return False
    looks = looks_of(compiled, text)
    if budget is not None:
        budget.spend(looks >> _LOOKS)
    return compiled.search(text) is not None


def looks_of(compiled: Any, text: str) -> int:
    """How many looks a match may take at most; OverBudget past MAX_LOOKS."""
    states: int = compiled.programsize
    if states * len(text) > MAX_LOOKS:
        most = MAX_LOOKS // states
        said = f"the pattern has {states:,} states, with which at most {most:,} characters are looked through"
        raise OverBudget(f"{said}, not {len(text):,}; make it simpler, or look in parts of the text")
    return states * len(text)


@lru_cache(maxsize=256)
def pattern_of(pattern: str) -> Any:
    """A pattern of RE2's linear-time engine; ExpressionError for what it does not take."""
    if len(pattern) > MAX_TEXT:
        raise ExpressionError(f"bad pattern: it has more than {MAX_TEXT:,} characters")
    import re2  # type: ignore[import-untyped, unused-ignore]

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise ExpressionError(f"bad pattern: {reason}") from error
