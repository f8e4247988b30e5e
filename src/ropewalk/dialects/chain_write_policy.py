"""Policies in the words of chains: one strategy per node, times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..expr.ast import NULL
from ..ir import Node, Retry
from ..values import Json
from .chain import DEFAULTS
from .writing import milliseconds


def strategy(node: Node, needed: bool, refuse: Callable[[str], None]) -> dict[str, Any]:
    """`timeout`, `errorStrategy` and, still an expression, `fallback`; under `retry` the fields that
    say so. `needed`: other nodes of a dag wait for this one."""
    policy = node.policy
    said: dict[str, Any] = {}
    if policy.timeout is not None:
        said["timeout"] = milliseconds(policy.timeout)
    if policy.retry.attempts > 1:
        said["retry"] = _retry(policy.retry, refuse)
    on_error = policy.on_error
    if on_error is None:
        return said
    if not on_error.reported:
        skipped = on_error.value == NULL
        return {**said, "errorStrategy": "skip"} if skipped else {
            **said, "errorStrategy": "fallback", "fallback": on_error.value,
        }  # fmt: skip
    if on_error.value != NULL:
        refuse(
            "a chain goes on after a reported failure with null (continue), or stands in for a silent one (fallback)"
        )
    elif needed:
        refuse("in dag mode a chain skips whatever waits for a node that failed (continue); let the failure be silent")
    return {**said, "errorStrategy": "continue"}


def grows(retry: Retry) -> bool:
    """Whether the pauses between the attempts are not all `delay`."""
    longer = (retry.linear or retry.factor != 1) and retry.attempts > 2 and retry.delay > 0
    return longer or retry.delay > retry.max_delay


def _retry(retry: Retry, refuse: Callable[[str], None]) -> dict[str, Json]:
    if grows(retry):
        refuse("a chain waits the same time before every try (factor, linear and max_delay have no place)")
    fields: dict[str, Json] = {"errorStrategy": "retry"}
    if retry.attempts - 1 != DEFAULTS["maxRetries"]:
        fields["maxRetries"] = retry.attempts - 1
    if milliseconds(retry.delay) != DEFAULTS["retryDelay"]:
        fields["retryDelay"] = milliseconds(retry.delay)
    return fields
