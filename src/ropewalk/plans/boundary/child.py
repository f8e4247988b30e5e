"""The loop of a child: read a message, let its service work, answer.

A service is a function of a message and a `Link`; it returns the answer. While it works it may ask the parent over the
link, so the messages of one program go both ways. Whatever a service raises becomes an answer: the parent gets no text
of an exception that could hold an address.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...values import Json
from . import frames

DONE: Final = "done"
"""The type of a child's last message for a program."""
FAILED: Final = "failed"
"""The type of the last message where the service could not answer; `reason` says why."""


class Link:
    """The connection of a service to the parent."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: Mapping[str, Json]) -> None:
        """Send a message to the parent."""
        frames.write(self._connection, message)

    def receive(self) -> dict[str, Any]:
        """Wait for the next message of the parent."""
        return frames.read(self._connection)


Service: TypeAlias = Callable[[dict[str, Any], Link], Json]


def serve(connection: socket.socket, services: Mapping[str, Service]) -> None:
    """Answer messages until the parent closes the connection; then end the process."""
    link = Link(connection)
    try:
        while True:
            message = frames.read(connection)
            answer = _answer(message, link, services)
            try:
                frames.write(connection, answer)
            except frames.BadFrame:
                frames.write(connection, {"type": FAILED, "reason": "output"})
            del message, answer
    except (frames.Closed, frames.BadFrame, MemoryError):
        pass
    os._exit(0)


def _answer(message: dict[str, Any], link: Link, services: Mapping[str, Service]) -> dict[str, Json]:
    try:
        return {"type": DONE, "value": services[message["service"]](message, link)}
    except frames.Closed:
        raise
    except MemoryError:
        return {"type": FAILED, "reason": "memory"}
    except RecursionError:
        return {"type": FAILED, "reason": "depth"}
    except frames.BadFrame:
        return {"type": FAILED, "reason": "output"}
    except Exception as error:  # noqa: BLE001 - the parent must get an answer, whatever a program does
        return {"type": FAILED, "reason": "error", "error": type(error).__name__}
