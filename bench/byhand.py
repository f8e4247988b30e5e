"""The same work with what users are given of a run, written by hand for each case: what it would cost without Ropewalk.

An id, a record that others find while it runs and after it, a way to stop it, a timeout, results checked as JSON, the
times of every step. Nothing of it is asked about a graph: no modes, no references, no retries, no events, no store.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any

from floor import Tool, Work
from ropewalk.values import check_json

Steps = list[tuple[str, float, float]]
KEPT = 1000  # runs, the newest


class Runs:
    """Those that run, and what is kept of those that did."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.running: dict[str, asyncio.Task[Any]] = {}

    async def run(self, work: Any) -> Any:
        """`work(steps)` as a run."""
        run_id, task, began = str(uuid.uuid4()), asyncio.current_task(), time.monotonic()
        assert task is not None
        steps: Steps = []
        kept = self.kept[run_id] = {"status": "running", "at": time.time(), "input": None, "steps": steps}
        if len(self.kept) > KEPT:
            del self.kept[next(iter(self.kept))]
        self.running[run_id] = task
        deadline = asyncio.get_running_loop().call_later(600, task.cancel)
        try:
            results = await work(steps)
            kept |= {"status": "completed", "results": results}
        except BaseException as error:
            kept |= {"status": "failed", "error": error}
            raise
        finally:
            deadline.cancel()
            del self.running[run_id]
            kept["took"] = time.monotonic() - began
        return results


async def step(steps: Steps, name: str, tool: Tool, x: int) -> int:
    started = time.monotonic()
    value: int = check_json(await tool(x=x))
    steps.append((name, started, time.monotonic()))
    return value


def chain(nodes: int, tool: Tool) -> Work:
    runs, names = Runs(), [f"n{i}" for i in range(nodes)]

    async def work(steps: Steps) -> dict[str, int]:
        value, results = 0, {}
        for name in names:
            results[name] = value = await step(steps, name, tool, value)
        return results

    return lambda: runs.run(work)


def fan_out(nodes: int, tool: Tool) -> Work:
    runs, names = Runs(), [f"n{i}" for i in range(nodes)]

    async def work(steps: Steps) -> dict[str, int]:
        values = await asyncio.gather(*(step(steps, name, tool, i) for i, name in enumerate(names)))
        return dict(zip(names, values, strict=True))

    return lambda: runs.run(work)


def loop(rounds: int, tool: Tool) -> Work:
    runs = Runs()

    async def work(steps: Steps) -> int:
        value = 0
        for _ in range(rounds + 1):
            value = await step(steps, "step", tool, value)
            if value >= rounds:
                break
        return value

    return lambda: runs.run(work)


def committed_chain(nodes: int, tool: Tool, folder: Path) -> Work:
    """Every step is on the disk before the next one starts; those of runs at the same time are committed together.
    SQLite in WAL, synchronous FULL. Nothing but the step's value is kept, and nothing reads it."""
    import apsw
    import orjson

    db = apsw.Connection(str(folder / "byhand.db"))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS step (run TEXT, path TEXT, value BLOB, PRIMARY KEY (run, path))")
    runs, names = Runs(), [f"n{i}" for i in range(nodes)]
    waiting: list[tuple[tuple[str, str, bytes], asyncio.Future[None]]] = []

    def commit() -> None:
        together = waiting.copy()
        waiting.clear()
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO step VALUES (?, ?, ?)", [row for row, _ in together])
        db.execute("COMMIT")
        for _, committed in together:
            committed.set_result(None)

    async def work(steps: Steps) -> dict[str, int]:
        loop, run_id = asyncio.get_running_loop(), str(uuid.uuid4())
        value, results = 0, {}
        for name in names:
            value = await step(steps, name, tool, value)
            committed = loop.create_future()
            if not waiting:
                loop.call_soon(commit)
            waiting.append(((run_id, name, orjson.dumps(value)), committed))
            await committed
            results[name] = value
        return results

    return lambda: runs.run(work)
