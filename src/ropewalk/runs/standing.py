"""How it stands with a run that is `running` while no process executes it: who goes on with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..journal.journal import RunRow
from ..journal.sql_rows import CHUNK
from ..journal.strays import anybodys
from ..values import Json
from .answers import answered

if TYPE_CHECKING:
    from .seen import Runs

STANDINGS: Final = ("queued", "interrupted", "answered")
"""What such a run is called; see `Runs.standing`."""
LEFT: Final = ("interrupted", "answered")
"""Of those the ones that `resume` goes on with."""


def told(standing: str | None) -> dict[str, Json]:
    """Which of STANDINGS a run has, as data."""
    return {one: standing == one for one in STANDINGS}


def standing(runs: Runs, rows: Iterable[RunRow]) -> dict[str, str]:
    """See `Runs.standing`."""
    running = [row for row in rows if row.status == "running"]
    gone = {row.id for row in runs.store.orphans()} if running else set()
    found = {
        row.id: "queued" if attended(runs, row) else "interrupted"
        for row in running
        if row.id in gone or (runs.store.remote and not row.owner)  # only some of the orphans are told
    }
    if "interrupted" in found.values():
        found |= {id: "answered" for id in answered(runs) if found.get(id) == "interrupted"}
    return found


def attended(runs: Runs, row: RunRow) -> bool:
    """See `Runs.attended`."""
    if not runs.store.remote:
        return False
    full = row if row.context is not None else runs.store.get_run(row.id)
    context = (full.context if full is not None else None) or {}
    if row.kind == CHUNK or ("queue" in context and not context.get("executor")):
        return True
    return anybodys(context) and bool(runs.app.workers.fleet.alive())
