"""What the journal costs, beside a bare insert and commit per row in the same run.

    python bench/journal.py [rounds]

Prints medians. "sequential" is one run that waits for each entry; "fan-out" is 1,000 runs of
10 entries each, at once, per entry and all in.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

import apsw

from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sqlite.store import SqliteStore

DATA = {"ok": True, "number": 123, "text": "hello, world"}
DIGEST = "0123456789abcdef0123456789abcdef"
ROWS, RUNS, STEPS = 2000, 1000, 10


def micros(times: list[float]) -> float:
    return statistics.median(times) * 1e6


def bare(path: Path, sync: str) -> float:
    """An insert that commits itself, into a table of the same shape."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", sync)
    connection.execute(
        "CREATE TABLE entry (run INTEGER, path TEXT, kind TEXT, node TEXT, data BLOB, digest TEXT, started REAL,"
        " ended REAL, UNIQUE (run, path, kind))"
    )
    times = []
    for i in range(ROWS):
        began = time.perf_counter()
        connection.execute(
            "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (1, f"each[{i}]/fetch", "call", "fetch", b'{"ok":true,"number":123,"text":"hello"}', DIGEST, 1.0, 2.0),
        )
        times.append(time.perf_counter() - began)
    connection.close()
    return micros(times)


async def sequential(store: SqliteStore, id: str) -> float:
    log = await store.open(NewRun(id=id, kind="chain"))
    times = []
    for i in range(ROWS):
        began = time.perf_counter()
        await log.append(Entry(f"each[{i}]/fetch", "call", "fetch", DATA, DIGEST, 1.0, 2.0))
        times.append(time.perf_counter() - began)
    await log.finish("completed", None)
    return micros(times)


async def fan_out(store: SqliteStore, id: str) -> float:
    logs = [await store.open(NewRun(id=f"{id}.{i}", kind="chain")) for i in range(RUNS)]

    async def one(number: int) -> None:
        log = logs[number]
        for step in range(STEPS):
            await log.append(Entry(f"step{step}", "call", "fetch", DATA, DIGEST, 1.0, 2.0))

    began = time.perf_counter()
    await asyncio.gather(*[one(i) for i in range(RUNS)])
    took = time.perf_counter() - began
    await asyncio.gather(*[log.finish("completed", None) for log in logs])
    return took / (RUNS * STEPS) * 1e6


def measure(folder: Path, sync: Literal["normal", "full"], rounds: int) -> None:
    store = SqliteStore(folder / f"{sync}.db", sync)
    plain, alone, many = [], [], []
    for i in range(rounds):  # In turns, so that a busy machine is fair to all three.
        plain.append(bare(folder / f"{sync}-bare-{i}.db", sync))
        alone.append(asyncio.run(sequential(store, f"s{i}")))
        many.append(asyncio.run(fan_out(store, f"f{i}")))
    store.close()
    base = statistics.median(plain)
    print(f"{sync:7} bare insert+commit {base:7.1f} us")
    for name, times in (("sequential", alone), ("fan-out", many)):
        middle = statistics.median(times)
        print(f"{sync:7} {name:18} {middle:7.1f} us  {middle / base:5.2f} x")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for sync in ("normal", "full"):
            measure(Path(folder), sync, int(sys.argv[1]) if len(sys.argv) > 1 else 5)  # type: ignore[arg-type]
