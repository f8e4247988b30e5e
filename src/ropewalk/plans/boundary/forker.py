"""The forker: a process with one thread that forks children, so that a child costs milliseconds and not a start.

It imports what children need once, and then waits for requests of its parent: one byte, with the connection of the new
child attached. It never reads a program. When its parent dies, the request connection ends and so does the forker; then
the kernel ends its children. Where the kernel cannot do that, each child is a process of its own (`run_alone`).
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from . import child, sandbox

Services: TypeAlias = Mapping[str, child.Service]
WarmUp: TypeAlias = Callable[[], None]
_MEMORY: Final = 512 << 20
"""Bytes that a child may take beyond what it has at its start."""


def main(descriptor: int, services: Services, warm_up: WarmUp) -> None:
    """Fork children at the requests that come over a connection, until it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    control = socket.socket(fileno=descriptor)
    warm_up()
    sandbox.measure()
    # Frozen objects are not visited by the collectors of the children, so their memory stays shared.
    gc.collect()
    gc.freeze()
    own = os.getpid()
    control.sendall(b"r")
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not request or not descriptors:
            return
        pid = os.fork()
        if pid == 0:
            sandbox.enter(descriptors[0], _MEMORY, own)
            child.serve(socket.socket(fileno=descriptors[0]), services)
            os._exit(0)
        os.close(descriptors[0])
        handle = os.pidfd_open(pid)
        socket.send_fds(control, [pid.to_bytes(8, "big")], [handle])
        os.close(handle)


def run_alone(descriptor: int, services: Services, warm_up: WarmUp) -> None:
    """Be the only child of the process that started this one."""
    warm_up()
    sandbox.measure()
    sandbox.enter(descriptor, _MEMORY, os.getppid())
    child.serve(socket.socket(fileno=descriptor), services)
