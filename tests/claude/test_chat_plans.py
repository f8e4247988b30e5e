"""`ropewalk chat --plans`: the model writes a program, and a person at the terminal approves its call."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from .terminal import Terminal
from .wire import StandIn, calls

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOOLS = '''
from pathlib import Path
from ropewalk import tool

@tool(annotations={"destructiveHint": True})
def drop(name: str) -> str:
    """Drop a table."""
    with Path("dropped").open("a") as file:
        file.write(name + "\\n")
    return name
'''
CODE = """
try:
    first = await drop(name="old")
except Rejected as error:
    first = str(error)
return [first, await drop(name="new")]
"""
pytestmark = [pytest.mark.node, pytest.mark.process]


def test_a_person_approves_the_calls_of_a_program(api: StandIn, tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text(
        f"[tools]\nmodules = ['rw_chat_plans']\n[store]\nurl = 'runs.db'\n[claude]\nbase_url = '{api.url}'\n"
    )
    (tmp_path / "rw_chat_plans.py").write_text(TOOLS)
    api.answer(calls(("run_plan", {"code": CODE})), {"content": "Done."})
    at = Terminal([COMMAND, "chat", "--plans"], tmp_path, {**os.environ, "ANTHROPIC_API_KEY": "no-key"})
    at.until("> ")
    at.type("drop the tables\n")
    at.until('Call drop with {"name": "old"}?')
    at.until("why not: ")
    at.type("still used\n")
    at.until('Call drop with {"name": "new"}?')
    at.until("why not: ")
    at.type("y\n")
    at.until("tokens")
    at.until("> ")
    at.type("\x04")
    assert at.ended() == 0, at.shown
    assert (tmp_path / "dropped").read_text() == "new\n"
    offered = [definition["name"] for definition in api.bodies[0]["tools"]]
    assert offered == ["find_tools", "check_plan", "run_plan", "resume_run", "save_plan"]
    told = str(api.bodies[1]["messages"][-1]["content"])
    assert "still used" in told
    assert "new" in told
