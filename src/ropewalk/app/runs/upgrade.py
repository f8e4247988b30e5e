"""Continue a run with a changed definition. Without `upgrade`, a change is refused and the differences are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Action, JournalConflict, NotFound, NothingToRetry, Remedy, RopewalkError, display_path
from ...journal.address import run_sync_in_thread
from ...journal.protocol import Entry, Log, RunRow, Store
from ...values import Json
from ..file_stamp import stamp_of
from ..recorded_run import replacement
from .compare import AffectedParts, Change, flow_changes, place_of
from .differences import definition_changed, shown_file, upgrade_remedy
from .instances import Instances

if TYPE_CHECKING:
    from ..context import Context
    from ..jobs import Jobs
    from ..prepared import Prepared, Source
    from ..start import Start

_DECIDED = frozenset(("branch", "items", "node", "scope", "skip"))
_TRIED = frozenset(("attempt", "call_failed"))
_EFFECTS = frozenset(("attempt", "call", "call_failed", "signal", "timer", "wait"))
"""Kinds of entries that must stay: without them, a call is repeated or an event is lost."""


def current_definition(context: Context, row: RunRow) -> Prepared:
    """Return the present definition of a run: the stored one, or the file that the run was started from."""
    stored = context.store.get_definition(row.kind, row.definition_id) if row.definition_id is not None else None
    if stored is not None:
        return context.definitions.get(stored)
    started_with = row.context or {}
    file = started_with.get("root") or started_with.get("file")
    if file is None:
        why = "the run was started from a document, not from a file"
    elif stamp_of(Path(file)) is None:
        why = f"{file} is gone"
    elif not context.definitions.may_read(file):
        why = f"{file} is not in the project"
    else:
        return replacement(context, row, Path(file))
    error = NotFound("definition of run", row.id, why=f"{why}; name the file")
    error.remedy = upgrade_remedy(row)
    raise error


def changed_file(context: Context, run_id: str) -> tuple[str, Remedy] | None:
    """Return the file that a run was started from and the remedy if the file has another definition now, or None."""
    row = context.store.get_run(run_id)
    if row is None or row.parent is not None:
        return None
    try:
        loaded = current_definition(context, row)
    except RopewalkError:  # the run needs the definition that is recorded with it, and no other
        return None
    file = loaded.root or loaded.read_from
    return (
        (display_path(Path(file)), upgrade_remedy(row, file))
        if file and loaded.fingerprint != row.fingerprint
        else None
    )


async def find_upgrade(
    context: Context, row: RunRow, source: Source | None, upgrade: bool
) -> tuple[Prepared, list[Change]] | None:
    """Return the changed definition for a run, with the changes; None if it is the definition that the run has."""
    if source is None and not upgrade:
        return None

    def load() -> Awaitable[tuple[Prepared, list[Change]] | None]:
        return run_sync_in_thread(context.store, lambda: _changed(context, row, source, upgrade))

    return await context.definitions.connecting(load)


def _changed(
    context: Context, row: RunRow, source: Source | None, upgrade: bool
) -> tuple[Prepared, list[Change]] | None:
    loaded = current_definition(context, row) if source is None else replacement(context, row, source)
    if loaded.fingerprint == row.fingerprint:
        return None
    created = flow_changes(context.definitions.get(row).flow, loaded.flow)
    if not upgrade:
        raise definition_changed(row, created, loaded)
    return loaded, created


class Upgrade:
    """The change of the definition of an opened run."""

    # It can be undone until the new definition calls a tool.

    def __init__(self, log: Log, loaded: Prepared, changes_made: list[Change]) -> None:
        self._run, self._loaded = log.run, loaded
        self._before = dict(log.past)
        self._dropped: list[Entry] = []
        self._touched = {item.place for item in changes_made}
        self._reach = AffectedParts(loaded.flow)
        self._reach.add_changes(changes_made)

    async def apply(self, log: Log) -> None:
        """Pin the run to the new definition."""

        # Recorded calls stay, and must fit. Decisions that the change reaches are made again, and failed calls of
        # changed nodes are tried again.
        entries = self._before.values()
        self._dropped = [
            entry
            for entry, place in self._places(entries)
            if (entry.kind in _DECIDED and self._reaches(place)) or (entry.kind in _TRIED and place in self._touched)
        ]
        await log.forget([(entry.path, entry.kind) for entry in self._dropped])
        await log.pin(self._loaded.document, self._loaded.fingerprint)

    async def undo(self, store: Store) -> bool:
        """Give a run that is released its old definition back, with the decisions that `apply` dropped."""

        # A run that has called or awaited something under the new definition keeps the new one: its record fits no
        # other.
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
        return self._reach.plan.holds(place) or place in self._reach.plan.ended

    def _places(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, str]]:
        """Pair each entry of a node of the new definition with the place of the node."""
        listed = list(entries)
        result = Instances(self._loaded.flow.body, listed)
        for entry in listed:
            attempt = result.at(entry.path)
            if attempt is not None:
                yield entry, place_of(attempt.instance)


@asynccontextmanager
async def upgrading(store: Store, log: Log, to: tuple[Prepared, list[Change]] | None) -> AsyncIterator[None]:
    """Pin an opened run to another definition while the body continues it."""

    # When the body finds that the record does not fit, the run gets its old definition back. The body releases the log.
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
            error.args = (f"{error.args[0]}; the run keeps its old definition",)
            # A new run takes what still fits from the record.
            step = {} if error.remedy is None else {**error.remedy.arguments}
            action = Action.RETRY_UPGRADED if "node" in step else Action.FORK_CHANGED
            error.with_remedy(action, **{"run_id": log.run.id, **step, "file": shown_file(to[0].read_from)})
        raise


def upgraded(start: Start, to: tuple[Prepared, list[Change]] | None) -> Start:
    """Return the start of a run that continues with a changed definition, or with its own."""
    return start if to is None else replace(start, definition=to[0])


async def resume(jobs: Jobs, row: RunRow, source: Source | None, upgrade: bool, start: Start) -> dict[str, Json]:
    """Resume a run with a changed definition; `App.resume` describes the arguments."""
    context = jobs.context
    to = await find_upgrade(context, row, source, upgrade)
    job = await jobs.for_existing(row, upgraded(start, to))
    log = await context.store.reopen(row.id)
    async with upgrading(context.store, log, to):
        return await jobs.continue_run(job, log)
