"""The quarantine of runs that kill their processes.

A suspect is a run whose processes died repeatedly (`journal/sql/recovery.py`). It executes alone in its process until
it has recorded something or has ended; meanwhile other processes take the other runs. A suspect that does not get its
process alone in time begins all the same, because it matters more that every run ends. For the same reason the others
begin after some time where no other process takes them.

The runs that a server starts for requests do not wait for a suspect, and a suspect does not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary

from ..journal.protocol import Store

log = logging.getLogger("ropewalk.workers")
PATIENCE: Final = 60.0  # seconds that a suspect waits for the runs of its worker to end, and the next ones for it
CHUNK_PATIENCE: Final = 10.0  # seconds that a suspected chunk waits; it is less because another run waits for the chunk
_CHECK_INTERVAL: Final = 0.5  # seconds between checks whether a run is still a suspect


async def _no() -> bool:
    return False


class Quarantine:
    """Lets a suspect execute alone in its worker."""

    # Used on the event loop of the worker.

    def __init__(self) -> None:
        self._executing: list[str] = []
        self._waiting = 0
        self._suspect: str | None = None
        self._changed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """True if a suspect has the worker or waits for it, so that no other run may begin."""
        return self._suspect is not None or self._waiting > 0

    @contextlib.asynccontextmanager
    async def run_with_others(self, run_id: str, *, at_once: bool = False) -> AsyncIterator[None]:
        """Hold a place among other runs; wait for suspects first, unless `at_once`."""
        while self.is_closed and not at_once:
            await self._wait_for_change()
        self._executing.append(run_id)
        try:
            yield
        finally:
            self._executing.remove(run_id)
            self._notify()

    @contextlib.asynccontextmanager
    async def run_alone(
        self,
        run_id: str,
        still_suspect: Callable[[], Awaitable[bool]],
        patience: float = PATIENCE,
        others_are_served: Callable[[], Awaitable[bool]] = _no,
    ) -> AsyncIterator[None]:
        """Hold the process for one suspect."""

        # `others_are_served`: Whether another process takes the other runs. Else they begin after `PATIENCE`.
        self._waiting += 1
        try:
            # Not `wait_for`, which waits in a task of its own on Python 3.11: two suspects would both find it empty.
            async with asyncio.timeout(patience):
                await self._wait_until_empty(run_id)
        except TimeoutError:
            log.warning("run %s may kill its worker, but other runs still execute there after %g s", run_id, patience)
        finally:
            self._waiting -= 1
            self._notify()
        is_owner = self._suspect is None
        if is_owner:
            self._suspect = run_id
        self._executing.append(run_id)
        watching = asyncio.ensure_future(self._watch_suspect(run_id, still_suspect, others_are_served))
        try:
            yield
        finally:
            watching.cancel()
            self._executing.remove(run_id)
            if is_owner and self._suspect == run_id:
                self._suspect = None
            self._notify()

    async def _wait_until_empty(self, run_id: str) -> None:
        # A run that waits for its own chunk does not count.
        while self._suspect is not None or any(not run_id.startswith(f"{other}/") for other in self._executing):
            await self._wait_for_change()

    async def _watch_suspect(
        self,
        run_id: str,
        still_suspect: Callable[[], Awaitable[bool]],
        others_are_served: Callable[[], Awaitable[bool]],
    ) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            await asyncio.sleep(_CHECK_INTERVAL)
            if not await still_suspect():
                break
            if asyncio.get_running_loop().time() >= end and not await others_are_served():
                log.warning("run %s may kill its worker, but other runs begin there after %g s", run_id, PATIENCE)
                break
        if self._suspect == run_id:
            self._suspect = None
            self._notify()

    async def _wait_for_change(self) -> None:
        await self._changed.wait()  # set and replaced by every change

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_by_store: Final[WeakKeyDictionary[Store, Quarantine]] = WeakKeyDictionary()


def quarantine_of(store: Store) -> Quarantine:
    """Return the quarantine of the queued and the recovered runs that this process executes from a store."""
    return _by_store.setdefault(store, Quarantine())
