"""A project on disk, and the real `ropewalk` command run in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fork_server

COMMAND = str(Path(sys.executable).with_name("ropewalk"))

TOOLS = '''
import asyncio, os, sys, time
from pathlib import Path
from ropewalk.tools.tool import tool

print("tools imported")

@tool
def upper(text: str) -> str:
    """Make it upper case."""
    print("noise on stdout")
    os.system("echo noise of a child")
    return text.upper()

@tool
def fail(why: str = "no luck") -> str:
    """Always fails."""
    raise RuntimeError(why)

@tool
async def hang(seconds: float = 60) -> str:
    """Waits, and says when it has begun and how it ended."""
    Path("hanging").write_text(str(os.getpid()))
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        Path("cancelled").touch()
        raise
    return "rested"

@tool
async def spin(stubborn: bool = False) -> str:
    """Never gives the event loop back."""
    Path("spinning").touch()
    while True:
        try:
            while True:
                pass
        except BaseException:
            if not stubborn:
                raise

@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b
'''

CHAIN = """\
kind: chain
name: shout
inputSchema:
  type: object
  properties: {text: {type: string}}
variables: {suffix: "!"}
nodes:
  - id: up
    type: tool
    tool: upper
    params: {text: "${ $input.text }${ $var.suffix }"}
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A directory with a ropewalk.toml; calling it runs the command there."""

    home: Path

    def __call__(self, *words: str, input: str | None = None, cwd: Path | None = None, **env: str) -> Done:
        done = fork_server.run(
            [COMMAND, *words],
            cwd=cwd or self.home,
            env=self.env(env),
            input=input,
            capture_output=True,
            timeout=300,
            encoding="utf-8",
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def env(self, more: dict[str, str] | None = None) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ROPEWALK_", "COLUMNS", "LINES"))}
        return {**kept, "TERM": "xterm-256color", **(more or {})}

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("ropewalk.toml", "[tools]\nmodules = ['rw_cli_tools']\n[store]\nurl = 'runs.db'\n")
    made.write("rw_cli_tools.py", TOOLS)
    made.write("shout.yaml", CHAIN)
    return made


@pytest.fixture
def started(project: Project) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command and go on; what is still alive at the end is killed."""
    alive: list[subprocess.Popen[str]] = []

    def start(*words: str, cwd: Path = project.home) -> subprocess.Popen[str]:
        child = fork_server.Popen(
            [COMMAND, *words],
            cwd=cwd,
            env=project.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        alive.append(child)
        return child

    yield start
    for child in alive:
        if child.poll() is None:
            child.kill()
        child.communicate()
