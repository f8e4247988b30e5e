"""Schedules in a SQL store: what is due, who handles it, which due times were missed.

Times are seconds since the epoch by the clock of the database, so that workers need not agree about the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import orjson

from ...fast_dataclass import dataclass
from .rows import Connection, fetch

T = TypeVar("T")
MissedOutcome: TypeAlias = Literal["late", "merged", "skipped"]

_MAX_MISSED: Final = 100  # missed due times, for each schedule
_UPSERT: Final = """
    INSERT INTO schedule AS s (name, project, cron, timezone, context, catch_up, paused, next, held)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)
    ON CONFLICT (name) DO UPDATE SET project = excluded.project, cron = excluded.cron, timezone = excluded.timezone,
        context = excluded.context, catch_up = excluded.catch_up,
        next = CASE WHEN s.cron = excluded.cron AND s.timezone = excluded.timezone AND s.next < excluded.next
            THEN s.next ELSE excluded.next END
"""
_COLUMNS: Final = "name, project, cron, timezone, context, catch_up, paused, next, last"
_IS_DUE: Final = "SELECT 1 FROM schedule WHERE NOT paused AND next <= CAST(? AS float8) LIMIT 1"
_RESERVE_DUE: Final = f"""
    UPDATE schedule SET worker = ?1, held = CAST(?2 AS float8) + CAST(?3 AS float8)
    WHERE NOT paused AND next <= CAST(?2 AS float8) AND (held <= CAST(?2 AS float8) OR worker = ?1)
        AND (CAST(?4 AS text) IS NULL OR project = CAST(?4 AS text))
    RETURNING {_COLUMNS}
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

    def is_like(self, other: TimetableRow) -> bool:
        """Return True if both start the same runs at the same times."""
        return (self.cron, self.timezone, self.context) == (other.cron, other.timezone, other.context)


class Database(Protocol):
    """Where the schedules of a store are."""

    def run_in_transaction(self, work: Callable[[Connection], T], /) -> T:
        """Call `work` in one transaction."""
        ...

    def read(self, work: Callable[[Connection], T], /) -> T:
        """Call `work`, which only reads."""
        ...

    def now(self, connection: Connection, /) -> float:
        """Return the time, in seconds since the epoch."""
        ...


class Timetable:
    """The schedules of a store."""

    # Blocking; safe from any thread.

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self) -> list[TimetableRow]:
        """Return all schedules by name, with the latest missed due times."""

        def work(connection: Connection) -> list[TimetableRow]:
            missed: dict[str, list[Missed]] = {}
            for name, due_at, became, run in fetch(
                connection, "SELECT schedule, due, became, run FROM schedule_missed ORDER BY due"
            ):
                missed.setdefault(name, []).append(Missed(due_at, became, run))
            rows = fetch(connection, f"SELECT {_COLUMNS} FROM schedule ORDER BY name")
            return [_to_row(row, missed.get(row[0], ())) for row in rows]

        return self._database.read(work)

    def replace_all(
        self, rows: Iterable[TimetableRow], project: str | None, *, others_stay: bool = False
    ) -> list[tuple[str, str | None]]:
        """Store the schedules of a project, and delete its other ones; return those that other projects have lost."""

        # A schedule that is known stays paused, and its due times stay unless its cron or its time zone has changed. A
        # later due time than the next one comes from a clock that was ahead: it would keep the schedule from running.
        # The names are those of the store: a project that has a different schedule of the same name loses it. Workers
        # with the same settings in other directories are no other projects.
        rows_to_keep = {row.name: row for row in rows}

        def work(connection: Connection) -> list[tuple[str, str | None]]:
            lost: list[tuple[str, str | None]] = []
            for old in [_to_row(values, ()) for values in fetch(connection, f"SELECT {_COLUMNS} FROM schedule")]:
                row = rows_to_keep.get(old.name)
                if row is None and old.project == project and not others_stay:
                    connection.execute("DELETE FROM schedule_missed WHERE schedule = ?", (old.name,))
                    connection.execute("DELETE FROM schedule WHERE name = ?", (old.name,))
                elif row is not None and old.project != project and not row.is_like(old):
                    lost.append((old.name, old.project))
            for row in rows_to_keep.values():
                context = orjson.dumps(row.context).decode()
                values = (row.name, project, row.cron, row.timezone, context, row.catch_up, row.paused, row.next)
                connection.execute(_UPSERT, values)
            return lost

        return self._database.run_in_transaction(work)

    def pause(self, name: str) -> None:
        """Stop starting runs by a schedule until it is resumed."""
        query = "UPDATE schedule SET paused = true WHERE name = ?"
        self._database.run_in_transaction(lambda c: c.execute(query, (name,)))

    def resume(self, name: str, next: float) -> None:
        """Start runs by a paused schedule again."""
        query = "UPDATE schedule SET paused = false, next = ?2 WHERE name = ?1 AND paused"
        self._database.run_in_transaction(lambda c: c.execute(query, (name, next)))

    def server_time(self) -> float:
        """Return the time by the clock of the database."""
        return self._database.read(self._database.now)

    def reserve_due(self, worker: str, seconds: float, project: str | None = None) -> tuple[float, list[TimetableRow]]:
        """Reserve the schedules that are due: those of a project, or all."""

        # Other workers skip them meanwhile. Mostly nothing is due, which a read shows without the lock of a write.
        def find_due(connection: Connection) -> tuple[float, bool]:
            now = self._database.now(connection)
            return now, bool(fetch(connection, _IS_DUE, (now,)))

        now, is_any_due = self._database.read(find_due)
        if not is_any_due:
            return now, []

        def work(connection: Connection) -> tuple[float, list[TimetableRow]]:
            now = self._database.now(connection)
            return now, [_to_row(row, ()) for row in fetch(connection, _RESERVE_DUE, (worker, now, seconds, project))]

        return self._database.run_in_transaction(work)

    def advance(self, row: TimetableRow, next: float, last: float | None, missed: Sequence[Missed]) -> bool:
        """Record that all due times before `next` are handled."""

        def work(connection: Connection) -> bool:
            # The old `next` in the condition makes this happen once, whichever worker is first.
            if not fetch(connection, _ADVANCE, (row.name, row.next, next, last)):
                return False
            connection.executemany(_RECORD_MISSED, [(row.name, miss.due, miss.outcome, miss.run) for miss in missed])
            if missed:
                connection.execute(_DELETE_OLD_MISSED, (row.name, _MAX_MISSED))
            return True

        return self._database.run_in_transaction(work)


def _to_row(values: Sequence[Any], missed: Sequence[Missed]) -> TimetableRow:
    name, project, cron, timezone, context, catch_up, paused, next, last = values
    return TimetableRow(
        name=name,
        project=project,
        cron=cron,
        timezone=timezone,
        context=orjson.loads(context),
        catch_up=catch_up,
        paused=bool(paused),
        next=next,
        last=last,
        missed=missed,
    )
