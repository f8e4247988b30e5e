"""A project served by the real `ropewalk mcp`, and clients that talk to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk.tools.mcp.servers import McpServers

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
ERAS = ["legacy", "2026-07-28"]
CONFIG = """\
[tools]
modules = ["mcp_door_tools"]
[store]
url = "runs.db"
[mcp_server]
flows = ["flows"]
"""

TOOLS = '''
import asyncio, os
from pathlib import Path
from ropewalk import tool

print("noise while importing")
os.system("echo noise of a child while importing")

@tool
def upper(text: str) -> str:
    """Make it upper case."""
    print("noise on stdout")
    os.system("echo noise of a child")
    with Path("calls").open("a") as file:
        file.write(text + "\\n")
    return text.upper()

@tool
def fail(why: str = "no luck") -> str:
    """Always fails."""
    raise RuntimeError(why)

@tool
async def hang() -> str:
    """Waits, and notes how it ended."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path("cancelled").touch()
        raise
    return "rested"
'''
SHOUT = """\
kind: composite
name: shout
description: Say it loud.
inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
outputSchema: {type: string}
mode: compose
steps:
  - {name: up, tool: upper, inputMapping: {text: $input.text}}
  - {name: again, tool: upper, inputMapping: {text: $prev}}
"""
BROKEN = "kind: chain\nname: broken\nnodes:\n  - {id: off, type: tool, tool: fail, params: {why: the mill is closed}}\n"
SLOW = "kind: chain\nname: slow one\nnodes:\n  - {id: rest, type: tool, tool: hang, params: {}}\n"
REPORT = """\
kind: chain
name: report
nodes:
  - {id: up, type: tool, tool: upper, params: {text: a}}
  - {id: off, type: tool, tool: fail, params: {}, errorStrategy: continue}
"""


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PYTHONPATH", "XDG_CONFIG_HOME") if os.environ.get(name)}


class Served:
    """A directory with flows in it; `config()` is how an MCP client is told to start the server there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.write("ropewalk.toml", CONFIG)
        self.write("mcp_door_tools.py", TOOLS)
        for name, text in (("shout", SHOUT), ("broken", BROKEN), ("slow", SLOW)):
            self.write(f"flows/{name}.yaml", text)

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def config(self, *words: str, mode: str = "auto", **more: Any) -> dict[str, Any]:
        """For our own client."""
        program = fork_server.program("ropewalk")
        return {"command": program, "args": ["mcp", *words], "cwd": str(self.home), "env": environment()} | {
            "mode": mode,
            **more,
        }

    def client(self, *words: str, mode: str = "auto") -> McpServers:
        """Our own client, with this as the server `here`."""
        servers = McpServers()
        servers.add("here", self.config(*words, mode=mode))
        return servers


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)
