"""The real n8n-mcp over stdio; every process that it was says its id in a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.n8n.node_tools import ENVIRONMENT, SERVER
from ropewalk.testing import ScriptedModel
from tools.mcp_lab import node_script

# What is replaced by `exec` keeps its id.
_TOLD = 'test -e "$0.gone" && exit 3; echo $$ >> "$0"; exec node "$1"'


class Lab:
    def __init__(self, home: Path, script: str) -> None:
        self.home, self.script, self.pids = home, script, home / "pids"

    @property
    def config(self) -> dict[str, Any]:
        return {"command": "sh", "args": ["-c", _TOLD, str(self.pids), self.script], "env": dict(ENVIRONMENT)}

    def app(self, *turns: Any, store: Any = "memory", server: bool = True) -> App:
        app = App(store, model=ScriptedModel(*turns))
        app.context.project = str(self.home)
        if server:
            app.toolbox.add_mcp(SERVER, self.config)
        return app

    @property
    def started(self) -> list[int]:
        return [int(line) for line in self.pids.read_text().split()]

    def kill(self, *, for_good: bool = False) -> None:
        if for_good:
            self.pids.with_name(f"{self.pids.name}.gone").touch()
        os.kill(self.started[-1], signal.SIGKILL)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.delenv("MCP_SERVER_URL", raising=False)
    return Lab(tmp_path, node_script("n8n-mcp", "", "dist/mcp/stdio-wrapper.js"))


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., App]:
    """An app where there is no n8n-mcp at all."""
    monkeypatch.delenv("MCP_SERVER_URL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return lambda *turns, **more: Lab(tmp_path, "").app(*turns, server=False, **more)
