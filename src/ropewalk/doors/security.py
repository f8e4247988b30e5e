"""Access to an HTTP interface: the Host list, the Origin check, the token, and the headers of every answer.

Pure ASGI, so it protects every route, static files and mounted apps. Each check refuses alone. A hostile DNS name that
resolves to 127.0.0.1 is not in the Host list. A page of another site sends its Origin. Without the token, an answer
reveals nothing, not even which paths exist.

A browser session replaces the token with a random id, which can be ended and which no other server accepts. A browser
sends the cookies of 127.0.0.1 to every port of the machine, so to every program that listens there. A cookie therefore
holds an id that only one server knows, under a name with the server's port. The name stays the same after a restart,
so a new session replaces the old cookie.

Commands serve an ASGI app until their task is cancelled, because they handle signals themselves. Uvicorn would catch
SIGTERM and raise it again for the previous handler. The process would then end before its app is closed and leave
child processes behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import orjson

from ..errors import ConfigError
from ..journal.tool_usage import address_source, as_source
from ..source.document import escape_invisible

if TYPE_CHECKING:
    from .connections import ConnectionLimits

log = logging.getLogger("ropewalk.security")
IDLE_SECONDS: Final = 24 * 3600
"""How long a session lasts after its last request."""
MOST_SESSIONS: Final = 1_000
"""How many sessions one server keeps; the one that was idle longest makes room."""


class Sessions:
    """The sessions of one server, kept in memory: a restart ends them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[bytes, float] = {}  # by digest of the id, the one that was idle longest first

    def cookie_name(self, port: int | None) -> str:
        """Return the name of this server's cookie, which no other server that runs on the machine has."""
        return f"ropewalk_{port or 0}"

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

    def set_cookie(self, port: int | None, id: str, root: str = "") -> bytes:
        """Return the header value that gives a browser the session, for a site under the path `root`."""
        cookie = f"{self.cookie_name(port)}={id}; Path={root or '/'}; Max-Age={IDLE_SECONDS}"
        return f"{cookie}; HttpOnly; SameSite=Strict".encode()

    def clear_cookie(self, port: int | None, root: str = "") -> bytes:
        """Return the header value that takes the session from a browser."""
        return f"{self.cookie_name(port)}=; Path={root or '/'}; Max-Age=0; HttpOnly; SameSite=Strict".encode()

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


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Site: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN: Final = "ROPEWALK_TOKEN"
SESSION: Final = "ropewalk.session"
"""Where a scope has the id of the session that its request came with, and under SESSIONS all of this server."""
SESSIONS: Final = "ropewalk.sessions"
SOURCE: Final = "ropewalk.source"
"""Where a scope has the digest of the address its request comes from; None for this machine."""
_CARRIED: Final = r"[!#-+\-./0-:<-\[\]-~]+"  # what can be sent without quotes
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]@/?#\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)
LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
_WAY: Final = (
    "send it as Authorization: Bearer TOKEN; it is the value of ROPEWALK_TOKEN, or else in the address that the "
    "server printed"
)
_HOST_WAY: Final = "start the server with --allow-host {host}"
_WRONG: Final = "the token is wrong"
_ENDED: Final = "the session of this browser has ended"
_NO_TOKEN: Final = b"This browser has no token"
"""The heading of the page for browsers without access."""
_HEADINGS: Final = {_WRONG: b"This token is wrong", _ENDED: b"The session of this browser has ended"}
_PIECE: Final = 2**18  # bytes of a body that are sent at once
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
    """Return the value of ROPEWALK_TOKEN, or None if it is not set."""
    token = os.environ.get(TOKEN) or None
    if token is not None and re.fullmatch(_CARRIED, token) is None:
        raise ConfigError(f'{TOKEN}: must be ASCII letters, digits and signs, without spaces and none of " , ; \\')
    return token


def new_token() -> str:
    """Return a token that nobody can guess."""
    return secrets.token_urlsafe(24)


class AuthMiddleware:
    """An ASGI app around another."""

    # `token`: What a request must show as `Authorization: Bearer`; `GET /?token=...` starts a session, which counts for
    # the token in the browser's cookie. None: no token is needed. Use None only for a server that this machine alone
    # can reach, and only if the user asked for it.
    # `most_bytes`: The largest body, in bytes.
    # `way` and `host_way`: Where the token is found, and how to allow the host `{host}`.

    def __init__(
        self,
        site: Site,
        token: str | None,
        hosts: Iterable[str] = (),
        most_bytes: int = 10_000_000,
        lost: bytes | None = None,
        way: str = _WAY,
        host_way: str = _HOST_WAY,
    ) -> None:
        if token == "":
            raise ValueError("an HTTP server needs a token")
        self._site, self._max_bytes, self._lost = site, most_bytes, lost
        self._where, self._host_way = way, host_way
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
        # Host, Origin and size are checked before the token: a stranger learns nothing about it.
        headers = {name.lower(): value for name, value in reversed(scope["headers"])}
        refused = self._refused(headers)
        if refused is not None:
            await refuse(scope, send, *refused)
            return
        way_in = self._way_in(scope)
        if way_in is not None and self._token is not None:
            cookie = self._sessions.set_cookie(_port(scope), self._sessions.start(), root_of(scope))
            await _redirect(send, way_in, cookie)
            return
        scope[SESSIONS], scope[SESSION] = self._sessions, None
        refused = self._stranger(scope, headers)
        if refused is not None:
            if self._lost is not None and refused[0] == 401 and b"text/html" in headers.get(b"accept", b""):
                heading = _HEADINGS.get(refused[2].partition(";")[0], _NO_TOKEN)
                page = at_root(self._lost.replace(_NO_TOKEN, heading), scope)
                _log_refusal(scope, refused[2])
                await _send(send, 401, b"text/html; charset=utf-8", page)
            else:
                await refuse(scope, send, *refused)
            return
        body = _Body(receive, self._max_bytes)
        client = scope.get("client")
        scope[SOURCE] = address_source(client[0], (self._token or b"").decode()) if client else None
        with as_source(scope[SOURCE]):
            await self._site(scope, body.receive, _with_headers(body.guarded(send), self._renewed(scope, headers)))

    def _renewed(self, scope: Scope, headers: dict[bytes, bytes]) -> bytes | None:
        """Return the cookie again for each opened view of the web UI, so that it lasts as long as the session."""
        session = scope[SESSION]
        opened = scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b"")
        if session is None or not opened:
            return None
        return self._sessions.set_cookie(_port(scope), session, root_of(scope))

    def _refused(self, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        host = _name(headers.get(b"host", b"").decode("latin-1"))
        if host not in self._hosts:
            way = self._host_way.format(host=host)
            return 421, "UnknownHost", f"the host {host!r} is not allowed; to allow it, {way}"
        origin = headers.get(b"origin")
        if origin is not None and not self._own(origin.decode("latin-1"), headers):
            return 403, "ForeignOrigin", "requests from other sites are refused"
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            return 403, "ForeignOrigin", "requests from other sites are refused"
        if int(_digits(headers.get(b"content-length"))) > self._max_bytes:
            return _too_large(self._max_bytes)
        return None

    def _own(self, origin: str, headers: dict[bytes, bytes]) -> bool:
        """Return True if an origin is this server: the host and port that the request was sent to."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == headers[b"host"].decode("latin-1").lower()

    def _stranger(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        if self._token is None:
            return None
        header = headers.get(b"authorization", b"")
        if header[:7].lower() == b"bearer " and hmac.compare_digest(header[7:].strip(), self._token):
            return None
        ids = cookies(headers.get(b"cookie", b""), self._sessions.cookie_name(_port(scope)))
        for id in ids:
            if self._sessions.touch(id):
                scope[SESSION] = id
        if scope[SESSION] is None:
            is_shown = bool(header) or b"token=" in scope.get("query_string", b"")
            reason = _WRONG if is_shown else _ENDED if ids else "the token is missing"
            return 401, "Unauthorized", f"{reason}; {self._where}"
        if scope["method"] not in _SAFE and b"origin" not in headers:
            return 403, "ForeignOrigin", "a request with the cookie must say where it comes from (Origin)"
        return None

    def _way_in(self, scope: Scope) -> str | None:
        """Return the address without the token for `/?token=...` with the right token."""
        if self._token is None or scope["method"] != "GET" or b"token=" not in scope.get("query_string", b""):
            return None
        query: list[tuple[str, str]] = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        token = next((value for key, value in query if key == "token"), "")
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        rest = urlencode([(key, value) for key, value in query if key != "token"])
        # Quoted: a backslash would lead to another site, a line feed is no header, and ? and # are part of an id.
        return quote(f"/{scope['path'].lstrip('/')}") + (f"?{rest}" if rest else "")


class _Body:
    """Refuse a body that grows past the limit although its declared length does not."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive, self._max_bytes, self._bytes_left = receive, max_bytes, max_bytes
        self._response_begun = self._refused = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._bytes_left -= len(message.get("body", b""))
        if self._bytes_left < 0:
            return {"type": "http.disconnect"}
        return message

    def guarded(self, send: Send) -> Send:
        """Return the answer of the site, or the refusal of a body that is too large."""

        async def send_or_refuse(message: Message) -> None:
            if self._bytes_left < 0 and not self._response_begun:
                if not self._refused:
                    self._refused = True
                    await _answer(send, *_too_large(self._max_bytes))
                return
            self._response_begun = True
            await send(message)

        return send_or_refuse


def _too_large(max_bytes: int) -> tuple[int, str, str]:
    return 413, "TooLarge", f"the body has more than {max_bytes:,} bytes"


def _with_headers(send: Send, cookie: bytes | None = None) -> Send:
    async def send_checked(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(pair for pair in _HEADERS if pair[0] not in have)]
            if b"cache-control" not in have:
                message["headers"].append((b"cache-control", b"no-store"))
            if cookie is not None and b"set-cookie" not in have:
                message["headers"].append((b"set-cookie", cookie))
        if len(message.get("body", b"")) > _PIECE:
            await _send_in_pieces(send, message)
        else:
            await send(message)

    return send_checked


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send a large body piece by piece: the HTTP server copies what it gets, and waits while the client reads."""
    body = memoryview(message["body"])
    for begin in range(0, len(body), _PIECE):
        piece = bytes(body[begin : begin + _PIECE])
        more = begin + _PIECE < len(body) or message.get("more_body", False)
        await send({"type": "http.response.body", "body": piece, "more_body": more})


async def refuse(scope: Scope, send: Send, status: int, kind: str, message: str) -> None:
    """Log a request that is refused, and answer it."""
    _log_refusal(scope, message)
    await _answer(send, status, kind, message)


def _log_refusal(scope: Scope, message: str) -> None:
    address = (scope.get("client") or ("an unknown address",))[0]
    path = escape_invisible(scope["path"])
    log.warning("refused %s %s from %s: %s", scope["method"], path, address, message.partition(";")[0])


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
    """Return the host name of a Host header, without its port; the header itself if it is malformed."""
    result = _HOST.fullmatch(host)
    return (result[1] if result else host).lower()


def _port(scope: Scope) -> int | None:
    """Return the port that this server was reached at."""
    server = scope.get("server")
    return server[1] if server else None


def root_of(scope: Scope) -> str:
    """Return the path under which the site is served, quoted and without a slash at its end."""
    root = str(scope.get("root_path") or "").strip("/")
    return f"/{quote(root)}" if root else ""


def at_root(page: bytes, scope: Scope) -> bytes:
    """Return a page of the web UI with addresses that begin at the root of the site: it answers every path."""
    return page.replace(b'"./', f'"{root_of(scope)}/'.encode())


def _digits(value: bytes | None) -> bytes:
    return value if value is not None and value.isdigit() and len(value) < 20 else b"0"


_NOISY: Final = ("asyncio", "uvicorn.error", "ropewalk.security")
"""Loggers that have a line for each connection that goes wrong or is refused."""


async def serve_until_cancelled(
    app: Any, listening: socket.socket, leaving: int, limits: ConnectionLimits | None = None
) -> None:
    """Serve until cancelled, then return once every answer has ended or `leaving` seconds have passed."""

    # A first cancellation is a normal end. A second one raises CancelledError. `limits` apply to the connections.
    import uvicorn

    from .connections import ConnectionLimits, Connections, RateLimit

    limits = limits or ConnectionLimits.of_this_process()

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    settings = uvicorn.Config(
        app,
        log_config=None,  # as everything else is logged
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,  # a client may claim any address in a header
        http=Connections(limits).protocol,  # type: ignore[arg-type]  # any callable will do
        backlog=limits.backlog,
        timeout_graceful_shutdown=leaving,
    )
    server = Quiet(settings)
    noisy = [(logging.getLogger(name), RateLimit()) for name in _NOISY]
    for logger, limit in noisy:
        logger.addFilter(limit)
    task = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # As a signal would, which is what open streams of events listen for, too.
        server.handle_exit(signal.SIGTERM, None)
        if (current := asyncio.current_task()) is not None:
            current.uncancel()
        await asyncio.wait([task], timeout=2 * leaving)
    finally:
        listening.close()
        for logger, limit in noisy:
            logger.removeFilter(limit)
