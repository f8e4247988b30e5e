"""`store copy`: what one store holds, into another one.

`runs prune`, `runs versions`: what is kept of runs and definitions, and for how long.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from ...duration import read_duration
from ...errors import NotFound
from ...journal.address import open_store
from ...journal.protocol import ENDS
from ...source.document import escape_invisible, json_text
from ...values import did_you_mean
from .dispatch import FAILED, Answer, UsageError
from .options import Json, Project, StoreAddress
from .output import columns, moment, size
from .session import Interrupts, with_app

if TYPE_CHECKING:
    from ...app.app import App


def copy(source: str, target: str, /, *, json: Json = False) -> Answer:
    """Copy a store into another one, for example from SQLite to Postgres.

    Existing runs and definitions of the target stay unchanged, so the command can be repeated. Runs that are
    executing are not copied (exit code 1).

    Args:
        source: Address or file of the store to copy.
        target: Address or file of the store to copy into; created if it does not exist.
    """
    from ...journal.sql.copying import copy as copy_store

    here = open_store(source, existing=True)
    try:
        there = open_store(target)
        try:
            done = copy_store(here, there)
        finally:
            there.close()
    finally:
        here.close()
    # Runs that a process executes would change during the copy, so they are left out and named.
    rows = [("definitions", done.definitions, done.existing_definitions), ("runs", done.runs, done.existing_runs)]
    lines = [columns(("", "COPIED", "THERE BEFORE"), rows)]
    if done.parts:
        lines.append(f"with the runs {done.parts:,} that are parts of them")
    if done.live:
        lines.append(f"being executed, so not copied: {', '.join(done.live)}; copy again when they have ended")
    return Answer(
        exit=FAILED if done.live else 0,
        data={
            "definitions": done.definitions,
            "definitionsThere": done.existing_definitions,
            "runs": done.runs,
            "parts": done.parts,
            "there": done.existing_runs,
            "live": done.live,
        },
        text="\n".join(lines),
    )


def span(text: str, option: str) -> float:
    """Seconds from a length of time such as `90m` or `30d`."""
    seconds = read_duration(text)
    if isinstance(seconds, str):
        raise UsageError(f"{option} {text!r}: must be a number with s, m, h, d or w, such as 2h or 30d")
    return float(seconds)


def instant(text: str | None, option: str) -> float | None:
    """Seconds since the epoch from `2h` (so long ago), `2026-11-01` or `2026-11-01T12:30`, in the local zone."""
    if text is None:
        return None
    if not isinstance(seconds := read_duration(text), str):
        return time.time() - float(seconds)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = "must be a time such as 2026-11-01 or 2026-11-01T12:30, or how long ago: 2h, 30d"
        raise UsageError(f"{option} {text!r}: {message}") from None


def prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="Delete runs that ended longer ago than this: 12h, 30d (s, m, h, d or w).")
    ] = None,
    keep: Annotated[int | None, Parameter(validator=validators.Number(gte=0), help="Keep the newest N runs.")] = None,
    status: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Delete only runs with this status; repeatable.")
    ] = (),
    dry_run: Annotated[bool, Parameter(negative=(), help="Show what would be deleted, and delete nothing.")] = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Delete finished runs with everything recorded of them, and free their disk space."""
    if older_than is None and keep is None:
        raise UsageError("say which runs: --older-than 30d, --keep 1000, or both")
    for item in status:
        if item not in ENDS:
            near = did_you_mean(item, ENDS)
            raise UsageError(
                f"--status {item!r}: " + (f"did you mean {near}?" if near else f"one of {', '.join(ENDS)}")
            )
    seconds = None if older_than is None else span(older_than, "--older-than")

    async def work(app: App, _: Interrupts) -> Answer:
        pruned = app.runs.prune(older_than=seconds, keep=keep, status=status, dry=dry_run)
        message = "would be deleted" if dry_run else "deleted"
        text = f"{pruned.runs} run{'' if pruned.runs == 1 else 's'} {message}, {size(pruned.bytes)}"
        return Answer(data={"runs": pruned.runs, "bytes": pruned.bytes, "dryRun": dry_run}, text=text)

    return with_app(work, project=project, store=store, tools=False)


def versions(
    id: Annotated[str, Parameter(help="Id of the definition.")],
    number: Annotated[int | None, Parameter(help="Number of the version to print.")] = None,
    /,
    *,
    kind: Annotated[str, Parameter(help="Kind of the definition: chain or composition.")] = "chain",
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """List the kept versions of a stored definition, or print version NUMBER."""

    async def work(app: App, _: Interrupts) -> Answer:
        result = app.runs.versions(kind, id)
        if not result:
            near = did_you_mean(id, [entry.id for entry in app.store.list_definitions(kind)])
            raise NotFound(kind, id, suggestion=near)
        if number is not None:
            item = next((entry for entry in result if entry.version == number), None)
            if item is None:
                versions = ", ".join(str(other.version) for other in result)
                raise NotFound(f"version of {kind} {id}", str(number), why=f"kept are {versions}")
            document = {"kind": kind, **item.document}
            return Answer(data=document, text=json_text(document))
        rows: list[tuple[Any, ...]] = [(v.version, v.fingerprint, moment(v.created), v.run_count) for v in result]
        data = [
            {"version": v.version, "fingerprint": v.fingerprint, "created": v.created, "runs": v.run_count}
            for v in result
        ]
        return Answer(data=data, text=escape_invisible(columns(("VERSION", "FINGERPRINT", "SAVED", "RUNS"), rows)))

    return with_app(work, project=project, store=store, tools=False)
