"""A worker's side of its heartbeat process (`heartbeat.py`): start it, answer it, read what it says.

Where no such process can run (no libpq to be found, no POSIX), the thread that answers writes the heartbeats itself.
Then a tool that holds the interpreter for longer than the lease costs the worker its runs.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import orjson

from ..frozen import dataclass
from ..journal.boottime import boottime as clock
from ..journal.fleet import BEAT, FAREWELL, Fleet
from ..journal.lease import me
from ..journal.postgres_session import driver, words

_SCRIPT: Final = Path(__file__).with_name("heartbeat.py")
_CLOSING: Final = 2.0  # seconds for the process to end
log = logging.getLogger("ropewalk.workers")


@dataclass(frozen=True, slots=True)
class Beat:
    """An acknowledged heartbeat.

    Args:
        sent: When it was sent, by `boottime`.
        began: When the worker's row was made.
        away: None if the worker was known. Otherwise others had given it up, and the database was out of reach for
            `away` seconds, 0 if it was not.
        thread: The thread that has kept the worker busy, by its number in the system.
    """

    sent: float
    began: str
    away: float | None = None
    thread: int | None = None


Reading: TypeAlias = Beat | str
"""A heartbeat, or why there was none."""


class Heart(Protocol):
    """Writes heartbeats for this process."""

    def answer(self, seconds: float) -> Iterator[Reading]:
        """Show that this process lives, and yield what is said within `seconds`."""
        ...

    def has_ended(self) -> bool:
        """Return True if no heartbeat will come any more."""
        ...

    def close(self) -> None:
        """End it without marking the worker as dead. Blocks for a moment."""
        ...


def start_heart(fleet: Fleet, id: str, about: str, began: str, longest_block: float) -> Heart:
    """Start the heartbeat of a worker.

    Args:
        fleet: The workers of the store.
        id: The worker's id.
        about: What others may know about it, as JSON.
        began: When the worker's row was made, as `Fleet.beat` returned it.
        longest_block: Seconds for which the worker may be busy without an answer.

    Returns:
        The heartbeat: a process, or this process itself where that is impossible.
    """
    library = find_libpq()
    if library is None or not sys.executable or not hasattr(select, "poll"):
        log.warning(
            "no heartbeat process can run here; a tool that holds the interpreter may cost this worker its runs"
        )
        return _OwnHeart(fleet, id, about, began)
    patience = round(fleet.lease * 1000)
    calm = {"connect_timeout": 2, "tcp_user_timeout": patience}
    settings = {
        "library": library,
        "parameters": {name: str(value) for name, value in {**fleet.where.parameters, **calm}.items()},
        "setup": f"SET search_path TO {fleet.where.schema}",
        "beat": words(BEAT),
        "beat_values": [id, me().dump(), about],
        "farewell": words(FAREWELL),
        "farewell_values": [id],
        "began": began,
        "lease": fleet.lease,
        "longest_block": longest_block,
    }
    return _HeartProcess(orjson.dumps(settings))


class _HeartProcess:
    def __init__(self, settings: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.write(self._to, settings + b"\n")
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._rest = b""
        self._ended = False

    def answer(self, seconds: float) -> Iterator[Reading]:
        end = clock() + seconds
        self._write(b".")
        while not self._ended:
            select.select([self._from], [], [], max(0.0, end - clock()))
            try:
                said = os.read(self._from, 65536)  # whatever `select` says: this thread may have stood still in it
            except BlockingIOError:
                if clock() >= end:
                    return
                continue
            self._ended = not said
            *lines, self._rest = (self._rest + said).split(b"\n")
            yield from map(_reading, lines)

    def has_ended(self) -> bool:
        return self._ended

    def close(self) -> None:
        self._write(b"q")
        try:
            self._process.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _write(self, what: bytes) -> None:
        # A pipe that is full holds answers enough; one without a reader is noticed when it is read.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._to, what)


def _reading(line: bytes) -> Reading:
    said = orjson.loads(line)
    if "beat" in said:
        return Beat(said["beat"], said["began"], said.get("away"), said.get("thread"))
    return str(said.get("error") or said.get("fatal"))


class _OwnHeart:
    """Heartbeats that this process writes itself."""

    def __init__(self, fleet: Fleet, id: str, about: str, began: str) -> None:
        self._fleet, self._id, self._about, self._began = Fleet(fleet.where, fleet.lease), id, about, began
        self._failing_since: float | None = None

    def answer(self, seconds: float) -> Iterator[Reading]:
        before = clock()
        try:
            began = self._fleet.beat(self._id, self._about)
        except driver().Error as error:
            self._failing_since = self._failing_since or before
            yield " ".join(str(error).split())
        else:
            away = clock() - self._failing_since if self._failing_since is not None else 0.0
            self._failing_since = None
            is_new, self._began = began != self._began, began
            yield Beat(before, began, away if is_new else None)
        time.sleep(seconds)

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        self._fleet.close()


def find_libpq() -> str | None:
    """Return the path of the libpq that the driver of this process uses, or of another one; None if there is none."""
    driver()
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[2]
            if "/libpq" in path or path.startswith("libpq"):
                return f"/{path}"
    package = find_spec("psycopg_binary")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        for pattern in ("../psycopg_binary.libs/libpq*", ".dylibs/libpq*"):
            for found in sorted(Path(folder).glob(pattern)):
                return str(found)
    return ctypes.util.find_library("pq")
