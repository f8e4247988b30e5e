"""The command `overview`: runs, failures, waits, schedules and queues on one screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Annotated, Any, Final

from cyclopts import Parameter

from ...app.duty import overview as read_overview
from ...app.presenters import overview_data
from ...source.document import escape_invisible
from .dispatch import Answer, UsageError
from .options import Json, Project, StoreAddress
from .output import columns, first_line, moment
from .session import Interrupts, store_options, with_app
from .signals import command, wait_text
from .store import instant

_PERIODS: Final = 24
_MAX_ROWS: Final = 10  # of each list in the text


def overview(
    *,
    since: Annotated[
        str, Parameter(help="Count runs started since then: 2h or 30d (ago), 2026-11-01, 2026-11-01T12:30.")
    ] = "24h",
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Show runs by definition and status, failures by error, what waits, the next schedules, and the queues."""
    start, end = instant(since, "--since"), time.time()
    if start is None or start >= end:
        raise UsageError(f"--since {since!r}: must be a time in the past")

    async def work(app: Any, _: Interrupts) -> Answer:
        read = await asyncio.to_thread(read_overview, app, start, end, _PERIODS)
        data = overview_data(read)
        waits = _wait_lines(read.waits, store_options(store, project))
        return Answer(data=data, text="\n\n".join(_sections(data, waits)))

    return with_app(work, project=project, store=store, tools=False)


def _wait_lines(waits: Sequence[Mapping[str, Any]], options: str) -> list[str]:
    """Return a line for each wait and the command that answers it."""
    lines = []
    for wait in waits[:_MAX_ROWS]:
        run = str(wait["runId"])
        lines += [f"  {run}: {wait_text(dict(wait))}", f"    {command(quote(run), dict(wait))}{options}"]
    more = len(waits) - _MAX_ROWS
    return [escape_invisible(line) for line in lines] + ([f"  ({more} more)"] if more > 0 else [])


def _sections(data: Mapping[str, Any], wait_lines: Sequence[str]) -> Iterator[str]:
    """Yield the parts of the text; those without content are left out."""
    if not data["runs"]:
        yield f"no runs since {_local(data['since'])}; --since looks further back, `ropewalk run FILE` starts a run"
    else:
        statuses = sorted({status for item in data["definitions"] for status in item["statuses"]})
        rows = [
            (
                item["name"] or item["id"] or "-",
                item["runs"],
                *(item["statuses"].get(status, "-") for status in statuses),
            )
            for item in data["definitions"]
        ]
        head = ("DEFINITION", "RUNS", *map(str.upper, statuses))
        yield _table(head, rows, data["definitionCount"])
    if data["failures"]:
        rows = [
            (
                f["count"],
                f["name"] or f["id"] or "-",
                f["node"] or "-",
                first_line(f["message"]),
                _local(f["last"]),
                f["runId"],
            )
            for f in data["failures"]
        ]
        yield _table(("FAILED", "DEFINITION", "NODE", "ERROR", "LAST", "RUN"), rows, data["failureCount"])
    waits = [(count, name[:-1] if count == 1 else name) for name, count in data["waiting"].items() if count]
    if waits:
        counts = ", ".join(f"{count} {name}" for count, name in waits)
        yield "\n".join([f"waiting: {counts}", *wait_lines])
    if due := [s for s in data["schedules"] if s["next"]]:
        rows = [(s["name"], s["flow"], s["next"], s["status"] or "-") for s in sorted(due, key=_when)]
        yield _table(("SCHEDULE", "FLOW", "NEXT", "LAST RUN"), rows, len(rows))
    if data["queues"]:
        rows = [(q["name"], q["waiting"], q["running"], q["concurrency"] or "-") for q in data["queues"]]
        yield _table(("QUEUE", "WAITING", "RUNNING", "LIMIT"), rows, len(rows))
    if data["workers"] is not None:
        yield f"workers: {len(data['workers'])}"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]], total: int) -> str:
    table, more = columns(head, rows[:_MAX_ROWS]), total - _MAX_ROWS
    return f"{table}\n({more} more)" if more > 0 else table


def _local(time_text: str) -> str:
    return moment(datetime.fromisoformat(time_text).timestamp())


def _when(schedule: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(schedule["next"])
