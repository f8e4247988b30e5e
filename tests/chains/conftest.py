"""An app on each store, and processes of their own that are never left behind."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store, one test for each kind."""
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of a store that outlives its process."""
    return f"sqlite:///{tmp_path}/store.db"


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run the body of a test."""
    asyncio.run(test)


def line(process: subprocess.Popen[str]) -> str:
    """The next thing a child says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
