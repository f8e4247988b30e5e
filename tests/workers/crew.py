"""A project whose runs are executed by real worker processes on a real Postgres."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from faults.scene import STEPS, Scene, ended, kill
from ropewalk import App
from ropewalk.journal.postgres.session import parse_target

MORE_TOOLS = '''

@tool
async def die(at: str, until: str) -> str:
    """Kills its worker, until there is a file."""
    import signal
    note("start", at)
    if not os.path.exists(until):
        os.kill(os.getpid(), signal.SIGKILL)
    note("end", at)
    return "lived"

@tool
async def who(at: str, ms: int = 15) -> int:
    """Says which process it is in, and when."""
    note("start", at, os.getpid(), time.time())
    await asyncio.sleep(ms / 1000)
    note("end", at, os.getpid(), time.time())
    return os.getpid()
'''


class Crew(Scene):
    """`hire` starts workers; every process has ended when `dismiss` returns."""

    def __init__(self, folder: Path, url: str, chain: str = STEPS, settings: str = "") -> None:
        super().__init__(folder, chain, url)
        self.url = url
        self.settings(settings)
        tools = folder / "tools.py"
        tools.write_text(tools.read_text() + MORE_TOOLS)
        self._connection: psycopg.Connection[Any] | None = None
        self.workers: list[subprocess.Popen[str]] = []
        self.logged_at_start: dict[int, list[str]] = {}

    def settings(self, text: str) -> None:
        (self.folder / "ropewalk.toml").write_text(f'[tools]\nmodules = ["tools"]\n[store]\nengine = "dbos"\n{text}')

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def hire(self, count: int = 1, *words: str) -> list[subprocess.Popen[str]]:
        """Start workers; they take runs when this returns."""
        new = [self.start("worker", *words) for _ in range(count)]
        self.workers += new
        for worker in new:
            assert worker.stderr is not None
            earlier = self.logged_at_start[worker.pid] = []
            # On a busy machine a worker repairs runs before it takes any, and logs that first.
            while not re.match(r"worker \S+ takes runs", line := worker.stderr.readline()):
                earlier.append(line)
                if not line:
                    raise AssertionError("".join(earlier))
        return new

    def logged(self, worker: subprocess.Popen[str]) -> Iterator[str]:
        """What a worker logs, from its start."""
        assert worker.stderr is not None
        return itertools.chain(self.logged_at_start[worker.pid], iter(worker.stderr.readline, ""))

    def worker(self, pid: int) -> subprocess.Popen[str]:
        return next(worker for worker in self.workers if worker.pid == pid)

    def submit(self, source: str, id: str | None = None, **how: Any) -> str:
        return self.submit_all(source, {id: how.pop("input", None)}, **how)[0]

    def submit_all(self, source: str, inputs: dict[Any, Any], **how: Any) -> list[str]:
        """Queue a run for each id and input, without a process of its own, which would take longer than the run."""

        async def queue() -> list[str]:
            async with App.open(str(self.folder), store=self.url) as app:
                path = str(self.folder / source)
                return [await app.submit(path, input, run_id=id, **how) for id, input in inputs.items()]

        return asyncio.run(queue())

    def sql(self, query: str, *values: object) -> list[Any]:
        """Run a statement in the schema of the store; `{dbos}` is that of DBOS."""
        target = parse_target(self.url)
        if self._connection is None:
            self._connection = psycopg.connect(**target.parameters, autocommit=True)
            self._connection.execute(f"SET search_path TO {target.schema}")  # type: ignore[arg-type]
        try:
            cursor = self._connection.execute(query.replace("{dbos}", f"{target.schema}_dbos"), values)  # type: ignore[arg-type]
        except psycopg.OperationalError:
            self._connection = None  # the server was away: the next statement opens another connection
            raise
        return cursor.fetchall() if cursor.description else []

    def status(self, run_id: str) -> str:
        """The status of a run, "" before there is one; asks again if the server was away since the last question."""
        for attempt in range(2):
            try:
                rows = self.sql("SELECT status FROM run WHERE id = %s", run_id)
                return str(rows[0][0]) if rows else ""
            except psycopg.errors.UndefinedTable:
                return ""
            except psycopg.OperationalError:
                if attempt:
                    raise
        raise AssertionError

    def until_ended(self, run_id: str) -> str:
        self.until(lambda: self.status(run_id) not in ("", "running"))
        return self.status(run_id)

    def pids(self, at: str, word: str = "start") -> list[int]:
        """The processes that called `who(at)`, in order."""
        return [int(line.split()[2]) for line in self.lines() if line.startswith(f"{word} {at} ")]

    def dismiss(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                kill(worker)
        if self._connection is not None:
            self._connection.close()
            self._connection = None


__all__ = ["STEPS", "Crew", "ended", "kill"]
