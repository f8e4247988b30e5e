"""A store that dies as its process would."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any, Final

from ..errors import StoreError
from ..frozen import dataclass
from ..journal.journal import Definition, Entry, Log, NewRun, Store, Wanted
from ..journal.memory import MemoryStore
from ..values import Json

_EVERY: Final = 1_000_000


@dataclass(eq=False)
class DyingStore:
    """A durable store that dies at its `at`-th write, as with the process: that write and all after
    it fail with StoreError, and nothing is released. None: it lives, and `writes` counts.

    A write is an appended entry, a signal taken, a run parked or ended. With `written` the fatal one is kept and only
    its acknowledgement is lost. Everything else is the store's own.
    """

    store: Store
    at: int | None = None
    written: bool = False
    writes: int = 0
    dead: bool = False
    appended: list[Entry] = field(default_factory=list)
    """What this store was asked to record, in order."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def open(self, run: NewRun) -> DyingLog:
        self.alive()
        return DyingLog(self, await self.store.open(run))

    async def reopen(self, run_id: str, *, again: bool = False) -> DyingLog:
        self.alive()
        return DyingLog(self, await self.store.reopen(run_id, again=again))

    def alive(self) -> None:
        if self.dead:
            raise StoreError("the store has died")

    def fatal(self) -> bool:
        """Count a write; whether it is the one at which the store dies."""
        self.alive()
        self.writes += 1
        self.dead = self.writes == self.at
        return self.dead

    async def survivor(self, into: Store | None = None) -> Store:
        """A fresh store (in memory, unless `into` is given) with what this one holds, all of it
        acknowledged; its running runs have no owner, so they can be resumed."""
        fresh_store: Store = into if into is not None else MemoryStore(durable=True)
        definitions: list[Definition] = self.store.list_definitions()
        for definition in definitions:
            fresh_store.put_definition(definition)
        for row in reversed(self.store.list_runs(limit=_EVERY)):
            whole = self.store.get_run(row.id)
            if whole is None:
                continue
            shared = {name: getattr(whole, name) for name in NewRun.__dataclass_fields__ if name != "copies"}
            log = await fresh_store.open(NewRun(**shared))
            for entry in self.store.history(row.id):
                await log.append(entry)
            log.touch(whole.current_node, whole.spent)
            for signal in self.store.signals(row.id):
                if signal.taken is None:  # what was taken is in the history
                    fresh_store.send(row.id, signal.name, signal.payload, id=signal.id)
            if whole.status == "running":
                await log.release()
            elif whole.status == "waiting":
                await log.park(whole.due)
            else:
                counts = {"results": whole.result_count, "errors": whole.error_count}
                await log.finish(whole.status, whole.result, whole.error, **counts)
        return fresh_store


class DyingLog:
    """The log of a run in a DyingStore."""

    def __init__(self, store: DyingStore, log: Log) -> None:
        object.__setattr__(self, "_store", store)
        object.__setattr__(self, "_log", log)

    _store: DyingStore
    _log: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._log, name, value)  # `on_stop`, `on_signal`

    def append(self, entry: Entry) -> asyncio.Future[None]:
        try:
            fatal = self._store.fatal()
            if not fatal or self._store.written:
                self._store.appended.append(entry)
                done: asyncio.Future[None] = self._log.append(entry)
                if not fatal:
                    return done
            raise StoreError("the store dies now")
        except StoreError as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            failed.exception()  # looked at: not awaiting it is allowed
            return failed

    async def take(self, waits: Sequence[Wanted]) -> list[Entry]:
        """A write only when there is something to take."""
        names = {wait.name for wait in waits}
        kept = (signal for signal in self._store.signals(self._log.run.id) if signal.taken is None)
        if not any(signal.name in names for signal in kept):
            self._store.alive()
            return []
        fatal = self._store.fatal()
        taken: list[Entry] = []
        if not fatal or self._store.written:
            taken = await self._log.take(waits)
            self._store.appended += taken
        if fatal:
            raise StoreError("the store dies now")
        return taken

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        fatal = self._store.fatal()
        parked = bool(await self._log.park(due, names)) if not fatal or self._store.written else False
        if fatal:
            raise StoreError("the store dies now")
        return parked

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        fatal = self._store.fatal()
        stands = status
        if not fatal or self._store.written:
            stands = await self._log.finish(status, result, error, results=results, errors=errors)
        if fatal:
            raise StoreError("the store dies now")
        return str(stands)

    async def release(self) -> None:
        if not self._store.dead:  # a dead process releases nothing
            await self._log.release()
