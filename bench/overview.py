"""Measure an overview of many runs and the counts that it needs, in a store on SQLite or Postgres.

    python bench/overview.py [--runs 100000] [--url postgresql://...]

The runs are rows of 40 definitions over 7 days, every tenth failed, half of those with an error of its own. Each
question is asked 5 times; the figures are the processor seconds of this process and the elapsed seconds of the fastest.
Last is the number of other reads that end meanwhile: they do not wait for the overview.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from ropewalk import App
from ropewalk.app.duty import overview
from ropewalk.app.presenters import overview_data
from ropewalk.journal.address import open_store
from ropewalk.journal.sql.rows import Connection

WEEK = 7 * 86_400.0
_RUN = (
    "INSERT INTO run (id, kind, definition_id, name, status, fingerprint, started_at, ended_at, input, document,"
    " result, error) VALUES (?, 'chain', ?, ?, ?, '', ?, ?, ?, ?, ?, ?)"
)


def fill(store: Any, runs: int, end: float) -> None:
    """Write the rows of runs that ended in the week before."""
    document, result = b'"%s"' % (b"d" * 400), b'"%s"' % (b"r" * 1500)

    def row(n: int) -> tuple[Any, ...]:
        started, flow = end - WEEK + WEEK * n / runs, f"flow {n % 40}"
        error = (
            orjson.dumps({"message": f"b: gone {n if n % 20 else ''}", "kind": "NodeFailed"}) if n % 10 == 0 else None
        )
        status = "completed" if error is None else "failed"
        return f"r{n}", f"id of {flow}", flow, status, started, started + 1, b"{}", document, result, error

    def work(connection: Connection) -> None:
        connection.executemany(_RUN, map(row, range(runs)))
        connection.execute(
            "INSERT INTO lease (run, owner, epoch, beat) SELECT seq, NULL, 1, 0 FROM run"
            " WHERE NOT EXISTS (SELECT 1 FROM lease WHERE run = seq)"
        )

    store._writer.run(work)


def measure(label: str, ask: Callable[[], Any]) -> None:
    """Print the shortest of five times."""
    times = []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        found = ask()
        times.append((time.perf_counter() - wall, time.process_time() - cpu, len(found)))
    wall, cpu, size = min(times)
    print(f"{label:32} {wall * 1000:7.1f} ms, {cpu * 1000:7.1f} ms of the processor, {size} rows")


def reads_during(store: Any, ask: Callable[[], Any]) -> int:
    """Return how many other reads of the store end while a question is answered."""
    with ThreadPoolExecutor() as threads:
        answer, reads = threads.submit(ask), 0
        while not answer.done():
            store.get_run("r0")
            reads += 1
    return reads


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--url")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store: Any = open_store(options.url or Path(folder) / "runs.db")
        app, now = App(store), time.time()
        fill(store, options.runs, now)
        for days in (1, 7):
            edges = [now - days * 86_400 + days * 86_400 / 28 * n for n in range(29)]
            measure(f"count_runs, {days} d", lambda edges=edges: store.count_runs(edges))
            measure(f"count_failures, {days} d", lambda edges=edges: store.count_failures(edges[0], edges[-1]))
            whole = lambda edges=edges: overview_data(overview(app, edges[0], edges[-1], 28))  # noqa: E731
            measure(f"the whole overview, {days} d", whole)
            print(f"other reads during an overview    {reads_during(store, whole):7}")
        store.close()


if __name__ == "__main__":
    main()
