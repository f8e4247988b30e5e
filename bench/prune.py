"""How long pruning stalls a live run.

    python bench/prune.py [runs]

One process records steps of a live run, while another one prunes RUNS (default 40,000) small runs from the same SQLite
file. Prints the longest and the 99th percentile gap between two commits of the live run, and how long pruning took.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sqlite.store import SqliteStore

RUNS, STEPS = 40_000, 5
BIG = {"text": "0123456789abcdef" * 500}  # stored apart from its row
AT_ONCE = 500
PRUNE = """
import sys, time
from ropewalk.journal.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
start = time.perf_counter()
print(store.prune(keep=0).runs, round(time.perf_counter() - start, 1), flush=True)
store.close()
"""


async def fill(store: SqliteStore, runs: int) -> None:
    """Record small runs that have ended; one of ten holds a large value."""

    async def record(number: int) -> None:
        log = await store.open(NewRun(id=f"r{number}", kind="chain", input={"n": number}))
        for step in range(STEPS):
            data = {**BIG, "n": number} if step == 0 and number % 10 == 0 else {"ok": True, "n": step}
            log.append(Entry(f"step{step}", "call", "step", data, "digest", 1.0, 2.0))
        await log.finish("completed", {"n": number})

    for first in range(0, runs, AT_ONCE):
        await asyncio.gather(*map(record, range(first, min(runs, first + AT_ONCE))))


async def measure(path: Path, runs: int) -> None:
    store = SqliteStore(path)
    await fill(store, runs)
    log = await store.open(NewRun(id="live", kind="chain"))
    pruning = subprocess.Popen([sys.executable, "-c", PRUNE, str(path)], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    gaps, step, last = [], 0, time.perf_counter()
    while pruning.poll() is None:
        await log.append(Entry(f"step{step}", "call", "step", {"n": step}, "digest", 1.0, 2.0))
        now = time.perf_counter()
        gaps.append(now - last)
        step, last = step + 1, now
    said, _ = pruning.communicate()
    pruned, seconds = said.split()
    print(f"pruned {pruned} runs in {seconds} s; the live run made {step:,} commits meanwhile")
    print(f"longest gap {max(gaps) * 1000:.0f} ms, 99% {statistics.quantiles(gaps, n=100)[98] * 1000:.1f} ms")
    await log.finish("completed", None)
    store.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder) / "store.db", int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))


if __name__ == "__main__":
    main()
