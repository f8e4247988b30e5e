"""Going on with a run under a changed definition: what differs is shown, and refused unless that is meant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from os import path
from typing import TYPE_CHECKING, Any

from ..errors import DefinitionChanged, JournalConflict, NotFound, NothingToRetry, Problem
from ..events import Event
from ..journal.journal import Entry, Log, RunRow, Store
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
_EFFECTS = frozenset(("attempt", "call", "call_failed", "signal", "timer", "wait"))
"""Facts that dropping would repeat a call, or lose an event."""


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


class Upgrade:
    """A change of definition of an opened run, which can be undone while nothing was called under the new one."""

    def __init__(self, log: Log, loaded: Loaded, made: list[Change]) -> None:
        self._run, self._loaded = log.run, loaded
        self._before = dict(log.past)
        self._dropped: list[Entry] = []
        self._touched = {one.place for one in made}
        self._reach = Reach(loaded.flow)
        self._reach.change(made)

    async def apply(self, log: Log) -> None:
        """Pin the run to the new definition.

        Recorded calls stay, and must fit. Decisions that the change reaches are made again, and failed calls of changed
        nodes are tried again.
        """
        entries = self._before.values()
        self._dropped = [
            entry
            for entry, place in self._places(entries)
            if (entry.kind in _DECIDED and self._reaches(place)) or (entry.kind in _TRIED and place in self._touched)
        ]
        await log.forget([(entry.path, entry.kind) for entry in self._dropped])
        await log.pin(self._loaded.document, self._loaded.fingerprint)

    async def undo(self, store: Store) -> bool:
        """Give a run that is released its old definition back, with the decisions that `apply` dropped.

        A run that has called or awaited something under the new definition keeps the new one: its record fits no other.

        Returns:
            True if the run has its old definition.
        """
        log = await store.reopen(self._run.id)
        try:
            if log.finished is not None or log.run.fingerprint == self._run.fingerprint:
                return log.finished is None  # it failed before the definition was changed
            return await self._restore(log)
        finally:
            await log.release()

    async def _restore(self, log: Log) -> bool:
        since = [entry for key, entry in log.past.items() if self._before.get(key) != entry]
        reached = [entry for entry, place in self._places(since) if self._reaches(place) or place in self._touched]
        if any(entry.kind in _EFFECTS for entry in reached):
            return False
        await log.forget([(entry.path, entry.kind) for entry in reached])
        for entry in self._dropped:
            if (entry.path, entry.kind) not in log.past:
                await log.append(entry)
        await log.pin(self._run.document, self._run.fingerprint)
        return True

    def _reaches(self, place: str) -> bool:
        return self._reach.cone.holds(place) or place in self._reach.cone.ended

    def _places(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, str]]:
        """Pair each entry of a node of the new definition with the place of the node."""
        some = list(entries)
        found = Instances(self._loaded.flow.body, some)
        for entry in some:
            attempt = found.at(entry.path)
            if attempt is not None:
                yield entry, place_of(attempt.instance)


@asynccontextmanager
async def upgrading(store: Store, log: Log, to: tuple[Loaded, list[Change]] | None) -> AsyncIterator[None]:
    """Pin an opened run to another definition while the body continues it.

    When the body finds that the record does not fit, the run gets its old definition back. The body releases the log.
    """
    if to is None or log.finished is not None:
        yield
        return
    upgrade = Upgrade(log, *to)
    try:
        try:
            await upgrade.apply(log)
        except BaseException:
            await log.release()
            raise
        yield
    except (JournalConflict, NotFound, NothingToRetry) as error:
        if await upgrade.undo(store) and type(error) is JournalConflict:
            said = f"{error}; the run keeps its old definition: add --upgrade FILE to that command to use the new one"
            error.args = (said,)
        raise


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
    async with upgrading(app.store, log, to):
        return await app.jobs.resumed(job, log)


def shown(app: App, error: DefinitionChanged, run_id: str | None, loaded: Loaded) -> DefinitionChanged:
    """The error of a run that was to be gone on with under another definition, with what differs."""
    if error.run_id != run_id:
        return error  # that of a flow which it calls as a tool
    row = known(app.store, run_id)
    return changed(run_id, changes(pinned(app, row).flow, loaded.flow), loaded)
