"""What happens when MCP servers die or their loop ends; and that nothing is left over."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from patience import BOUND
from ropewalk.errors import ToolTimeout
from ropewalk.tools.mcp.login_errors import LoginRequired
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import Tool, ToolBackend
from tiers import sampled

from .mcp_lab import alive, collected, gone, group, in_call, odd_http, pid_of, python, said, servers

pytestmark = pytest.mark.process


@pytest.mark.parametrize("mode", sampled("faults", ["auto", "legacy"], 1))
def test_kill_in_mid_call_is_told_at_once_and_the_next_call_works(mode: str) -> None:
    async def case() -> None:
        async with servers(odd=python("odd.py", mode=mode)) as mcp:
            call, pid = await in_call(mcp)
            waiting = asyncio.create_task(mcp.call_tool("odd", "slow"))
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            for task in (call, waiting):
                with pytest.raises(ConnectionError, match=r"MCP server 'odd' was killed by SIGKILL"):
                    await task
            assert mcp.failures["odd"].startswith("MCP server 'odd' was killed by SIGKILL")
            again = await pid_of(mcp)
            assert again != pid
            assert mcp.failures == {}
        assert gone(pid)
        assert gone(again)

    asyncio.run(case())


def test_death_between_calls_is_noticed_and_the_next_call_works() -> None:
    async def case() -> None:
        async with servers(odd=python("mortal.py")) as mcp:
            pid = await pid_of(mcp)
            owner = next(task for task in asyncio.all_tasks() if "'odd'" in task.get_name())
            os.kill(pid, signal.SIGKILL)
            await asyncio.wait([owner])
            assert "killed by SIGKILL" in mcp.failures["odd"]
            assert await pid_of(mcp) != pid

    asyncio.run(case())


def test_last_words_are_shown_without_control_characters_and_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_TOKEN", "s3cret-token")

    async def case() -> None:
        async with servers(odd=python("mortal.py", env={"TOKEN": "${ODD_TOKEN}"})) as mcp:
            with pytest.raises(ConnectionError) as caught:
                await mcp.call_tool("odd", "die", {"code": 7, "frames": 300})
        first, cut, *rest = str(caught.value).splitlines()
        assert (first, cut) == ("MCP server 'odd' exited with code 7; its stderr ends with:", "…")
        assert rest == [*(f"frame {number}" for number in range(301 - len(rest), 300)), rest[-1]]
        assert "last words ***" in rest[-1]
        assert len(str(caught.value)) < 2000, "more is cut where it is shown"

    asyncio.run(case())


def test_a_timeout_of_a_call_says_that_its_server_was_still_starting() -> None:
    async def case() -> None:
        async with servers(odd={"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}) as mcp:
            tool, backend = Tool("ask", "", {"type": "object"}), ToolBackend.mcp("odd")
            runner = Runner(tool_resolver=lambda _: tool, backends_resolver=lambda _: [backend], mcp=mcp)
            for timeout in (0.05, 0.5, 5):  # the first call of a process also imports the library
                with pytest.raises(ToolTimeout) as caught:
                    await runner.run("ask", {}, timeout=timeout)
                reason = f"no answer within {timeout:g} s; MCP server 'odd' was still starting"
                if caught.value.reason == reason:
                    break
        assert caught.value.reason == reason

    asyncio.run(case())


def test_close_ends_the_whole_group_also_what_ignores_signals() -> None:
    async def case() -> None:
        mcp = servers(odd=python("mortal.py"))
        pid = await pid_of(mcp)
        grandchild = int(said(await mcp.call_tool("odd", "grandchild")))
        assert alive(grandchild)
        call, _ = await in_call(mcp)
        await mcp.close()
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
                await call
        assert gone(pid), "the relative is of the group, and ends with it"
        assert not alive(relative)

    asyncio.run(case())


# Of transports that a loop of before its time had no turn left to close.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_end_of_the_loop_ends_the_process_and_a_second_loop_reconnects() -> None:
    mcp = servers(odd=python("mortal.py"))
    first = asyncio.run(pid_of(mcp))  # nobody closes: the end of the loop does
    assert gone(first)
    second = asyncio.run(pid_of(mcp))
    assert first != second
    assert gone(second)

    async def closing() -> int:
        async with mcp:
            return await pid_of(mcp)

    assert asyncio.run(closing()) != asyncio.run(closing()), "closing is for one loop, not for ever"
    collected()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_closed_without_a_word_leaves_no_process_after_the_next_use() -> None:
    mcp = servers(odd=python("mortal.py"))
    loop = asyncio.new_event_loop()
    first = loop.run_until_complete(pid_of(mcp))
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    assert group(first)
    asyncio.run(pid_of(mcp))
    assert gone(first)
    del loop
    collected()


def test_two_loops_at_once_have_a_connection_each() -> None:
    mcp = servers(odd=python("mortal.py"))

    async def case() -> None:
        here = await pid_of(mcp)
        there = await asyncio.to_thread(asyncio.run, pid_of(mcp))
        assert here != there
        assert gone(there)
        assert await pid_of(mcp) == here
        await mcp.close()

    asyncio.run(case())


@pytest.mark.parametrize(
    "how",
    sampled(
        "faults",
        ["sys.exit()", "raise KeyboardInterrupt", "asyncio.current_task().cancel(); await asyncio.sleep(9)"],
        1,
    ),
)
def test_an_interpreter_that_just_exits_leaves_no_process(how: str) -> None:
    code = """
import asyncio, json, sys
from ropewalk.errors import ConfigError
from ropewalk.tools.mcp.servers import McpServers
mcp = McpServers()
mcp.add("odd", json.loads(sys.argv[1]))
async def main():
    for tool in ("pid", "grandchild"):
        print((await mcp.call_tool("odd", tool)).content[0].text, flush=True)
    HOW
"""
    config = json.dumps(python("mortal.py"))
    script = code.replace("HOW", how) + "asyncio.run(main())\n"
    ran = subprocess.run([sys.executable, "-c", script, config], capture_output=True, text=True, timeout=300)
    pid, grandchild = map(int, ran.stdout.split())
    assert gone(pid)
    assert not alive(grandchild)


async def retried(action: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(BOUND):
        while True:
            with contextlib.suppress(ConnectionError):
                return await action()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_http_server_killed_in_mid_call_is_told_and_after_a_restart_the_next_call_works(mode: str) -> None:
    with odd_http() as web:

        async def case() -> None:
            async with servers(odd={"url": web.url, "mode": mode}) as mcp:
                call, pid = await in_call(mcp)
                web.kill()
                with pytest.raises(ConnectionError, match=r"MCP server 'odd' lost the connection to http://127"):
                    await call
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
        Thread(target=web.serve_forever, args=(0.01,), daemon=True).start()

        async def case() -> None:
            async with servers(odd={"url": f"http://user:pa55word@127.0.0.1:{web.server_port}/mcp?key=abc"}) as mcp:
                with pytest.raises(LoginRequired, match="HTTP 401"):
                    await mcp.call_tool("odd", "echo")
                assert "pa55word" not in mcp.failures["odd"]

        asyncio.run(case())
        web.shutdown()
