"""A project on disk and the real `ropewalk` command in it; every call is written to a file that
outlives all processes, before the tool begins and when it is done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fork_server
from patience import BOUND, wait_until
from ropewalk.journal.address import open_store
from ropewalk.journal.protocol import Entry, RunRow, Store

COMMAND = str(Path(sys.executable).with_name("ropewalk"))

STEPS = """
kind: chain
name: steps
mode: dag
concurrency: 3
timeout: 60000
nodes:
  - {id: a, type: tool, tool: sync_step, params: {at: a}}
  - {id: b, type: tool, tool: async_step, params: {at: b}}
  - {id: c, type: tool, tool: async_step, params: {at: c, of: $output.a}}
  - id: many
    type: loop
    dependsOn: [a]
    items: [0, 1, 2, 3, 4, 5, 6]
    concurrency: 2
    nodes:
      - {id: one, type: tool, tool: sync_step, params: {at: "many[${$index}]/one", of: $output.a}}
      - {id: two, type: tool, tool: async_step, params: {at: "many[${$index}]/two", of: $prev}}
  - {id: pause, type: delay, delay: 40, dependsOn: [b]}
  - id: both
    type: parallel
    dependsOn: [b, pause]
    nodes:
      - {id: left, type: tool, tool: async_step, params: {at: both/left}}
      - {id: right, type: tool, tool: sync_step, params: {at: both/right}}
  - id: rounds
    type: loop
    dependsOn: [c]
    maxIterations: 4
    nodes:
      - {id: round, type: tool, tool: async_step, params: {at: "rounds[${$iteration}]/round", of: $prev}}
  - {id: end, type: tool, tool: sync_step, dependsOn: [many, both, rounds], params: {at: end, of: $output.rounds}}
"""


BRIEF = """
kind: chain
name: brief
mode: dag
concurrency: 3
timeout: 60000
nodes:
  - {id: a, type: tool, tool: sync_step, params: {at: a, ms: 2}}
  - id: many
    type: loop
    dependsOn: [a]
    items: [0, 1]
    concurrency: 2
    nodes:
      - {id: one, type: tool, tool: async_step, params: {at: "many[${$index}]/one", of: $output.a, ms: 2}}
  - {id: pause, type: delay, delay: 5, dependsOn: [a]}
  - {id: again, type: tool, tool: second_time, params: {at: again@2}, errorStrategy: retry, retryDelay: 1}
  - {id: end, type: tool, tool: sync_step, dependsOn: [many, pause, again], params: {at: end, of: $output.many, ms: 2}}
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Scene:
    """One project in a folder."""

    def __init__(self, folder: Path, chain: str = STEPS, store: str | None = None, keep: bool = False) -> None:
        """`store` is an address; without one it is the file that a project has by itself."""
        self.folder, self._store = folder, store
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n')
        shutil.copy(Path(__file__).with_name("steps.py"), folder / "tools.py")
        (folder / "chain.yaml").write_text(chain)
        self.log = folder / "calls.log"
        self.db = folder / ".ropewalk" / "ropewalk.db"

    @property
    def address(self) -> str:
        """Of the store, for those who open it by themselves."""
        if self._store is None:
            self.db.parent.mkdir(exist_ok=True)
        return self._store or str(self.db)

    def fate(self, at: int, number: signal.Signals | int) -> None:
        """Have whoever writes the `at`-th line of the log be killed, or paused."""
        (self.folder / "fate").write_text(f"{at} {int(number)}")

    def start(
        self, *args: str, before: Callable[[], None] | None = None, store: str | None = None
    ) -> subprocess.Popen[str]:
        """The command, on the scene's store or on another one."""
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
        if address := store or self._store:
            env["ROPEWALK_STORE"] = address
        return fork_server.Popen(
            [COMMAND, *args],
            cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, preexec_fn=before,
        )  # fmt: skip

    def run(self, *args: str, before: Callable[[], None] | None = None) -> Done:
        return ended(self.start(*args, before=before))

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def started(self, since: int = 0) -> list[str]:
        """What was called, from the `since`-th line of the log on."""
        return [line.split()[1] for line in self.lines()[since:] if line.startswith("start ")]

    def until(self, holds: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
        """Wait until it holds or the process has ended."""
        wait_until(
            lambda: holds() or (process is not None and process.poll() is not None),
            lambda: f"nothing came of it; the log: {self.lines()}",
        )

    def callers(self, since: int = 0) -> set[int]:
        """The processes that called tools, from the `since`-th line of the log on."""
        return {int(line.split()[2]) for line in self.lines()[since:] if line.startswith(("start ", "end "))}

    def history(self, run_id: str) -> list[Entry]:
        return self._look(lambda store: store.history(run_id))

    def row(self, run_id: str) -> RunRow | None:
        return self._look(lambda store: store.get_run(run_id))

    def recorded(self, run_id: str) -> set[str]:
        """The paths of the calls whose result is in the store."""
        return {entry.path for entry in self.history(run_id) if entry.kind == "call"}

    def moment(self, run_id: str) -> tuple[list[str], set[str]]:
        """The log and the recorded calls at one moment, while others may go on: nothing was logged between the two,
        so no call that begins after it was recorded then."""
        while True:
            lines, recorded = self.lines(), self.recorded(run_id)
            if self.lines() == lines:
                return lines, recorded

    def _look(self, what: Callable[[Store], Any]) -> Any:
        if self._store is None and not self.db.exists():
            return what(_Nothing())  # type: ignore[arg-type]
        store = open_store(self._store or str(self.db))
        try:
            return what(store)
        finally:
            store.close()


class _Nothing:
    """A store before there is one."""

    def history(self, run_id: str) -> list[Entry]:
        return []

    def get_run(self, run_id: str) -> None:
        return None


def ended(process: subprocess.Popen[str]) -> Done:
    try:
        out, err = process.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {BOUND:g} s\n{out}\n{err}") from None
    return Done(process.returncode, out, err)


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9, and nothing of it is left."""
    process.send_signal(signal.SIGKILL)
    process.communicate()
