"""DyingStore: a store that fails at a chosen write, as if its process had died."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any, Final

from ..errors import StoreError
from ..fast_dataclass import dataclass
from ..journal.memory import MemoryStore
from ..journal.protocol import Definition, Entry, Log, NewRun, OpenWait, Store
from ..values import Json

_EVERY: Final = 1_000_000


@dataclass(eq=False)
class DyingStore:
    """A durable store that dies at a chosen write: that write and all later ones fail with StoreError.

    Writes are appended entries, taken signals, parked runs and finished runs. Everything else goes to the real store.

    Attributes:
        store: The real store.
        at: The number of the fatal write, from 1; None never dies.
        written: The real store keeps the fatal write, and only its acknowledgement is lost.
        writes: The number of writes so far.
        dead: True after the fatal write.
        appended: The entries that the store recorded, in order.
    """

    store: Store
    at: int | None = None
    written: bool = False
    writes: int = 0
    dead: bool = False
    appended: list[Entry] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def open(self, run: NewRun) -> DyingLog:
        """Create a run; a dead store raises StoreError.

        Args:
            run: The run.

        Returns:
            The log of the run.
        """
        self.check_alive()
        return DyingLog(self, await self.store.open(run))

    async def reopen(self, run_id: str, *, again: bool = False) -> DyingLog:
        """Take over a run; a dead store raises StoreError.

        Args:
            run_id: The run.
            again: Also take over a finished run.

        Returns:
            The log of the run.
        """
        self.check_alive()
        return DyingLog(self, await self.store.reopen(run_id, again=again))

    def check_alive(self) -> None:
        """Raise StoreError if the store has died."""
        if self.dead:
            raise StoreError("the store has died")

    def count_write(self) -> bool:
        """Count a write.

        Returns:
            True if the store dies at it.

        Raises:
            StoreError: The store has died already.
        """
        self.check_alive()
        self.writes += 1
        self.dead = self.writes == self.at
        return self.dead

    async def survivor(self, into: Store | None = None) -> Store:
        """Copy everything to a new store, as another process would find it. Unfinished runs can be resumed.

        Args:
            into: An empty store; None makes one in memory.

        Returns:
            The new store.
        """
        fresh_store: Store = into if into is not None else MemoryStore(durable=True)
        definitions: list[Definition] = self.store.list_definitions()
        for definition in definitions:
            fresh_store.put_definition(definition)
        for row in reversed(self.store.list_runs(limit=_EVERY)):
            complete_row = self.store.get_run(row.id)
            if complete_row is None:
                continue
            # The row of a list lacks large fields, so the complete one is read.
            # A row has every field of the request except those that count only when the run is created.
            names = NewRun.__dataclass_fields__.keys() - {"copies", "undoes", "undoes_epoch", "undoes_calls"}
            fields = {name: getattr(complete_row, name) for name in names}
            log = await fresh_store.open(NewRun(**fields))
            for entry in self.store.history(row.id):
                await log.append(entry)
            log.touch(complete_row.current_node, complete_row.spent)
            for signal in self.store.signals(row.id):
                if signal.taken is None:  # taken signals are in the history
                    fresh_store.send(row.id, signal.name, signal.payload, id=signal.id)
            # Leave the run as the dead process did: without an owner, waiting, or finished.
            if complete_row.status == "running":
                await log.release()
            elif complete_row.status == "waiting":
                await log.park(complete_row.due)
            else:
                counts = {"results": complete_row.result_count, "errors": complete_row.error_count}
                await log.finish(complete_row.status, complete_row.result, complete_row.error, **counts)
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
        """Append an entry, unless the store dies at it."""
        try:
            fatal = self._store.count_write()
            if not fatal or self._store.written:
                self._store.appended.append(entry)
                done: asyncio.Future[None] = self._log.append(entry)
                if not fatal:
                    return done
            raise StoreError("the store died at this write")
        except StoreError as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            failed.exception()  # prevents a warning if nobody awaits the future
            return failed

    async def take(self, waits: Sequence[OpenWait]) -> list[Entry]:
        """Take signals, unless the store dies at it."""

        # Without signals to take this is not a write.
        names = {wait.name for wait in waits}
        untaken = (signal for signal in self._store.signals(self._log.run.id) if signal.taken is None)
        if not any(signal.name in names for signal in untaken):
            self._store.check_alive()
            return []
        fatal = self._store.count_write()
        entries: list[Entry] = []
        if not fatal or self._store.written:
            entries = await self._log.take(waits)
            self._store.appended += entries
        if fatal:
            raise StoreError("the store died at this write")
        return entries

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        """Park the run, unless the store dies at it."""
        fatal = self._store.count_write()
        parked = bool(await self._log.park(due, names)) if not fatal or self._store.written else False
        if fatal:
            raise StoreError("the store died at this write")
        return parked

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        """Finish the run, unless the store dies at it."""
        fatal = self._store.count_write()
        final_status = status
        if not fatal or self._store.written:
            final_status = await self._log.finish(status, result, error, results=results, errors=errors)
        if fatal:
            raise StoreError("the store died at this write")
        return str(final_status)

    async def release(self) -> None:
        """Release the run if the store is alive; a dead process releases nothing."""
        if not self._store.dead:
            await self._log.release()
