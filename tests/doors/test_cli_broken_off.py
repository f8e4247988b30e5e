"""Tools that end what runs them: told in a line, and the run goes on afterwards."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patience import BOUND

TOOLS = '''
import asyncio, sys
from pathlib import Path
from typing import Any
from ropewalk import tool

def end(how: str) -> None:
    if how == "stop":
        asyncio.get_running_loop().stop()
    elif how == "exit":
        asyncio.get_running_loop().create_task(leave())
    elif how == "cancel":
        asyncio.current_task().cancel()

async def leave() -> None:
    sys.exit(3)

@tool
async def first() -> str:
    with Path("calls").open("a") as file:
        file.write("first ")
    return "done"

@tool
async def ends(how: str) -> str:
    """The first time only."""
    if not Path("ended").exists():
        Path("ended").touch()
        print("begun")
        end(how)
        await asyncio.sleep(30)
    return "went on"
'''
CHAIN = (
    "kind: chain\nname: e\nnodes:\n- {id: a, type: tool, tool: first}\n"
    "- {id: b, type: tool, tool: ends, params: {how: $input}}\n"
)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("stop", "stopped the event loop"),
        ("exit", "raised SystemExit: 3 in a task of its own, which ends the event loop"),
        ("cancel", "cancelled the task that called it"),
    ],
)
def test_a_tool_that_ends_the_loop_or_its_task_is_told_and_the_run_goes_on_afterwards(
    project: Any, how: str, said: str
) -> None:
    (project.home / "ending.py").write_text(TOOLS)
    (project.home / "ropewalk.toml").write_text('[tools]\nmodules = ["ending"]\n')
    (project.home / "e.yaml").write_text(CHAIN)
    done = project("run", "e.yaml", "--id", "r", "--json", "--input", f'"{how}"')
    line = f"a tool has {said}; run r was interrupted: `ropewalk resume r` resumes it"
    assert (done.code, done.data["error"]["message"], done.data["runId"]) == (1, line, "r")
    assert f"error: {line}" in done.err.splitlines()[:2]  # after what the tool prints; asyncio may have more to say
    again = project("resume", "r", "--json")
    assert (again.code, again.data["result"]) == (0, {"a": "done", "b": "went on"})
    assert (project.home / "calls").read_text() == "first "
    if how == "cancel":  # the other ways leave no time for the line
        shown = project("runs", "show", "r").out
        assert re.search(r"^  resumed  1 time, last by .* \(pid \d+\)$", shown, re.MULTILINE), shown
        assert re.search(r"^✓ b .*\n    ran before: it had begun by ", shown, re.MULTILINE), shown


INTERRUPTED_IMPORT = """\
import os, runpy, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

MODULE = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupter())
runpy.run_module("ropewalk", run_name="__main__", alter_sys=False)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "module",
    ["doors.cli.main", "doors.cli.commands", "doors.cli.dispatch", "journal", "doors.cli.run", "app", "app.app"],
)
def test_ctrl_c_during_the_imports_says_that_nothing_has_run(tmp_path: Path, module: str) -> None:
    (tmp_path / "flow.yaml").write_text("nodes: [{id: a, type: tool, tool: t}]\n")
    words = [sys.executable, "-c", INTERRUPTED_IMPORT, f"ropewalk.{module}", "run", "flow.yaml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted; nothing has run\n")
