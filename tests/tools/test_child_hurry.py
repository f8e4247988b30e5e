"""How long a child that is stopped may take: its time where all is well, next to none where a call was given up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server
from patience import wait_until
from ropewalk.tools import child_process
from ropewalk.tools.mcp.servers import McpServers

from .mcp_lab import alive, gone, python, said, servers

pytestmark = pytest.mark.process

LONG = 600.0  # a grace that nobody waits for in this test
SOON = 200.0  # far below it, and below the patience of `close`


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "GRACE", LONG)


def late(file: Path) -> McpServers:
    return servers(late=python("late.py", str(file), mode="legacy"))


def written(file: Path) -> list[int]:
    wait_until(file.exists)
    return [int(word) for word in file.read_text().split()]


async def ended(mcp: McpServers) -> None:
    async with asyncio.timeout(SOON):
        await mcp.close()


def test_both_steps_of_a_hurried_end_are_within_half_a_second() -> None:
    assert sum(child_process.HURRIED_GRACE) < 0.4


def test_a_server_that_has_answered_has_its_time_to_end(tmp_path: Path) -> None:
    async def case() -> None:
        mcp = late(tmp_path / "ended")
        assert said(await mcp.call_tool("late", "echo")) == "here"
        await ended(mcp)

    asyncio.run(case())
    assert (tmp_path / "ended").exists()


def test_a_server_that_answers_again_after_a_call_was_given_up_has_its_time(tmp_path: Path) -> None:
    async def case() -> None:
        mcp = late(tmp_path / "ended")
        with pytest.raises(TimeoutError):
            await mcp.call_tool("late", "never", timeout=0.2)
        assert said(await mcp.call_tool("late", "echo")) == "here"
        await ended(mcp)

    asyncio.run(case())
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("how", ["timeout", "cancelled", "under way"])
def test_a_server_in_a_call_that_was_given_up_is_ended_with_its_group_at_once(tmp_path: Path, how: str) -> None:
    async def case() -> list[int]:
        mcp = late(tmp_path / "pids")
        call = asyncio.create_task(mcp.call_tool("late", "hang", timeout=1.0 if how == "timeout" else None))
        pids = await asyncio.to_thread(written, tmp_path / "pids")
        if how == "timeout":
            with pytest.raises(TimeoutError):
                await call
        elif how == "cancelled":
            call.cancel()
            await asyncio.wait([call])
        await ended(mcp)
        if how == "under way":
            with pytest.raises(ConnectionError, match="was closed"):
                await call
        return pids

    server, grandchild = asyncio.run(case())
    assert gone(server)
    assert not alive(grandchild)


def test_a_server_that_does_not_finish_its_start_is_ended_at_once() -> None:
    async def case() -> None:
        mcp = servers(rude=python("rude.py", "silent", connect_timeout=0.5))
        with pytest.raises(TimeoutError):
            await mcp.connect("rude")
        await ended(mcp)

    asyncio.run(case())


ORPHAN = f"""
import asyncio, ctypes
from ropewalk.tools import child_process as child

child.GRACE = {LONG}
assert ctypes.CDLL(None).prctl(36, 1) == 0  # orphans below us become ours, and we reap none

async def main():
    one = await child.start(["/bin/sh", "-c", "sleep 600 & echo up; read end"], child.inherited_environment())
    await one.stdout.readline()
    async with asyncio.timeout({SOON}):
        await one.stop()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc")
def test_zombies_that_nobody_reaps_are_not_waited_for() -> None:
    ran = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=SOON)
    assert ran.returncode == 0, ran.stderr


def test_a_run_that_is_stopped_takes_the_group_of_its_server_along(tmp_path: Path) -> None:
    config = python("late.py", str(tmp_path / "pids"), mode="legacy")
    (tmp_path / "ropewalk.toml").write_text(
        "".join(["[mcp.late]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in config.items())])
    )
    (tmp_path / "hang.yaml").write_text("{kind: chain, name: h, nodes: [{id: a, type: tool, tool: 'late:hang'}]}\n")
    with fork_server.Popen(
        [sys.executable, "-m", "ropewalk", "run", "hang.yaml"], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as run:
        server, grandchild = written(tmp_path / "pids")
        os.kill(run.pid, signal.SIGTERM)
        wait_until(lambda: not alive(server) and not alive(grandchild))
        assert run.wait(SOON) == 130
