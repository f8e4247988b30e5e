"""Retention: delete old runs, so that a store does not grow for ever.

At most once an hour, a thread of a process that has the store open deletes old runs, a few at a time. A process that
ends sooner deletes some while it closes the store, and leaves the rest to the next process. Unfinished runs stay.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from ...config.settings import Retention
from ...errors import StoreError
from ...journal.protocol import Store

EVERY: Final = 3600.0
_FIRST: Final = 2.0
"""Seconds before the first deletion, so that it does not delay the start of the process."""
_AGAIN: Final = 60.0
"""Seconds until the next attempt after a failed one. The first failure is only an INFO line, as outages pass."""
_AT_ONCE: Final = 10
_PAUSE: Final = 0.02
_AT_CLOSE: Final = 0.25
_DAY: Final = 86_400.0


def tidy(store: Store, retention: Retention, now: float, over: Callable[[], bool] = lambda: False) -> int:
    """Delete the runs beyond the retention, at most once an hour.

    Args:
        store: The store.
        retention: How long, and how many, ended runs are kept.
        now: The time in seconds since the epoch.
        over: Returns True to stop early.

    Returns:
        The number of deleted runs.
    """
    if (retention.days is None and retention.runs is None) or not store.take_turn("retention", EVERY, now):
        return 0
    before = None if retention.days is None else now - retention.days * _DAY
    removed = 0
    while not over():
        some = store.prune(before=before, keep=retention.runs, most=_AT_ONCE).runs
        removed += some
        if some < _AT_ONCE:
            forget(store)
            break
    return removed


def forget(store: Store) -> None:
    """Delete the DBOS records of deleted runs. Without DBOS, this is left to a process that has it.

    Args:
        store: The store.

    Raises:
        StoreError: The server cannot be reached.
    """
    where = getattr(store, "where", None)
    if where is None or find_spec("dbos") is None:
        return
    from ...workers import dbos_adapter, heartbeat

    try:
        dbos_adapter.delete_ended_workflows(where)
    except heartbeat.driver_errors() as error:
        raise StoreError(f"the server is away: {' '.join(str(error).split())}") from error


class Keeper:
    """The retention thread of one open store."""

    def __init__(self, store: Store, retention: Retention, first: float = _FIRST, again: float = _AGAIN) -> None:
        self._store, self._retention, self._first, self._again = weakref.ref(store), retention, first, again
        self._failed = False
        self._closing = threading.Event()
        self._looked = False
        threading.Thread(target=self._run, name="ropewalk-retention", daemon=True).start()

    def close(self) -> None:
        """Stop the thread, and delete some runs if it has deleted none yet. Call it before the store is closed."""
        self._closing.set()
        store = self._store()
        if store is not None and not self._looked and not store.remote:
            end = time.monotonic() + _AT_CLOSE
            self._tidy(store, lambda: time.monotonic() > end)

    def _run(self) -> None:
        wait = self._first
        while not self._closing.wait(wait):
            store = self._store()
            if store is None:
                return
            self._looked = True
            failed_before = self._failed
            self._tidy(store, lambda: self._closing.wait(_PAUSE))
            del store  # this thread must not keep alive a store that nobody closes
            wait = self._again if self._failed and not failed_before else EVERY

    def _tidy(self, store: Store, over: Callable[[], bool]) -> None:
        try:
            tidy(store, self._retention, time.time(), over)
        except StoreError as error:
            level = logging.WARNING if self._failed else logging.INFO
            self._failed = True
            if not self._closing.is_set():
                logging.getLogger("ropewalk.retention").log(level, "old runs are not deleted: %s", error)
        else:
            self._failed = False
