"""Decide when a worker looks at its queues: when a run was queued, when a run has ended, and otherwise now and then.

DBOS polls each queue in a thread of its own. Polling often costs milliseconds of every worker and of the server, so
these threads wait here before they poll. Nothing depends on a signal: a missed one costs one waiting time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..journal.news import News

PUT = "put"
"""The kind of news that something was queued; its `run` is the name of the queue."""


class QueueListener:
    """Wake the threads that poll queues."""

    # Safe from any thread.

    def __init__(self, names: Iterable[str]) -> None:
        self._signals = {name: threading.Event() for name in names}
        self._is_closed = False

    def wait(self, name: str, seconds: float) -> None:
        """Wait until the queue was signalled since the last call, at most `seconds`."""
        signal = self._signals[name]
        if not self._is_closed:
            signal.wait(seconds)
            signal.clear()

    def wake(self, *names: str) -> None:
        """Signal these queues; without names, all of them."""
        for name in names or self._signals:
            if signal := self._signals.get(name):
                signal.set()

    def receive(self, news: News) -> None:
        """Take news of the store."""

        # If some news may have been lost, signal all queues.
        if news.kind == PUT:
            self.wake(news.run)
        elif not news.kind:
            self.wake()

    def close(self) -> None:
        """Let every thread through from now on."""
        self._is_closed = True
        self.wake()
