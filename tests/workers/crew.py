"""A project whose runs are executed by real worker processes on a real Postgres."""

from __future__ import annotations

import itertools
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg

from faults.scene import STEPS, Scene, ended, kill
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
    """`hire` starts workers; every process has ended and nothing is left when `dismiss` returns."""

    def __init__(self, folder: Path, url: str, chain: str = STEPS, settings: str = "") -> None:
        super().__init__(folder, chain, url)
        self.url = url
        self.settings(settings)
        tools = folder / "tools.py"
        tools.write_text(tools.read_text() + MORE_TOOLS)
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

    def submit(self, source: str, *words: str) -> str:
        done = self.run("run", source, "--no-wait", *words)
        assert done.code == 0, done.err
        return done.out.strip()

    def status(self, run_id: str) -> str:
        row = self.row(run_id)
        return row.status if row is not None else ""

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
        # A worker that a test has started by itself may end meanwhile and hold a lock.
        for attempt in range(5):
            try:
                self._drop_dbos_schema()
                return
            except psycopg.errors.DeadlockDetected:
                if attempt == 4:
                    raise

    def _drop_dbos_schema(self) -> None:
        with psycopg.connect(**parse_target(self.url).parameters, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {parse_target(self.url).schema}_dbos CASCADE")  # type: ignore[arg-type]


__all__ = ["STEPS", "Crew", "ended", "kill"]
