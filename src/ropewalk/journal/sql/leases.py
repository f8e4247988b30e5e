"""The owners of runs: which process owns a run, and whether it is alive.

On this host a dead owner is recognized at once: its pid is gone, or belongs to a process with another start time, or
the machine has booted since. For an owner on another host or in another container only the lease decides. Clocks of
different hosts may differ, so `SqlStore.open` also watches whether the heartbeat changes.

`boottime` is the clock of leases. It is monotonic and runs while the machine is suspended: a laptop that sleeps for an
hour must wake up without its leases. `time.monotonic` stops during the sleep on Linux and macOS, so a lease measured
with it would look fresh.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, Literal

import orjson

from ...errors import Action, StoreError
from ...fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The identity of a process."""

    # The name of its host.
    host: str
    # The id of the host's boot; "" if the system has none.
    boot: str
    # The pid namespace; "" if the system has none.
    space: str
    pid: int
    # The start time in a unit of the system. It differs for a later process with the same pid.
    started: str

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid})"

    def dump(self) -> str:
        return orjson.dumps(self).decode()  # directly: every run writes it, and `asdict` copies each field

    @staticmethod
    def load(text: str, run: str = "a run") -> Owner:
        """Read an owner as `dump` writes it."""
        try:
            return Owner(**orjson.loads(text))
        except (orjson.JSONDecodeError, TypeError) as error:
            damage = StoreError(f"{run}: its owner {text[:80]!r} is damaged ({error})")
            raise damage.with_remedy(Action.EXAMINE_STORE) from error


def this_process() -> Owner:
    """Return the identity of this process, as other processes see it."""
    return _owner_of_pid(os.getpid())  # cached by pid, because a forked child is another owner


@functools.lru_cache(maxsize=4)
def _owner_of_pid(pid: int) -> Owner:
    return Owner(
        host=socket.gethostname(), boot=_boot_id(), space=_pid_namespace(), pid=pid, started=start_time_of(pid) or ""
    )


def owner_state(owner: Owner | None) -> Literal["live", "dead", "unknown"]:
    """Return whether the owner of a run lives; "unknown" if only its lease decides."""
    if owner is None:
        return "dead"
    own = this_process()
    if (owner.host, owner.boot, owner.space) == (own.host, own.boot, own.space):
        now = start_time_of(owner.pid)
        return "dead" if now is None or now != owner.started else "live"
    if owner.host == own.host and owner.boot and own.boot and owner.boot != own.boot:
        return "dead"  # the machine has booted since
    return "unknown"


def stored_owner_state(text: str | None) -> Literal["live", "dead", "unknown"]:
    """Return whether a stored owner lives; "unknown" if only its lease decides, also for a damaged owner."""
    try:
        return owner_state(Owner.load(text) if text else None)
    except StoreError:
        return "unknown"


def start_time_of(pid: int) -> str | None:
    """Return when a process started, in a unit of the system; None if it is not running."""

    # A zombie is not running: it will never write again, and its parent may never reap it.
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            stat = file.read()
    except FileNotFoundError:
        return None if os.path.exists("/proc/self/stat") else _start_time_from_ps(pid)
    except ProcessLookupError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name of the program comes before and may contain anything
    return None if fields[0] in "ZX" else fields[19]


def _start_time_from_ps(pid: int) -> str | None:
    """Return when a process started, on systems without /proc; None if it is not running."""
    run = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, since = run.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else since.strip()


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _choose_clock() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)  # counts sleep there, unlike time.monotonic
    return time.monotonic


boottime: Final = _choose_clock()
"""Return seconds since the machine booted, suspended time included."""
