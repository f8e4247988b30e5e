"""Who owns a run, and whether that process is still alive.

On this host a dead owner is known at once: its pid is gone, or belongs to a process that
started at another time, or the machine has booted since. Of an owner elsewhere (another host, another container)
only the lease can tell; clocks are not trusted with that alone, see `SqlStore.open`.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import orjson

from ..errors import StoreError
from ..frozen import dataclass
from .blobs import ASK


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, told apart from every other one: `boot` and `space` (the pid namespace) say
    what its `pid` is counted in, `started` tells it from a later process with the same pid."""

    host: str
    boot: str
    space: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host} (pid {self.pid})"

    def dump(self) -> str:
        return orjson.dumps(asdict(self)).decode()

    @staticmethod
    def load(text: str, run: str = "a run") -> Owner:
        """Raises StoreError for what is none: it names the run."""
        try:
            return Owner(**orjson.loads(text))
        except (orjson.JSONDecodeError, TypeError) as error:
            raise StoreError(f"{run}: its owner {text[:80]!r} is damaged ({error}){ASK}") from error


def me() -> Owner:
    """This process, as other processes will see it."""
    return _me(os.getpid())  # By pid: a forked child is somebody else.


@functools.lru_cache(maxsize=4)
def _me(pid: int) -> Owner:
    return Owner(host=socket.gethostname(), boot=_boot(), space=_space(), pid=pid, started=started(pid) or "")


def judge(owner: Owner | None) -> Literal["live", "dead", "unknown"]:
    """Whether the owner of a run lives; "unknown" when only its lease can tell."""
    if owner is None:
        return "dead"
    here = me()
    if (owner.host, owner.boot, owner.space) == (here.host, here.boot, here.space):
        now = started(owner.pid)
        return "dead" if now is None or now != owner.started else "live"
    if owner.host == here.host and owner.boot and here.boot and owner.boot != here.boot:
        return "dead"  # The machine has been started anew since.
    return "unknown"


def judge_text(text: str | None) -> Literal["live", "dead", "unknown"]:
    """The same of an owner as it is stored. Of one that cannot be read only the lease can tell."""
    try:
        return judge(Owner.load(text) if text else None)
    except StoreError:
        return "unknown"


def started(pid: int) -> str | None:
    """When the process started, in whatever unit the system counts; None when it is not running.

    A zombie is not running: it will never write again, and its parent may never reap it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _started_elsewhere(pid)
    except ProcessLookupError:
        return None
    fields = stat.rpartition(")")[2].split()  # The name before it may hold anything.
    return None if fields[0] in "ZX" else fields[19]


def _started_elsewhere(pid: int) -> str | None:
    """The same for systems without /proc."""
    run = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, since = run.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else since.strip()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
