"""Browser sessions: random ids that replace the token, can be ended, and mean nothing to any other server.

A browser sends the cookies of 127.0.0.1 to every port of the machine, so to every program that listens on one. A cookie
therefore holds an id that only one server knows, under a name that only this server uses.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final

IDLE_SECONDS: Final = 24 * 3600
"""How long a session lasts after its last request."""
MOST_SESSIONS: Final = 1_000
"""How many sessions one server keeps; the one that was idle longest makes room."""


class Sessions:
    """The sessions of one server, kept in memory: a restart ends them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._server = secrets.token_hex(4)
        self._used: dict[bytes, float] = {}  # by digest of the id, the one that was idle longest first

    def cookie_name(self, port: int | None) -> str:
        """Return the name of this server's cookie, which no other server on the machine has."""
        return f"ropewalk_{port or 0}_{self._server}"

    def start(self) -> str:
        """Start a session and return its id."""
        self._drop_idle()
        if len(self._used) >= MOST_SESSIONS:
            del self._used[next(iter(self._used))]
        id = secrets.token_urlsafe(32)
        self._used[_digest(id)] = self._clock()
        return id

    def touch(self, id: str) -> bool:
        """Return True if the session is open, and count its idle time from now."""
        key = _digest(id)
        last = self._used.pop(key, None)
        if last is None or self._clock() - last > IDLE_SECONDS:
            return False
        self._used[key] = self._clock()
        return True

    def end(self, id: str) -> None:
        """End a session, if it is open."""
        self._used.pop(_digest(id), None)

    def end_all(self) -> int:
        """End every session and return how many there were."""
        self._drop_idle()
        count = len(self._used)
        self._used.clear()
        return count

    def set_cookie(self, port: int | None, id: str) -> bytes:
        """Return the header value that gives a browser the session."""
        return f"{self.cookie_name(port)}={id}; Path=/; Max-Age={IDLE_SECONDS}; HttpOnly; SameSite=Strict".encode()

    def clear_cookie(self, port: int | None) -> bytes:
        """Return the header value that takes the session from a browser."""
        return f"{self.cookie_name(port)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict".encode()

    def _drop_idle(self) -> None:
        now = self._clock()
        for key, last in list(self._used.items()):
            if now - last <= IDLE_SECONDS:
                break  # those that follow were used later
            del self._used[key]


def _digest(id: str) -> bytes:
    # Looked up by digest, so that the time of the look-up says nothing about an id.
    return hashlib.sha256(id.encode("latin-1", "replace")).digest()


def cookies(header: bytes, name: str) -> list[str]:
    """Return the values of every cookie of a name in a Cookie header; cookies of others may be malformed."""
    pairs = (part.strip().partition("=") for part in header.decode("latin-1").split(";"))
    return [value.strip() for key, sep, value in pairs if sep and key.strip() == name]
