"""HTTP connections with limits: how many there are, and how long each may take to say what it wants.

Anybody who can reach the port can open connections without showing a token. One that sends half a request costs a file
descriptor until somebody closes it, and without descriptors the server can accept nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..fast_dataclass import dataclass

_MOST: Final = 1_000
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LINES: Final = 10
_PER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of connections."""

    # How many there are at most.
    connections: int = _MOST
    # How long the line and headers of a request may take, from the first byte that is awaited.
    header_seconds: float = 10.0
    # How long a body, or a client that reads an answer, may make no progress.
    idle_seconds: float = 30.0
    # How many connections the system keeps for the server, and how many are accepted at one go.
    backlog: int = 128

    @classmethod
    def of_this_process(cls) -> ConnectionLimits:
        """Return limits that leave half of the file descriptors to the tools, the store and the log."""
        try:
            import resource
        except ImportError:  # Windows, which has no such limit
            return cls()
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        files = _MOST * 2 if files < 0 else files  # unlimited
        return cls(connections=max(8, min(_MOST, files // 2)), backlog=max(8, min(128, files // 8)))


class Connections:
    """The open connections of one server, the oldest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[Connection, None] = {}

    def protocol(self, config: Config, **parts: Any) -> Connection:
        """Return the protocol of a new connection, as `uvicorn.Config(http=...)` calls it."""
        return Connection(self, config, **parts)

    def admit(self, connection: Connection) -> bool:
        """Count a connection in, at the cost of the oldest one that waits for a request; False where none does."""
        if len(self._open) >= self.limits.connections:
            waiting = next((item for item in self._open if not item.is_answering), None)
            if waiting is None:
                return False
            waiting.abort()
        self._open[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)


class Connection(H11Protocol):
    """One connection, closed when it takes too long."""

    def __init__(self, connections: Connections, config: Config, **parts: Any) -> None:
        super().__init__(config=config, **parts)
        self._all, self._limits = connections, connections.limits
        self._timer: asyncio.TimerHandle | None = None
        self._waits_for: Callable[[Connection], bool] | None = None

    @property
    def is_answering(self) -> bool:
        """Return True if a whole request has arrived and its answer is in progress."""
        return self.cycle is not None and not self.cycle.response_complete and not self._awaits_body()

    def abort(self) -> None:
        """Close the connection at once, even during an answer."""
        self._stop_timer()
        self._all.leave(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio does so itself only for listening sockets that say that they are of TCP, which `create_server` of the
        # standard library does not: each answer on a kept connection would wait 40 ms for the client's acknowledgement.
        accepted = transport.get_extra_info("socket")
        if accepted is not None and accepted.family in (socket.AF_INET, socket.AF_INET6):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if self._all.admit(self):
            self._watch()
        else:
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._all.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch(progress=True)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_timer()
        self._set(self._limits.idle_seconds, Connection._awaits_reader)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._waits_for is Connection._awaits_reader:
            self._stop_timer()
            self._watch()

    def _awaits_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _awaits_body(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused

    def _awaits_reader(self) -> bool:
        return True

    def _watch(self, *, progress: bool = False) -> None:
        """Set the timer of what the connection waits for."""

        # Bytes of a head do not set it again, those of a body do.
        if self.transport.is_closing() or self._waits_for is Connection._awaits_reader:
            return
        if self._awaits_request():
            if self._waits_for is not Connection._awaits_request:
                self._set(self._limits.header_seconds, Connection._awaits_request)
        elif self._awaits_body():
            if progress or self._waits_for is not Connection._awaits_body:
                self._set(self._limits.idle_seconds, Connection._awaits_body)
        else:
            self._stop_timer()

    def _set(self, seconds: float, waits_for: Callable[[Connection], bool]) -> None:
        self._stop_timer()
        self._waits_for = waits_for
        self._timer = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        waits_for, self._timer, self._waits_for = self._waits_for, None, None
        if waits_for is not None and waits_for(self) and not self.transport.is_closing():
            self.abort()
        elif not self.transport.is_closing():
            self._watch()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._waits_for = None


class RateLimit(logging.Filter):
    """Lets a few records of a logger pass in some seconds, and counts the others: strangers can cause any number."""

    def __init__(self, lines: int = _LINES, seconds: float = _PER_SECONDS) -> None:
        super().__init__()
        self._lines, self._seconds = lines, seconds
        self._since = self._passed_count = self._held_back = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._since > self._seconds:
            if self._held_back:
                record.msg = f"{record.getMessage()} ({self._held_back:.0f} lines of this logger were left out)"
                record.args = ()
            self._since, self._passed_count, self._held_back = now, 0, 0
        self._passed_count += 1
        if self._passed_count > self._lines:
            self._held_back += 1
            return False
        return True
