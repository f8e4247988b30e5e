"""Which program is started for a server's command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ropewalk.tools.mcp import McpServers

from .mcp_lab import SERVERS, said

PYTHON = sys.executable


def script(path: Path, answer: str) -> Path:
    """A server program in a folder: rude.py, whose tool says its manner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec "{PYTHON}" "{SERVERS / "rude.py"}" "{answer}"\n')
    path.chmod(0o755)
    return path


async def told(**config: Any) -> str:
    async with McpServers() as mcp:
        mcp.add("one", {"mode": "legacy", **config})
        return said(await mcp.call_tool("one", "echo"))


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment that is used without being activated."""
    python = tmp_path / "venv" / "bin" / "python"
    script(python.with_name("made-up-server"), "beside")
    monkeypatch.setattr(sys, "executable", str(python))
    return python.parent


def test_program_beside_our_python_is_found_without_being_on_the_path(venv: Path) -> None:
    assert asyncio.run(told(command="made-up-server")) == "beside"


def test_the_path_comes_first_and_it_is_that_of_the_child(venv: Path, tmp_path: Path) -> None:
    other = script(tmp_path / "other" / "made-up-server", "path").parent
    path = f"{other}{os.pathsep}{os.environ['PATH']}"
    assert asyncio.run(told(command="made-up-server", env={"PATH": path})) == "path"


def test_what_is_beside_and_no_program_is_not_started(venv: Path) -> None:
    (venv / "notes").write_text("not a program")
    with pytest.raises(ConnectionError, match="no program 'notes' on the PATH"):
        asyncio.run(told(command="notes"))
