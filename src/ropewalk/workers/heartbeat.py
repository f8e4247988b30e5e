"""The lease of a worker: its heartbeat, and the reaping of workers that have none.

A child process (`heartbeat_process.py`) writes the heartbeats, because a tool may hold the interpreter of this process.
A thread here answers the child and reads which heartbeats the database has acknowledged. Another thread reaps dead
workers; it may wait for the database as long as it likes.

A worker is sure of its runs until 0.8 of a lease after the last acknowledged heartbeat was sent. While the database is
away, calls wait and nothing is cancelled, because nobody else can take the runs either. A worker that the others have
given up meanwhile releases everything, and starts again as if it were new.

Where no child process can run (no libpq, or no POSIX), the thread writes the heartbeats itself. Then a tool that holds
the interpreter for longer than the lease costs the worker its runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes.util
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final, Protocol, TypeAlias

import orjson

from ..engine.compile.durable import describe_call
from ..errors import Fenced, RopewalkError
from ..fast_dataclass import dataclass
from ..journal.postgres.session import driver, to_postgres_dialect
from ..journal.postgres.worker_registry import MARK_DEAD, RECORD_HEARTBEAT, WorkerRegistry
from ..journal.sql.leases import boottime as clock
from ..journal.sql.leases import this_process
from ..tools.backends.local import threads

_MIN_CPU_SHARE: Final = (
    0.5  # of the time must be processor time, if no thread is known; otherwise the machine stood still
)


class BlockDetector:
    """Notice that the thread which calls `look` several times a second could not run for `limit` seconds."""

    # `thread` is the thread that kept the process busy, by its number in the system, as the heartbeat process saw it.

    def __init__(self, limit: float) -> None:
        self.thread: int | None = None
        self._limit = limit
        self._looked, self._used = clock(), time.process_time()

    def check(self) -> str | None:
        """Return a message about the block that has just ended, or None if there was none."""
        now, used = clock(), time.process_time()
        blocked, computed = now - self._looked, used - self._used
        self._looked, self._used = now, used
        thread, self.thread = self.thread, None
        if blocked <= self._limit or (thread is None and computed < _MIN_CPU_SHARE * blocked):
            return None
        name = tool_in_thread(thread) if thread is not None else None
        return (
            f"{name or 'a tool'} held the Python interpreter for {blocked:.1f} s, so nothing else in this worker could"
            " run; move long computations into a process of their own"
        )


def tool_in_thread(thread: int) -> str | None:
    """Return the name of the tool that runs in a thread, or ran there last; None if it is unknown."""

    # `thread`: Number of the thread in the operating system.
    if (known := threads.calls.get(thread)) is not None:
        return _describe_call(known)
    for python_thread in threading.enumerate():
        if python_thread.native_id == thread and python_thread.ident is not None:
            return _tool_in(sys._current_frames().get(python_thread.ident))
    return None


def _describe_call(call: object) -> str | None:
    function = getattr(call, "func", call)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", None)
    return f"tool {name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name and f"tool {name}"


def _tool_in(frame: FrameType | None) -> str | None:
    """Return the name of the tool whose call is on this stack of frames."""
    while frame is not None:
        if (call := describe_call(frame)) is not None:
            return f"tool {call}"
        frame = frame.f_back
    return None


_SCRIPT: Final = Path(__file__).with_name("heartbeat_process.py")
_CLOSE_SECONDS: Final = 2.0  # seconds for the process to end
log = logging.getLogger("ropewalk.workers")


@dataclass(frozen=True, slots=True)
class AcknowledgedBeat:
    """An acknowledged heartbeat."""

    # When it was sent, by `boottime`.
    sent: float
    # When the worker's row was made.
    began: str
    # None if the worker was known. Otherwise others had given it up, and the database was out of reach for `away`
    # seconds, 0 if it was not.
    away: float | None = None
    # The thread that has kept the worker busy, by its number in the system.
    thread: int | None = None


Reading: TypeAlias = AcknowledgedBeat | str
"""A heartbeat, or the reason why there was none."""


class Heart(Protocol):
    """Writes heartbeats for this process."""

    def answer_and_read(self, seconds: float) -> Iterator[Reading]:
        """Show that this process lives, and read the heartbeats meanwhile."""
        ...

    def has_ended(self) -> bool:
        """Check whether the heart still beats."""
        ...

    def close(self) -> None:
        """End the heartbeat without marking the worker as dead."""

        # Blocks for a moment.
        ...


def start_heart(registry: WorkerRegistry, id: str, description: str, began: str, longest_block: float) -> Heart:
    """Start the heartbeat of a worker."""
    library = find_libpq()
    if library is None or not sys.executable or not hasattr(select, "poll"):
        log.warning(
            "no heartbeat process can run here (it needs libpq and POSIX); if a tool holds the interpreter for "
            "longer than the lease, other workers take over the runs of this worker"
        )
        return _InProcessHeart(registry, id, description, began)
    # A connection that hangs must fail before the lease ends.
    timeouts = {"connect_timeout": 2, "tcp_user_timeout": round(registry.lease * 1000)}
    settings = {
        "library": library,
        "parameters": {name: str(value) for name, value in {**registry.target.parameters, **timeouts}.items()},
        "setup": f"SET search_path TO {registry.target.schema}",
        "beat": to_postgres_dialect(RECORD_HEARTBEAT),
        "beat_values": [id, this_process().dump(), description],
        "farewell": to_postgres_dialect(MARK_DEAD),
        "farewell_values": [id],
        "began": began,
        "lease": registry.lease,
        "longest_block": longest_block,
    }
    return _HeartProcess(orjson.dumps(settings))


class _HeartProcess:
    """The worker's side of its heartbeat process: start it, answer it, and read its lines."""

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

    def answer_and_read(self, seconds: float) -> Iterator[Reading]:
        end = clock() + seconds
        self._write(b".")
        while not self._ended:
            select.select([self._from], [], [], max(0.0, end - clock()))
            try:
                data = os.read(self._from, 65536)  # read even after a timeout: this thread may have been blocked
            except BlockingIOError:
                if clock() >= end:
                    return
                continue
            self._ended = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            yield from map(_parse_reading, lines)

    def has_ended(self) -> bool:
        return self._ended

    def close(self) -> None:
        self._write(b"q")
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _write(self, data: bytes) -> None:
        # A full pipe holds enough answers; the end of the process shows when reading.
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._to, data)


def _parse_reading(line: bytes) -> Reading:
    reading = orjson.loads(line)
    if "beat" in reading:
        return AcknowledgedBeat(reading["beat"], reading["began"], reading.get("away"), reading.get("thread"))
    return str(reading.get("error") or reading.get("fatal"))


class _InProcessHeart:
    """Heartbeats that this process writes itself."""

    def __init__(self, registry: WorkerRegistry, id: str, description: str, began: str) -> None:
        self._registry = WorkerRegistry(registry.target, registry.lease)
        self._id, self._description, self._began = id, description, began
        self._failing_since: float | None = None

    def answer_and_read(self, seconds: float) -> Iterator[Reading]:
        before = clock()
        try:
            began = self._registry.record_heartbeat(self._id, self._description)
        except driver().Error as error:
            self._failing_since = self._failing_since or before
            yield " ".join(str(error).split())
        else:
            away = clock() - self._failing_since if self._failing_since is not None else 0.0
            self._failing_since = None
            is_new, self._began = began != self._began, began
            yield AcknowledgedBeat(before, began, away if is_new else None)
        time.sleep(seconds)

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        self._registry.close()


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
            for library in sorted(Path(folder).glob(pattern)):
                return str(library)
    return ctypes.util.find_library("pq")


_LOOKS_PER_LEASE = 5  # looks for dead workers per lease
_SURE_SHARE = 0.8  # of a lease
_FAILURES_BEFORE_WARNING = 3  # failures in a row of the reaper, with a good heartbeat, before it says so


class Heartbeat:
    """Keep the lease of one worker."""

    # `on_away`: Called when the database can no longer be reached, in the thread that reads the heartbeats.
    # `on_reaped`: Called in the reaper's thread with the ids of dead workers.
    # `after_look`: Called in the reaper's thread after each look.

    def __init__(
        self,
        registry: WorkerRegistry,
        id: str,
        description: dict[str, object],
        *,
        longest_block: float,
        on_away: Callable[[], None],
        on_lost: Callable[[bool], None],
        on_reaped: Callable[[list[str]], None],
        after_look: Callable[[], None],
    ) -> None:
        self.until = 0.0
        self._registry, self._id, self._description = registry, id, orjson.dumps(description).decode()
        self._longest_block = longest_block
        self._on_away, self._on_lost, self._on_reaped, self._after_look = on_away, on_lost, on_reaped, after_look
        self._loop = asyncio.get_running_loop()
        self._blocked = BlockDetector(registry.lease / 2)
        self._sure_again = asyncio.Event()
        self._ended = threading.Event()
        self._losses = 0
        self._is_lost = False  # others have given this worker up, and its event loop has not heard of it yet
        self._began = ""
        self._away_since: float | None = None
        self._heart: Heart | None = None
        self._threads = [
            threading.Thread(target=self._listen_repeatedly, name="ropewalk-pulse", daemon=True),
            threading.Thread(target=self._reap_repeatedly, name="ropewalk-reaper", daemon=True),
        ]

    def start(self) -> None:
        """Register the worker and begin to beat."""
        before = clock()
        self._began = self._registry.record_heartbeat(self._id, self._description)
        self._handle_beat(AcknowledgedBeat(before, self._began))
        self._heart = self._start_heart()
        for thread in self._threads:
            thread.start()

    async def renewed(self, run_id: str) -> None:
        """Wait until this worker is sure of its runs again."""
        losses = self._losses
        while clock() >= self.until:
            self._sure_again.clear()
            await self._sure_again.wait()
        if losses != self._losses:
            raise Fenced(run_id)

    def stop(self) -> None:
        """Stop the heartbeat; the worker's row stays."""

        # Blocks for a moment.
        self._ended.set()
        for thread in self._threads:
            thread.join(5)
        if self._heart is not None:
            self._heart.close()

    # --- the thread that talks with the heartbeat ---------------------------------------------

    def _start_heart(self) -> Heart:
        return start_heart(self._registry, self._id, self._description, self._began, self._longest_block)

    def _listen_repeatedly(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen_once()
            except Exception:  # without this thread the worker would never again be sure of its runs
                log.exception("could not read the heartbeat; trying again")
                self._ended.wait(self._registry.lease / _LOOKS_PER_LEASE)

    def _listen_once(self) -> None:
        assert self._heart is not None
        for reading in self._heart.answer_and_read(self._registry.lease / _LOOKS_PER_LEASE / 2):
            self._handle_reading(reading)
        if message := self._blocked.check():
            log.warning("%s", message)
        if self._heart.has_ended() and not self._ended.is_set():
            log.warning("the heartbeat process of this worker has ended; starting another one")
            self._heart.close()
            self._heart = self._start_heart()

    def _handle_reading(self, reading: Reading) -> None:
        if isinstance(reading, AcknowledgedBeat):
            self._handle_beat(reading)
        else:
            self._handle_failure(reading)

    def _handle_beat(self, beat: AcknowledgedBeat) -> None:
        if beat.thread is not None:
            self._blocked.thread = beat.thread
        self._began = beat.began
        until = beat.sent + self._registry.lease * _SURE_SHARE
        if beat.away is not None:
            why = f", because it could not reach the database for {beat.away:.1f} s" if beat.away else ""
            lease = self._registry.lease
            log.warning("this worker was silent for more than %s s%s; others have taken over its runs", lease, why)
            self._is_lost = True
            self._loop.call_soon_threadsafe(self._start_again, beat.away > 0, until)
        elif not self._is_lost:
            self.until = max(self.until, until)
            self._loop.call_soon_threadsafe(self._sure_again.set)
        if self._away_since is not None:
            log.warning("the database is back after %.1f s", clock() - self._away_since)
            self._away_since = None

    def _start_again(self, was_away: bool, until: float) -> None:
        """Give up the runs that others have now, and be sure again."""

        # On the event loop, so that no run begins in between.
        self._losses += 1
        self._on_lost(was_away)
        self.until = max(self.until, until)
        self._sure_again.set()
        self._is_lost = False

    def _handle_failure(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = clock()
            self._on_away()
            log.warning("the database cannot be reached; this worker keeps trying, and its runs wait: %s", why)
        else:
            log.debug("could not send the heartbeat: %s", why)

    # --- the thread that reaps ----------------------------------------------------------------

    def _reap_repeatedly(self) -> None:
        pause = self._registry.lease / _LOOKS_PER_LEASE
        away: tuple[type[Exception], ...] = (*driver_errors(), RopewalkError)
        failures = 0
        while not self._ended.wait(pause):
            if clock() >= self.until:
                continue  # a worker that may have lost its own lease judges nobody
            try:
                dead = self._registry.reap_dead_workers()
                if dead:
                    log.warning("removed dead workers: %s (their process ended, or was silent)", ", ".join(dead))
                self._on_reaped(dead)
                self._after_look()
                failures = 0
            except away as error:
                failures += 1
                # While the database is away, `_missed` logs that.
                level = (
                    logging.WARNING
                    if failures == _FAILURES_BEFORE_WARNING and self._away_since is None
                    else logging.DEBUG
                )
                log.log(level, "could not look for dead workers; trying again: %s", " ".join(str(error).split()))
            except Exception:  # without this thread nobody would take over the runs of dead workers
                failures += 1
                log.log(
                    logging.ERROR if failures == 1 else logging.DEBUG,
                    "could not look for dead workers; trying again",
                    exc_info=True,
                )


def driver_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of a server that is away or has no connection left: those of psycopg, and of SQLAlchemy,
    which DBOS uses.
    """
    from sqlalchemy.exc import DBAPIError, TimeoutError

    return (driver().Error, DBAPIError, TimeoutError)
