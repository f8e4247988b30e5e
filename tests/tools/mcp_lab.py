"""Where the MCP tests get their servers, and how they look for processes left over."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fork_server
from patience import wait_until
from ropewalk.tools.mcp.servers import McpServers
from ropewalk.tools.tool import ProgressEvent

SERVERS = Path(__file__).parent.parent / "mcp_servers"
NODE = Path(__file__).parent.parent / "node"


def python(script: str, *args: str, **config: Any) -> dict[str, Any]:
    """The configuration of one of our own servers over stdio."""
    return {"command": sys.executable, "args": [str(SERVERS / script), *args], **config}


def forked(script: str, *args: str, **config: Any) -> dict[str, Any]:
    """The same, started at less cost, for tests that do not look at the process."""
    return {**python(script, *args, **config), "command": fork_server.program("python")}


def node(package: str, *args: str, **config: Any) -> dict[str, Any]:
    """The configuration of a real npm server over stdio; without it the test is skipped, but
    never in CI, where a missing server is a failure."""
    return {"command": "node", "args": [node_script(package), *args], **config}


def node_script(package: str, scope: str = "@modelcontextprotocol", file: str = "dist/index.js") -> str:
    script = NODE / "node_modules" / scope / package / file
    missing = "node is not on the PATH" if shutil.which("node") is None else ""
    if not missing and not script.exists():
        missing = f"{package} is not installed; run: scripts/node.sh"
    _without(missing)
    return str(script)


def node_tool(package: str, script: str) -> list[str]:
    """The command of a tool that needs a newer Node.js than the system's may be: one that npm has, too."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    node = NODE / "node_modules" / f"node-{sys.platform}-{machine}" / "bin" / "node"
    path = NODE / "node_modules" / "@modelcontextprotocol" / package / script
    lacking = [name for name, file in (("node", node), (package, path)) if not file.exists()]
    _without(f"{' and '.join(lacking)} not installed; run: scripts/node.sh" if lacking else "")
    return [str(node), str(path)]


def _without(missing: str) -> None:
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@contextlib.contextmanager
def inheritable() -> Iterator[int]:
    """A descriptor of ours that a careless start of a child would hand on."""
    ends = os.pipe()
    # A number that nobody has, and that no child opens for itself.
    leaked = fcntl.fcntl(ends[0], fcntl.F_DUPFD, 500)
    os.set_inheritable(leaked, True)
    try:
        yield leaked
    finally:
        for descriptor in (*ends, leaked):
            os.close(descriptor)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class HttpServer:
    """A server in a child of the test; `ready` is what it prints when it listens."""

    def __init__(self, argv: list[str], ready: str, port: int, **env: str) -> None:
        self.argv, self.ready, self.port, self.env = argv, ready, port, env
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.start()

    def start(self) -> None:
        self.process = fork_server.Popen(
            self.argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **self.env}
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self.ready in line:
                return
        raise AssertionError(f"{self.argv} ended with {self.process.wait()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def odd_http() -> Iterator[HttpServer]:
    port = free_port()
    server = HttpServer([sys.executable, str(SERVERS / "odd.py"), str(port)], "ready", port)
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def guarded(lifetime: float = 3600.0) -> Iterator[HttpServer]:
    """A server that wants a login, with its authorization server."""
    port = free_port()
    server = HttpServer([sys.executable, str(SERVERS / "guarded.py"), str(port), str(lifetime)], "ready", port)
    try:
        yield server
    finally:
        server.kill()


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def group(pgid: int) -> list[int]:
    """The running members of a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(pgrp) == pgid and state != "Z":
                    found.append(int(entry.name))
    return found


def collected() -> None:
    """Let go of what closed loops have left, transports above all, so that no later test is told of it: before
    Python 3.12 asyncio waits for each child in a thread, which holds on to its transport."""
    for thread in threading.enumerate():
        if "waitpid" in thread.name:
            thread.join(50)
    gc.collect()


def gone(pgid: int) -> bool:
    """Whether a process group has ended; what SIGKILL has hit may take a moment to do so."""
    return wait_until(lambda: not group(pgid))


def said(result: Any) -> str:
    return "".join(part.text for part in result.content if part.type == "text")


def servers(**configs: dict[str, Any]) -> McpServers:
    """Servers by name, not connected yet."""
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
