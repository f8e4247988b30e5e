"""The overview of a project for the person on duty: runs, failures, waits, schedules, workers and queues.

`duty.py` reads it, and `presenters.overview_data` presents it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from ..config.settings import Queue
from ..errors import ConfigError, StoreError
from ..fast_dataclass import dataclass
from ..journal.run_counts import FailureCount, RunCount

if TYPE_CHECKING:
    from datetime import datetime

    from ..journal.sql.worker_row import WorkerRow
    from ..workers.schedules import ScheduleRow

_MAX_MESSAGE: Final = 300  # characters of an error
_UPCOMING: Final = 3  # due times that are shown
_INDEX: Final = re.compile(r"\[\d+\]|@\d+")  # of an iteration in the path of a node
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Runs of one definition that failed at the same node with the same first line of the error, but for numbers."""

    kind: str
    definition_id: str | None
    name: str
    # The path of the node without indexes; None if the run failed as a whole.
    node: str | None
    error_kind: str
    # The first line of the latest error.
    message: str
    count: int
    last: float
    # The run that started last.
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleList:
    """The schedules of a store; `unavailable` is why none can be started or paused here, or None."""

    rows: Sequence[ScheduleRow]
    # The names of configured schedules that no worker executes at the moment.
    idle: Sequence[str]
    unavailable: StoreError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """The runs of a queue: how many wait in it, how many are in progress, and its limits."""

    name: str
    waiting: int
    running: int
    limits: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The queues of a store and the workers that serve them; `workers` is None where a store has none."""

    queues: Sequence[QueueState]
    workers: Sequence[WorkerRow] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The runs that started in each period between `edges`, and what is in progress now."""

    edges: Sequence[float]
    runs: Sequence[RunCount]
    failures: Sequence[FailureGroup]
    # The open approvals, events and questions, each with its run.
    waits: Sequence[Mapping[str, Any]]
    schedules: ScheduleList
    work: Work


def group_failures(failures: Iterable[FailureCount]) -> list[FailureGroup]:
    """Group failures by definition, node, kind and first line of the error, the most frequent first."""

    # `failures`: The latest first.
    groups: dict[tuple[str | None, ...], FailureGroup] = {}
    for failure in failures:
        error = failure.error if isinstance(failure.error, dict) else {"message": failure.error or ""}
        group = _group_of(failure, str(error.get("kind") or ""), str(error.get("message") or ""))
        key = (*_identity(failure), group.node, group.error_kind, _NUMBER.sub("#", group.message))
        before = groups.get(key)
        groups[key] = group if before is None else _merged(before, group)
    return sorted(groups.values(), key=lambda group: (-group.count, -group.last))


def _identity(run: FailureCount | RunCount) -> tuple[str | None, ...]:
    return run.kind, run.definition_id, run.name


def _group_of(failure: FailureCount, kind: str, message: str) -> FailureGroup:
    # The text of a failed node begins with the path of its instance.
    path, colon, rest = message.partition(": ")
    at_node = kind == "NodeFailed" and colon != ""
    line = (rest if at_node else message).strip().partition("\n")[0]
    return FailureGroup(
        kind=failure.kind,
        definition_id=failure.definition_id,
        name=failure.name,
        node=_INDEX.sub("", path) if at_node else None,
        error_kind=kind,
        message=line[:_MAX_MESSAGE],
        count=failure.count,
        last=failure.last,
        run_id=failure.run_id,
    )


def _merged(latest: FailureGroup, earlier: FailureGroup) -> FailureGroup:
    return replace(latest, count=latest.count + earlier.count, last=max(latest.last, earlier.last))


def next_due_times(row: ScheduleRow) -> list[datetime]:
    """Return the next due times of a schedule in its time zone; none while it is paused."""
    from ..workers.cron import next_due

    times = [] if row.next is None else [row.next]
    try:
        while times and len(times) < _UPCOMING:
            times.append(next_due(row.cron, row.timezone, times[-1]).astimezone(ZoneInfo(row.timezone)))
    except ConfigError:  # an earlier version stored a line that this one cannot read
        pass
    return times


def run_of(row: ScheduleRow) -> str | None:
    """Return the id of the run for the last due time of a schedule, if it still exists."""
    from ..workers.schedules import scheduled_run_id

    return scheduled_run_id(row.name, row.last.isoformat()) if row.last is not None and row.status is not None else None
