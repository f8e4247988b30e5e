"""A network of its own for each host: network namespaces that are joined by a bridge, and can be cut off from it.

Nothing of the machine's own network is touched: the bridge is in a namespace, too. Needs root and `ip`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count

BASE = "10.231.7"
_CLONE_NEWUTS, _CLONE_NEWNET = 0x04000000, 0x40000000
_numbers = count()


class NoNetwork(Exception):
    """None can be made here; says why."""


class Network:
    """`hub` is the host of the database; `hosts` the others, each with a cable to it."""

    def __init__(self, hosts: int) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise NoNetwork("network namespaces need root and the command ip")
        name = f"rw{os.getpid()}x{next(_numbers)}"
        self.hub, self.address = f"{name}-hub", f"{BASE}.1"
        self.hosts = [f"{name}-h{number}" for number in range(hosts)]
        try:
            for one in (self.hub, *self.hosts):
                _ip("netns", "add", one)
                _ip("-n", one, "link", "set", "lo", "up")
            _ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self.hub, "addr", "add", f"{self.address}/24", "dev", "bridge")
            _ip("-n", self.hub, "link", "set", "bridge", "up")
            for number, one in enumerate(self.hosts):
                cable = f"cable{number}"
                _ip("-n", self.hub, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", one)
                _ip("-n", self.hub, "link", "set", cable, "master", "bridge", "up")
                _ip("-n", one, "addr", "add", f"{BASE}.{number + 2}/24", "dev", "eth0")
                _ip("-n", one, "link", "set", "eth0", "up")
        except BaseException:
            self.close()
            raise

    def cut(self, host: str) -> None:
        self._cable(host, "down")

    def mend(self, host: str) -> None:
        self._cable(host, "up")

    def close(self) -> None:
        for one in (self.hub, *self.hosts):
            with contextlib.suppress(NoNetwork):
                _ip("netns", "del", one)

    def _cable(self, host: str, how: str) -> None:
        _ip("-n", self.hub, "link", "set", f"cable{self.hosts.index(host)}", how)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What this thread starts is in that namespace."""
    with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{namespace}") as there:
        _call("setns", there.fileno(), _CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", home.fileno(), _CLONE_NEWNET)


def named(host: str) -> Callable[[], None]:
    """To be called in a child before it becomes what it is to be: it takes its host to be that one."""
    name = host.encode()

    def become() -> None:
        _call("unshare", _CLONE_NEWUTS)
        _call("sethostname", name, len(name))

    return become


def _call(function: str, *words: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*words):
        raise OSError(ctypes.get_errno(), function)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNetwork(f"ip {' '.join(words)}: {done.stderr.strip()}")
