"""`doctor --runs`: where every unfinished run is, and what is done about one that is nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import RopewalkError

if TYPE_CHECKING:
    from ...app import App

_SHOWN = 20  # violations named


def unfinished(app: App) -> Iterator[tuple[str, str, str]]:
    """Yield findings about unfinished runs: a name, a state (ok, note or fault) and a sentence."""
    try:
        if app.distributed:
            yield from _in_fleet(app)
        else:
            yield from _in_store(app)
    except (RopewalkError, OSError) as error:
        yield "runs", "fault", str(error)


def _in_fleet(app: App) -> Iterator[tuple[str, str, str]]:
    found = app.workers.places()
    yield "runs", "ok", _counted(found.counts)
    if not found.violations:
        return
    repaired = set(app.workers.repair())
    for one in found.violations[:_SHOWN]:
        what = "dispatched again" if one.id in repaired else "a live worker repairs it within a few seconds"
        yield f"run {one.id}", "note" if one.id in repaired else "fault", f"{one.why}; {what}"
    if len(found.violations) > _SHOWN:
        yield "runs", "note", f"and {len(found.violations) - _SHOWN:,} more runs like these"


def _in_store(app: App) -> Iterator[tuple[str, str, str]]:
    """Without workers nothing is queued: a run has an owner, waits, is parked, or its process is gone."""
    statuses = ("running", "waiting", "parked")
    rows = {status: app.store.list_runs(status=status, top=True, limit=10_000) for status in statuses}
    running = rows.pop("running")
    gone = {row.id for row in app.store.orphans(10_000)}
    left = [row.id for row in running if row.id in gone]
    others = {status: len(found) for status, found in rows.items()}
    yield "runs", "ok", _counted({"executing": len(running) - len(left), **others, "interrupted": len(left)})
    for id in left[:_SHOWN]:
        yield f"run {id}", "note", f"its process is gone; continue it with: ropewalk resume {id}"


def _counted(counts: dict[str, int]) -> str:
    return "unfinished: " + ", ".join(f"{count:,} {place}" for place, count in counts.items())
