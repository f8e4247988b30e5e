"""When a worker looks at its queues: when something was put into one or a place has come free, else now and then.

DBOS looks at each queue every so often, in a thread of its own, whether there is anything or not. To be quick it would
have to look often, and looking costs milliseconds of every worker and of the server. So its threads wait here before
they look. Nothing depends on it: a bell that was not heard costs as long as the wait is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..journal.news import News

PUT = "put"
"""The kind of news that something was put into a queue, whose name stands in the place of the run's."""


class Bell:
    """One for each of these queues. Safe from any thread."""

    def __init__(self, names: Iterable[str]) -> None:
        self._rung = {name: threading.Event() for name in names}
        self._over = False

    def wait(self, name: str, seconds: float) -> None:
        """Until it rings for the queue, or has since the last time; not longer than that."""
        rung = self._rung[name]
        if not self._over:
            rung.wait(seconds)
            rung.clear()

    def ring(self, *names: str) -> None:
        """For these queues; for all when none is named."""
        for name in names or self._rung:
            if rung := self._rung.get(name):
                rung.set()

    def heard(self, news: News) -> None:
        """News of the store: what was missed may have been anything."""
        if news.kind == PUT:
            self.ring(news.run)
        elif not news.kind:
            self.ring()

    def end(self) -> None:
        """Nobody waits any more."""
        self._over = True
        self.ring()
