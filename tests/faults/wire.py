"""Stands between a store and its Postgres, and can cut it off at the worst moment."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Wire:
    """Listens at `port` of this host and passes everything on to the server's socket."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._word = b""
        self._open: list[socket.socket] = []
        self.lost = threading.Event()
        self.sent = 0
        """How often something was sent to the server."""
        self._at, self._passes, self._then = 0, False, lambda: None
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_answer(self, to: bytes) -> None:
        """Have the server do the next statement with these words; nobody hears that it did."""
        self.lost.clear()
        self._word = to

    def strike(self, at: int, passes: bool, then: Callable[[], None] = lambda: None) -> None:
        """Count anew, do `then` and break the connection at the `at`-th sending: before the server has heard of it,
        or (`passes`) when it has done it and nobody has heard the answer."""
        self.lost.clear()
        self.sent, self._at, self._passes, self._then = 0, at, passes, then

    def cut(self) -> None:
        """Break every connection."""
        while self._open:
            _close(self._open.pop())

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # Closed: the end.
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._server)
                except OSError:
                    _close(client)
                    continue
                self._open += [client, server]
                doomed = threading.Event()
                threading.Thread(target=self._there, args=(client, server, doomed), daemon=True).start()
                threading.Thread(target=self._back, args=(client, server, doomed), daemon=True).start()

    def _there(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 20):
                self.sent += 1
                if self._word and self._word in data:
                    self._word = b""
                    doomed.set()
                if self.sent == self._at:
                    if not self._passes:
                        self._lose()
                        break
                    doomed.set()
                server.sendall(data)
        _close(client)
        _close(server)

    def _back(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 20):
                if doomed.is_set():
                    self._lose()
                    break
                client.sendall(data)
        _close(client)

    def _lose(self) -> None:
        then, self._then = self._then, lambda: None
        then()
        self.lost.set()


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
