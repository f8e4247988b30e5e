"""What one call costs over HTTP and over MCP in a project with 1 and with 1,000 flow files.

    python bench/flow_files.py [--calls 300] [--rounds 5]

Both projects are served in this process, and their calls alternate in short batches. A call over HTTP starts a run,
waits for its result, and reads the run; a call over MCP finds and calls a tool, and clients have the list of tools. The
figures are CPU time, looks at the list of files included. The ratio of a round is that of its sums; printed is the
median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

import httpx2
from mcp.client import Client

from ropewalk import App
from ropewalk.doors.http.flow_files import FlowFiles
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.server import McpDoor

FEW, MANY = 1, 1000
BATCH: Final = 25
WARM_UP: Final = 50
FLOW: Final = """
kind: chain
name: f{}
inputSchema: {{type: object, properties: {{text: {{type: string}}}}}}
nodes: [{{id: a, type: tool, tool: echo, params: {{text: $input.text}}}}]
"""

Call: TypeAlias = Callable[[], Awaitable[None]]


async def echo(text: str) -> str:
    return text


def open_project(home: Path) -> App:
    """Open a project with the tool that the flows call."""
    (home / "ropewalk.toml").touch()
    app = App.open(home)
    app.toolbox.register(echo)
    return app


@contextlib.asynccontextmanager
async def over_http(home: Path) -> AsyncIterator[Call]:
    """Serve the flows of a directory over HTTP."""
    body = {"definition": {"kind": "file", "id": "f0.yaml"}, "input": {"text": "x"}, "wait": 60}
    async with open_project(home) as app:
        transport = httpx2.ASGITransport(make_site(app, None, files_of=lambda app: FlowFiles(app, home)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def call() -> None:
                answer = (await client.post("/api/runs", json=body)).json()
                assert answer["result"] == {"a": "x"}, answer
                run: Any = (await client.get(f"/api/runs/{answer['runId']}")).json()
                assert run["definition"]["id"] == "f0.yaml", run

            yield call


@contextlib.asynccontextmanager
async def over_mcp(home: Path) -> AsyncIterator[Call]:
    """Serve the flows of a directory over MCP."""
    async with open_project(home) as app:
        # All are listed: this client lists again before each call of a tool that the list lacks.
        door = McpDoor(Catalogue(Finder(app), [Flows(app, ["*.yaml"], home)], max_listed=MANY))
        door.has_one_client = True
        async with door.open(), Client(door.server) as client:
            await client.list_tools()

            async def call() -> None:
                result = await client.call_tool("f0", {"text": "x"})
                assert not result.is_error, result

            yield call


async def seconds(call: Call, times: int) -> float:
    """Return the CPU time of some calls."""
    before = time.process_time()
    for _ in range(times):
        await call()
    return time.process_time() - before


async def measure(door: Any, calls: int, rounds: int) -> tuple[float, float, float]:
    """Return milliseconds per call with few and with many files, and their ratio."""
    async with contextlib.AsyncExitStack() as stack:
        served = []
        for count in (FEW, MANY):
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for number in range(count):
                (home / f"f{number}.yaml").write_text(FLOW.format(number))
            served.append(await stack.enter_async_context(door(home)))
        for call in served:
            await seconds(call, WARM_UP)
        results = []
        for _ in range(rounds):
            sums = [0.0, 0.0]
            for _ in range(calls // BATCH):
                for index, call in enumerate(served):
                    sums[index] += await seconds(call, BATCH)
            results.append((*(1000 * spent / calls for spent in sums), sums[1] / sums[0]))
    few, many, ratio = (median(column) for column in zip(*results, strict=True))
    return few, many, ratio


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--calls", type=int, default=300, help="calls per round and project")
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    for name, door in (("HTTP", over_http), ("MCP", over_mcp)):
        few, many, ratio = asyncio.run(measure(door, options.calls, options.rounds))
        print(f"{name:5} {FEW} file {few:.2f} ms   {MANY:,} files {many:.2f} ms   {ratio:.2f} x")


if __name__ == "__main__":
    main()
