"""What a person on duty looks at first: the runs of a time, how they failed, what waits, schedules, workers and queues.

`overview` reads it, and `presenters.overview_data` presents it. The store counts, so the time does not grow with what
runs have recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..fast_dataclass import dataclass
from ..journal.run_counts import FailureCount, RunCount
from .schedules import ScheduleList, list_schedules
from .work import Work, read_work

if TYPE_CHECKING:
    from .app import App

_MAX_MESSAGE: Final = 300  # characters of an error
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
class Overview:
    """The runs that started in each period between `edges`, and what is in progress now."""

    edges: Sequence[float]
    runs: Sequence[RunCount]
    failures: Sequence[FailureGroup]
    # The number of open approvals, events and questions.
    waits: Mapping[str, int]
    schedules: ScheduleList
    work: Work


def overview(app: App, since: float, until: float, periods: int) -> Overview:
    """Read the overview of the runs that started in a time."""

    # Blocking. `since` and `until`: seconds since the epoch.
    step = (until - since) / periods
    edges = [*(since + step * number for number in range(periods)), until]
    return Overview(
        edges=edges,
        runs=app.store.count_runs(edges),
        failures=group_failures(app.store.count_failures(since, until)),
        waits=_count_waits(app.runs.waiting()),
        schedules=list_schedules(app),
        work=read_work(app),
    )


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


def _count_waits(waits: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(
        "questions" if "question" in wait else "approvals" if "approval" in wait else "events" for wait in waits
    )
