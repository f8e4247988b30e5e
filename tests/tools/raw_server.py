"""A server that keeps the bytes of every request as they came."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "


class RawServer:
    """Listens at one address; `received` holds each request, `headers` and `answer` those of each answer."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_server((address, port))
        self._context = context
        self.port: int = self._socket.getsockname()[1]
        self.answer = b"{}"
        self.headers = b""
        self.received: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                line, _ = self._socket.accept()
                with contextlib.suppress(OSError), line:
                    line.settimeout(30)
                    if self._context is not None:
                        with self._context.wrap_socket(line, server_side=True) as safe:
                            self._answer(safe)
                    else:
                        self._answer(line)

    def _answer(self, line: socket.socket) -> None:
        data = b""
        while True:
            head, found, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            if found and len(body) >= (int(length[1]) if length else 0):
                break
            part = line.recv(65536)
            if not part:
                break
            data += part
        self.received.append(data)
        line.sendall(HEAD + b"%d\r\n%s\r\n" % (len(self.answer), self.headers) + self.answer)

    def taken(self) -> bytes:
        """The only request since the last time."""
        (found,) = self.received
        self.received.clear()
        return found

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextlib.contextmanager
def raw_server(address: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None) -> Iterator[RawServer]:
    """A server for as long as the block lasts."""
    server = RawServer(address, port, context)
    try:
        yield server
    finally:
        server.close()
