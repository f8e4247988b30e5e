"""Browser sessions: random, ended by a logout or a restart, and of no use to any other server of the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path

import httpx2
import pytest

from ropewalk.doors.security import IDLE_SECONDS, MOST_SESSIONS, AuthMiddleware, Sessions, cookies

from .server import TOKEN, Served, serve


@contextmanager
def opened(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, timeout=30) as client:
        assert client.get("/", params={"token": TOKEN}).status_code == 303
        yield client


def header(client: httpx2.Client) -> str:
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def asks(url: str, **headers: str) -> int:
    return httpx2.get(f"{url}/api/runs", headers=headers, timeout=30).status_code


@pytest.mark.process
def test_a_cookie_is_no_token_and_each_browser_has_its_own(served: Served) -> None:
    with opened(served.url) as first, opened(served.url) as second:
        [(_, one)], [(_, other)] = first.cookies.items(), second.cookies.items()
        assert one != other
        assert TOKEN not in one
        assert asks(served.url, Authorization=f"Bearer {one}") == 401
        assert httpx2.get(f"{served.url}/", params={"token": one}).status_code == 401
        assert asks(served.url, Cookie=header(first)) == 200
        for end in range(len(one)):
            assert asks(served.url, Cookie=header(first)[: -end - 1]) == 401


def test_a_logout_ends_one_session_and_all_of_them_where_it_says_so(served: Served) -> None:
    with opened(served.url) as first, opened(served.url) as second:
        kept = header(first)
        assert first.post("/api/logout").status_code == 403  # which does not say where it comes from
        gone = first.post("/api/logout", headers={"Origin": served.url})
        assert (gone.status_code, gone.json()) == (200, {"ended": 1})
        assert "Max-Age=0" in gone.headers["set-cookie"]
        assert (asks(served.url, Cookie=kept), header(first)) == (401, "")
        assert second.get("/api/runs").status_code == 200
        assert served.post("/api/logout").json() == {"ended": 0}  # a program has no session
        assert served.post("/api/logout?all=true").json()["ended"] >= 1
        assert second.get("/api/runs").status_code == 401
    assert served.get("/api/runs").status_code == 200


@pytest.mark.process
def test_two_servers_do_not_log_each_other_out_nor_take_each_others_sessions(served: Served, tmp_path: Path) -> None:
    for other in serve(tmp_path):
        # One jar, as a browser has it: cookies know no ports.
        jar: SimpleCookie = SimpleCookie()
        for url in (served.url, other.url):
            jar.load(httpx2.get(f"{url}/", params={"token": TOKEN}, timeout=30).headers["set-cookie"])
        both = "; ".join(f"{name}={morsel.value}" for name, morsel in jar.items())
        assert len(jar) == 2
        assert (asks(served.url, Cookie=both), asks(other.url, Cookie=both)) == (200, 200)
        for name, morsel in jar.items():
            here, there = (served, other) if served.url.rpartition(":")[2] in name else (other, served)
            assert asks(there.url, Cookie=f"{name}={morsel.value}") == 401
            renamed = next(key for key in jar if key != name)
            assert asks(there.url, Cookie=f"{renamed}={morsel.value}") == 401
            assert asks(here.url, Cookie=f'bad{{}}=; {name}={morsel.value}; x="') == 200


@pytest.mark.process
def test_a_restart_ends_sessions_and_the_token_opens_a_new_one(tmp_path: Path) -> None:
    before = ""
    for server in serve(tmp_path):
        with opened(server.url) as client:
            before = header(client)
    for server in serve(tmp_path):
        assert asks(server.url, Cookie=before) == 401
        with opened(server.url) as client:
            assert client.get("/api/runs").status_code == 200


def test_a_restarted_server_replaces_the_cookie_of_the_one_before() -> None:
    assert Sessions().cookie_name(8420) == Sessions().cookie_name(8420) != Sessions().cookie_name(8421)


def test_sessions_end_after_a_day_without_a_request_and_are_counted() -> None:
    now = 0.0
    sessions = Sessions(clock=lambda: now)
    used, idle = sessions.start(), sessions.start()
    for _ in range(3):
        now += IDLE_SECONDS * 0.9
        assert sessions.touch(used)
    assert not sessions.touch(idle)
    assert not sessions.touch("")
    many = [sessions.start() for _ in range(MOST_SESSIONS)]
    assert [sessions.touch(id) for id in (used, many[0], many[-1])] == [False, True, True]
    assert sessions.end_all() == MOST_SESSIONS
    assert not sessions.touch(many[0])


def test_cookies_of_others_hide_none_of_ours() -> None:
    assert cookies(b'a=b; {bad}; "x=1; ours=1; ours=2;ours = 3; yours=4', "ours") == ["1", "2", "3"]
    assert cookies(b"", "ours") == []


def test_the_page_that_is_opened_lengthens_the_session(served: Served) -> None:
    with opened(served.url) as client:
        page = client.get("/runs", headers={"Accept": "text/html"})
        assert page.headers["set-cookie"].startswith(header(client))
        assert "set-cookie" not in client.get("/api/runs").headers
    assert "set-cookie" not in served.get("/runs", headers={"Accept": "text/html"}).headers


def test_an_empty_token_is_none() -> None:
    with pytest.raises(ValueError, match="needs a token"):
        AuthMiddleware(None, "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shown", [b"", b"Bearer", b"Bearer ", b"Bearer   ", b"bearer t", b"Bearer to", b"Bearer token2"]
)
def test_no_part_of_the_token_is_the_token(shown: bytes) -> None:
    """Asked without a client in between, which would not send an empty one."""
    said: list[int] = []

    async def site(scope, receive, send):  # type: ignore[no-untyped-def]
        said.append(200)

    async def send(message):  # type: ignore[no-untyped-def]
        said.append(message.get("status", 0))

    def ask(header: bytes) -> int:
        said.clear()
        headers = [(b"host", b"localhost"), (b"authorization", header)]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "server": ("127.0.0.1", 1)}
        asyncio.run(AuthMiddleware(site, "token")(scope, None, send))  # type: ignore[arg-type]
        return said[0]

    assert ask(shown) == 401
    assert ask(b"Bearer token") == 200


def test_a_large_body_is_sent_in_pieces() -> None:
    """The HTTP server copies what it gets at once: a result of 50 MB must not cost twice as much again."""
    body = bytes(range(250)) * 4_001
    pieces: list[tuple[bytes, bool]] = []

    async def site(scope, receive, send):  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})

    async def send(message):  # type: ignore[no-untyped-def]
        if message["type"] == "http.response.body":
            pieces.append((message["body"], message.get("more_body", False)))

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")], "server": ("", 1)}
    asyncio.run(AuthMiddleware(site, None)(scope, None, send))  # type: ignore[arg-type]
    assert b"".join(piece for piece, _ in pieces) == body + b"end"
    assert max(len(piece) for piece, _ in pieces) <= 2**18
    assert [more for _, more in pieces] == [True] * (len(pieces) - 1) + [False]
