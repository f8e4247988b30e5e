"""Connections that say nothing, half of a request, or too much: whoever has the token is still answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

import fork_server
from patience import BOUND, until
from ropewalk.doors.cli.serve import _listen
from ropewalk.doors.connections import ConnectionLimits, RateLimit
from ropewalk.doors.mcp.transports import Address
from ropewalk.doors.security import AuthMiddleware, serve_until_cancelled

pytestmark = pytest.mark.process

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: "
ASK = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\n\r\n"
begun: list[str] = []  # the paths of the slow requests that reached `site`


async def site(scope, receive, send):
    """Answers `/slow` when it is told to, a POST with the length of its body, everything else at once."""
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
        return
    body, more = b"", True
    while more and scope["method"] == "POST":
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if scope["path"] == "/slow":
        begun.append(scope["path"])
        await asyncio.Event().wait()
    text = b"x" * 50_000_000 if scope["path"] == "/large" else b"%d" % len(body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
    await send({"type": "http.response.body", "body": text})


@contextlib.asynccontextmanager
async def serving(**limits) -> AsyncIterator[int]:
    listening = _listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    task = asyncio.create_task(
        serve_until_cancelled(AuthMiddleware(site, "t"), listening, 0.1, ConnectionLimits(**limits))
    )
    try:
        yield port
    finally:
        task.cancel()
        await task


async def connected(port, *said):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(said)
    return reader, writer


async def answer(port, what=b"") -> bytes:
    reader, writer = await connected(port, ASK % what)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), BOUND)
    writer.close()
    return head.split(b"\r\n")[0]


async def closed(reader) -> bytes:
    """What came until the server closed the connection."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), BOUND)
    return b""


def test_half_a_request_is_given_up_and_bytes_now_and_then_do_not_help():
    async def scenario():
        async with serving(header_seconds=0.3) as port:
            silent, _ = await connected(port)
            half, writer = await connected(port, HALF)

            async def drip():
                with contextlib.suppress(ConnectionError):
                    while True:
                        writer.write(b"b")
                        await writer.drain()
                        await asyncio.sleep(0.02)

            dripping = asyncio.create_task(drip())
            assert await closed(silent) == b""
            assert await closed(half) == b""
            dripping.cancel()
            assert await answer(port) == b"HTTP/1.1 200 OK"

    asyncio.run(scenario())


@pytest.mark.campaign("reliability", only=True)
def test_a_body_that_stops_and_an_answer_that_is_not_read_are_given_up():
    async def scenario():
        async with serving(idle_seconds=0.3) as port:
            head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\nContent-Length: 9\r\n\r\n"
            body, _ = await connected(port, head, b"four")
            assert await closed(body) == b""
            large, _ = await connected(port, ASK % b"large")
            await asyncio.sleep(1)
            assert len(await closed(large)) < 50_000_000
        async with serving(idle_seconds=0.8) as port:
            whole, writer = await connected(port, head)
            for byte in b"in pieces":
                await asyncio.sleep(0.1)  # longer in all than may pass without any
                writer.write(bytes([byte]))
            assert b"200 OK" in await asyncio.wait_for(whole.readuntil(b"\r\n\r\n9"), BOUND)

    asyncio.run(scenario())


def test_a_request_that_takes_long_is_not_cut_off_by_any_of_them():
    async def scenario():
        async with serving(header_seconds=0.2, idle_seconds=0.2) as port:
            reader, writer = await connected(port, ASK % b"slow")
            await asyncio.sleep(0.6)
            assert not reader.at_eof()
            writer.close()

    asyncio.run(scenario())


def test_of_too_many_connections_the_oldest_that_waits_makes_room():
    async def scenario():
        async with serving(connections=8) as port:
            begun.clear()
            slow = [await connected(port, ASK % b"slow") for _ in range(4)]
            await until(lambda: len(begun) == 4)
            half = [await connected(port, HALF) for _ in range(40)]
            assert await answer(port) == b"HTTP/1.1 200 OK"
            assert await closed(half[0][0]) == b""
            assert not any(reader.at_eof() for reader, _ in slow)
            more = [await connected(port, ASK % b"slow") for _ in range(4)]
            await until(lambda: len(begun) == 8)
            assert await answer(port) == b"HTTP/1.1 503 Service Unavailable"  # all of them have something to do
            for _, writer in (*slow, *half, *more):
                writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("listen", [lambda: _listen("127.0.0.1", 0), lambda: Address().listen()])
def test_an_answer_on_a_kept_connection_is_not_held_back(listen, monkeypatch):
    """The time it takes depends on the client's system, so the option itself is looked at, on every accepted socket."""
    set_to: list[bool] = []

    async def looking(scope, receive, send):
        if scope["type"] == "http":
            [connection] = server_side()
            set_to.append(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
        await site(scope, receive, send)

    def server_side():
        from ropewalk.doors.connections import Connection

        return [one.transport.get_extra_info("socket") for one in made if isinstance(one, Connection)]

    from ropewalk.doors import connections

    made: list[object] = []
    admit = connections.Connections.admit
    monkeypatch.setattr(connections.Connections, "admit", lambda self, one: made.append(one) or admit(self, one))

    async def scenario():
        listening = listen()
        task = asyncio.create_task(serve_until_cancelled(AuthMiddleware(looking, "t"), listening, 1))
        assert await answer(listening.getsockname()[1]) == b"HTTP/1.1 200 OK"
        task.cancel()
        await task

    asyncio.run(scenario())
    assert set_to == [True]


def test_lines_of_a_logger_are_limited_and_the_others_counted(caplog):
    logger = logging.getLogger("ropewalk.test.noise")
    limit = RateLimit(lines=3, seconds=3600)
    logger.addFilter(limit)
    for i in range(10_000):
        logger.warning("line %d", i)
    assert [record.getMessage() for record in caplog.records] == ["line 0", "line 1", "line 2"]
    limit._since -= 3601  # an hour later
    logger.warning("line %s", "last")
    assert caplog.records[-1].getMessage() == "line last (9997 lines of this logger were left out)"
    logger.removeFilter(limit)


FEW_FILES = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
sys.argv = ["ropewalk", "serve", "--port", sys.argv[1]]
runpy.run_module("ropewalk", run_name="__main__")
"""


@pytest.mark.campaign("reliability", only=True)
def test_four_hundred_half_requests_leave_the_server_answering_and_its_log_short(tmp_path):
    """A process of its own with few file descriptors, since that is what half-open connections use up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "ropewalk.toml").write_text("")
    (tmp_path / "few_files.py").write_text(FEW_FILES)
    with (tmp_path / "log").open("wb") as log:
        process = fork_server.Popen(
            [sys.executable, str(tmp_path / "few_files.py"), str(port)],
            cwd=tmp_path, env={"ROPEWALK_TOKEN": "t", "PATH": ""}, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    opened: list[socket.socket] = []
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http")
        for _ in range(400):
            one = socket.create_connection(("127.0.0.1", port), timeout=BOUND)
            opened.append(one)
            with contextlib.suppress(ConnectionError):
                one.sendall(HALF)
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), timeout=BOUND) as asking:
                asking.sendall(ASK % b"api/runs")
                assert asking.recv(12) == b"HTTP/1.1 200"
        assert (tmp_path / "log").stat().st_size < 100_000  # it was 97 MB
    finally:
        for one in opened:
            one.close()
        process.terminate()
        assert process.wait(BOUND) == 0
        assert process.stdout is not None
        process.stdout.close()
