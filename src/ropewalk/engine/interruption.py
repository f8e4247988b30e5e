"""What becomes of a durable run whose execution is cancelled: by a signal, a closing server, a cancelled task.

A run that only waited is released as waiting, as if it had been parked. Any other run is released without an owner:
interrupted, until somebody resumes it. A server that ends hands its runs back, for the next server to resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol, runtime_checkable

from ..journal.journal import Store
from ..journal.offloop import off_loop

PATIENCE: Final = 2.0
"""Seconds that a clean-up still has once its task was cancelled again."""


async def complete(cleanup: Coroutine[Any, Any, None]) -> None:
    """Wait until a clean-up is done, also if the waiting task is cancelled meanwhile.

    Without this a second cancellation (a second Ctrl-C, an outer timeout, a cancel scope that repeats itself) would cut
    off the write that releases the run, and the run would stay with a process that does not execute it. A store that is
    away must not keep the process: PATIENCE seconds after the second cancellation the clean-up is given up.

    Args:
        cleanup: What writes to the store. Its errors are raised; cancellations that arrive meanwhile are not, since the
            caller raises the first one afterwards.
    """
    task = asyncio.ensure_future(cleanup)
    loop = asyncio.get_running_loop()
    end: float | None = None
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=None if end is None else max(0.0, end - loop.time()))
        except asyncio.CancelledError:
            end = end or loop.time() + PATIENCE
        if end is not None and loop.time() >= end:
            task.cancel()
            await asyncio.sleep(0)
            break
    if task.done() and not task.cancelled():
        task.result()


@runtime_checkable
class RecoveryStore(Protocol):
    """A store that remembers which runs a server gave up, and whose process died."""

    def recoverable(self, limit: int = 1000) -> list[tuple[Any, bool]]: ...
    def hand_back(self, run_id: str) -> None: ...
    def bury(self, row: Any, recoveries: int) -> int | None: ...
    def release_parked(self, run_id: str) -> bool: ...


async def leave(run: Any, store: Store, *, hand_back: bool) -> None:
    """Release a run that does not end here.

    Args:
        run: The run, whose tasks have all ended.
        store: The durable store that holds it.
        hand_back: Whether a server may resume it without a person.
    """
    waits = run.waits
    if waits is not None and waits.outer is not None and (waits.root.parked or waits.root.cut):
        if await run.log.park(None):  # the outermost run waits, and continues this part of it when it continues
            return
    elif waits is not None and waits.cut:
        dues = [wait.due for wait in waits.cut if wait.due is not None]
        names = {wait.wanted.name for wait in waits.cut if wait.wanted is not None}
        if await run.log.park(min(dues, default=None), names):
            return
    if hand_back and isinstance(store, RecoveryStore):
        mark = store.hand_back
        await off_loop(store, lambda: mark(run.id))
    await run.log.release()
