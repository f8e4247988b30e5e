"""MCP servers that never start, lie or do not listen: each is explained, and blocks nobody."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest

from ropewalk.errors import ConfigError
from ropewalk.tools.mcp.requests import ServerRefused
from tiers import sampled

from .mcp_lab import SERVERS, forked, free_port, python, said, servers

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"command": "no-such-program-here"}, "no program 'no-such-program-here' on the PATH; install it"),
        ({"command": "npx -y something"}, "no program 'npx -y something' on the PATH; arguments belong in \"args\""),
        (python("odd.py", cwd="/no/such/folder"), "cwd '/no/such/folder' is not a directory"),
        ({"command": "/etc/passwd"}, "cannot start '/etc/passwd': "),
        (python("rude.py", "exit"), "exited with code 1; its stderr ends with:\ncannot start: no database"),
        (python("rude.py", "silent", connect_timeout=0.5), "did not finish the handshake within 0.5 s"),
        (
            # It has a second to print a line.
            {"command": "sh", "args": ["-c", "echo 'Welcome to the server!'; exec sleep 600"], "connect_timeout": 1},
            "it printed text that is not JSON-RPC: 'Welcome to the server!'",
        ),
        (python("rude.py", "endless"), "its list of tools does not end (after 1000 tools)"),
        (python("rude.py", "ancient"), "Unsupported protocol version from the server: 1999-01-01"),
        (python("rude.py", "plain", mode="2026-07-28"), "Method not found"),
        (python("rude.py", "plain", env={"KEY": "${ROPEWALK_NOT_SET}"}), "env.KEY reads ${ROPEWALK_NOT_SET}, which is"),
        ({"url": f"http://127.0.0.1:{free_port()}/mcp"}, "could not be reached at http://127.0.0.1:"),
    ],
)
def test_a_broken_server_is_explained_and_blocks_nobody(config: dict[str, Any], reason: str) -> None:
    async def case() -> None:
        async with servers(broken=config, odd=forked("odd.py")) as mcp:
            connecting = asyncio.create_task(mcp.connect())
            assert said(await mcp.call_tool("odd", "echo", {"text": "x"})) == "x"
            await connecting
            assert set(mcp.failures) == {"broken"}
            assert mcp.failures["broken"].startswith("MCP server 'broken'")
            assert reason in mcp.failures["broken"]
            with pytest.raises((ConnectionError, TimeoutError, ServerRefused, ConfigError)) as caught:
                await mcp.connect("broken")
            assert reason in str(caught.value)

    asyncio.run(case())


# A server that ignores a request keeps its client waiting for two seconds, as in `test_mcp_calls.py`.
@pytest.mark.parametrize("manner", sampled("faults", ["hangup", "banner", "ignore"], 2))
def test_odd_manners_are_put_up_with(manner: str) -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", manner)) as mcp:
            assert said(await mcp.call_tool("rude", "echo")) == manner
            assert mcp.failures == {}

    asyncio.run(case())


def test_an_answer_that_is_no_result_is_refused() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "nonsense")) as mcp:
            with pytest.raises(ServerRefused, match="'rude': tool 'echo': its answer violates the protocol"):
                await mcp.call_tool("rude", "echo")

    asyncio.run(case())


def test_a_server_that_reads_nothing_cannot_hold_a_call() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "deaf", timeout=0.2)) as mcp:
            await mcp.connect()
            for _ in range(3):
                with pytest.raises((TimeoutError, ConnectionError)):
                    await mcp.call_tool("rude", "echo", {"text": "x" * 200_000})

    asyncio.run(case())


def test_closing_does_not_wait_for_what_cannot_be_written() -> None:
    async def case() -> None:
        async with servers(rude=python("rude.py", "stuck", timeout=0.2)) as mcp:
            await mcp.connect()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await mcp.call_tool("rude", "echo", {"text": "x" * 1_000_000})

    asyncio.run(case())


def test_failed_attempts_are_spaced_and_then_forgiven(tmp_path: Any) -> None:
    program = tmp_path / "late"

    async def case() -> None:
        async with servers(late={"command": str(program), "args": [str(SERVERS / "rude.py"), "plain"]}) as mcp:
            for _ in range(2):
                with pytest.raises(ConnectionError, match="no program"):
                    await mcp.call_tool("late", "echo")
            before = time.monotonic()
            program.symlink_to(sys.executable)
            assert said(await mcp.call_tool("late", "echo")) == "plain"
            assert time.monotonic() - before > 0.2

    asyncio.run(case())


def test_a_listener_that_raises_does_not_break_the_server(caplog: pytest.LogCaptureFixture) -> None:
    def listener(name: str, tools: Any) -> None:
        raise RuntimeError("cannot register")

    async def case() -> None:
        async with servers(rude=python("rude.py", "plain")) as mcp:
            mcp.on_tools(listener)
            assert said(await mcp.call_tool("rude", "echo")) == "plain"

    asyncio.run(case())
    assert "a listener of its tools failed" in caplog.text
