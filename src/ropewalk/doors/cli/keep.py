"""`runs prune`, `runs versions`: what is kept of runs and definitions, and for how long."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter, validators

from ...errors import NotFound
from ...journal.journal import ENDS
from ...source import visible
from ...values import closest
from .answer import Answer
from .exits import UsageError
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import with_app
from .table import columns, moment, size

if TYPE_CHECKING:
    from ...app import App

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def span(text: str, option: str) -> float:
    """Seconds from a length of time such as `90m` or `30d`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise UsageError(f"{option} {text!r}: must be a number with s, m, h, d or w, such as 2h or 30d")
    return float(found[1]) * _UNITS[found[2]]


def instant(text: str | None, option: str) -> float | None:
    """Seconds since the epoch from `2h` (so long ago), `2026-11-01` or `2026-11-01T12:30`, in the local zone."""
    if text is None:
        return None
    if _SPAN.fullmatch(text):
        return time.time() - span(text, option)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = "must be a time such as 2026-11-01 or 2026-11-01T12:30, or how long ago: 2h, 30d"
        raise UsageError(f"{option} {text!r}: {message}") from None


def prune(
    *,
    older_than: Annotated[str | None, Parameter(help="Runs that ended so long ago: 12h, 30d.")] = None,
    keep: Annotated[
        int | None, Parameter(validator=validators.Number(gte=0), help="All but the newest so many.")
    ] = None,
    status: Annotated[tuple[str, ...], Parameter(negative=(), help="Only runs with this status; repeatable.")] = (),
    dry_run: Annotated[bool, Parameter(negative=(), help="Only say what would go.")] = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Delete runs that have ended, with all that is recorded of them, and free their space."""
    if older_than is None and keep is None:
        raise UsageError("say which runs: --older-than 30d, --keep 1000, or both")
    for one in status:
        if one not in ENDS:
            near = closest(one, ENDS)
            raise UsageError(f"--status {one!r}: " + (f"did you mean {near}?" if near else f"one of {', '.join(ENDS)}"))
    seconds = None if older_than is None else span(older_than, "--older-than")

    async def work(app: App, _: Interrupts) -> Answer:
        gone = app.runs.prune(older_than=seconds, keep=keep, status=status, dry=dry_run)
        said = "would be deleted" if dry_run else "deleted"
        text = f"{gone.runs} run{'' if gone.runs == 1 else 's'} {said}, {size(gone.bytes)}"
        return Answer(data={"runs": gone.runs, "bytes": gone.bytes, "dryRun": dry_run}, text=text)

    return with_app(work, project=project, store=store, tools=False)


def versions(
    id: str,
    number: int | None = None,
    /,
    *,
    kind: Annotated[str, Parameter(help="The kind of the definition.")] = "chain",
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """List every version that is kept of a stored definition; with a NUMBER print that one."""

    async def work(app: App, _: Interrupts) -> Answer:
        found = app.runs.versions(kind, id)
        if not found:
            near = closest(id, [one.id for one in app.store.list_definitions(kind)])
            raise NotFound(kind, id, suggestion=near)
        if number is not None:
            one = next((one for one in found if one.version == number), None)
            if one is None:
                kept = ", ".join(str(other.version) for other in found)
                raise NotFound(f"version of {kind} {id}", str(number), why=f"kept are {kept}")
            document = {"kind": kind, **one.document}
            return Answer(data=document, text=orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        rows: list[tuple[Any, ...]] = [(v.version, v.fingerprint, moment(v.created), v.run_count) for v in found]
        data = [
            {"version": v.version, "fingerprint": v.fingerprint, "created": v.created, "runs": v.run_count}
            for v in found
        ]
        return Answer(data=data, text=visible(columns(("VERSION", "FINGERPRINT", "SAVED", "RUNS"), rows)))

    return with_app(work, project=project, store=store, tools=False)
