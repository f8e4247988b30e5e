"""What becomes of a durable run whose execution is cancelled: by a signal, a closing server, a cancelled task.

A run that only waited is released as waiting, as if it had been parked. Any other run is released without an owner:
interrupted, until somebody resumes it. A server that ends hands its runs back, for the next server to resume.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..journal.journal import Store
from ..journal.offloop import off_loop


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
