"""The sandbox: a child gives up descriptors, files, memory and its environment before it reads a message.

The child keeps what an interpreter needs: processor time, some memory, and the connection to its parent. Limits of time
are not here, because the parent measures and kills. Refused here: hiding parts of the kernel (containers, seccomp).
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_NO_NEW_PRIVS: Final = 38
_IS_LINUX: Final = sys.platform == "linux"
_libc: Any = ctypes.CDLL(None, use_errno=True)


def enter(descriptor: int, memory: int, parent: int) -> None:
    """Give up everything but one descriptor."""
    if _IS_LINUX:
        # The kernel kills the child with its parent, even while a C function holds the interpreter.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        _prefer_when_memory_is_short()
    if os.getppid() != parent:
        os._exit(1)
    os.environ.clear()
    os.chdir("/")
    _close_all_but(descriptor)
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
        resource.setrlimit(limit, (0, 0))  # no core dump, no written byte, no process, no descriptor
    if _IS_LINUX:
        most = _address_space + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    gc.enable()


def _prefer_when_memory_is_short() -> None:
    """Let the kernel end this process before any other when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # some containers refuse it; the limit of address space remains


def _close_all_but(descriptor: int) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(0, descriptor)
    os.closerange(descriptor + 1, max(most if most != resource.RLIM_INFINITY else 0, 65_536))
    sys.stdin = sys.stdout = sys.stderr = None


def _measure_address_space() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30


_address_space = _measure_address_space()


def measure() -> None:
    """Remember the address space of this process, to which children may add their memory."""
    global _address_space
    _address_space = _measure_address_space()
