"""An app on each store, and processes of their own that are never left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]
HERE = Path(__file__).parent


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store, one test for each kind."""
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of a store that outlives its process."""
    return f"sqlite:///{tmp_path}/store.db"


def run(test: Coroutine[Any, Any, None], seconds: float = 20) -> None:
    """Run the body of a test; one that hangs fails."""
    asyncio.run(asyncio.wait_for(test, seconds))


@pytest.fixture
def child() -> Iterator[Start]:
    """`child("start", address, ...)` runs child.py with these words."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def line(process: subprocess.Popen[str]) -> str:
    """The next thing a child says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
