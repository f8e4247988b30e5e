"""Schedules in a store on Postgres: what is due, who handles it, which due times were missed.

Times are seconds since the epoch by the server's clock, so that workers need not agree about the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

import orjson

from ...fast_dataclass import dataclass
from ..sql.rows import fetch
from .session import Session
from .worker_registry import WorkerRegistry

MissedOutcome: TypeAlias = Literal["late", "merged", "skipped"]

_NOW: Final = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
_MAX_MISSED: Final = 100  # missed due times, for each schedule
_UPSERT: Final = """
    INSERT INTO schedule AS s (name, project, cron, timezone, context, catch_up, paused, next, held)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)
    ON CONFLICT (name) DO UPDATE SET project = excluded.project, cron = excluded.cron, timezone = excluded.timezone,
        context = excluded.context, catch_up = excluded.catch_up,
        next = CASE WHEN s.cron = excluded.cron AND s.timezone = excluded.timezone THEN s.next ELSE excluded.next END
"""
_COLUMNS: Final = "name, project, cron, timezone, context, catch_up, paused, next, last"
_RESERVE_DUE: Final = f"""
    UPDATE schedule SET worker = ?1, held = {_NOW} + CAST(?2 AS float8)
    WHERE NOT paused AND next <= {_NOW} AND (held <= {_NOW} OR worker = ?1) RETURNING {_COLUMNS}
"""
_ADVANCE: Final = """
    UPDATE schedule SET next = ?3, last = coalesce(CAST(?4 AS float8), last), held = 0
    WHERE name = ?1 AND next = CAST(?2 AS float8) RETURNING 1
"""
_RECORD_MISSED: Final = (
    "INSERT INTO schedule_missed (schedule, due, became, run) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_DELETE_OLD_MISSED: Final = """
    DELETE FROM schedule_missed WHERE schedule = ?1 AND due < (
        SELECT min(due) FROM (SELECT due FROM schedule_missed WHERE schedule = ?1 ORDER BY due DESC LIMIT ?2) AS latest)
"""


@dataclass(frozen=True, slots=True)
class Missed:
    """A due time at which no worker could start a run: it was started `late`, `merged` into a later due time, or
    `skipped`."""

    # `run` is the id of the run that was started for it.

    due: float
    outcome: MissedOutcome
    run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimetableRow:
    """A schedule: what it runs (`context`), when (`cron`, `timezone`), its first unhandled due time (`next`) and the
    last one that started a run (`last`)."""

    name: str
    project: str | None
    cron: str
    timezone: str
    context: dict[str, Any]
    catch_up: str
    paused: bool = False
    next: float
    last: float | None = None
    missed: Sequence[Missed] = field(default=())


class Timetable:
    """The schedules of a store."""

    # Blocking; safe from any thread.

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry

    def rows(self) -> list[TimetableRow]:
        """Return all schedules by name, with the latest missed due times."""

        def work(session: Session) -> list[TimetableRow]:
            missed: dict[str, list[Missed]] = {}
            for name, due_at, became, run in fetch(
                session, "SELECT schedule, due, became, run FROM schedule_missed ORDER BY due"
            ):
                missed.setdefault(name, []).append(Missed(due_at, became, run))
            rows = fetch(session, f"SELECT {_COLUMNS} FROM schedule ORDER BY name")
            return [_to_row(row, missed.get(row[0], ())) for row in rows]

        return self._registry.run_in_transaction(work)

    def replace_all(self, rows: Iterable[TimetableRow], project: str | None) -> None:
        """Store the schedules of a project, and delete its other ones."""

        # A schedule that is known stays paused, and its due times stay unless its cron or its time zone has changed.
        rows_to_keep = list(rows)

        def work(session: Session) -> None:
            session.execute(
                "DELETE FROM schedule WHERE project IS NOT DISTINCT FROM ? AND NOT name = ANY(?)",
                (project, [row.name for row in rows_to_keep]),
            )
            for row in rows_to_keep:
                context = orjson.dumps(row.context).decode()
                values = (row.name, project, row.cron, row.timezone, context, row.catch_up, row.paused, row.next)
                session.execute(_UPSERT, values)

        self._registry.run_in_transaction(work)

    def pause(self, name: str) -> None:
        """Stop starting runs by a schedule until it is resumed."""
        query = "UPDATE schedule SET paused = true WHERE name = ?"
        self._registry.run_in_transaction(lambda session: session.execute(query, (name,)))

    def resume(self, name: str, next: float) -> None:
        """Start runs by a paused schedule again."""
        query = "UPDATE schedule SET paused = false, next = ?2 WHERE name = ?1 AND paused"
        self._registry.run_in_transaction(lambda s: s.execute(query, (name, next)))

    def server_time(self) -> float:
        """Return the time of the server."""
        return float(self._registry.run_in_transaction(lambda s: fetch(s, f"SELECT {_NOW}"))[0][0])

    def reserve_due(self, worker: str, seconds: float) -> tuple[float, list[TimetableRow]]:
        """Reserve the schedules that are due."""

        # Other workers skip them meanwhile.

        def work(session: Session) -> tuple[float, list[TimetableRow]]:
            rows = [_to_row(row, ()) for row in fetch(session, _RESERVE_DUE, (worker, seconds))]
            return float(fetch(session, f"SELECT {_NOW}")[0][0]), rows

        return self._registry.run_in_transaction(work)

    def advance(self, row: TimetableRow, next: float, last: float | None, missed: Sequence[Missed]) -> bool:
        """Record that all due times before `next` are handled."""

        def work(session: Session) -> bool:
            # The old `next` in the condition makes this happen once, whichever worker is first.
            if not fetch(session, _ADVANCE, (row.name, row.next, next, last)):
                return False
            session.executemany(_RECORD_MISSED, [(row.name, miss.due, miss.outcome, miss.run) for miss in missed])
            if missed:
                session.execute(_DELETE_OLD_MISSED, (row.name, _MAX_MISSED))
            return True

        return self._registry.run_in_transaction(work)


def _to_row(values: Sequence[Any], missed: Sequence[Missed]) -> TimetableRow:
    name, project, cron, timezone, context, catch_up, paused, next, last = values
    return TimetableRow(
        name=name,
        project=project,
        cron=cron,
        timezone=timezone,
        context=orjson.loads(context),
        catch_up=catch_up,
        paused=paused,
        next=next,
        last=last,
        missed=missed,
    )
