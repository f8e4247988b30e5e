"""Tasks of an MCP server that is killed again and again: is each task executed once, and is none lost?

    python bench/mcp_tasks.py [--tasks 2000] [--kill-after 3] [--in-flight 64]

A client calls the flow `order` of `ropewalk mcp --http` as a task, so many at once, and kills the server with SIGKILL
every few seconds. A new server takes over. The flow has two steps; each appends a line to a file, and the second one
returns what the client must get. At the end every task must be `completed` with its own value (0 lost). No step may run
again after the next one has begun, since it was recorded then (0 executed twice). A step that was running when the
server died, or had not been recorded, runs again: no program can know that it had an effect. These are counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
SETTINGS = '[tools]\nmodules = ["orders"]\n[store]\nurl = "runs.db"\n[mcp_server]\nflows = ["order.yaml"]\n'
TOOLS = '''
import os
from ropewalk import tool

def note(text):
    with open("steps", "a") as file:
        file.write(text + "\\n")

@tool
def take(number: int) -> int:
    """Takes an order."""
    note(f"begin take {number}")
    note(f"end take {number}")
    return number

@tool
def ship(number: int) -> str:
    """Ships an order."""
    note(f"begin ship {number}")
    note(f"end ship {number}")
    return f"shipped {number}"
'''
FLOW = """
kind: chain
name: order
nodes:
  - {id: take, type: tool, tool: take, params: {number: "${input.number}"}}
  - {id: rest, type: delay, delay: 20}
  - {id: ship, type: tool, tool: ship, params: {number: "${output.take}"}}
"""
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


class Server:
    """The server, started again after each kill, always at one address."""

    def __init__(self, home: Path) -> None:
        self.home, self.port, self.kills = home, 0, 0
        self.process: subprocess.Popen[str] | None = None

    async def start(self) -> None:
        command = [COMMAND, "mcp", "--http", f"127.0.0.1:{self.port}", "--no-token"]
        log = (self.home / "log").open("a")
        self.process = await asyncio.to_thread(
            lambda: subprocess.Popen(
                command, cwd=self.home, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
            )
        )
        stderr = self.process.stderr
        assert stderr is not None
        while True:
            line = await asyncio.to_thread(stderr.readline)
            log.write(line)
            if not line:
                raise SystemExit(f"the server ended: {(self.home / 'log').read_text()[-2000:]}")
            if found := re.search(r"MCP server at http://127.0.0.1:(\d+)", line):
                self.port = int(found[1])
                asyncio.get_running_loop().run_in_executor(None, lambda: [log.write(rest) for rest in stderr])
                return

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


async def ask(client: httpx2.AsyncClient, server: Server, method: str, name: str, params: dict[str, Any]) -> Any:
    """Send one request, again and again while no server answers."""
    headers = {"mcp-method": method, "mcp-name": name, "mcp-protocol-version": VERSION}
    headers |= {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    while True:
        try:
            response = await client.post(server.url, json=body, headers=headers, timeout=20)
            text = response.text
            data = text if text.startswith("{") else re.findall(r"^data: (\{.*)$", text, re.MULTILINE)[-1]
            answer = json.loads(data)
        except (httpx2.HTTPError, IndexError, ValueError):
            await asyncio.sleep(0.2)
            continue
        if "result" not in answer:
            raise SystemExit(f"{method} {name}: {answer}")
        return answer["result"]


async def order(client: httpx2.AsyncClient, server: Server, number: int, places: asyncio.Semaphore) -> tuple[int, Any]:
    """Create a task under a key of its own, so that the call can be made again, and wait for its end."""
    async with places:
        meta = {**META, "ropewalk/idempotencyKey": f"order {number}"}
        call = {"name": "order", "arguments": {"number": number}, "_meta": meta}
        task = await ask(client, server, "tools/call", "order", call)
        id = task.get("taskId")
        while id is not None:
            state = await ask(client, server, "tasks/get", id, {"taskId": id, "_meta": META})
            if state["status"] not in ("working", "input_required"):
                return number, state
            await asyncio.sleep(0.1 + 0.4 * random.random())
        return number, task


async def campaign(tasks: int, kill_after: float, in_flight: int, home: Path) -> dict[str, Any]:
    """Run the campaign and return its figures."""
    for name, text in (("ropewalk.toml", SETTINGS), ("orders.py", TOOLS), ("order.yaml", FLOW)):
        (home / name).write_text(text)
    server = Server(home)
    await server.start()
    begun = time.monotonic()

    async def killing() -> None:
        while True:
            await asyncio.sleep(kill_after * (0.5 + random.random()))
            server.kill()
            await server.start()

    killer = asyncio.create_task(killing())
    places = asyncio.Semaphore(in_flight)
    limits = httpx2.Limits(max_connections=in_flight)
    async with httpx2.AsyncClient(limits=limits) as client:
        orders = asyncio.gather(*(order(client, server, number, places) for number in range(tasks)))
        await asyncio.wait([orders, killer], return_when=asyncio.FIRST_COMPLETED)
        killer.cancel()
        await asyncio.gather(killer, return_exceptions=True)
        outcomes = await orders
    if server.process is not None and server.process.poll() is None:
        server.process.terminate()
        server.process.wait()
    return judge(outcomes, (home / "steps").read_text().splitlines()) | {
        "kills": server.kills,
        "seconds": round(time.monotonic() - begun, 1),
    }


def judge(outcomes: list[tuple[int, Any]], lines: list[str]) -> dict[str, Any]:
    """Count what was lost and what was executed twice."""
    lost = {
        number: state
        for number, state in outcomes
        if state.get("status") != "completed" or f"shipped {number}" not in json.dumps(state.get("result"))
    }
    shipping: set[str] = set()
    twice, unrecorded = [], 0
    begins: Counter[str] = Counter()
    for line in lines:
        what, step, number = line.split()
        if what == "end":
            continue
        begins[f"{step} {number}"] += 1
        if step == "ship":
            shipping.add(number)
        elif number in shipping:
            twice.append(f"{step} {number}")
        unrecorded += begins[f"{step} {number}"] > 1
    names = [f"{step} {number}" for number, _ in outcomes for step in ("take", "ship")]
    missing = [name for name in names if name not in begins]
    return {
        "tasks": len(outcomes),
        "lost": len(lost) + len(missing),
        "executed_twice": len(twice),
        "unrecorded_steps_repeated": unrecorded - len(twice),
        "examples": [*list(lost.items())[:2], *twice[:5], *missing[:5]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--kill-after", type=float, default=3.0, help="seconds between kills, on average")
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        figures = asyncio.run(campaign(options.tasks, options.kill_after, options.in_flight, Path(home)))
    print(json.dumps(figures, indent=2))
    sys.exit(bool(figures["lost"] or figures["executed_twice"]))


if __name__ == "__main__":
    main()
