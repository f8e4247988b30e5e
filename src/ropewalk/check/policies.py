"""Numbers in policies and limits: none is negative, none is without end."""

from __future__ import annotations

import math
from typing import Protocol

from ..ir import Policy


class Say(Protocol):
    """Reports at a field of the present node."""

    def __call__(self, field: str, message: str, *, warning: bool = False) -> None: ...


def check_policy(policy: Policy, say: Say) -> None:
    """Report every number in a policy that cannot be meant."""
    retry = policy.retry
    if retry.attempts < 1:
        say("policy.retry.attempts", f"must be at least 1, the first try included, not {retry.attempts}")
    for field, value in (
        ("policy.retry.delay", retry.delay),
        ("policy.retry.factor", retry.factor),
        ("policy.retry.max_delay", retry.max_delay),
    ):
        check_number(field, value, say)
    check_timeout("policy.timeout", policy.timeout, say)


def check_number(field: str, value: float, say: Say) -> None:
    """Report a negative or endless number."""
    if not math.isfinite(value):
        say(field, f"must be a finite number, not {value}")
    elif value < 0:
        say(field, f"must not be negative; it is {value:g}")


def check_timeout(field: str, value: float | None, say: Say) -> None:
    """The same for a timeout, which None switches off and 0 makes pointless."""
    if value is None:
        return
    if value == 0:
        say(field, "0 leaves no time at all; leave it out for no limit", warning=True)
    check_number(field, value, say)


def check_limit(field: str, value: int | None, say: Say) -> None:
    """Report a limit on how many run at once, or how often, that lets nothing run."""
    if value is not None and value < 1:
        say(field, f"must be at least 1, not {value}")
