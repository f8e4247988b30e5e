"""The MCP server over HTTP next to FastMCP: latency, throughput, and the memory of a large result.

    python bench/mcp_http.py [--fastmcp PYTHON] [--rounds 7] [--seconds 1.5] [--skip-memory]

PYTHON is the interpreter of an environment with FastMCP (`python -m venv V && V/bin/pip install fastmcp`, then
`--fastmcp V/bin/python`). Without it only Ropewalk is measured. Both servers offer `echo`, get the same bytes of the
revision 2026-07-28 from the same client over kept connections, and must give the right answer. With FastMCP a call is
a call of a function. With Ropewalk it is a durable run of a flow with one step: it is in the store when the client has
the answer.

- latency: one call after another on one connection, in short batches. The ratio is that of the medians of all calls.
- throughput: calls per second with 16 connections, each with a call in flight.
- cpu: the CPU time of the server per call of that sample; other work on the machine hardly changes it.
- memory: the peak of the resident size during a call with a result of 50 MB, above the resident size before it.

The servers alternate within each round. The other ratios are the medians of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final

COMMAND: Final = str(Path(sys.executable).with_name("ropewalk"))
CONNECTIONS: Final = 16
BATCH: Final = 10  # calls of a sample of latency
BATCHES: Final = 6  # of each server in a round
LARGE: Final = 50_000_000  # bytes
VERSION: Final = "2026-07-28"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SETTINGS = '[tools]\nmodules = ["functions"]\n[store]\nurl = "runs.db"\n[mcp_server]\nflows = ["*.yaml"]\n'
FUNCTIONS = """
from ropewalk import tool

@tool
def say(text: str) -> str:
    return text

@tool
def many(size: int) -> str:
    return "x" * size
"""
ECHO = """
kind: chain
name: echo
inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
nodes: [{id: said, type: tool, tool: say, params: {text: "${input.text}"}}]
"""
LARGE_FLOW = """
kind: chain
name: large
inputSchema: {type: object, properties: {size: {type: integer}}, required: [size]}
nodes: [{id: text, type: tool, tool: many, params: {size: "${input.size}"}}]
"""
FASTMCP = """
import sys
from fastmcp import FastMCP

server = FastMCP("bench")

@server.tool
def echo(text: str) -> str:
    return text

@server.tool
def large(size: int) -> str:
    return "x" * size

server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False, log_level="error")
"""


class Connection:
    """A kept HTTP connection to a server, and the few parts of HTTP/1.1 that its answers use."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader, self._writer, self._port = reader, writer, port

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**20), port)

    async def call(self, tool: str, arguments: dict[str, Any]) -> bytes:
        """Call a tool and return the body of the answer: JSON, or one event with JSON."""
        params = {"name": tool, "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {VERSION}\r\n"
            f"mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        if " 200 " not in lines[0]:
            raise SystemExit(f"{tool}: {lines[0]}")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        parts = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readline()
        await self._reader.readline()
        return b"".join(parts)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def echo(connection: Connection, text: str) -> None:
    """Call the tool once and check its answer."""
    body = await connection.call("echo", {"text": text})
    if text.encode() not in body or b'"isError":true' in body:
        raise SystemExit(f"a wrong answer: {body[:500]!r}")


@contextlib.contextmanager
def serving(command: list[str], home: Path, port: int) -> Iterator[int]:
    """Run a server until the block ends; give its process id once it answers."""
    with (home / "log").open("w") as log, subprocess.Popen(command, cwd=home, stdout=log, stderr=log) as process:
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                if process.poll() is not None:
                    raise SystemExit((home / "log").read_text())
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def servers(fastmcp: str | None, home: Path) -> Iterator[dict[str, tuple[int, int]]]:
    """Run the servers; give port and process id of each by name."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name in ("ropewalk", "fastmcp") if fastmcp else ("ropewalk",):
            (home / name).mkdir()
            port = _free_port()
            if name == "ropewalk":
                (home / name / "ropewalk.toml").write_text(SETTINGS)
                (home / name / "functions.py").write_text(FUNCTIONS)
                (home / name / "echo.yaml").write_text(ECHO)
                (home / name / "large.yaml").write_text(LARGE_FLOW)
                command = [COMMAND, "mcp", "--http", f"127.0.0.1:{port}", "--no-token"]
            else:
                (home / name / "server.py").write_text(FASTMCP)
                command = [str(fastmcp), "server.py", str(port)]
            running[name] = port, stack.enter_context(serving(command, home / name, port))
        yield running


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextlib.asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Connection]]:
    """Open connections, and make a call over each."""
    connections = [await Connection.open(port) for _ in range(count)]
    try:
        for connection in connections:
            await echo(connection, "first")
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def latency(port: int) -> list[float]:
    """Return the times of the calls of a batch, in seconds."""
    times = []
    async with connected(port, 1) as (connection,):
        for number in range(BATCH):
            begun = time.perf_counter()
            await echo(connection, f"text {number}")
            times.append(time.perf_counter() - begun)
    return times


async def throughput(port: int, process: int, seconds: float) -> tuple[float, float]:
    """Return the calls per second with one call in flight on each connection, and the CPU seconds of a call."""
    calls = 0

    async def keep_calling(connection: Connection) -> None:
        nonlocal calls
        while time.perf_counter() < begun + seconds:
            await echo(connection, f"text {calls}")
            calls += 1

    async with connected(port, CONNECTIONS) as connections:
        begun, spent = time.perf_counter(), _cpu_time(process)
        await asyncio.gather(*map(keep_calling, connections))
        return calls / (time.perf_counter() - begun), (_cpu_time(process) - spent) / calls


async def memory(port: int, process: int) -> float:
    """Return how far the resident size of a server goes up during a call with a large result, in MB."""
    async with connected(port, 1) as (connection,):
        _reset_peak(process)
        before = _size(process, "VmRSS")
        body = await connection.call("large", {"size": LARGE})
        if len(body) < LARGE:
            raise SystemExit(f"a wrong answer: {body[:500]!r}")
        return (_size(process, "VmHWM") - before) / 1000


def _cpu_time(process: int) -> float:
    """Return the CPU time of a process with all its threads, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _reset_peak(process: int) -> None:
    Path(f"/proc/{process}/clear_refs").write_text("5")


def _size(process: int, field: str) -> int:
    """Return a size of a process, in kB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])


async def measure(running: dict[str, tuple[int, int]], rounds: int, seconds: float, large: bool) -> dict[str, Any]:
    """Measure the servers in turn and return the figures."""
    keys = ("latency", "throughput", "cpu")
    samples: dict[str, dict[str, list[float]]] = {name: {key: [] for key in keys} for name in running}
    figures: dict[str, Any] = {name: {} for name in running}
    for port, process in running.values():
        await throughput(port, process, seconds)  # warm up
    for number in range(rounds):
        # An idle server closes its connections after some seconds: each sample opens its own.
        order = sorted(running, reverse=bool(number % 2))
        for name in order * BATCHES:
            samples[name]["latency"] += await latency(running[name][0])
        for name in order:
            calls, cpu = await throughput(*running[name], seconds)
            samples[name]["throughput"].append(calls)
            samples[name]["cpu"].append(cpu)
    for name, (port, process) in running.items():
        figures[name]["latency_ms"] = round(1000 * median(samples[name]["latency"]), 2)
        figures[name]["calls_per_second"] = round(median(samples[name]["throughput"]))
        figures[name]["cpu_ms"] = round(1000 * median(samples[name]["cpu"]), 2)
        if large:
            figures[name]["memory_mb"] = round(await memory(port, process))
    if len(running) > 1:
        medians = {name: median(samples[name]["latency"]) for name in running}
        figures["latency_ratio"] = round(medians["ropewalk"] / medians["fastmcp"], 2)
        for measured in ("throughput", "cpu"):
            pairs = zip(samples["ropewalk"][measured], samples["fastmcp"][measured], strict=True)
            figures[f"{measured}_ratio"] = round(median(ours / theirs for ours, theirs in pairs), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--fastmcp", help="Python interpreter of an environment with FastMCP")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a sample of throughput")
    parser.add_argument("--skip-memory", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, servers(options.fastmcp, Path(directory)) as running:
        figures = asyncio.run(measure(running, options.rounds, options.seconds, not options.skip_memory))
        with contextlib.closing(sqlite3.connect(Path(directory) / "ropewalk" / "runs.db")) as store:
            (figures["ropewalk"]["runs_in_store"],) = store.execute(
                "select count(*) from run where status = 'completed'"
            ).fetchone()
    print(json.dumps({**figures, "load": os.getloadavg()[0]}, indent=2))


if __name__ == "__main__":
    main()
