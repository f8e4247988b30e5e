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

MIN_INTERVAL: Final = 3600.0
_FIRST_DELAY: Final = 2.0
"""Seconds before the first deletion, so that it does not delay the start of the process."""
_RETRY_DELAY: Final = 60.0
"""Seconds until the next attempt after a failed one. The first failure is only an INFO line, as outages pass."""
_RUNS_AT_ONCE: Final = 10
_PAUSE: Final = 0.02
_CLOSE_SECONDS: Final = 0.25
_DAY: Final = 86_400.0


def delete_expired(
    store: Store, retention: Retention, now: float, must_stop: Callable[[], bool] = lambda: False
) -> int:
    """Delete the runs beyond the retention, at most once an hour."""

    # `now`: The time in seconds since the epoch.
    if (retention.days is None and retention.runs is None) or not store.take_turn("retention", MIN_INTERVAL, now):
        return 0
    before = None if retention.days is None else now - retention.days * _DAY
    removed = 0
    while not must_stop():
        some = store.prune(before=before, keep=retention.runs, most=_RUNS_AT_ONCE).runs
        removed += some
        if some < _RUNS_AT_ONCE:
            delete_queue_records(store)
            break
    return removed


def delete_queue_records(store: Store) -> None:
    """Delete the DBOS records of deleted runs."""

    # Without DBOS, this is left to a process that has it.
    target = getattr(store, "target", None)  # only stores in Postgres have one
    if target is None or find_spec("dbos") is None:
        return
    from ...workers import dbos_adapter, heartbeat

    try:
        dbos_adapter.delete_ended_workflows(target)
    except heartbeat.driver_errors() as error:
        raise StoreError(f"the server cannot be reached: {' '.join(str(error).split())}") from error


class RetentionThread:
    """The retention thread of one open store."""

    def __init__(
        self, store: Store, retention: Retention, first_delay: float = _FIRST_DELAY, retry_delay: float = _RETRY_DELAY
    ) -> None:
        self._store, self._retention, self._first_delay, self._retry_delay = (
            weakref.ref(store),
            retention,
            first_delay,
            retry_delay,
        )
        self._failed = False
        self._closing = threading.Event()
        self._has_run = False
        threading.Thread(target=self._run, name="ropewalk-retention", daemon=True).start()

    def close(self) -> None:
        """Stop the thread, and delete some runs if it has deleted none yet."""

        # Call it before the store is closed.
        self._closing.set()
        store = self._store()
        if store is not None and not self._has_run and not store.remote:
            end = time.monotonic() + _CLOSE_SECONDS
            self._delete_expired(store, lambda: time.monotonic() > end)

    def _run(self) -> None:
        wait = self._first_delay
        while not self._closing.wait(wait):
            store = self._store()
            if store is None:
                return
            self._has_run = True
            failed_before = self._failed
            self._delete_expired(store, lambda: self._closing.wait(_PAUSE))
            del store  # this thread must not keep alive a store that nobody closes
            wait = self._retry_delay if self._failed and not failed_before else MIN_INTERVAL

    def _delete_expired(self, store: Store, over: Callable[[], bool]) -> None:
        try:
            delete_expired(store, self._retention, time.time(), over)
        except StoreError as error:
            level = logging.WARNING if self._failed else logging.INFO
            self._failed = True
            if not self._closing.is_set():
                logging.getLogger("ropewalk.retention").log(level, "old runs are not deleted: %s", error)
        else:
            self._failed = False
