"""Going on with a run under a changed definition: what differs is shown, and refused unless that is meant."""

from __future__ import annotations

from collections.abc import Callable
from os import path
from typing import TYPE_CHECKING, Any

from ..errors import DefinitionChanged, NotFound, Problem
from ..events import Event
from ..journal.journal import Log, RunRow
from ..journal.offloop import off_loop
from ..values import Json
from .changes import Change, Reach, changes, place_of
from .instances import Instances
from .pinned import known, other, pinned

if TYPE_CHECKING:
    from ..app import App
    from ..definitions import Loaded, Source
    from ..jobs import Executor

_DECIDED = frozenset(("branch", "items", "node", "scope", "skip"))
_TRIED = frozenset(("attempt", "call_failed"))


def current(app: App, row: RunRow) -> Loaded:
    """The definition of a run as it is now: as it is stored, or in the file that the run was started from."""
    stored = app.store.get_definition(row.kind, row.definition_id) if row.definition_id is not None else None
    if stored is not None:
        return app.definitions.stored(stored)
    context = row.context or {}
    file = context.get("root") or context.get("file")
    if file is None or not path.exists(file):
        why = "it was given as a document; name the file" if file is None else f"{file} is gone; name the file"
        raise NotFound("definition of run", row.id, why=f"{why}: ropewalk resume {row.id} --upgrade FILE")
    return other(app, row, file)


def upgraded(app: App, row: RunRow, source: Source | None, upgrade: bool) -> tuple[Loaded, list[Change]] | None:
    """The definition that a run is to go on under, where that is another one than its own. Raises DefinitionChanged,
    with every difference, unless it is to be upgraded."""
    if source is None and not upgrade:
        return None
    loaded = current(app, row) if source is None else other(app, row, source)
    if loaded.fingerprint == row.fingerprint:
        return None
    made = changes(pinned(app, row).flow, loaded.flow)
    if not upgrade:
        raise changed(row.id, made, loaded)
    return loaded, made


def changed(run_id: str, made: list[Change], loaded: Loaded) -> DefinitionChanged:
    """The error that shows the difference, each at its place in the newer file."""
    problems = [_problem(one, loaded) for one in made]
    return DefinitionChanged(run_id, problems)


def _problem(change: Change, loaded: Loaded) -> Problem:
    file: Any = loaded.file
    place = file.locate(change.source) if file is not None and change.source and change.what != "removed" else None
    said = {"added": "is new", "removed": "is gone"}.get(change.what, f"changed in {', '.join(change.fields)}")
    return Problem(path=change.place or "the definition", message=said, place=place)


async def pin(log: Log, loaded: Loaded, made: list[Change]) -> None:
    """Have an opened run go on under another definition. Recorded calls stay, and must fit; what was decided where the
    change reaches is decided anew, and what failed in a changed node is tried anew."""
    reach = Reach(loaded.flow)
    reach.change(made)
    touched = {one.place for one in made}
    entries = list(log.past.values())
    found = Instances(loaded.flow.body, entries)
    gone = []
    for entry in entries:
        attempt = found.at(entry.path)
        if attempt is None:
            continue
        place = place_of(attempt.instance)
        if (entry.kind in _DECIDED and (reach.cone.holds(place) or place in reach.cone.ended)) or (
            entry.kind in _TRIED and place in touched
        ):
            gone.append((entry.path, entry.kind))
    await log.forget(gone)
    await log.pin(loaded.document, loaded.fingerprint)


async def resume(
    app: App,
    row: RunRow,
    source: Source | None,
    upgrade: bool,
    executor: Executor | None,
    on_event: Callable[[Event], None] | None,
    park: bool,
) -> dict[str, Json]:
    """See `App.resume`."""
    to = await off_loop(app.store, lambda: upgraded(app, row, source, upgrade))
    job = await app.jobs.again(row, executor=executor, on_event=on_event, loaded=None if to is None else to[0])
    job.park = park
    log = await app.store.reopen(row.id)
    if to is not None and log.finished is None:
        try:
            await pin(log, *to)
        except BaseException:
            await log.release()
            raise
    return await app.jobs.resumed(job, log)


def shown(app: App, error: DefinitionChanged, run_id: str | None, loaded: Loaded) -> DefinitionChanged:
    """The error of a run that was to be gone on with under another definition, with what differs."""
    if error.run_id != run_id:
        return error  # that of a flow which it calls as a tool
    row = known(app.store, run_id)
    return changed(run_id, changes(pinned(app, row).flow, loaded.flow), loaded)
