"""Schedules in a store on Postgres: what is due, who handles it, which due times were missed.

Times are seconds since the epoch by the server's clock, so that workers need not agree about the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

import orjson

from ..frozen import dataclass
from .connection import fetch
from .fleet import Fleet
from .postgres_session import Session

Became: TypeAlias = Literal["late", "merged", "skipped"]

_NOW: Final = "EXTRACT(EPOCH FROM clock_timestamp())::float8"
_KEPT: Final = 100  # missed due times, for each schedule
_PUT: Final = """
    INSERT INTO schedule AS s (name, project, cron, timezone, context, catch_up, paused, next, held)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0)
    ON CONFLICT (name) DO UPDATE SET project = excluded.project, cron = excluded.cron, timezone = excluded.timezone,
        context = excluded.context, catch_up = excluded.catch_up,
        next = CASE WHEN s.cron = excluded.cron AND s.timezone = excluded.timezone THEN s.next ELSE excluded.next END
"""
_COLUMNS: Final = "name, project, cron, timezone, context, catch_up, paused, next, last"
_TAKE: Final = f"""
    UPDATE schedule SET worker = ?1, held = {_NOW} + CAST(?2 AS float8)
    WHERE NOT paused AND next <= {_NOW} AND (held <= {_NOW} OR worker = ?1) RETURNING {_COLUMNS}
"""
_ADVANCE: Final = """
    UPDATE schedule SET next = ?3, last = coalesce(CAST(?4 AS float8), last), held = 0
    WHERE name = ?1 AND next = CAST(?2 AS float8) RETURNING 1
"""
_MISS: Final = "INSERT INTO schedule_missed (schedule, due, became, run) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_FORGET: Final = """
    DELETE FROM schedule_missed WHERE schedule = ?1 AND due < (
        SELECT min(due) FROM (SELECT due FROM schedule_missed WHERE schedule = ?1 ORDER BY due DESC LIMIT ?2) AS latest)
"""


@dataclass(frozen=True, slots=True)
class Missed:
    """A due time at which no worker could start a run: it was started `late`, `merged` into a later due time, or
    `skipped`. `run` is the id of the run that was started for it."""

    due: float
    became: Became
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
    """The schedules of a store. Blocking; safe from any thread."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def rows(self) -> list[TimetableRow]:
        """Return all schedules by name, with the latest missed due times."""

        def work(session: Session) -> list[TimetableRow]:
            missed: dict[str, list[Missed]] = {}
            for name, due, became, run in fetch(
                session, "SELECT schedule, due, became, run FROM schedule_missed ORDER BY due"
            ):
                missed.setdefault(name, []).append(Missed(due, became, run))
            rows = fetch(session, f"SELECT {_COLUMNS} FROM schedule ORDER BY name")
            return [_row(row, missed.get(row[0], ())) for row in rows]

        return self._fleet.do(work)

    def put(self, rows: Iterable[TimetableRow], project: str | None) -> None:
        """Keep these schedules, and delete the other ones of the project.

        A schedule that is known stays paused, and its due times stay unless its cron or its time zone has changed.
        """
        kept = list(rows)

        def work(session: Session) -> None:
            session.execute(
                "DELETE FROM schedule WHERE project IS NOT DISTINCT FROM ? AND NOT name = ANY(?)",
                (project, [row.name for row in kept]),
            )
            for row in kept:
                what = orjson.dumps(row.context).decode()
                values = (row.name, project, row.cron, row.timezone, what, row.catch_up, row.paused, row.next)
                session.execute(_PUT, values)

        self._fleet.do(work)

    def pause(self, name: str) -> None:
        """Start nothing by a schedule until it is resumed."""
        self._fleet.do(lambda s: s.execute("UPDATE schedule SET paused = true WHERE name = ?", (name,)))

    def resume(self, name: str, next: float) -> None:
        """Start runs again; `next` is the first due time."""
        query = "UPDATE schedule SET paused = false, next = ?2 WHERE name = ?1 AND paused"
        self._fleet.do(lambda s: s.execute(query, (name, next)))

    def now(self) -> float:
        """Return the time of the server."""
        return float(self._fleet.do(lambda s: fetch(s, f"SELECT {_NOW}"))[0][0])

    def take(self, worker: str, seconds: float) -> tuple[float, list[TimetableRow]]:
        """Take the schedules that are due, for some seconds; other workers leave them alone for that long.

        Returns:
            The time of the server, and the schedules.
        """

        def work(session: Session) -> tuple[float, list[TimetableRow]]:
            rows = [_row(row, ()) for row in fetch(session, _TAKE, (worker, seconds))]
            return float(fetch(session, f"SELECT {_NOW}")[0][0]), rows

        return self._fleet.do(work)

    def advance(self, row: TimetableRow, next: float, last: float | None, missed: Sequence[Missed]) -> bool:
        """Note that all due times before `next` are handled; return False if somebody else has done so."""

        def work(session: Session) -> bool:
            if not fetch(session, _ADVANCE, (row.name, row.next, next, last)):
                return False
            session.executemany(_MISS, [(row.name, one.due, one.became, one.run) for one in missed])
            if missed:
                session.execute(_FORGET, (row.name, _KEPT))
            return True

        return self._fleet.do(work)


def _row(values: Sequence[Any], missed: Sequence[Missed]) -> TimetableRow:
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
