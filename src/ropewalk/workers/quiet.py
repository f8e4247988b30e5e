"""What DBOS, and SQLAlchemy under it, say in the log: what is new, once, in the form of all other lines.

While the server is away each of their threads says so several times a second, with tracebacks. That it is away, why,
and that it is back says the pulse, once; theirs are for those who log at the level debug.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Final

_AGAIN: Final = 60.0  # seconds after which the same is worth saying again
_MOST: Final = 200  # texts remembered
_AWAY: Final = re.compile(
    r"OperationalError|InterfaceError|AdminShutdown|CrashShutdown|CannotConnectNow|PoolTimeout"
    r"|AwaitedWorkflowCancelled"  # of a dispatch that was given up meanwhile: the run has another one
    r"|outcome was not recorded"  # of a workflow that was in line twice meanwhile: what has been done the journal says
)
_NUMBER: Final = re.compile(r"\d+")


class Once(logging.Filter):
    """Lowers to debug what says that the server is away, and what was said a short while ago."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        if record.levelno <= logging.DEBUG:
            return True
        text = record.getMessage()
        whole = f"{text} {record.exc_info[0]}" if record.exc_info else text
        if _AWAY.search(whole) is None and not self._repeats(_NUMBER.sub("#", text)):
            return True
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger().isEnabledFor(logging.DEBUG)

    def _repeats(self, text: str) -> bool:
        now = time.monotonic()
        last = self._said.get(text)
        if last is not None and now - last < _AGAIN:
            return True
        if len(self._said) >= _MOST:
            self._said.clear()
        self._said[text] = now
        return False


_once: Final = Once()


def quiet() -> None:
    """Have DBOS say no more than that. Idempotent."""
    log = logging.getLogger("dbos")
    log.setLevel(logging.WARNING)
    for handler in list(log.handlers):
        log.removeHandler(handler)
    log.addHandler(logging.NullHandler())  # without any it would add its own again
    log.propagate = True
    log.addFilter(_once)
    for name in ("sqlalchemy.pool", "sqlalchemy.pool.impl.QueuePool"):  # a filter is asked for its own logger's only
        logging.getLogger(name).addFilter(_once)
