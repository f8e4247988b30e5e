"""The end of what a server printed: the exception and the user's own frames, whatever surrounds them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import ToolError
from ropewalk.tools.printed_end import printed_end
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

SERVER = """\
import os, sys
from contextlib import asynccontextmanager
from mcp.server.mcpserver import MCPServer

@asynccontextmanager
async def lifespan(server):
    if "lifespan" in sys.argv:
        connect()
    yield {}

def connect():
    raise RuntimeError("database is locked")

mcp = MCPServer("own", lifespan=lifespan)

@mcp.tool()
def look_up(key: str) -> str:
    if key == "exit":
        print("cannot open the index", file=sys.stderr, flush=True)
        os._exit(3)
    return {}[key]

if "import" in sys.argv:
    connect()
mcp.run()
"""


def python_server(folder: Path, *args: str) -> Toolbox:
    (folder / "own.py").write_text(SERVER)
    return Toolbox(mcp={"own": {"command": sys.executable, "args": ["own.py", *args], "cwd": str(folder)}})


def failure_of(toolbox: Toolbox, key: str) -> ToolError:
    async def case() -> Any:
        async with toolbox:
            await Runner(toolbox).run("own:look_up", {"key": key})

    with pytest.raises(ToolError) as caught:
        asyncio.run(case())
    return caught.value


@pytest.mark.process
@pytest.mark.parametrize("start", ["import", "lifespan"])
def test_a_python_server_that_fails_at_its_start_shows_the_exception_and_its_own_frame(
    tmp_path: Path, start: str
) -> None:
    lines = str(failure_of(python_server(tmp_path, start), "x")).splitlines()
    text = "\n".join(line.lstrip(" |") for line in lines)
    assert 'line 12, in connect\nraise RuntimeError("database is locked")\nRuntimeError: database is locked' in text
    assert len(text) < 2_000


@pytest.mark.process
def test_a_python_server_that_fails_in_a_tool_shows_the_exception_and_its_own_frame(tmp_path: Path) -> None:
    error = failure_of(python_server(tmp_path), "missing")
    stack = error.__cause__.__dict__["trace"].text  # of an error result: it has what the server has printed
    assert f"File \"{tmp_path}/own.py\", line 21, in look_up\n    return {{}}[key]\nKeyError: 'missing'" in stack
    assert "frames of libraries" in stack
    assert "│" not in stack


@pytest.mark.process
def test_a_python_server_that_exits_in_a_tool_shows_its_code(tmp_path: Path) -> None:
    message = str(failure_of(python_server(tmp_path), "exit"))
    assert message.endswith("exited with code 3; its stderr ends with:\ncannot open the index")


@pytest.mark.process
def test_a_javascript_error_keeps_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "own.mjs").write_text(
        f"// {'x' * 300}\nfunction connect () {{ throw new Error('no database') }}\nconnect()"
    )
    printed = subprocess.run(["node", "own.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    text = printed_end(printed, 400)
    assert "Error: no database\n    at connect (" in text
    assert "    … 2 frames of libraries\n" in text


def test_a_text_that_fits_stays_as_it_is() -> None:
    text = 'Traceback (most recent call last):\n  File "/lib/python3.12/json.py", line 1, in a\n    b()\nValueError: x'
    assert printed_end(text, 200) == text


def test_a_traceback_that_only_libraries_have_keeps_its_last_frame() -> None:
    frames = "".join(f'  File "/v/site-packages/a.py", line {n}, in f\n    g(n)\n    ^^^^\n' for n in range(20))
    assert printed_end(f"start\n{frames}ValueError: x\nbye", 300) == (
        "start\n  … 19 frames of libraries\n"
        '  File "/v/site-packages/a.py", line 19, in f\n    g(n)\n    ^^^^\nValueError: x\nbye'
    )


def test_what_is_still_too_long_loses_its_beginning() -> None:
    assert printed_end("\n".join(f"line {n}" for n in range(1_000)), 18) == "…\nline 998\nline 999"
    assert printed_end("x" * 50, 10) == f"…{'x' * 10}"
