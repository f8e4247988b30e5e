"""Who may use an HTTP interface: the middleware as an ASGI app, without a server around it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import ropewalk
from ropewalk.doors.security import (
    IDLE_SECONDS,
    MOST_SESSIONS,
    SESSION,
    SOURCE,
    AuthMiddleware,
    Sessions,
    new_token,
    token_given,
)
from ropewalk.errors import ConfigError

TOKEN = "a-token"
HOST, PORT = "127.0.0.1:8420", 8420
BEARER = {"authorization": f"Bearer {TOKEN}"}
MOST = 100  # bytes of a body
PAGE = Path(ropewalk.__file__).parent / "doors/web/static/token.html"


class Answer:
    """What a client gets: status, headers and body; `scope` is what the site saw, if it was asked."""

    def __init__(self, messages: list[dict[str, Any]], scope: dict[str, Any] | None, read: list[bytes]) -> None:
        self.messages, self.scope, self.read = messages, scope, read
        self.status = messages[0]["status"]
        self.pairs = [(name.decode(), value.decode()) for name, value in messages[0]["headers"]]
        self.headers = dict(self.pairs)
        self.body = b"".join(message["body"] for message in messages[1:])

    @property
    def error(self) -> tuple[str, str]:
        error = json.loads(self.body)["error"]
        assert error["problems"] == []
        return error["kind"], error["message"]


class Door:
    """The middleware around a site that reads its body and answers `ok`."""

    def __init__(self, token: str | None = TOKEN, **more: Any) -> None:
        self.answered: dict[str, Any] = {"status": 200, "headers": [(b"content-type", b"text/plain")], "body": b"ok"}
        self.app = AuthMiddleware(self._site, token, **{"most_bytes": MOST, **more})
        self._scope: dict[str, Any] | None = None
        self._read: list[bytes] = []

    async def _site(self, scope: Any, receive: Any, send: Any) -> None:
        self._scope = scope
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._read.append(b"gone")
                break
            self._read.append(message["body"])
            if not message.get("more_body"):
                break
        answered = dict(self.answered)
        body = answered.pop("body")
        await send({"type": "http.response.start", **answered})
        await send({"type": "http.response.body", "body": body})

    def ask(
        self,
        path: str = "/api/runs",
        method: str = "GET",
        query: str = "",
        body: tuple[bytes, ...] = (b"",),
        **more: Any,
    ) -> Answer:
        """Ask with these headers; a Host is added if there is none."""
        given = {"host": HOST, **more.pop("headers", {})}
        pieces, messages = list(body), list[dict[str, Any]]()
        self._scope, self._read = None, []

        async def receive() -> dict[str, Any]:
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        scope = {
            "type": "http", "method": method, "path": path, "query_string": query.encode(),
            "server": ("127.0.0.1", PORT),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value is not None],
            **more,
        }  # fmt: skip
        asyncio.run(self.app(scope, receive, send))
        return Answer(messages, self._scope, self._read)

    def log_in(self) -> dict[str, str]:
        """Return the headers of a browser that has opened the address with the token."""
        return {"cookie": self.ask("/", query=f"token={TOKEN}").headers["set-cookie"].partition(";")[0]}


# --- who is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1:8420", True), ("127.0.0.1", True), ("LocalHost:1", True), ("[::1]:8420", True),
        ("tools.example", True), ("TOOLS.example:443", True), ("localhost.", False), ("[::1]:", False),
        ("tools.example.evil", False), ("a@localhost", False), ("localhost:123456", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_a_host_that_is_not_listed_is_refused_before_the_token(host: str | None, is_known: bool) -> None:
    door = Door(hosts=["Tools.Example"])
    for headers in ({}, BEARER):
        answer = door.ask(headers={"host": host, **headers})
        assert answer.status == ((200 if headers else 401) if is_known else 421)
        if not is_known:
            name = (host or "").lower()
            assert answer.scope is None
            assert answer.error == (
                "UnknownHost",
                f"the host {name!r} is not allowed; to allow it, start the server with --allow-host {name}",
            )


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({}, True), ({"origin": f"http://{HOST}"}, True), ({"origin": f"https://{HOST.upper()}"}, True),
        ({"origin": "http://127.0.0.1:1"}, False), ({"origin": f"ftp://{HOST}"}, False), ({"origin": "null"}, False),
        ({"origin": ""}, False), ({"origin": "http://[::1"}, False), ({"origin": f"http://x@{HOST}"}, False),
        ({"sec-fetch-site": "same-origin"}, True), ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False), ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"}, False),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(headers: dict[str, str], is_own: bool) -> None:
    door = Door()
    for method in ("GET", "POST"):
        answer = door.ask(method=method, headers={**BEARER, **headers})
        assert answer.status == (200 if is_own else 403)
        if not is_own:
            assert answer.error == ("ForeignOrigin", "requests from other sites are refused")


@pytest.mark.parametrize(
    ("shown", "is_token"),
    [
        (f"Bearer {TOKEN}", True), (f"bearer {TOKEN}", True), (f"BEARER  {TOKEN} ", True), (TOKEN, False),
        (f"Basic {TOKEN}", False), (f"Bearer{TOKEN}", False), (f"Bearer {TOKEN}x", False), ("Bearer ", False),
        (f"Bearer {TOKEN[:-1]}", False), (f"Bearer {TOKEN.upper()}", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_only_the_token_is_the_token(shown: str | None, is_token: bool) -> None:
    answer = Door().ask(headers={"authorization": shown})
    assert answer.status == (200 if is_token else 401)
    if not is_token:
        kind, message = answer.error
        assert kind == "Unauthorized"
        reason = "wrong" if shown else "missing"
        assert message.startswith(f"the token is {reason}; send it as Authorization: Bearer TOKEN; ")
        assert answer.headers["www-authenticate"] == 'Bearer realm="ropewalk"'
    assert ("www-authenticate" in answer.headers) != is_token


def test_without_a_token_everybody_is_let_in_and_no_address_starts_a_session() -> None:
    door = Door(token=None)
    assert door.ask().status == 200
    assert door.ask(query="token=").status == 200
    assert door.ask(headers={"host": "evil.example"}).status == 421
    with pytest.raises(ValueError, match="an HTTP server needs a token"):
        Door(token="")


@pytest.mark.parametrize(
    ("query", "cookie", "heading"),
    [
        ("", "", "This browser has no token"),
        ("", "ropewalk_1=x", "This browser has no token"),  # of another server
        ("token=almost", "", "This token is wrong"),
        ("a=b&token=", "ropewalk_8420=x", "This token is wrong"),
        ("", "ropewalk_8420=x", "The session of this browser has ended"),
    ],
)
def test_the_page_for_a_browser_without_access_says_what_is_wrong(query: str, cookie: str, heading: str) -> None:
    page = Door(lost=PAGE.read_bytes()).ask(query=query, headers={"accept": "text/html", "cookie": cookie})
    assert (page.status, f"<h1>{heading}</h1>" in page.body.decode()) == (401, True)


def test_a_browser_without_a_token_gets_a_page_and_a_program_the_way() -> None:
    door = Door(lost=b"<p>lost</p>", way="ask your administrator")
    page = door.ask(headers={"accept": "text/html,*/*"})
    assert (page.status, page.headers["content-type"], page.body) == (401, "text/html; charset=utf-8", b"<p>lost</p>")
    assert page.headers["content-length"] == "11"
    for accept in ("application/json", None):
        answer = door.ask(headers={"accept": accept})
        assert answer.error == ("Unauthorized", "the token is missing; ask your administrator")
    foreign = door.ask("/", "POST", headers={"accept": "text/html", **door.log_in()})
    assert (foreign.status, foreign.headers["content-type"]) == (403, "application/json")
    assert Door().ask(headers={"accept": "text/html"}).headers["content-type"] == "application/json"


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "where"),
    [
        ("/", "token={}", "/"), ("/runs", "a=1&token={}&b=&c=%20x", "/runs?a=1&b=&c=+x"),
        ("//evil.example/", "token={}", "/evil.example/"), ("/\\evil", "token={}", "/%5Cevil"),
        ("/a b?#\r\n", "token={}", "/" + quote("a b?#\r\n")),
    ],
)  # fmt: skip
def test_the_token_in_an_address_starts_a_session_and_leaves_the_address(path: str, query: str, where: str) -> None:
    door = Door()
    answer = door.ask(path, query=query.format(TOKEN))
    assert (answer.status, answer.headers["location"], answer.body) == (303, where, b"")
    assert answer.headers["content-length"] == "0"
    cookie, _, attributes = answer.headers["set-cookie"].partition("; ")
    assert attributes == "Path=/; Max-Age=86400; HttpOnly; SameSite=Strict"
    assert cookie.partition("=")[0] == f"ropewalk_{PORT}"
    assert len(cookie.partition("=")[2]) >= 43
    seen = door.ask(headers={"cookie": f"other=1; {cookie}"})
    assert seen.scope is not None
    assert (seen.status, seen.scope[SESSION]) == (200, cookie.partition("=")[2])


@pytest.mark.parametrize(
    ("method", "query"),
    [
        ("GET", "token=wrong"), ("GET", f"token={TOKEN}x"), ("GET", "token="), ("GET", f"tokens={TOKEN}"),
        ("GET", f"a={TOKEN}&mytoken=x"), ("GET", f"token=x&token={TOKEN}"), ("POST", f"token={TOKEN}"),
        ("GET", "token=%C3%A9"),
    ],
)  # fmt: skip
def test_nothing_else_in_an_address_starts_a_session(method: str, query: str) -> None:
    answer = Door().ask("/", method, query=query)
    assert (answer.status, "set-cookie" in answer.headers) == (401, False)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("has_origin", [True, False])
@pytest.mark.parametrize("way", ["cookie", "token"])
def test_with_the_cookie_alone_nothing_changes_without_an_origin(method: str, has_origin: bool, way: str) -> None:
    door = Door()
    headers = {**(door.log_in() if way == "cookie" else BEARER), **({"origin": f"http://{HOST}"} if has_origin else {})}
    answer = door.ask(method=method, headers=headers)
    is_safe = way == "token" or has_origin or method in ("GET", "HEAD", "OPTIONS")
    assert answer.status == (200 if is_safe else 403)
    if not is_safe:
        assert answer.error[1] == "a request with the cookie must say where it comes from (Origin)"
    assert (answer.scope or {SESSION: None})[SESSION] == (
        headers.get("cookie", "=").partition("=")[2] if is_safe and way == "cookie" else None
    )


def test_a_session_of_another_port_or_server_is_none() -> None:
    door, cookie = Door(), Door().log_in()
    assert door.ask(headers=cookie).status == 401
    own = door.log_in()
    assert door.ask(headers=own).status == 200
    assert door.ask(headers=own, server=("127.0.0.1", PORT + 1)).status == 401
    assert door.ask(headers=own, server=None).status == 401
    assert Sessions().cookie_name(None) == "ropewalk_0"


@pytest.mark.parametrize(
    ("method", "accept", "way", "renews"),
    [
        ("GET", "text/html", "cookie", True), ("GET", "application/json", "cookie", False),
        ("GET", None, "cookie", False),
        ("HEAD", "text/html", "cookie", False), ("GET", "text/html", "token", False),
    ],
)  # fmt: skip
def test_opening_a_view_lengthens_the_cookie(method: str, accept: str | None, way: str, renews: bool) -> None:
    door = Door()
    headers = door.log_in() if way == "cookie" else dict(BEARER)
    answer = door.ask(method=method, headers={**headers, "accept": accept})
    assert ("set-cookie" in answer.headers) == renews
    if renews:
        assert answer.headers["set-cookie"].startswith(headers["cookie"] + "; Path=/; Max-Age=86400;")
        door.answered["headers"] = [(b"Set-Cookie", b"own=1")]
        assert door.ask(method=method, headers={**headers, "accept": accept}).pairs[0] == ("Set-Cookie", "own=1")
        assert "set-cookie" not in door.ask(headers={**headers, "accept": accept}).headers


def test_a_session_ends_when_it_was_idle_for_too_long() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    id = sessions.start()
    for _ in range(3):
        now += IDLE_SECONDS
        assert sessions.touch(id)
    now += IDLE_SECONDS + 1
    assert not sessions.touch(id)
    now -= IDLE_SECONDS
    assert not sessions.touch(id)  # it does not come back
    assert not sessions.touch("€")  # no id that this server could have given
    sessions.start()
    now += IDLE_SECONDS
    assert sessions.end_all() == 1
    assert IDLE_SECONDS == 24 * 60 * 60


def test_ended_and_idle_sessions_are_not_counted() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    idle, ended, last = sessions.start(), sessions.start(), sessions.start()
    now = 10.0
    open_ones = [sessions.start() for _ in range(2)]
    sessions.end(ended)
    sessions.end(ended)
    assert not sessions.touch(ended)
    assert sessions.touch(last)
    now = IDLE_SECONDS + 5.0
    assert sessions.end_all() == 3
    assert sessions.end_all() == 0
    assert not any(map(sessions.touch, (idle, ended, last, *open_ones)))


def test_the_session_that_was_idle_longest_makes_room() -> None:
    sessions = Sessions(clock=lambda: 0.0)
    ids = [sessions.start() for _ in range(MOST_SESSIONS)]
    assert len(set(ids)) == MOST_SESSIONS == 1_000
    assert sessions.touch(ids[0])
    newest = sessions.start()
    assert [sessions.touch(id) for id in (ids[1], ids[0], ids[2], newest)] == [False, True, True, True]
    assert sessions.end_all() == MOST_SESSIONS


def test_a_cookie_is_set_and_taken_away_with_the_same_attributes() -> None:
    sessions = Sessions()
    assert sessions.set_cookie(1, "x") == b"ropewalk_1=x; Path=/; Max-Age=86400; HttpOnly; SameSite=Strict"
    assert sessions.clear_cookie(1) == b"ropewalk_1=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


# --- bodies and answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "pieces", "status"),
    [
        (str(MOST), (b"x" * MOST,), 200), (str(MOST + 1), (b"",), 413), (None, (b"x" * MOST,), 200),
        (None, (b"x" * (MOST + 1),), 413), (None, (b"x" * MOST, b""), 200), (None, (b"x" * MOST, b"x"), 413),
        ("1", (b"x" * 60, b"x" * 60), 413), ("-1", (b"",), 200), ("x", (b"",), 200), ("9" * 19, (b"",), 413),
        ("9" * 20, (b"",), 200),  # no number that a server passes on
    ],
)  # fmt: skip
def test_a_body_has_a_limit_whatever_its_length_is_said_to_be(
    declared: str | None, pieces: tuple[bytes, ...], status: int
) -> None:
    answer = Door().ask(method="POST", headers={**BEARER, "content-length": declared}, body=pieces)
    assert answer.status == status
    assert sum(message["type"] == "http.response.start" for message in answer.messages) == 1
    if status == 413:
        assert answer.error == ("TooLarge", "the body has more than 100 bytes")
        assert answer.read in ([], [b"gone"], [pieces[0], b"gone"])
    else:
        assert (answer.body, b"".join(answer.read)) == (b"ok", b"".join(pieces))


def test_an_answer_that_has_begun_is_not_replaced() -> None:
    sent: list[str] = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"late"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * (MOST + 1)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", HOST.encode())]}
    asyncio.run(AuthMiddleware(site, None, most_bytes=MOST)(scope, receive, send))
    assert sent == ["http.response.start", "http.response.body"]


GUARDS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def test_every_answer_forbids_what_a_page_has_no_use_for() -> None:
    door = Door()
    for answer in (
        door.ask(),
        door.ask(headers=BEARER),
        door.ask(query=f"token={TOKEN}"),
        door.ask(headers={"host": "x"}),
    ):
        assert answer.headers.items() >= GUARDS.items()
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy == {
            "default-src": "'self'", "img-src": "'self' data:", "style-src": "'self' 'unsafe-inline'",
            "script-src": "'self' 'wasm-unsafe-eval'", "worker-src": "'self' blob:", "object-src": "'none'",
            "base-uri": "'none'", "form-action": "'self'", "frame-ancestors": "'none'",
        }  # fmt: skip


def test_a_header_of_the_site_stays() -> None:
    door = Door()
    assert door.ask(headers=BEARER).headers["cache-control"] == "no-store"
    door.answered["headers"] = [(b"Cache-Control", b"max-age=1"), (b"X-Frame-Options", b"SAMEORIGIN")]
    answer = door.ask(headers=BEARER)
    assert answer.headers.items() >= {"Cache-Control": "max-age=1", "X-Frame-Options": "SAMEORIGIN"}.items()
    assert {"cache-control", "x-frame-options"}.isdisjoint(answer.headers)
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("size", "sizes"),
    [(2**18, [2**18]), (2**18 + 1, [2**18, 1]), (2**19, [2**18, 2**18]), (2**19 + 5, [2**18, 2**18, 5])],
)
@pytest.mark.parametrize("more", [True, False])
def test_a_large_answer_is_sent_in_pieces(size: int, sizes: list[int], more: bool) -> None:
    pieces: list[Any] = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size, "more_body": more})

    async def send(message: Any) -> None:
        pieces.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", HOST.encode())]}
    asyncio.run(AuthMiddleware(site, None)(scope, None, send))
    assert [len(piece["body"]) for piece in pieces[1:]] == sizes
    assert [piece["more_body"] for piece in pieces[1:]] == [True] * (len(sizes) - 1) + [more]


def test_websockets_are_closed_and_the_start_is_passed_on() -> None:
    seen: list[Any] = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def send(message: Any) -> None:
        seen.append(message)

    for kind in ("lifespan", "websocket"):
        asyncio.run(AuthMiddleware(site, TOKEN)({"type": kind}, None, send))
    assert seen == ["lifespan", {"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(("client", "is_named"), [(None, False), (("127.0.0.1", 1), False), (("192.0.2.1", 1), True)])
def test_the_site_knows_the_address_of_strangers_by_a_digest(client: Any, is_named: bool) -> None:
    answer = Door().ask(headers=BEARER, client=client)
    assert answer.scope is not None
    source = answer.scope[SOURCE]
    assert (source is not None) == is_named
    assert "192.0.2.1" not in str(source)
    if is_named:
        assert Door(token="other").ask(headers={"authorization": "Bearer other"}, client=client).scope[SOURCE] != source  # type: ignore[index]


def test_a_token_can_be_sent_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, wanted in (("", None), ("abc-._~!", "abc-._~!"), (new_token(),) * 2):
        monkeypatch.setenv("ROPEWALK_TOKEN", value)
        assert token_given() == wanted
    for value in ("a b", "a;b", "a,b", 'a"b', "a\\b", "é", "a\n"):
        monkeypatch.setenv("ROPEWALK_TOKEN", value)
        with pytest.raises(ConfigError, match="ROPEWALK_TOKEN: must be ASCII letters, digits and signs"):
            token_given()
    monkeypatch.delenv("ROPEWALK_TOKEN")
    assert token_given() is None
    assert len({new_token() for _ in range(10)}) == 10
    assert len(new_token()) >= 32
