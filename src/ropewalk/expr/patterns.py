"""Regular expressions by RE2, whose time grows with the text and not with the pattern's choices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ..errors import ExpressionError
from .faults import MAX_TEXT
from .operators import Budget, OverBudget

MAX_STATE_CHECKS: Final = 2**30
"""The most states times characters of one match: about ten seconds at worst, if too many
states are possible at once to be cached; nearly always a thousandth of that."""
_CHECKS_PER_STEP: Final = 11  # 2 ** _CHECKS_PER_STEP checks cost one step


def is_match(budget: Budget | None, text: str | None, pattern: str) -> bool:
    """Return True if the pattern matches anywhere in the text; null never matches."""
    compile_query = pattern_of(pattern)
    states = compile_query.programsize
    if budget is not None:
        patterns = budget.patterns = budget.patterns or set()
        if pattern not in patterns:  # compiling costs time too
            patterns.add(pattern)
            budget.spend(states)
    if text is None:
        return False
    checks = state_checks(compile_query, text)
    if budget is not None:
        budget.spend(checks >> _CHECKS_PER_STEP)
    return compile_query.search(text) is not None


def state_checks(compile_query: Any, text: str) -> int:
    """Return the most state checks that a match may take; raise OverBudget if they are too many."""
    states: int = compile_query.programsize
    if states * len(text) > MAX_STATE_CHECKS:
        max_characters = MAX_STATE_CHECKS // states
        reason = f"the pattern has {states:,} states, so it can search at most {max_characters:,} characters"
        raise OverBudget(f"{reason}, not {len(text):,}; simplify it, or search parts of the text")
    return states * len(text)


@lru_cache(maxsize=256)
def pattern_of(pattern: str) -> Any:
    """Compile a pattern for RE2; raise ExpressionError if it is not valid."""
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
