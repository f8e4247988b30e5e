"""The heartbeat of a worker: a small process that watches its worker and writes its signs of life to the database.

The worker itself cannot promise a heartbeat: a tool in C may hold the interpreter for minutes. This file runs as a
script (`python -I -S heartbeat_process.py`). It imports only the standard library and calls libpq directly, so that
the process starts in some 20 ms and takes a few megabytes.

The worker writes one line of JSON (`Settings`) to standard input, and a dot whenever it has the time. Lines of JSON
come back on standard output, one for each heartbeat. The process ends with its worker; before that it marks a worker
that died as dead.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

STEPS = 5  # heartbeats per lease
BURNS = 0.05  # share of a processor that makes a thread busy; a thread that only waits for the interpreter uses less
BUSY_AFTER = 0.2  # of a lease without an answer, before threads are measured
FAREWELL = 2.0  # seconds to mark a dead worker
_COMMAND_OK, _TUPLES_OK = 1, 2
clock = time.monotonic
if hasattr(time, "CLOCK_BOOTTIME"):

    def clock() -> float:
        """Return seconds, suspended time included; the worker measures its lease with the same clock."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
elif sys.platform == "darwin":

    def clock() -> float:
        """Return seconds, suspended time included; the worker measures its lease with the same clock."""
        return time.clock_gettime(time.CLOCK_MONOTONIC)


class Away(Exception):
    """The database cannot be reached, or it refused."""


class Link:
    """One connection to Postgres through libpq; it reconnects when it has to."""

    def __init__(self, library: str, parameters: dict[str, str], setup: str) -> None:
        self._pq = pq = ctypes.CDLL(library)
        for name in ("PQconnectdbParams", "PQexec", "PQexecParams"):
            getattr(pq, name).restype = ctypes.c_void_p
        for name in ("PQerrorMessage", "PQgetvalue", "PQresultErrorMessage"):
            getattr(pq, name).restype = ctypes.c_char_p
        for name in ("PQfinish", "PQclear"):
            getattr(pq, name).restype = None
        self._parameters, self._setup = parameters, setup
        self._connection: ctypes.c_void_p | None = None

    def query(self, text: str, values: list[str]) -> list[str]:
        """Run one statement."""
        if self._connection is None:
            self._connect()
        array = (ctypes.c_char_p * len(values))(*[value.encode() for value in values])
        result = self._pq.PQexecParams(self._connection, text.encode(), len(values), None, array, None, None, 0)
        return self._first_row(result)

    def _connect(self) -> None:
        names = [*(name.encode() for name in self._parameters), None]
        values = [*(value.encode() for value in self._parameters.values()), None]
        array = ctypes.c_char_p * len(names)
        connection = self._pq.PQconnectdbParams(array(*names), array(*values), 0)
        self._connection = ctypes.c_void_p(connection)
        if self._pq.PQstatus(self._connection) != 0:
            self._fail()
        self._first_row(self._pq.PQexec(self._connection, self._setup.encode()))

    def _first_row(self, result: int | None) -> list[str]:
        pointer = ctypes.c_void_p(result)
        try:
            if self._pq.PQresultStatus(pointer) not in (_COMMAND_OK, _TUPLES_OK):
                self._fail()
            if self._pq.PQntuples(pointer) < 1:
                return []
            return [self._pq.PQgetvalue(pointer, 0, at).decode() for at in range(self._pq.PQnfields(pointer))]
        finally:
            self._pq.PQclear(pointer)

    def _fail(self) -> None:
        why = self._pq.PQerrorMessage(self._connection).decode(errors="replace")
        self._pq.PQfinish(self._connection)
        self._connection = None
        raise Away(" ".join(why.split()))


class Vitals:
    """Signs of life of a process, as the system sees them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks = float(os.sysconf("SC_CLK_TCK"))
        self._proc = os.path.exists(f"/proc/{pid}/stat")

    def is_stopped(self) -> bool:
        """Return True if a signal or a debugger stopped the process, or if it is gone."""
        state = self._stat(f"/proc/{self._pid}/stat")[0] if self._proc else self._ps()[0]
        return state[:1] in "TtZX"

    def used(self) -> dict[int, float]:
        """Return the processor time of each thread in seconds; of the whole process where threads are not visible."""
        if not self._proc:
            return {self._pid: self._ps()[1]}
        seconds = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{self._pid}/task"):
                fields = self._stat(f"/proc/{self._pid}/task/{name}/stat")
                if len(fields) > 12:
                    seconds[int(name)] = (int(fields[11]) + int(fields[12])) / self._ticks
        return seconds

    def _stat(self, path: str) -> list[str]:
        try:
            with open(path) as file:
                return file.read().rpartition(")")[2].split()
        except OSError:
            return ["X"]

    def _ps(self) -> tuple[str, float]:
        run = subprocess.run(
            ["ps", "-o", "stat=,time=", "-p", str(self._pid)], capture_output=True, text=True, check=False
        )
        state, _, cpu_time = run.stdout.strip().partition(" ")
        seconds = 0.0
        for part in cpu_time.strip().replace("-", ":").split(":"):
            seconds = seconds * 60 + float(part or 0)
        return state or "X", seconds


class Liveness:
    """Judges if a worker is alive: it answers, or it uses processor time for at most `longest_block` seconds."""

    def __init__(self, vitals: Vitals, lease: float, longest_block: float) -> None:
        self._vitals, self._lease, self._longest = vitals, lease, longest_block
        self.answered = self._last_sign = clock()
        self.thread: int | None = None
        self._before: dict[int, float] = {}
        self._measured = 0.0

    def sign(self) -> float:
        """Return when the worker last showed a sign of life."""
        now = clock()
        if self._vitals.is_stopped():
            self._before = {}
        elif now - self.answered <= self._lease * BUSY_AFTER:
            self._last_sign, self._before, self.thread = self.answered, {}, None
        elif self._is_busy(now) and now - self.answered <= self._longest:
            self._last_sign = now
        return max(self._last_sign, self.answered)

    def _is_busy(self, now: float) -> bool:
        used, before = self._vitals.used(), self._before
        elapsed, self._measured, self._before = now - self._measured, now, used
        if not before or not used:
            return False
        busiest = max(used, key=lambda thread: used[thread] - before.get(thread, 0.0))
        if used[busiest] - before.get(busiest, 0.0) < BURNS * elapsed:
            return False
        self.thread = busiest
        return True


def say(line: dict[str, Any]) -> bool:
    """Write a line to the worker; return False if the pipe is full, because the worker is blocked."""
    try:
        os.write(1, json.dumps(line).encode() + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return False
    return True


class Heart:
    """Beats for the worker until the worker ends."""

    def __init__(self, settings: dict[str, Any], worker: int) -> None:
        self._settings, self._worker = settings, worker
        self._began: str = settings["began"]
        self._lease: float = settings["lease"]
        self._liveness = Liveness(Vitals(worker), self._lease, settings["longest_block"])
        self._link = Link(settings["library"], settings["parameters"], settings["setup"])
        self._beaten = -1.0
        self._unreported: dict[str, Any] = {}  # fields that the worker has not received yet
        self._failing_since: float | None = None
        self._is_over = threading.Event()
        self._was_dismissed = False

    def run(self) -> None:
        """Beat until the worker has ended or dismisses this process; mark a worker that died as dead."""
        threading.Thread(target=self._listen, daemon=True).start()
        while not self._is_over.is_set():
            self._round()
            self._is_over.wait(self._lease / STEPS / 2)
        if not self._was_dismissed:
            with contextlib.suppress(Away):
                self._link.query(self._settings["farewell"], self._settings["farewell_values"])

    def _round(self) -> None:
        """Write a heartbeat if the worker has shown a new sign of life since the last one."""
        now = clock()
        sign = self._liveness.sign()
        if sign <= self._beaten or now - self._beaten < 0.9 * self._lease / STEPS:
            return
        try:
            [began] = self._link.query(self._settings["beat"], self._settings["beat_values"])
        except Away as error:
            self._failing_since = self._failing_since or now
            say({"error": str(error)})
            return
        # The worker's row is new if others have given it up. It has not died if the database was away at that time.
        away = clock() - self._failing_since if self._failing_since is not None else 0.0
        self._beaten, self._failing_since = now, None
        self._unreported |= {"away": away} if began != self._began else {}
        self._began = began
        self._unreported |= {"thread": self._liveness.thread} if self._liveness.thread is not None else {}
        if say({"beat": now, "began": began, **self._unreported}):
            self._unreported = {}

    def _listen(self) -> None:
        """Read the answers of the worker, and notice its end: of the process, or of its standard output to this one."""
        poll = select.poll()
        poll.register(0, select.POLLIN | select.POLLHUP)
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                poll.register(os.pidfd_open(self._worker), select.POLLIN)
        while not self._was_dismissed:
            ready = [descriptor for descriptor, _ in poll.poll(1000)]
            if 0 in ready and (data := os.read(0, 4096)):
                self._liveness.answered = clock()
                self._was_dismissed = b"q" in data
            elif ready or os.getppid() != self._worker:
                break
        self._is_over.set()
        time.sleep(FAREWELL)
        os._exit(0)  # the other thread may wait in libpq for a server that does not answer


def main() -> None:
    """Read the settings and beat until the worker ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the worker may have runs to finish, and this process ends with it
    worker = int(sys.argv[1])
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    os.set_blocking(1, False)
    try:
        Heart(json.loads(line), worker).run()
    except Exception as error:  # noqa: BLE001 - the worker logs it; this process has no log
        say({"fatal": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
