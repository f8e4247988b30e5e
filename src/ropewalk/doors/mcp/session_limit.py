"""The limit of open sessions over HTTP: at the limit, a new session ends the one that has been idle longest.

A session is idle while none of its requests is being answered and no stream of it is open. If no session is idle, the
SDK refuses the new one with HTTP 503. Only a request `initialize` can open a session, so no other one ends any: its
body is read before the SDK gets it. Requests of 2026-07-28 belong to no session.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ..security import Message, Receive, Scope, Send, Site

_ID: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"


class SessionLimit:
    """An ASGI app around the SDK's, whose limit must be the same."""

    def __init__(self, site: Site, max_sessions: int) -> None:
        self._site, self._max_sessions = site, max_sessions
        # How many requests of a session are in progress, by its id; the session that was used longest ago comes first.
        # Some may have ended: the SDK ends them after 30 idle minutes, and they are forgotten here as the oldest.
        self._requests: dict[bytes, int] = {}
        self._opening = 0  # sessions without an id yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        if scope["type"] != "http" or (_ID not in headers and not _may_open_session(scope, headers)):
            await self._site(scope, receive, send)
        elif _ID in headers:
            await self._serve(headers[_ID], scope, receive, send)
        else:
            body = await _Body.read(receive)
            serve = self._open if body.is_initialize() else self._site
            await serve(scope, body.receive, send)

    async def _serve(self, id: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a session."""
        if id in self._requests:
            self._requests[id] = self._requests.pop(id) + 1
        try:
            await self._site(scope, receive, send)
        finally:
            self._end_request(id)
            if scope["method"] == "DELETE":
                self._requests.pop(id, None)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request that opens a session."""
        id = b""

        async def note_session(message: Message) -> None:
            nonlocal id
            opened = dict(message.get("headers", ())).get(_ID) if message["type"] == "http.response.start" else None
            if not id and opened and message["status"] < 400:
                id = opened
                self._requests[id] = 1
                self._opening -= 1
            await send(message)

        # Counted before anything is awaited, so that each of several openings at once ends a session of its own.
        self._opening += 1
        try:
            if len(self._requests) + self._opening > self._max_sessions:
                await self._end_oldest(scope)
            await self._site(scope, receive, note_session)
        finally:
            if id:
                self._end_request(id)
            else:
                self._opening -= 1

    def _end_request(self, id: bytes) -> None:
        if id in self._requests:
            self._requests[id] = self._requests.pop(id) - 1

    async def _end_oldest(self, scope: Scope) -> None:
        """End the session that has been idle longest, in the way its client would."""
        oldest = next((id for id, requests in self._requests.items() if not requests), None)
        if oldest is None:
            return
        del self._requests[oldest]
        headers = [(name, value) for name, value in scope["headers"] if name in (b"host", b"accept")]

        async def no_body() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def no_answer(_: Message) -> None:
            return

        await self._site({**scope, "method": "DELETE", "headers": [*headers, (_ID, oldest)]}, no_body, no_answer)


class _Body:
    """The body of a request, which is read here and then received again."""

    def __init__(self, messages: list[Message], receive: Receive) -> None:
        self._messages, self._receive = messages, receive

    @classmethod
    async def read(cls, receive: Receive) -> _Body:
        messages = [await receive()]
        while messages[-1].get("more_body"):
            messages.append(await receive())
        return cls(messages, receive)

    def is_initialize(self) -> bool:
        """Return True for the request that opens a session."""
        try:
            request = json.loads(b"".join(message.get("body", b"") for message in self._messages))
        except (ValueError, RecursionError):
            return False
        return isinstance(request, dict) and request.get("method") == "initialize"

    async def receive(self) -> Message:
        """Return the next message."""
        return self._messages.pop(0) if self._messages else await self._receive()


def _may_open_session(scope: Any, headers: dict[bytes, bytes]) -> bool:
    """Return True if the headers of a request allow it to open a session."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

    version = headers.get(_VERSION)
    return scope["method"] == "POST" and (version is None or version.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS)
