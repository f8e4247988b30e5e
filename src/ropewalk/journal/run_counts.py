"""The part of a store that counts runs for an overview: how many there were in each period, and how they failed.

Runs that are parts of other runs do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from ..fast_dataclass import dataclass
from ..values import Json

FAILING: Final = ("failed", "timeout", "parked")
"""The statuses of runs whose error a person on duty wants to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCount:
    """The number of runs of one definition that started in one period and have one status."""

    # The index of the period.
    period: int
    status: str
    kind: str
    definition_id: str | None
    name: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCount:
    """The number of runs of one definition with the same recorded error, and the latest of them."""

    kind: str
    definition_id: str | None
    name: str
    error: Json
    count: int
    # When the latest ended, in seconds since the epoch; 0 if that is not recorded.
    last: float
    # The id of the run that started last.
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """The number of runs of one queue that wait for a worker, and of those that a process executes."""

    name: str
    waiting: int
    running: int


class CountStore(Protocol):
    """The part of a `Store` that counts runs."""

    def count_runs(self, edges: Sequence[float], /) -> list[RunCount]:
        """Count the runs that started in each period, by definition and status."""

        # `edges`: The times between periods, ascending, in seconds since the epoch: one more than there are periods.
        ...

    def count_failures(self, since: float, until: float, /, limit: int = 10_000) -> list[FailureCount]:
        """Count the runs with a status of FAILING that started in a time, by definition and error, the latest first."""

        # `limit`: Number of different errors.
        ...

    def count_queues(self, limit: int = 10_000, /) -> list[QueueCount]:
        """Count the unfinished runs in each queue."""

        # `limit`: Number of unfinished runs to read, the latest first.
        ...


def queue_counts(unfinished: Iterable[tuple[Any, bool]]) -> list[QueueCount]:
    """Count runs by queue: of each its context, and whether a process executes it."""
    counts: Counter[tuple[str, bool]] = Counter()
    for context, has_owner in unfinished:
        if isinstance(context, dict) and "queue" in context:
            counts[str(context["queue"]), has_owner] += 1
    names = sorted({name for name, _ in counts})
    return [QueueCount(name=name, waiting=counts[name, False], running=counts[name, True]) for name in names]
