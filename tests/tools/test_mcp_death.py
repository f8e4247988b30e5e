"""What happens when MCP servers die, hang, lie or never start; and that nothing is left over."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from ropewalk.errors import ConfigError
from ropewalk.tools.mcp import McpServers, ServerRefused
from ropewalk.tools.result import ProgressEvent

from .mcp_lab import SERVERS, alive, free_port, gone, group, odd_http, python, said


def servers(**configs: dict[str, Any]) -> McpServers:
    found = McpServers()
    for name, config in configs.items():
        found.add(name, config)
    return found


async def pid_of(mcp: McpServers, name: str = "odd") -> int:
    return int(said(await mcp.call_tool(name, "pid")))


async def in_call(mcp: McpServers) -> tuple[asyncio.Task[Any], int]:
    """A call under way, and the process that serves it."""
    running: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def began(event: ProgressEvent) -> None:
        running.set_result(int(event.message or 0))

    task = asyncio.create_task(mcp.call_tool("odd", "slow", on_progress=began))
    return task, await running


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_kill_in_mid_call_is_told_at_once_and_the_next_call_works(mode: str) -> None:
    async def case() -> None:
        async with servers(odd=python("odd.py", mode=mode)) as mcp:
            call, pid = await in_call(mcp)
            waiting = asyncio.create_task(mcp.call_tool("odd", "slow"))
            await asyncio.sleep(0)
            before = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            for task in (call, waiting):
                with pytest.raises(ConnectionError, match=r"MCP server 'odd' was killed by SIGKILL"):
                    await task
            assert time.monotonic() - before < 5
            assert mcp.failures["odd"].startswith("MCP server 'odd' was killed by SIGKILL")
            again = await pid_of(mcp)
            assert again != pid
            assert mcp.failures == {}
        assert gone(pid)
        assert gone(again)

    asyncio.run(case())


def test_death_between_calls_is_noticed_and_the_next_call_works() -> None:
    async def case() -> None:
        async with servers(odd=python("odd.py")) as mcp:
            pid = await pid_of(mcp)
            owner = next(task for task in asyncio.all_tasks() if "'odd'" in task.get_name())
            os.kill(pid, signal.SIGKILL)
            await asyncio.wait([owner], timeout=5)
            assert "killed by SIGKILL" in mcp.failures["odd"]
            assert await pid_of(mcp) != pid

    asyncio.run(case())


def test_last_words_are_shown_without_control_characters_and_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_TOKEN", "s3cret-token")

    async def case() -> None:
        async with servers(odd=python("odd.py", env={"TOKEN": "${ODD_TOKEN}"})) as mcp:
            with pytest.raises(ConnectionError) as caught:
                await mcp.call_tool("odd", "die", {"code": 7})
        assert "MCP server 'odd' exited with code 7; its stderr ends with:\n" in str(caught.value)
        assert "last words ***" in str(caught.value)

    asyncio.run(case())


def test_close_ends_the_whole_group_also_what_ignores_signals() -> None:
    async def case() -> None:
        mcp = servers(odd=python("odd.py"))
        pid = await pid_of(mcp)
        grandchild = int(said(await mcp.call_tool("odd", "grandchild")))
        assert alive(grandchild)
        call, _ = await in_call(mcp)
        before = time.monotonic()
        await mcp.close()
        assert time.monotonic() - before < 5
        assert gone(pid)
        assert not alive(grandchild)
        with pytest.raises(ConnectionError, match="MCP server 'odd' was closed"):
            await call
        with pytest.raises(ConnectionError, match=r"was closed; connect\(\) opens it again"):
            await mcp.call_tool("odd", "pid")
        await mcp.connect("odd")
        assert await pid_of(mcp) != pid
        await mcp.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(case())


def test_death_with_a_relative_that_keeps_the_pipes_open_is_noticed() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "family")) as mcp:
            pid, relative = map(int, said(await mcp.call_tool("rude", "echo")).split())
            call = asyncio.create_task(mcp.call_tool("rude", "echo"))
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(ConnectionError, match="killed by SIGKILL"):
                await asyncio.wait_for(call, 3)
        assert gone(pid), "the relative is of the group, and ends with it"
        assert not alive(relative)

    asyncio.run(case())


def test_end_of_the_loop_ends_the_process_and_a_second_loop_reconnects() -> None:
    mcp = servers(odd=python("odd.py"))
    first = asyncio.run(pid_of(mcp))  # nobody closes: the end of the loop does
    assert gone(first)
    second = asyncio.run(pid_of(mcp))
    assert first != second
    assert gone(second)

    async def closing() -> int:
        async with mcp:
            return await pid_of(mcp)

    assert asyncio.run(closing()) != asyncio.run(closing()), "closing is for one loop, not for ever"


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_closed_without_a_word_leaves_no_process_after_the_next_use() -> None:
    mcp = servers(odd=python("odd.py"))
    loop = asyncio.new_event_loop()
    first = loop.run_until_complete(pid_of(mcp))
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    assert group(first)
    asyncio.run(pid_of(mcp))
    assert gone(first)
    del loop
    gc.collect()


def test_two_loops_at_once_have_a_connection_each() -> None:
    mcp = servers(odd=python("odd.py"))

    async def case() -> None:
        here = await pid_of(mcp)
        there = await asyncio.to_thread(asyncio.run, pid_of(mcp))
        assert here != there
        assert gone(there)
        assert await pid_of(mcp) == here
        await mcp.close()

    asyncio.run(case())


def test_an_interpreter_that_just_exits_leaves_no_process() -> None:
    code = """
import asyncio, json, sys
from ropewalk.errors import ConfigError
from ropewalk.tools.mcp import McpServers
mcp = McpServers()
mcp.add("odd", json.loads(sys.argv[1]))
async def main():
    for tool in ("pid", "grandchild"):
        print((await mcp.call_tool("odd", tool)).content[0].text, flush=True)
    HOW
"""
    config = json.dumps(python("odd.py"))
    for how in ("sys.exit()", "raise KeyboardInterrupt", "asyncio.current_task().cancel(); await asyncio.sleep(9)"):
        script = code.replace("HOW", how) + "asyncio.run(main())\n"
        ran = subprocess.run([sys.executable, "-c", script, config], capture_output=True, text=True, timeout=60)
        pid, grandchild = map(int, ran.stdout.split())
        assert gone(pid), how
        assert not alive(grandchild), how


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"command": "no-such-program-here"}, "no program 'no-such-program-here' on the PATH"),
        ({"command": "npx -y something"}, "no program 'npx -y something' on the PATH; arguments belong in \"args\""),
        (python("odd.py", cwd="/no/such/folder"), "cwd '/no/such/folder' is not a directory"),
        ({"command": "/etc/passwd"}, "cannot start '/etc/passwd': "),
        (python("rude.py", "exit"), "exited with code 1; its stderr ends with:\ncannot start: no database"),
        (python("rude.py", "silent", connect_timeout=0.5), "did not finish the handshake within 0.5 s"),
        (
            python("rude.py", "garbage", connect_timeout=0.5),
            "it printed what is not JSON-RPC: 'Welcome to the server!'",
        ),
        (python("rude.py", "endless"), "its list of tools does not end (after 1000 tools)"),
        (python("rude.py", "circular"), "its list of tools does not end (after 2 tools)"),
        (python("rude.py", "ancient"), "Unsupported protocol version from the server: 1999-01-01"),
        (python("rude.py", "plain", mode="2026-07-28"), "Method not found"),
        (python("rude.py", "plain", env={"KEY": "${ROPEWALK_NOT_SET}"}), "env.KEY reads ${ROPEWALK_NOT_SET}, which is"),
        ({"url": f"http://127.0.0.1:{free_port()}/mcp"}, "could not be reached at http://127.0.0.1:"),
    ],
)
def test_a_broken_server_is_explained_and_blocks_nobody(config: dict[str, Any], reason: str) -> None:
    async def case() -> None:
        async with servers(broken=config, odd=python("odd.py")) as mcp:
            connecting = asyncio.create_task(mcp.connect())
            before = time.monotonic()
            assert said(await mcp.call_tool("odd", "echo", {"text": "x"})) == "x"
            assert time.monotonic() - before < 5
            await connecting
            assert set(mcp.failures) == {"broken"}
            assert mcp.failures["broken"].startswith("MCP server 'broken'")
            assert reason in mcp.failures["broken"]
            with pytest.raises((ConnectionError, TimeoutError, ServerRefused, ConfigError)) as caught:
                await mcp.connect("broken")
            assert reason in str(caught.value)

    asyncio.run(case())


@pytest.mark.parametrize("manner", ["hangup", "banner", "ignore"])
def test_odd_manners_are_put_up_with(manner: str) -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", manner)) as mcp:
            assert said(await mcp.call_tool("rude", "echo")) == manner
            assert mcp.failures == {}

    asyncio.run(case())


def test_an_answer_that_is_no_result_is_refused() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "nonsense")) as mcp:
            with pytest.raises(ServerRefused, match="'rude': tool 'echo': its answer is not what the protocol allows"):
                await mcp.call_tool("rude", "echo")

    asyncio.run(case())


def test_a_server_that_reads_nothing_cannot_hold_a_call() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "deaf", timeout=0.5)) as mcp:
            await mcp.connect()
            started = time.monotonic()
            for _ in range(3):
                with pytest.raises((TimeoutError, ConnectionError)):
                    await mcp.call_tool("rude", "echo", {"text": "x" * 200_000})
            assert time.monotonic() - started < 10

    asyncio.run(case())


def test_closing_does_not_wait_for_what_cannot_be_written() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "stuck", timeout=0.3)) as mcp:
            await mcp.connect()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await mcp.call_tool("rude", "echo", {"text": "x" * 1_000_000})
            started = time.monotonic()
        assert time.monotonic() - started < 4

    asyncio.run(case())


def test_failed_attempts_are_spaced_and_then_forgiven(tmp_path: Any) -> None:
    program = tmp_path / "late"

    async def case() -> None:
        async with servers(late={"command": str(program), "args": [str(SERVERS / "rude.py"), "plain"]}) as mcp:
            for _ in range(3):
                with pytest.raises(ConnectionError, match="no program"):
                    await mcp.call_tool("late", "echo")
            before = time.monotonic()
            program.symlink_to(sys.executable)
            assert said(await mcp.call_tool("late", "echo")) == "plain"
            assert 0.2 < time.monotonic() - before < 5

    asyncio.run(case())


async def retried(action: Callable[[], Awaitable[Any]], bound: float = 10) -> Any:
    async with asyncio.timeout(bound):
        while True:
            try:
                return await action()
            except ConnectionError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_http_server_killed_in_mid_call_is_told_and_after_a_restart_the_next_call_works(mode: str) -> None:
    with odd_http() as web:

        async def case() -> None:
            async with servers(odd={"url": web.url, "mode": mode}) as mcp:
                call, pid = await in_call(mcp)
                before = time.monotonic()
                web.kill()
                with pytest.raises(ConnectionError, match=r"MCP server 'odd' lost the connection to http://127"):
                    await call
                assert time.monotonic() - before < 5
                with pytest.raises(ConnectionError, match="could not be reached at"):
                    await mcp.call_tool("odd", "pid")
                web.start()
                assert await pid_of(mcp) not in (pid, None)
                assert mcp.failures == {}

        asyncio.run(case())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_http_server_restarted_between_calls_goes_unnoticed(mode: str) -> None:
    with odd_http() as web:

        async def case() -> None:
            async with servers(odd={"url": web.url, "mode": mode}) as mcp:
                first = await pid_of(mcp)
                web.kill()
                web.start()
                # The lost session is a refusal before anything ran: it is opened again unasked.
                assert await retried(lambda: pid_of(mcp)) != first

        asyncio.run(case())


class _Refuses(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = b"<html>who are you?</html>"
        self.send_response(401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_http_refusal_tells_the_status() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refuses) as web:
        Thread(target=web.serve_forever, daemon=True).start()

        async def case() -> None:
            async with servers(odd={"url": f"http://user:pa55word@127.0.0.1:{web.server_port}/mcp?key=abc"}) as mcp:
                with pytest.raises(ServerRefused, match="HTTP 401 Unauthorized"):
                    await mcp.call_tool("odd", "echo")
                assert "pa55word" not in mcp.failures["odd"]

        asyncio.run(case())
        web.shutdown()


def test_children_get_only_the_allow_list_and_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "must-not-leak")
    monkeypatch.setenv("TERM", "() { :; }; echo a function, not a terminal")

    async def case() -> None:
        config = python("odd.py", env={"TOKEN": "${ANTHROPIC_API_KEY}", "MODE": "${NOT_SET_HERE:-plain}"})
        async with servers(bare=python("odd.py"), odd=config) as mcp:
            bare = (await mcp.call_tool("bare", "environment")).structured_content
            allowed = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
            assert set(bare) <= allowed
            assert "must-not-leak" not in str(bare)
            told = (await mcp.call_tool("odd", "environment")).structured_content
            assert (told["TOKEN"], told["MODE"]) == ("must-not-leak", "plain")

    asyncio.run(case())


def test_children_get_no_descriptor_of_ours() -> None:
    ends = os.pipe()
    leaked = os.dup2(ends[0], 77, inheritable=True)

    async def case() -> None:
        async with servers(odd=python("odd.py")) as mcp:
            assert "77" not in said(await mcp.call_tool("odd", "descriptors")).strip("[]").split(", ")

    try:
        asyncio.run(case())
    finally:
        for descriptor in (*ends, leaked):
            os.close(descriptor)


def test_arguments_are_never_read_by_a_shell(tmp_path: Any) -> None:
    trap = tmp_path / "trap"

    async def case() -> None:
        shady = [f"; touch {trap}", f"$(touch {trap})", f"`touch {trap}`", f"| touch {trap}", f"&& touch {trap}"]
        async with servers(odd=python("rude.py", "plain", *shady), bad={"command": f"true; touch {trap}"}) as mcp:
            assert said(await mcp.call_tool("odd", "echo")) == "plain"
            with pytest.raises(ConnectionError, match="no program"):
                await mcp.connect("bad")

    asyncio.run(case())
    assert not trap.exists()


def test_a_listener_that_raises_does_not_break_the_server(caplog: pytest.LogCaptureFixture) -> None:
    def listener(name: str, tools: Any) -> None:
        raise RuntimeError("cannot register")

    async def case() -> None:
        async with servers(rude=python("rude.py", "plain")) as mcp:
            mcp.on_tools(listener)
            assert said(await mcp.call_tool("rude", "echo")) == "plain"

    asyncio.run(case())
    assert "a listener of its tools failed" in caplog.text
