"""Answers over HTTP that clients would refuse as an event: the official client takes events of at most 1 MiB.

The protocol allows a JSON body in the place of a stream of one event, and clients must accept both. So the head of a
stream waits for its first event, and a large answer that comes first becomes a JSON body. After a notification, or
after the first ping of a long call, the stream has begun: then the log names the size of the answer.
"""

from __future__ import annotations

import logging
from typing import Final

import orjson

from ..security import Message, Receive, Scope, Send, Site

log = logging.getLogger("ropewalk.mcp.server")

MAX_EVENT: Final = 1_000_000  # bytes: the limit of the official client, without the frame of an event


class LargeAnswers:
    """An ASGI app around the SDK's."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        await self._site(scope, receive, _Answer(send).send if is_post else send)


class _Answer:
    """One answer, whose head is held back until the first event is known."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: Message | None = None  # of a stream that has not begun
        self._is_stream = self._is_complete = False

    async def send(self, message: Message) -> None:
        """Send a message of the app, or what replaces it."""
        if message["type"] == "http.response.start":
            kind = next((text for name, text in message["headers"] if name.lower() == b"content-type"), b"")
            self._is_stream = kind.startswith(b"text/event-stream")
            if self._is_stream:
                self._head = message
                return
        elif self._is_complete:
            return  # the end of a stream that was sent as JSON
        elif self._is_stream and len(message.get("body", b"")) > MAX_EVENT:
            data = _data_of(message["body"])
            if self._head is not None and "method" not in orjson.loads(data):
                await self._send_json(self._head, data)
                return
            log.warning(
                "an answer has %s bytes and follows other events of its stream: the official client refuses events "
                "of more than 1 MiB",
                f"{len(data):,}",
            )
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(message)

    async def _send_json(self, head: Message, data: bytes) -> None:
        self._is_complete = True
        replaced = (b"content-type", b"content-length", b"cache-control")
        headers = [pair for pair in head["headers"] if pair[0].lower() not in replaced]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await self._send({**head, "headers": headers})
        await self._send({"type": "http.response.body", "body": data})


def _data_of(event: bytes) -> bytes:
    """Return the data of one event."""
    lines = (line for line in event.splitlines() if line.startswith(b"data:"))
    return b"\n".join(line.removeprefix(b"data:").strip() for line in lines)
