"""How the campaign has a run executed, which is a parameter of its tests: `Alone`, each time a process of its own that
dies or is paused, and whoever comes after it resumes.

A child is forked from a server that has imported everything: twenty milliseconds instead of a third of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from patience import BOUND, wait_until

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from faults.scene import Scene

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "jsonschema_rs", "psycopg", "ropewalk.app.app", "ropewalk.notations.chain.render", "ropewalk.expr.calls",
        "ropewalk.expr.functions", "ropewalk.expr.parser", "ropewalk.journal.postgres.store",
        "ropewalk.journal.sqlite.store",
        "ropewalk.source", "ropewalk.tools.signature",
        "pytest",  # every child looks at what the main module is
    ]
)  # fmt: skip


def child(what: str, folder: str, store: str, id: str, more: Mapping[str, Any]) -> None:
    """What a child does: `run`, `rerun` or `resume`. Its outcome is in <what>.json once it has ended by itself."""
    import asyncio

    os.chdir(folder)
    from faults import within  # only here: it changes the process it is imported in

    answer = asyncio.run(within.execute(what, store, id, **more))
    with open(f"{what}.new", "wb") as file:
        file.write(orjson.dumps(answer))
    os.rename(f"{what}.new", f"{what}.json")
    os._exit(0)


class Alone:
    """Every execution is a process of its own."""

    name = "one process"

    def start(self, scene: Scene, what: str, id: str, **more: Any) -> BaseProcess:
        (scene.folder / f"{what}.json").unlink(missing_ok=True)
        process = _FORKS.Process(target=child, args=(what, str(scene.folder), scene.address, id, more), daemon=True)
        process.start()
        return process

    def answer(self, scene: Scene, what: str, process: BaseProcess) -> dict[str, Any]:
        """What came of an execution that is to end by itself."""
        process.join(BOUND)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"{what} is still under way after {BOUND:g} s; the log: {scene.lines()}")
        file = scene.folder / f"{what}.json"
        assert file.exists(), f"{what} ended with {process.exitcode}; the log: {scene.lines()}"
        return dict(orjson.loads(file.read_bytes()))

    def run(self, scene: Scene, what: str, id: str, **more: Any) -> dict[str, Any]:
        return self.answer(scene, what, self.start(scene, what, id, **more))


def died(process: BaseProcess) -> bool:
    """Whether it was killed; it has ended by itself otherwise."""
    process.join(BOUND)
    assert process.exitcode is not None, "still running"
    return process.exitcode == -signal.SIGKILL


def paused(pid: int) -> None:
    """Wait until a process is stopped by a signal."""
    wait_until(lambda: all_paused(pid), lambda: f"process {pid} is not paused")


def all_paused(pid: int) -> bool:
    """Whether all its threads are stopped: they do not stop at the same moment."""
    states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").iterdir()]
    return set(states) == {"T"}
