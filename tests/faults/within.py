"""What a child of the campaign does with its run. Never to be imported by the test itself: the tools it brings
change what the journal of the process does."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import apsw

from faults import steps
from faults.disk import Disk
from ropewalk.app.app import App
from ropewalk.errors import RopewalkError
from ropewalk.journal.address import is_postgres
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.sqlite.store import SqliteStore

TOOLS = [steps.sync_step, steps.async_step, steps.second_time, steps.wait_for_file, steps.large]


async def execute(
    what: str,
    address: str,
    id: str,
    *,
    host: str = "",
    lease: float = 10.0,
    jump: float = 0.0,
    disk: tuple[str, int, str, int] | None = None,
) -> dict[str, Any]:
    """Run the scene's chain (`run`; `rerun` is another one of the same run), or `resume` its run.

    `host` is what the process takes its host to be, `jump` what its clock is set by once fate was met; SIGUSR1
    cancels what it does, SIGUSR2 has the run stopped. `disk` is what fails (write, sync), after how many, how (full,
    error, kill, torn: killed with half of it written) and how often.
    """
    if host:
        socket.gethostname = lambda: host
    if jump:
        real = time.time
        time.time = lambda: real() + jump * Path("fate.met").exists()
    failing = _fails(*disk) if disk else None  # Dropped, it would be no more.
    try:
        async with App(_store(address, lease, "full" if failing else "normal"), tools=TOOLS) as app:
            loop = asyncio.get_running_loop()
            task = asyncio.ensure_future(app.run("chain.yaml", run_id=id) if what.endswith("run") else app.resume(id))
            loop.add_signal_handler(signal.SIGUSR1, task.cancel)
            loop.add_signal_handler(signal.SIGUSR2, lambda: app.runs.stop(id))
            await asyncio.wait([task])
            left = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
            if left:
                return {"status": "left", "tasks": list(map(str, left))}
            if task.cancelled():
                return {"status": "cancelled"}
            done = task.result()
            return {"status": done.status, "results": done.results}
    except RopewalkError as error:
        return {"status": "refused", "kind": type(error).__name__, "message": str(error)}


def _store(address: str, lease: float, sync: Any) -> Any:
    poll = min(0.2, lease / 10)
    if is_postgres(address):
        return PostgresStore(address, lease=lease, poll=poll)
    return SqliteStore(address, sync, lease=lease, poll=poll)


class _Faulty(Disk):
    deadly = False

    def strike(self) -> None:
        Path("struck").touch()
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        super().strike()


def _fails(what: str, after: int, how: str, times: int) -> Disk:
    disk = _Faulty()
    disk.what, disk.left, disk.times = what, after, times
    disk.error = apsw.FullError if how == "full" else apsw.IOError
    disk.deadly, disk.torn = how in ("kill", "torn"), how == "torn"
    import sys

    sys.excepthook = sys.unraisablehook = lambda *_: (
        None
    )  # apsw prints what a VFS raises where SQLite cannot hand it on
    return disk
