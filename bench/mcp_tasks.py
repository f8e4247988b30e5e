"""Tasks of an MCP server that is killed again and again: is each task executed once, and is none lost?

    python bench/mcp_tasks.py [--tasks 2000] [--seconds 300] [--kill-after 3] [--in-flight 64]

A client calls the flow `order` of `ropewalk mcp --http` as a task, so many at once, and kills the server with SIGKILL
every few seconds. A new server takes over. The flow has two steps. Each notes its beginning and its end in a file, and
has an effect: it creates a file under its idempotency key, once. The judge compares three records that the server
cannot change afterwards: the notes, the effects, and the journal.

- lost: the task has no result, or a wrong one; or a step has no note, no effect or no entry in the journal.
- executed twice: a step began again after the journal had it, or has two effects.
- interrupted: a step ran again whose earlier call had not ended when the server died. Nobody can know its effect.
- unrecorded: a step ran again whose earlier call had ended, but whose commit the server did not live to see.

The last two are what docs/reliability.md promises to repeat, with the same idempotency key.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
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

from ropewalk import App

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
SETTINGS = '[tools]\nmodules = ["orders"]\n[store]\nurl = "runs.db"\n[mcp_server]\nflows = ["order.yaml"]\n'
TOOLS = '''
import os, time
from hashlib import sha256
from ropewalk import IdempotencyKey, tool

def act(step, number, key):
    with open("steps", "a") as file:
        file.write(f"begin {step} {number} {time.time()}\\n")
    try:
        os.close(os.open(f"effects/{step} {number} {sha256(key.encode()).hexdigest()}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass  # done by an earlier call with this key
    with open("steps", "a") as file:
        file.write(f"end {step} {number} {time.time()}\\n")

@tool
def take(number: int, key: IdempotencyKey) -> int:
    """Takes an order."""
    act("take", number, key)
    return number

@tool
def ship(number: int, key: IdempotencyKey) -> str:
    """Ships an order."""
    act("ship", number, key)
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


async def order(client: httpx2.AsyncClient, server: Server, number: int) -> tuple[int, Any]:
    """Create a task under a key of its own, so that the call can be made again, and wait for its end."""
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


async def campaign(
    tasks: int, kill_after: float, in_flight: int, home: Path, seconds: float = math.inf
) -> dict[str, Any]:
    """Run the campaign and return its figures. After `seconds` no further task begins."""
    for name, text in (("ropewalk.toml", SETTINGS), ("orders.py", TOOLS), ("order.yaml", FLOW)):
        (home / name).write_text(text)
    (home / "effects").mkdir()
    server = Server(home)
    await server.start()
    begun = time.monotonic()

    async def killing() -> None:
        while True:
            await asyncio.sleep(kill_after * (0.5 + random.random()))
            server.kill()
            await server.start()

    numbers = iter(range(tasks))

    async def ordering(client: httpx2.AsyncClient) -> list[tuple[int, Any]]:
        outcomes = []
        while time.monotonic() - begun < seconds and (number := next(numbers, None)) is not None:
            outcomes.append(await order(client, server, number))
        return outcomes

    killer = asyncio.create_task(killing())
    async with httpx2.AsyncClient(limits=httpx2.Limits(max_connections=in_flight)) as client:
        orders = asyncio.gather(*(ordering(client) for _ in range(in_flight)))
        await asyncio.wait([orders, killer], return_when=asyncio.FIRST_COMPLETED)
        killer.cancel()
        await asyncio.gather(killer, return_exceptions=True)
        outcomes = [outcome for done in await orders for outcome in done]
    if server.process is not None and server.process.poll() is None:
        server.process.terminate()
        server.process.wait()
    async with App(f"sqlite:///{home / 'runs.db'}") as app:
        journals = {number: app.context.history(state.get("taskId", "")) for number, state in outcomes}
    lines = (home / "steps").read_text().splitlines()
    effects = Counter(" ".join(file.name.split(" ")[:2]) for file in (home / "effects").iterdir())
    return judge(outcomes, lines, effects, journals) | {
        "kills": server.kills,
        "seconds": round(time.monotonic() - begun, 1),
    }


def judge(
    outcomes: list[tuple[int, Any]], lines: list[str], effects: Counter[str], journals: dict[int, list[Any]]
) -> dict[str, Any]:
    """Count what was lost, executed twice, and repeated.

    Args:
        outcomes: Number and state of each task.
        lines: The notes of the steps: begin or end, step, number, seconds since the epoch.
        effects: Number of effects by step and number.
        journals: The entries of each task's run.
    """
    notes: dict[str, list[tuple[str, float]]] = {}
    for line in lines:
        what, step, number, at = line.split()
        notes.setdefault(f"{step} {number}", []).append((what, float(at)))
    lost, twice, interrupted, unrecorded = [], [], 0, 0
    for number, state in outcomes:
        if state.get("status") != "completed" or f"shipped {number}" not in json.dumps(state.get("result")):
            lost.append(f"task {number}: {json.dumps(state)[:300]}")
        for step in ("take", "ship"):
            name = f"{step} {number}"
            recorded = [entry for entry in journals[number] if entry.kind == "call" and entry.node == step]
            if name not in notes or not recorded or not effects[name]:
                lost.append(name)
                continue
            begins = [at for what, at in notes[name] if what == "begin"]
            ends = len(notes[name]) - len(begins)
            later = sum(at > recorded[0].ended for at in begins)
            if later or effects[name] > 1:
                twice.append(name)
            repeated = len(begins) - 1 - later
            unrecorded += max(0, ends - 1 - later)
            interrupted += repeated - max(0, ends - 1 - later)
    return {
        "tasks": len(outcomes),
        "lost": len(lost),
        "executed_twice": len(twice),
        "repeated_interrupted": interrupted,
        "repeated_unrecorded": unrecorded,
        "examples": [*lost[:3], *twice[:5]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further task after this time")
    parser.add_argument("--kill-after", type=float, default=3.0, help="seconds between kills, on average")
    parser.add_argument("--in-flight", type=int, default=64)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        figures = asyncio.run(
            campaign(options.tasks, options.kill_after, options.in_flight, Path(home), options.seconds)
        )
    print(json.dumps(figures, indent=2))
    sys.exit(bool(figures["lost"] or figures["executed_twice"]))


if __name__ == "__main__":
    main()
