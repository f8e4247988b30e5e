"""A project on disk, and the real `ropewalk serve` over it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

import fork_server

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOKEN = "only-for-tests"
TOOLS = '''
import asyncio
import sys
from pathlib import Path
from ropewalk import tool

@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b

@tool
async def wait_for(name: str) -> str:
    """Waits until a file is there."""
    print(f"waiting for {name}")
    try:
        while not Path(name).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        Path(name + ".cancelled").touch()
        raise
    return "there"

@tool
def count_aloud(to: int) -> int:
    """Count."""
    for n in range(to):
        print("line", n + 1)
    print("counted to", to, file=sys.stderr)
    return to

@tool
def fail() -> str:
    """Fails."""
    raise RuntimeError("no luck")

@tool
def need(name: str) -> str:
    """Fails as long as a file is not there."""
    if not Path(name).exists():
        raise RuntimeError(f"{name} is not there")
    return "found"

@tool
def misfit(name: str) -> dict:
    """Adds to a file, and gives something else than it says."""
    with open(name, "a") as file:
        file.write("x")
    return f"made {name}"

@tool
def echo(value: str) -> str:
    """Gives back what it gets."""
    return value
'''


@dataclass
class Served:
    """A server, and a client that shows its token."""

    folder: Path
    url: str
    client: httpx2.Client
    process: subprocess.Popen[str]
    said: str

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def post(self, path: str, data: Any = None, **more: Any) -> Any:
        return self.client.post(path, json=data, **more)


def serve(
    folder: Path, *words: str, settings: str = "", tools: str = TOOLS, command: str = "serve"
) -> Iterator[Served]:
    (folder / "ropewalk.toml").write_text(f'[tools]\nmodules = ["tools"]\n{settings}')
    (folder / "tools.py").write_text(tools)
    env = {**os.environ, "ROPEWALK_TOKEN": TOKEN, "NO_COLOR": "1"}
    process = fork_server.Popen(
        [COMMAND, command, "--port", "0", *words],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: said.put(process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    try:
        line = said.get(timeout=60)
        assert line.startswith("http://"), (line, process.stderr and process.stderr.read())
        url = line.partition("/?token=")[0]
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
            yield Served(folder, url, client, process, line)
    finally:
        process.terminate()
        process.communicate(timeout=300)
