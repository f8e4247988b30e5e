"""What the SDK logs about a server, in a bounded number of short lines that name the server.

The SDK warns about each message that it cannot use, with a traceback: a server that floods us would fill disks. Records
that the SDK makes elsewhere, for another client in this process, stay as they are.
"""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar
from typing import Final

log = logging.getLogger("ropewalk.mcp")

_LOGGERS: Final = (
    "client",  # of mcp.client.session
    "mcp.client.caching",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)
_WINDOW: Final = 60.0  # seconds
_MOST: Final = 5  # lines of one server in a window
_LONGEST: Final = 300  # characters of a line

_source: ContextVar[str] = ContextVar("ropewalk_mcp_source", default="")


def logged_as(source: str) -> None:
    """Have what the SDK logs in this context reported as of `source`, and bounded."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_bound)  # adding it twice changes nothing
    _source.set(source)


class Bound(logging.Filter):
    """Replaces records of the SDK by short ones, at most `most` of one source in `window` seconds."""

    def __init__(self, most: int = _MOST, window: float = _WINDOW) -> None:
        super().__init__()
        self._most, self._window = most, window
        self._counts: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a record pass that is not about a server of ours; log a short one in place of any other."""
        source = _source.get()
        if not source:
            return True
        now = time.monotonic()
        began, count = self._counts.get(source, (now, 0))
        if now - began >= self._window:
            if count > self._most:
                log.warning("%s: left out %d more lines about what it sent", source, count - self._most)
            began, count = now, 0
        self._counts[source] = began, count + 1
        if count < self._most:
            log.log(record.levelno, "%s: %s", source, self._line(record))
        elif count == self._most:
            log.warning("%s: more lines like this are left out for %g s", source, self._window)
        return False

    def _line(self, record: logging.LogRecord) -> str:
        text = " ".join(record.getMessage().split())
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__})"
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_bound: Final = Bound()
