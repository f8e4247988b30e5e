"""Durable steps beside a bare insert and commit of the same database and driver: python bench/durable.py

    python bench/durable.py [--quick] [--stores sqlite sqlite-full postgres] [--no-peers] [--json FILE] [--dir FOLDER]

Every contender of a case does the same steps in the same run; bench/README.md says how to read it.
Postgres is started from the binaries that the tests use, with fsync on; ROPEWALK_TEST_POSTGRES
names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import durable_peers
import floor
import ours
from cases import US, Row, as_row
from measure import Contender, Timing, compare
from ropewalk import flow
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.tools.tool import Tool
from run import shown

Work = Callable[[], Any]
STORES = ("sqlite", "sqlite-full", "postgres")
CHAIN, WIDE, RUNS, STEPS, ITEMS = 100, 1000, 1000, 10, 100_000
FEW = 20  # executions of contenders that would take minutes for RUNS; their time is multiplied
TARGETS = {  # times a bare insert and commit; seconds for a resume
    ("sqlite", "sequential"): 2.5, ("sqlite", "fan-out"): 0.5,
    ("postgres", "sequential"): 1.6, ("postgres", "fan-out"): 0.15,
}  # fmt: skip
_RESUME = 1.0
_OF_DBOS = 0.05  # times a step of DBOS
_COLUMNS = "run, path, kind, node, data, digest, started, ended"


@dataclass(kw_only=True)
class Place:
    """A database: how Ropewalk opens it, and a bare connection that inserts and commits a row."""

    name: str
    url: str
    sync: Any
    insert: Callable[[tuple[Any, ...]], Any]

    def house(self) -> ours.House:
        return ours.House(floor.at_once, store=open_store(self.url, sync=self.sync))


# --- the floor: the tool, then a row in a transaction of its own -----------------------------


def bare(place: Place, runs: int, steps: int) -> Work:
    async def run() -> int:
        for _ in range(runs):
            value, number = 0, time.time_ns()
            for i in range(steps):
                value = await floor.at_once(value)
                row = (number, f"n{i}", "call", f"n{i}", b"%d" % value, "0" * 32, time.time(), time.time())
                place.insert(row)
        return runs * steps

    return run


def journal(house: ours.House, runs: int, steps: int, *, wide: bool) -> Work:
    """The store alone, without an engine: open a run, record its steps, end it."""

    async def one(id: str) -> None:
        log = await house.app.store.open(NewRun(id=id, kind="chain"))
        entries = [Entry(f"n{i}", "call", f"n{i}", i, "0" * 32, time.time(), time.time()) for i in range(steps)]
        if wide:
            await asyncio.gather(*[log.append(entry) for entry in entries])
        else:
            for entry in entries:
                await log.append(entry)
        await log.finish("completed", None)

    async def run() -> int:
        name = f"journal-{time.time_ns()}"
        await asyncio.gather(*[one(f"{name}-{i}") for i in range(runs)])
        return runs * steps

    return run


def counted(work: Work, steps: int) -> Work:
    """The work, and how many steps it stands for."""

    async def run() -> int:
        await work()
        return steps

    return run


# --- the cases ------------------------------------------------------------------------------


def stepping(place: Place, peers: dict[str, Any], failed: dict[str, str], rounds: int) -> Iterator[Row]:
    house = place.house()
    many = floor.many(house.executed(ours.chain(STEPS)), RUNS)
    shapes = (
        ("sequential", f"sequential {CHAIN}", 1, CHAIN, False, house.executed(ours.chain(CHAIN))),
        ("fan-out", f"fan-out {WIDE:,}", 1, WIDE, True, house.executed(ours.fan_out(WIDE))),
        ("many", f"{RUNS:,} executions of {STEPS}", RUNS, STEPS, False, many),
    )
    for kind, label, runs, steps, wide, work in shapes:
        total, few = runs * steps, min(runs, FEW)
        contenders = {
            "insert+commit": Contender(counted(bare(place, few, steps), total), total),
            "ropewalk": Contender(counted(work, total), total),
            "its journal": Contender(journal(house, runs, steps, wide=wide), total),
        }
        scale = {"insert+commit": runs / few}
        for name, peer in peers.items():
            theirs = peer.work(kind, few, steps)
            try:
                asyncio.run(theirs())
            except Exception as error:  # noqa: BLE001 - whatever ails a peer, it is left out and named
                failed[f"{name}, {place.name}, {label}"] = f"{type(error).__name__}: {str(error)[:120]}"
                continue
            contenders[name], scale[name] = Contender(counted(theirs, total), total), runs / few
        found = compare(contenders, rounds=rounds)
        timings = {
            name: Timing(seconds=tuple(one * scale.get(name, 1) for one in timing.seconds))
            for name, timing in found.items()
        }
        if "DBOS" in timings and place.name == "sqlite":
            yield as_row(f"sqlite: {label}, to DBOS", total, timings, target=_OF_DBOS, of="ropewalk", to="DBOS")
            continue
        target = None if peers else TARGETS.get((place.name, kind))
        beside = ", beside peers" if peers else ""
        yield as_row(f"{place.name}: {label}{beside}", total, timings, target=target, of="ropewalk", to="insert+commit")
    house.close()


def resuming(place: Place, items: int) -> Row:
    """A run of many recorded items, interrupted before its last step: how long until that step begins."""

    async def all_of() -> float:
        house, began = place.house(), asyncio.Event()

        async def last(x: int) -> int:
            began.set()
            await asyncio.sleep(3600)
            return x

        house.app.toolbox.register(Tool("last", "", {"type": "object"}, handler=last))
        with flow("wide") as f:
            f.for_each(f.input.items, lambda item: f.call("step", x=item), concurrency=1000)
            f.call("last", x=1)
        run_id = f"wide-{time.time_ns()}"
        running = asyncio.create_task(house.app.run(f.done(), {"items": list(range(items))}, run_id=run_id))
        await began.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        took = []
        for _ in range(3):
            began.clear()
            start = time.perf_counter()
            resumed = asyncio.create_task(house.app.resume(run_id))
            await began.wait()
            took.append(time.perf_counter() - start)
            resumed.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await resumed
        house.close()
        return median(took)

    seconds = asyncio.run(all_of())
    times = {"ropewalk": seconds * US / items}
    return Row(case=f"{place.name}: resume of {items:,} items", value=seconds, unit="s", target=_RESUME, times=times)


# --- where ----------------------------------------------------------------------------------


@contextlib.contextmanager
def sqlite(folder: Path, sync: str) -> Iterator[Place]:
    import apsw

    connection = apsw.Connection(str(folder / f"bare-{sync}.db"))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", sync)
    connection.execute(
        "CREATE TABLE entry (run INTEGER, path TEXT, kind TEXT, node TEXT, data BLOB, digest TEXT, started REAL,"
        " ended REAL, UNIQUE (run, path, kind))"
    )
    query = f"INSERT INTO entry ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    name = "sqlite" if sync == "normal" else "sqlite-full"
    yield Place(
        name=name, url=f"sqlite:///{folder / name}.db", sync=sync, insert=lambda row: connection.execute(query, row)
    )
    connection.close()


@contextlib.contextmanager
def postgres(folder: Path, sync: str) -> Iterator[Place]:
    import psycopg

    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from postgres_server import PostgresServer

    server = None if os.environ.get("ROPEWALK_TEST_POSTGRES") else PostgresServer(fsync=True)
    url = server.url if server else os.environ["ROPEWALK_TEST_POSTGRES"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ropewalk_bare")
        connection.execute(
            "CREATE TABLE ropewalk_bare (run BIGINT, path TEXT, kind TEXT, node TEXT, data BYTEA, digest TEXT,"
            " started DOUBLE PRECISION, ended DOUBLE PRECISION, PRIMARY KEY (run, path, kind))"
        )
        query = f"INSERT INTO ropewalk_bare ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        yield Place(
            name="postgres",
            url=f"{url}{'&' if '?' in url else '?'}schema=ropewalk_bench",
            sync="normal",
            insert=lambda row: connection.execute(query, row, prepare=True),
        )
        connection.execute("DROP TABLE ropewalk_bare")
        connection.execute("DROP SCHEMA IF EXISTS ropewalk_bench CASCADE")
    if server:
        server.stop()


PLACES: dict[str, tuple[Any, str]] = {
    "sqlite": (sqlite, "normal"),
    "sqlite-full": (sqlite, "full"),
    "postgres": (postgres, "normal"),
}


def main() -> int:
    given = _arguments()
    rows: list[Row] = []
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        for name in given.stores:
            kind, sync = PLACES[name]
            with kind(Path(folder).absolute(), sync) as place:
                rounds = 3 if given.quick else 11
                told(rows, stepping(place, {}, failed, rounds))
                if not given.no_peers:  # afterwards: threads of theirs go on while others are measured
                    peers, missing = durable_peers.installed(place.name, place.url)
                    failed.update(missing)
                    told(rows, stepping(place, peers, failed, rounds) if peers else ())
                    for peer in peers.values():
                        peer.close()
                if name != "sqlite-full":
                    told(rows, [resuming(place, ITEMS // 10 if given.quick else ITEMS)])
    for name, reason in failed.items():
        print(f"left out: {name}: {reason}")
    if given.json:
        Path(given.json).write_text(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=1) + "\n")
    return 0


def told(rows: list[Row], found: Iterable[Row]) -> None:
    """Print the rows as they come, and keep them."""
    for row in found:
        rows.append(row)
        print("\n".join(shown(row)), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Durable steps beside bare inserts and other durable engines.")
    parser.add_argument("--quick", action="store_true", help="3 rounds, resume of a tenth of the items")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--dir", metavar="FOLDER", help="on which disk the SQLite files are (default: temporary)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
