"""What the same work costs without any library: plain asyncio, written by hand for the case.

Everything is a factory that gives a function without arguments, to be awaited once per run. The
answers are those a chain gives, `{node: output}`, so that both sides do the same work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Tool = Callable[..., Awaitable[int]]
Work = Callable[[], Awaitable[Any]]

DAG_WIDTH = 50
NUMBER_IN = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
NUMBER_OUT = {"type": "integer"}


# --- the tools, the same for every contender -----------------------------------------------


async def at_once(x: int) -> int:
    """Returns without ever suspending."""
    return x + 1


async def suspends(x: int) -> int:
    """Suspends once, as whatever waits for a socket does."""
    await asyncio.sleep(0)
    return x + 1


async def millisecond(x: int) -> int:
    """Takes a millisecond."""
    await asyncio.sleep(0.001)
    return x + 1


async def add(x: int, y: int) -> int:
    """Two inputs, one suspension; the remainder keeps the numbers small through the layers."""
    await asyncio.sleep(0)
    return (x + y) % 1_000_003


def dag_needs(nodes: int) -> list[tuple[int, int] | None]:
    """Layers of 50; every node below the first layer reads two of the layer above."""
    needs: list[tuple[int, int] | None] = []
    for i in range(nodes):
        layer, place = divmod(i, DAG_WIDTH)
        above = (layer - 1) * DAG_WIDTH
        needs.append(None if not layer else (above + place, above + (place * 7 + 3) % DAG_WIDTH))
    return needs


# --- the baselines --------------------------------------------------------------------------


def chain(nodes: int, tool: Tool) -> Work:
    """One after another, each fed by the one before."""
    steps = [(f"n{i}", tool) for i in range(nodes)]

    async def run() -> dict[str, int]:
        value, results = 0, {}
        for name, call in steps:
            value = await call(x=value)
            results[name] = value
        return results

    return run


def checked_chain(nodes: int, tool: Tool) -> Work:
    """The same as users would have to write it for what a chain gives them: arguments and results
    checked by compiled schemas, results checked as JSON, a record of every step."""
    from ropewalk.schema import compile_schema
    from ropewalk.values import check_json

    takes, gives = compile_schema(NUMBER_IN), compile_schema(NUMBER_OUT)
    steps = [(f"n{i}", tool) for i in range(nodes)]

    async def run() -> dict[str, int]:
        value, results, records = 0, {}, []
        for name, call in steps:
            args = {"x": value}
            if not takes.is_valid(args):
                raise ValueError(f"{name}: {args}")
            started = time.monotonic()
            value = check_json(await call(**args))
            if not gives.is_valid(value):
                raise ValueError(f"{name}: {value}")
            records.append((name, started, time.monotonic()))
            results[name] = value
        return results

    return run


def fan_out(nodes: int, tool: Tool) -> Work:
    """All at once."""

    async def run() -> dict[str, int]:
        values = await asyncio.gather(*(tool(x=i) for i in range(nodes)))
        return {f"n{i}": value for i, value in enumerate(values)}

    return run


def fan_out_limited(nodes: int, tool: Tool, limit: int) -> Work:
    """All, at most `limit` at once."""

    async def run() -> dict[str, int]:
        gate = asyncio.Semaphore(limit)

        async def one(i: int) -> int:
            async with gate:
                return await tool(x=i)

        values = await asyncio.gather(*map(one, range(nodes)))
        return {f"n{i}": value for i, value in enumerate(values)}

    return run


def dag(nodes: int) -> Work:
    """A task per node that awaits the tasks it needs: no barrier between the layers."""
    needs = dag_needs(nodes)

    async def run() -> dict[str, int]:
        tasks: list[asyncio.Task[int]] = []

        async def node(i: int, deps: tuple[int, int] | None) -> int:
            if deps is None:
                return await add(x=i, y=i)
            return await add(x=await tasks[deps[0]], y=await tasks[deps[1]])

        for i, deps in enumerate(needs):
            tasks.append(asyncio.create_task(node(i, deps)))
        return {f"n{i}": await task for i, task in enumerate(tasks)}

    return run


def loop(rounds: int, tool: Tool) -> Work:
    """The same step again and again, until a condition holds."""

    async def run() -> int:
        value = 0
        for _ in range(rounds + 1):
            value = await tool(x=value)
            if value >= rounds:
                break
        return value

    return run


def many(one: Work, executions: int, latencies: list[float] | None = None) -> Work:
    """The same at the same time, so many times; how long each took goes into `latencies`."""

    async def timed() -> Any:
        start = time.perf_counter()
        result = await one()
        if latencies is not None:
            latencies.append(time.perf_counter() - start)
        return result

    async def run() -> int:
        return len(await asyncio.gather(*(timed() for _ in range(executions))))

    return run


def committed_chain(nodes: int, tool: Tool, folder: Path) -> Work:
    """A bare insert and commit per step: SQLite in WAL, synchronous FULL."""
    import apsw
    import orjson

    db = apsw.Connection(str(folder / "floor.db"))
    db.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS step (run INTEGER, path TEXT, value BLOB, PRIMARY KEY (run, path))")
    runs = [0]
    names = [f"n{i}" for i in range(nodes)]

    async def run() -> dict[str, int]:
        runs[0] += 1
        value, results = 0, {}
        for name in names:
            value = await tool(x=value)
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO step VALUES (?, ?, ?)", (runs[0], name, orjson.dumps(value)))
            db.execute("COMMIT")
            results[name] = value
        return results

    return run
