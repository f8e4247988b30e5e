"""Kill a process again and again while it runs and undoes random flows, and verify the undo from outside.

Each run executes a random flow that fails: calls, loops, concurrent calls and an inner flow. Then it is undone. A
process does this until SIGKILL comes at a random instant, and the next process continues. The tools write each effect
with its idempotency key to a file, which only this script reads. It verifies that every finished call is undone under
one key, in reverse order of completion, and never again after the next undo has begun.

    python bench/undo.py --runs 500 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ropewalk import App, IdempotencyKey, tool
from ropewalk.config.settings import UndoSettings
from ropewalk.journal.protocol import ENDS


def random_nodes(chance: random.Random, prefix: str, depth: int = 0) -> list[dict[str, Any]]:
    """Return the nodes of a random chain; each call orders an item of its own name."""
    nodes: list[dict[str, Any]] = []
    for number in range(chance.randint(2, 5)):
        id = f"{prefix}{number}"
        kind = chance.random()
        if kind < 0.5 or depth:
            nodes.append(_call(id, chance))
        elif kind < 0.7:
            items = [f"{id}-{item}" for item in range(chance.randint(1, 4))]
            inner = {"id": f"{id}x", "type": "tool", "tool": "order", "params": {"item": "$item", "ms": 1}}
            more = {"concurrency": 3} if chance.random() < 0.5 else {}
            nodes.append({"id": id, "type": "loop", "items": items, "nodes": [inner], **more})
        elif kind < 0.85:
            calls = [_call(f"{id}{letter}", chance) for letter in "abc"]
            nodes.append({"id": id, "type": "parallel", "nodes": calls})
        else:
            nodes.append({"id": id, "type": "tool", "tool": "inner", "params": {}})
    return nodes


def _call(id: str, chance: random.Random) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": "order", "params": {"item": id, "ms": chance.randint(0, 4)}}


def execute(run_id: str, seed: int, store: str, effects: str) -> bool:
    """Run or resume the flow of a seed and undo it; return True when it is undone."""
    file = os.open(effects, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    @tool
    async def cancel(id: str, key: IdempotencyKey) -> str:
        await asyncio.sleep(0.001)
        os.write(file, f"undo {id} {key}\n".encode())
        return "cancelled"

    @tool(undo={"tool": cancel, "args": {"id": "$result.id"}})
    async def order(item: str, ms: int, key: IdempotencyKey) -> dict[str, str]:
        await asyncio.sleep(ms / 1000)
        os.write(file, f"do {key} {key}\n".encode())
        return {"id": key}

    @tool
    async def fail() -> str:
        raise ValueError("the end")

    async def work() -> bool:
        chance = random.Random(seed)
        inner = {"kind": "chain", "name": "inner", "nodes": random_nodes(chance, "i", 1)}
        last = {"id": "last", "type": "tool", "tool": "fail", "params": {}}
        nodes = [{"id": "first", "type": "tool", "tool": "order", "params": {"item": "first", "ms": 1}}]
        flow = {"kind": "chain", "name": "random", "nodes": [*nodes, *random_nodes(chance, "n"), last]}
        async with App(store, tools=[order, cancel, fail]) as app:
            app.context.undo = UndoSettings(policy="on_failure" if seed % 2 else "on_request")
            app.toolbox.register(app.as_tool(inner))
            row = app.store.get_run(run_id)
            if row is None:
                await app.run(flow, run_id=run_id)
            elif row.status not in ENDS:
                await app.resume(run_id)
            return (await app.runs.undo(run_id))["status"] == "undone"

    return asyncio.run(work())


def attempt(run_id: str, seed: int, store: str, effects: str, seconds: float | None) -> tuple[bool, bool]:
    """Execute in a process of its own and kill it after some seconds; return whether it was killed and succeeded."""
    pid = os.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if execute(run_id, seed, store, effects) else 3
        os._exit(code)
    if seconds is not None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return False, os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.0005)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code == -signal.SIGKILL, code == 0


def faults(effects: str) -> tuple[list[str], int, int]:
    """Return what is wrong with the effects of one run, and the numbers of its finished steps and repeated calls."""
    lines = [line.split() for line in Path(effects).read_text().splitlines()]
    done = {key: place for place, (kind, key, _) in enumerate(lines) if kind == "do"}  # the last call of each key
    expected = sorted(done, key=lambda key: done[key], reverse=True)
    undone: list[str] = []
    keys: dict[str, set[str]] = {}
    for kind, id, key in lines:
        if kind == "undo":
            keys.setdefault(id, set()).add(key)
            if not undone or undone[-1] != id:
                undone.append(id)
    found = [f"{id} was undone under {len(some)} keys" for id, some in keys.items() if len(some) > 1]
    if undone != expected:
        found.append(f"undone {undone}, expected {expected}")
    return found, len(expected), len(lines) - 2 * len(expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=6, help="maximum number of kills per run")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    began, kills, steps, repeated, wrong = time.monotonic(), 0, 0, 0, 0
    typical = 0.3
    with tempfile.TemporaryDirectory() as folder:
        # Forked processes have every module of a run imported already, so that kills do not hit the start only.
        start = time.monotonic()
        execute("warm", 1, f"sqlite:///{folder}/warm.db", f"{folder}/warm")
        typical = min(typical, time.monotonic() - start)
        for number in range(arguments.runs):
            seed = arguments.seed * 1_000_000 + number
            store, effects = f"sqlite:///{folder}/runs-{number}.db", f"{folder}/effects-{number}"
            limit, was_successful = chance.randint(1, arguments.kills), False
            start = time.monotonic()
            for _ in range(limit):
                killed, was_successful = attempt(f"r{number}", seed, store, effects, chance.uniform(0, typical))
                kills += killed
                if was_successful:
                    break
            if not was_successful:
                start = time.monotonic()
                _, was_successful = attempt(f"r{number}", seed, store, effects, None)
                typical = 0.9 * typical + 0.1 * min(2.0, 1.5 * (time.monotonic() - start))
            found, finished, extra = faults(effects)
            if not was_successful:
                found.append("the run was not undone")
            steps, repeated = steps + finished, repeated + extra
            wrong += bool(found)
            for fault in found:
                print(f"run {number} (seed {seed}): {fault}", flush=True)
            for file in Path(folder).glob(f"*-{number}*"):
                if not found:
                    file.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    print(
        f"{arguments.runs} runs, {kills} kills, {steps} steps undone, {repeated} interrupted calls repeated under their"
        f" key, {wrong} runs with faults, {seconds:.0f} s"
    )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
