"""A crew of workers whom something happens to: what they say is heard while they work, and the dead are replaced."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.hands import all_paused
from faults.scene import BRIEF
from workers.crew import Crew

SETTINGS = "[workers]\nrecoveries = 99\n"


class Shift(Crew):
    """See `Crew`. `said` is what each worker has said, by its pid."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url, BRIEF, SETTINGS)
        self.said: dict[int, list[str]] = {}

    def hire(self, count: int = 1, *words: str) -> list[subprocess.Popen[str]]:
        new = [self.begin(*words) for _ in range(count)]
        for worker in new:
            self.ready(worker)
        return new

    def begin(
        self, *words: str, before: Callable[[], None] | None = None, store: str | None = None
    ) -> subprocess.Popen[str]:
        """Start a worker; it takes runs when `ready` returns."""
        worker = self.start("worker", *words, before=before, store=store)
        self.workers.append(worker)
        lines = self.said[worker.pid] = []
        threading.Thread(target=_hear, args=(worker, lines), daemon=True).start()
        return worker

    def ready(self, worker: subprocess.Popen[str]) -> None:
        self.until_said(worker, r"worker \S+ takes runs")

    def until_said(self, worker: subprocess.Popen[str], words: str) -> None:
        said = self.said[worker.pid]
        self.until(lambda: any(re.search(words, line) for line in said), worker)
        assert worker.poll() is None, "".join(said)

    def paused(self) -> subprocess.Popen[str]:
        """The worker that is stopped by a signal, once one is."""
        found: list[subprocess.Popen[str]] = []

        def look() -> bool:
            found[:] = [one for one in self.workers if one.poll() is None and all_paused(one.pid)]
            return bool(found)

        self.until(look)
        return found[0]

    def until_given_up(self, worker: subprocess.Popen[str], since: int) -> None:
        """Wait until a worker has found out that its runs are others' now."""
        said = self.said[worker.pid]
        self.until(lambda: any("was silent" in line for line in said[since:]), worker)
        assert worker.poll() is None, "".join(said)

    def give(self, id: str, chain: str = BRIEF, fate: tuple[int, signal.Signals | int] | None = None) -> None:
        """A clean log, what is to happen, and the run in line."""
        for old in (*self.folder.glob("tried-*"), *self.folder.glob("fate*"), self.log):
            old.unlink(missing_ok=True)
        self.write("chain.yaml", chain)
        if fate is not None:
            self.fate(*fate)
        self.submit("chain.yaml", id)

    def met(self, id: str) -> bool:
        """Wait until it has happened, or the run has ended without."""
        met = self.folder / "fate.met"
        self.until(lambda: met.exists() or self.status(id) not in ("", "running"))
        return met.exists()

    def bury(self) -> None:
        """Wait until a worker is dead: till then other threads of it may do something."""
        self.until(lambda: any(worker.poll() is not None for worker in self.workers))
        self.workers = [worker for worker in self.workers if worker.poll() is None]

    def results(self, id: str) -> Any:
        row = self.row(id)
        return None if row is None or row.result is None else row.result["results"]


def _hear(worker: subprocess.Popen[str], lines: list[str]) -> None:
    assert worker.stderr is not None
    for line in worker.stderr:
        lines.append(line)
