"""Keeps a store from growing for ever: at most once an hour, whoever has it open deletes what is too old or too much.

In a thread, a few runs at a time; a process that is gone sooner does it as it closes the store, and leaves what takes
longer to the next one. Runs that have not ended are never touched.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from ..config.limits import Retention
from ..errors import StoreError
from ..journal.journal import Store

EVERY: Final = 3600.0
_FIRST: Final = 2.0
"""Seconds before the first look: what a process was started for goes first."""
_AGAIN: Final = 60.0
"""Seconds until the next look where the store could not be reached. Outages pass, and who uses it tells of them."""
_AT_ONCE: Final = 10
_PAUSE: Final = 0.02
_AT_CLOSE: Final = 0.25
_DAY: Final = 86_400.0


def tidy(store: Store, retention: Retention, now: float, over: Callable[[], bool] = lambda: False) -> int:
    """Delete what is past the retention, if it is time to, until `over`; how many runs went."""
    if (retention.days is None and retention.runs is None) or not store.take_turn("retention", EVERY, now):
        return 0
    before = None if retention.days is None else now - retention.days * _DAY
    gone = 0
    while not over():
        some = store.prune(before=before, keep=retention.runs, most=_AT_ONCE).runs
        gone += some
        if some < _AT_ONCE:
            forget(store)
            break
    return gone


def forget(store: Store) -> None:
    """What DBOS holds of runs that are gone goes, too; without DBOS it is left to a process that has it."""
    where = getattr(store, "where", None)
    if where is None or find_spec("dbos") is None:
        return
    from ..workers import dbos_adapter, pulse

    try:
        dbos_adapter.forget(where)
    except pulse.driver_errors() as error:
        raise StoreError(f"the server is away: {' '.join(str(error).split())}") from error


class Keeper:
    """The thread of one open store."""

    def __init__(self, store: Store, retention: Retention, first: float = _FIRST, again: float = _AGAIN) -> None:
        self._store, self._retention, self._first, self._again = weakref.ref(store), retention, first, again
        self._failed = False
        self._closing = threading.Event()
        self._looked = False
        threading.Thread(target=self._run, name="ropewalk-retention", daemon=True).start()

    def close(self) -> None:
        """Before the store is closed."""
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
            del store  # so that one that nobody closes can go
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
