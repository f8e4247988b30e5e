"""How the parent gets a child: the forker forks it, or it is a process of its own where the kernel is not Linux."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Final

_START: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from ropewalk.notations.plan import services
from ropewalk.plans.boundary.forker import {0}
{0}(int(sys.argv[2]), services.SERVICES, services.warm_up)
"""
_CPU_CLOCK: Final = 2  # CPUCLOCK_SCHED: the processor time of all threads
HAS_HELPER: Final = sys.platform == "linux" and hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")
"""Whether children are forked by a forker."""


class Process:
    """A child process, as its parent sees it."""

    def __init__(self, connection: socket.socket, pid: int, handle: int | None, popen: subprocess.Popen[bytes] | None):
        self.connection, self.pid = connection, pid
        self._handle, self._popen = handle, popen
        self._clock = ((~pid) << 3) | _CPU_CLOCK

    def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle is not None:
                # A handle names this process for ever; its id may name another one later.
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            elif self._popen is not None:
                self._popen.kill()

    def is_alive(self) -> bool:
        """Return True unless the process has closed its end of the connection."""
        self.connection.setblocking(False)
        try:
            return self.connection.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """End the process and close everything that leads to it."""
        self.kill()
        self.connection.close()
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)
        if self._popen is not None:
            popen, self._popen = self._popen, None
            popen.wait()

    def forget(self) -> None:
        """Close the copies that a forked process has of another process's child."""
        self.connection.close()
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def cpu_seconds(self) -> float:
        """Return the processor time that the process has taken; 0 where the system does not say."""
        try:
            return time.clock_gettime(self._clock) if HAS_HELPER else 0.0
        except OSError:
            return 0.0

    def memory(self) -> int:
        """Return the bytes of memory that the process has; 0 where the system does not say."""
        try:
            with open(f"/proc/{self.pid}/statm") as file:
                return (int(file.read().split()[1])) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0


class Forks:
    """Makes children."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._forker: subprocess.Popen[bytes] | None = None

    def child(self) -> Process:
        """Return a new child; the first one starts the forker."""
        ours, theirs = socket.socketpair()
        with theirs:
            if not HAS_HELPER:
                popen = _start("run_alone", theirs)
                return Process(ours, popen.pid, None, popen)
            try:
                pid, handle = self._fork(theirs)
            except OSError:
                # The forker died, for example because memory ran out. A new one is as good.
                self.close()
                pid, handle = self._fork(theirs)
        return Process(ours, pid, handle, None)

    def _fork(self, connection: socket.socket) -> tuple[int, int]:
        control = self._control
        if control is None:
            control, theirs = socket.socketpair()
            with theirs:
                self._forker = _start("main", theirs)
            self._control = control
            if control.recv(1) != b"r":
                raise ConnectionError("the forker of the plans did not start")
        socket.send_fds(control, [b"f"], [connection.fileno()])
        answer, descriptors, _, _ = socket.recv_fds(control, 8, 1)
        if len(answer) != 8 or not descriptors:
            raise ConnectionError("the forker of the plans ended")
        return int.from_bytes(answer, "big"), descriptors[0]

    def close(self) -> None:
        """End the forker, and with it its children."""
        if self._control is not None:
            self._control.close()
        if self._forker is not None:
            self._forker.kill()
            self._forker.wait()
        self._control = self._forker = None

    def forget(self) -> None:
        """Close the copies that a forked process has of another process's forker."""
        if self._control is not None:
            self._control.close()
        self._control = self._forker = None


def _start(function: str, connection: socket.socket) -> subprocess.Popen[bytes]:
    """Start an interpreter without an environment that calls a function of `forker.py` with a connection."""
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    command = [sys.executable, "-I", "-S", "-c", _START.format(function), paths, str(connection.fileno())]
    # In a session of its own, so that Ctrl-C reaches the parent alone, which then ends its children.
    return subprocess.Popen(
        command,
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[connection.fileno()],
        start_new_session=True,
    )
