"""How long `GET /api/runs` takes while others keep the server busy: half-open connections, documents, `unique`."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

TOKEN: Final = "bench"
LONGEST: Final = 1.0  # seconds that an answer may take
MILLIONS: Final = 9_000_000


def wrong_document() -> str:
    """9 MB of YAML with unknown keys, which took hours."""
    line = "key{}: 1\n"
    text = "kind: chain\nnodes: [{id: a, type: tool, tool: x}]\n"
    return text + "".join(line.format(i) for i in range(MILLIONS // 14))


def colliding() -> list[dict[str, int]]:
    """2 MB of objects of -1 and -2, whose `unique` took two minutes."""
    return [dict(zip("abcdefghijklmn", row, strict=True)) for row in itertools.product((-1, -2), repeat=14)]


class Server:
    """A `ropewalk serve` of its own."""

    def __init__(self, folder: str) -> None:
        Path(folder, "ropewalk.toml").write_text("")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ropewalk", "serve", "--port", "0"],
            cwd=folder, env={**os.environ, "ROPEWALK_TOKEN": TOKEN}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition("/?")[0].rpartition(":")[2])

    def ask(self, path: str, body: Any = None) -> int:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.read()
            return error.code

    def delay(self, meanwhile: Callable[[], object]) -> tuple[float, float]:
        """The longest time of `GET /api/runs` during some other work, and how long that work took."""
        work = threading.Thread(target=meanwhile)
        began, longest = time.monotonic(), 0.0
        work.start()
        while work.is_alive():
            before = time.monotonic()
            assert self.ask("/api/runs") == 200
            longest = max(longest, time.monotonic() - before)
            time.sleep(0.02)
        return longest, time.monotonic() - began


def half_open(port: int) -> list[socket.socket]:
    """Four hundred requests that stop in their head."""
    found = []
    for _ in range(400):
        one = socket.create_connection(("127.0.0.1", port), timeout=10)
        one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: ")
        found.append(one)
    return found


def measure_delay() -> int:
    """Print the delays; 1 where an answer took too long."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            unique = "${unique(input.l).length()}"
            node = {"id": "u", "type": "delay", "delay": unique}
            run = {"document": {"kind": "chain", "nodes": [node]}, "input": {"l": colliding()}, "wait": 60}
            document, connections = wrong_document(), half_open(server.port)
            cases: dict[str, Callable[[], object]] = {
                "nothing else": lambda: time.sleep(1),
                "400 half-open connections": lambda: time.sleep(1),
                "a 9 MB wrong document": lambda: server.ask("/api/validate", {"document": document}),
                "a 2 MB unique": lambda: server.ask("/api/runs", run),
            }
            late = False
            for name, meanwhile in cases.items():
                longest, lasted = server.delay(meanwhile)
                late |= longest > LONGEST
                print(f"{name:28} lasted {lasted:6.2f} s, GET /api/runs at most {longest * 1e3:7.1f} ms", flush=True)
            for one in connections:
                one.close()
            return 1 if late else 0
        finally:
            server.process.terminate()
            server.process.wait(30)
