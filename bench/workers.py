"""One run over a large list, by any number of workers: `python bench/workers.py postgresql://user@host/database`.

Every item is a tool call whose result is in the journal before the run ends; that is counted. Each line is a run with
so many worker processes; `alone` is the same run executed by one process without workers. The tool does nothing: what
is measured is Ropewalk, DBOS and the server, which all share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
TOOLS = '''
from ropewalk import tool

@tool
async def twice(number: int) -> int:
    """Doubles it."""
    return 2 * number
'''
CHAIN: dict[str, Any] = {
    "kind": "chain",
    "name": "many",
    "timeout": 600_000,
    "nodes": [
        {
            "id": "each",
            "type": "loop",
            "items": "$input.items",
            "concurrency": 3000,
            "nodes": [{"id": "one", "type": "tool", "tool": "twice", "params": {"number": "$item"}}],
        }
    ],
}


async def measured(url: str, folder: Path, items: int, workers: int, rounds: int) -> None:
    from ropewalk import App

    hired = [hire(url, folder) for _ in range(workers)]
    try:
        for worker in hired:
            assert worker.stderr is not None
            line = await asyncio.to_thread(worker.stderr.readline)
            if b"takes runs" not in line:
                raise SystemExit((line + await asyncio.to_thread(worker.stderr.read)).decode())
        app = App.open(folder, store=url, engine="dbos" if workers else "local")
        async with app:
            if workers:
                await app.run(CHAIN, {"items": [1]})  # the first of each process imports and connects
                await asyncio.sleep(1)
            for _ in range(rounds):
                await one(app, items, workers)
    finally:
        for worker in hired:
            worker.terminate()
        for worker in hired:
            worker.communicate()


async def one(app: Any, items: int, workers: int) -> None:
    began = time.perf_counter()
    outcome = await app.run(CHAIN, {"items": list(range(items))})
    took = time.perf_counter() - began
    if outcome.status != "completed":
        raise SystemExit(f"{outcome.status}: {outcome.to_dict().get('errors')}")
    right = outcome.to_dict()["results"]["each"] == list(range(0, 2 * items, 2))
    recorded = sum(entry.kind == "call" for entry in app.runs.history(outcome.run_id))
    who = f"{workers} workers" if workers else "alone"
    print(
        f"{who:>10}  {took:6.2f} s  {items / took:9,.0f} items/s  {took / items * 1e6:5.1f} us/item"
        f"  recorded {recorded:,} of {items:,}  {'right' if right else 'WRONG'}",
        flush=True,
    )


def hire(url: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ropewalk", "worker", "--project", str(folder), "--store", url],
        env={**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("url")
    words.add_argument("--items", type=int, default=100_000)
    words.add_argument("--workers", type=int, nargs="*", default=[0, 1, 2, 3])
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    print(f"{given.items:,} items, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "numbers_tools.py").write_text(TOOLS)
        (folder / "ropewalk.toml").write_text('[tools]\nmodules = ["numbers_tools"]\n')
        for workers in given.workers:
            asyncio.run(measured(given.url, folder, given.items, workers, given.rounds))


if __name__ == "__main__":
    main()
