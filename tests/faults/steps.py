"""The tools of the campaign, and the fate of the process that calls them. A scene keeps a copy of this file as the
`tools.py` of its project, so that a test's own children, the command and the workers run the very same.

Whatever happens is a line of calls.log, which outlives all processes: `start` and `end` of a tool, `append` when an
entry is handed to the journal, `ack` when its commit is acknowledged, `finish` and `finished` around the ending. A
file `fate` with a number and a signal befalls the process that writes the line with that number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ropewalk import tool
from ropewalk.journal.sql.log import SqlLog

LOG, FATE = "calls.log", "fate"
TELLING = ("call", "call_failed", "attempt", "timer")  # kinds of entries whose append is a step's boundary


def note(*words: object) -> None:
    # One write to a file opened for appending: a kill leaves a whole line or none.
    file = os.open(LOG, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
        with contextlib.suppress(FileNotFoundError):
            at, number = map(int, Path(FATE).read_text().split())
            if os.pread(file, 1 << 24, 0).count(b"\n") >= at:
                os.rename(FATE, f"{FATE}.met")  # By one process, once.
                os.kill(os.getpid(), number)
                if number == signal.SIGKILL:
                    time.sleep(60)
    finally:
        os.close(file)


def _answer(at: str, of: object) -> dict[str, str | int]:
    return {"at": at, "of": zlib.crc32(str(of).encode())}


@tool
def sync_step(at: str, of: object = None, ms: int = 15) -> dict[str, str | int]:
    """Does something in a thread."""
    note("start", at, os.getpid())
    time.sleep(ms / 1000)
    note("end", at, os.getpid())
    return _answer(at, of)


@tool
async def async_step(at: str, of: object = None, ms: int = 15) -> dict[str, str | int]:
    """Does something in the loop."""
    note("start", at, os.getpid())
    await asyncio.sleep(ms / 1000)
    note("end", at, os.getpid())
    return _answer(at, of)


@tool
async def second_time(at: str) -> str:
    """Fails when it is called first, whoever calls it."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(f"tried-{at}", os.O_CREAT | os.O_EXCL))
        note("start", f"{at}#first", os.getpid())
        raise RuntimeError("not the first time")
    note("start", at, os.getpid())
    note("end", at, os.getpid())
    return "done"


@tool
async def wait_for_file(at: str, name: str) -> str:
    """Waits until a file is there; says when it is cancelled."""
    note("start", at, os.getpid())
    try:
        while not os.path.exists(name):  # noqa: ASYNC110, ASYNC240 - a file tells nobody
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        note("cancelled", at, time.time())
        raise
    note("end", at, os.getpid())
    return "there"


@tool
def large(at: str, size: int) -> str:
    """Gives much, that cannot be packed well."""
    note("start", at, os.getpid())
    return random.Random(at).randbytes(size // 2).hex()


def _watched(append: Callable[..., asyncio.Future[None]]) -> Callable[..., asyncio.Future[None]]:
    def watched(self: SqlLog, entry: Any) -> asyncio.Future[None]:
        if entry.kind not in TELLING:
            return append(self, entry)
        note("append", entry.path, entry.kind)
        done = append(self, entry)
        # Called before whoever awaits the entry goes on.
        done.add_done_callback(
            lambda done: None if done.cancelled() or done.exception() else note("ack", entry.path, entry.kind)
        )
        return done

    return watched


def _ended(finish: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    async def ended(self: SqlLog, *words: Any, **more: Any) -> str:
        note("finish", self.run.id)
        stands = await finish(self, *words, **more)
        note("finished", stands)
        return stands

    return ended


# Once per process, whatever name this file is imported by. A test that loads this file itself, as the tools of an open
# project, keeps its journal as it is: the wrappers would note the entries of every later test.
if os.environ.get("PYTEST_PROCESS") != str(os.getpid()) and not hasattr(SqlLog, "_noted"):
    SqlLog._noted = True  # type: ignore[attr-defined]
    SqlLog.append = _watched(SqlLog.append)  # type: ignore[method-assign]
    SqlLog.finish = _ended(SqlLog.finish)  # type: ignore[method-assign]
