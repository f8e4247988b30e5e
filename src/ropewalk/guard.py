"""Who may talk to an HTTP door: the Host list, the Origin check, the token, headers of every answer.

Pure ASGI, so that it stands before every route, static files and doors mounted beside it. Any of these refuses by
itself: a name that resolves to 127.0.0.1 in a hostile DNS is no known Host, a page of another site sends its Origin,
and without the token nothing is told, not even which paths there are.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import orjson

from .errors import ConfigError
from .sessions import Sessions, cookies

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Site: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN: Final = "ROPEWALK_TOKEN"
SESSION: Final = "ropewalk.session"
"""Where a scope has the id of the session that its request came with, and under SESSIONS all of this server."""
SESSIONS: Final = "ropewalk.sessions"
_CARRIED: Final = r"[!#-+\-./0-:<-\[\]-~]+"  # what can be sent without quotes
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]@/?#\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)
LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_WAY: Final = (
    "send it as Authorization: Bearer TOKEN; it is what ROPEWALK_TOKEN is, else in the address that was printed"
)
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_HEADERS: Final = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' "
        b"'wasm-unsafe-eval'; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def token_given() -> str | None:
    """What ROPEWALK_TOKEN holds, None for nothing; ConfigError for what no header or cookie can carry: nobody could
    show it."""
    given = os.environ.get(TOKEN) or None
    if given is not None and re.fullmatch(_CARRIED, given) is None:
        raise ConfigError(f'{TOKEN}: letters, digits and signs of ASCII, without blanks and none of " , ; \\')
    return given


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


class Guard:
    """An ASGI app around another.

    Args:
        site: The app behind it.
        token: What a request must show as `Authorization: Bearer`; `GET /?token=...` starts a session, which counts
            for the token in the browser's cookie. None: it need not show any, for a door that only this machine reaches
            and whose user has said so.
        hosts: Further names this door is reached by.
        most_bytes: The largest body.
        lost: The HTML that tells whoever opens the door in a browser, without a token, how to come in.
        way: The same for programs.
    """

    def __init__(
        self,
        site: Site,
        token: str | None,
        hosts: Iterable[str] = (),
        most_bytes: int = 10_000_000,
        lost: bytes | None = None,
        way: str = _WAY,
    ) -> None:
        if token == "":
            raise ValueError("a door on HTTP needs a token")
        self._site, self._most, self._lost, self._where = site, most_bytes, lost, way
        self._token = None if token is None else token.encode()
        self._sessions = Sessions()
        self._hosts = {host.lower() for host in (*LOCAL, *hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._site(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.lower(): value for name, value in reversed(scope["headers"])}
        refused = self._refused(headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        way_in = self._way_in(scope)
        if way_in is not None and self._token is not None:
            await _redirect(send, way_in, self._sessions.set_cookie(_port(scope), self._sessions.start()))
            return
        scope[SESSIONS], scope[SESSION] = self._sessions, None
        refused = self._stranger(scope, headers)
        if refused is not None:
            if self._lost is not None and refused[0] == 401 and b"text/html" in headers.get(b"accept", b""):
                await _send(send, 401, b"text/html; charset=utf-8", self._lost)
            else:
                await _answer(send, *refused)
            return
        body = _Body(receive, self._most)
        await self._site(scope, body.receive, _with_headers(body.guarded(send), self._renewed(scope, headers)))

    def _renewed(self, scope: Scope, headers: dict[bytes, bytes]) -> bytes | None:
        """The cookie once more, with each view of the page that is opened: it lasts as long as the session."""
        session = scope[SESSION]
        opened = scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b"")
        return self._sessions.set_cookie(_port(scope), session) if session is not None and opened else None

    def _refused(self, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        host = _name(headers.get(b"host", b"").decode("latin-1"))
        if host not in self._hosts:
            return 421, "UnknownHost", f"this door is not reached as {host!r}; --allow-host names it"
        origin = headers.get(b"origin")
        if origin is not None and not self._own(origin.decode("latin-1"), headers):
            return 403, "ForeignOrigin", "requests of other sites are refused"
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            return 403, "ForeignOrigin", "requests of other sites are refused"
        if int(_digits(headers.get(b"content-length"))) > self._most:
            return _too_large(self._most)
        return None

    def _own(self, origin: str, headers: dict[bytes, bytes]) -> bool:
        """Whether an origin is this door: the very host and port the request was sent to."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == headers[b"host"].decode("latin-1").lower()

    def _stranger(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        if self._token is None:
            return None
        given = headers.get(b"authorization", b"")
        if given[:7].lower() == b"bearer " and hmac.compare_digest(given[7:].strip(), self._token):
            return None
        for id in cookies(headers.get(b"cookie", b""), self._sessions.cookie_name(_port(scope))):
            if self._sessions.touch(id):
                scope[SESSION] = id
        if scope[SESSION] is None:
            return 401, "Unauthorized", f"the token is missing or wrong; {self._where}"
        if scope["method"] not in _SAFE and b"origin" not in headers:
            return 403, "ForeignOrigin", "a request with the cookie must say where it comes from (Origin)"
        return None

    def _way_in(self, scope: Scope) -> str | None:
        """`/?token=...` with the right token: the address without it, to go on at."""
        if self._token is None or scope["method"] != "GET" or b"token=" not in scope.get("query_string", b""):
            return None
        query: list[tuple[str, str]] = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for key, value in query if key == "token"), "")
        if not hmac.compare_digest(given.encode(), self._token):
            return None
        rest = urlencode([(key, value) for key, value in query if key != "token"])
        # Quoted: a backslash would lead to another site, a line feed is no header, and ? and # are part of an id.
        return quote(f"/{scope['path'].lstrip('/')}") + (f"?{rest}" if rest else "")


class _Body:
    """Stops a body that grows past the limit without having said so."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._left = receive, most, most
        self._begun = self._told = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            return {"type": "http.disconnect"}
        return message

    def guarded(self, send: Send) -> Send:
        """What is answered; that the body is too large, in place of what the site makes of its end."""

        async def sent(message: Message) -> None:
            if self._left < 0 and not self._begun:
                if not self._told:
                    self._told = True
                    await _answer(send, *_too_large(self._most))
                return
            self._begun = True
            await send(message)

        return sent


def _too_large(most: int) -> tuple[int, str, str]:
    return 413, "TooLarge", f"the body has more than {most:,} bytes"


def _with_headers(send: Send, cookie: bytes | None = None) -> Send:
    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in _HEADERS if pair[0] not in have)]
            if b"cache-control" not in have:
                message["headers"].append((b"cache-control", b"no-store"))
            if cookie is not None and b"set-cookie" not in have:
                message["headers"].append((b"set-cookie", cookie))
        await send(message)

    return told


async def _answer(send: Send, status: int, kind: str, message: str) -> None:
    await _send(
        send, status, b"application/json", orjson.dumps({"error": {"kind": kind, "message": message, "problems": []}})
    )


async def _send(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *_HEADERS]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="ropewalk"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, where: str, cookie: bytes) -> None:
    headers = [(b"location", where.encode("ascii")), (b"set-cookie", cookie), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": [*headers, *_HEADERS]})
    await send({"type": "http.response.body", "body": b""})


def _name(host: str) -> str:
    """A Host header without its port; as it is where it is not a name or an address and a port."""
    found = _HOST.fullmatch(host)
    return (found[1] if found else host).lower()


def _port(scope: Scope) -> int | None:
    """The port that this server was reached at."""
    server = scope.get("server")
    return server[1] if server else None


def _digits(value: bytes | None) -> bytes:
    return value if value is not None and value.isdigit() and len(value) < 20 else b"0"
