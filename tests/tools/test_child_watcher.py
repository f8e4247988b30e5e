"""What becomes of children when we are killed: nothing of their groups is left, nor of what watches over them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ropewalk.tools.child_process import Watcher

from .mcp_lab import alive, gone, inheritable, python

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="the tests read /proc")]

OURS = """
import asyncio, json, os, sys
from ropewalk.tools.mcp.servers import McpServers
from ropewalk.tools.child_process import WATCHER

async def main():
    mcp = McpServers()
    mcp.add("odd", json.loads(sys.argv[1]))
    pids = [int((await mcp.call_tool("odd", tool)).content[0].text) for tool in ("pid", "grandchild")]
    DO
    print(json.dumps([*pids, WATCHER._process.pid]), flush=True)
    await mcp.call_tool("odd", "slow")

asyncio.run(main())
"""
FORKED = """
    copy = os.fork()
    if not copy:
        import time
        time.sleep(600)
    pids.append(copy)"""
WATCHER_KILLED = """
    os.kill(WATCHER._process.pid, 9)
    WATCHER._process.wait()
    mcp.add("other", json.loads(sys.argv[1]))
    pids.append(int((await mcp.call_tool("other", "pid")).content[0].text))"""


def killed(do: str = "") -> list[int]:
    """The processes of one of us that had servers and was killed: server, grandchild, what `do` adds, watcher."""
    script = OURS.replace("DO", do)
    config = json.dumps(python("mortal.py"))
    with subprocess.Popen([sys.executable, "-c", script, config], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids: list[int] = json.loads(process.stdout.readline())
        assert all(map(alive, pids))
        process.kill()
    return pids


def test_a_server_its_grandchild_and_the_watcher_end_with_us() -> None:
    server, grandchild, watcher = killed()
    assert gone(watcher)
    assert gone(server)
    assert not alive(grandchild)


def test_they_end_also_where_a_forked_copy_of_us_lives_on() -> None:
    server, grandchild, copy, watcher = killed(FORKED)
    try:
        assert alive(copy)
        assert gone(watcher)
        assert gone(server)
        assert not alive(grandchild)
    finally:
        os.kill(copy, signal.SIGKILL)


def test_a_watcher_that_has_died_is_there_again_with_the_next_child() -> None:
    server, grandchild, other, watcher = killed(WATCHER_KILLED)
    assert gone(watcher)
    assert gone(server)
    assert gone(other)
    assert not alive(grandchild)


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Makes a process with a group of its own."""
    made: list[subprocess.Popen[bytes]] = []

    def make() -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        return made[-1]

    yield make
    for process in made:
        process.kill()
        process.wait()


def test_a_group_that_was_taken_off_the_list_is_left_alone(sleeper: Callable[[], subprocess.Popen[bytes]]) -> None:
    watcher = Watcher()
    first, middle, last = sleeper(), sleeper(), sleeper()
    for process in (first, middle, last):
        watcher.add(process.pid)
    for process in (first, last):
        watcher.remove(process.pid)
    watcher.end()
    assert middle.wait(50) == -signal.SIGKILL
    assert alive(first.pid)
    assert alive(last.pid)


def test_a_watcher_that_does_not_read_is_replaced_and_kills_nothing(
    sleeper: Callable[[], subprocess.Popen[bytes]],
) -> None:
    watcher, kept = Watcher(), sleeper()
    watcher.add(kept.pid)
    assert watcher._process is not None
    held = watcher._process.pid
    os.kill(held, signal.SIGSTOP)
    while watcher._process.pid == held:  # until its pipe is full
        watcher.remove(kept.pid)
        watcher.add(kept.pid)
    assert not alive(held)
    assert alive(kept.pid)
    watcher.end()
    assert kept.wait(50) == -signal.SIGKILL


def test_the_watcher_has_nothing_of_ours() -> None:
    watcher = Watcher()
    try:
        with inheritable():
            watcher.add(2**22 + 1)  # no process has this number
        assert watcher._process is not None
        about = Path(f"/proc/{watcher._process.pid}")
        assert sorted(entry.name for entry in (about / "fd").iterdir()) == ["0", "1", "2"]
        assert (about / "environ").read_bytes() == b""
        assert os.getsid(watcher._process.pid) == watcher._process.pid
    finally:
        watcher.end()
