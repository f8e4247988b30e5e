"""The child behind a server: which program is started, and what it gets of ours."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from .mcp_lab import SERVERS, inheritable, python, said, servers

PYTHON = sys.executable


def script(path: Path, answer: str) -> Path:
    """A server program in a folder: rude.py, whose tool says its manner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\nexec "{PYTHON}" "{SERVERS / "rude.py"}" "{answer}"\n')
    path.chmod(0o755)
    return path


async def told(**config: Any) -> str:
    async with servers(one={"mode": "legacy", **config}) as mcp:
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


def test_children_get_only_the_allow_list_and_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "must-not-leak")
    monkeypatch.setenv("ODD_PLACE", "is-given")
    monkeypatch.setenv("TERM", "() { :; }; echo a function, not a terminal")

    async def case() -> None:
        config = python(
            "mortal.py",
            env={"PLACE": "${ODD_PLACE}", "TOKEN": "${ANTHROPIC_API_KEY}", "MODE": "${NOT_SET_HERE:-plain}"},
        )
        async with servers(bare=python("mortal.py"), odd=config) as mcp:
            bare = (await mcp.call_tool("bare", "environment")).structured_content
            allowed = {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
            assert set(bare) <= allowed
            assert "must-not-leak" not in str(bare)
            told = (await mcp.call_tool("odd", "environment")).structured_content
            assert (told["PLACE"], told["TOKEN"], told["MODE"]) == ("is-given", "***", "plain")

    asyncio.run(case())


def test_children_get_no_descriptor_of_ours() -> None:
    async def case() -> None:
        with inheritable() as leaked:
            async with servers(odd=python("mortal.py")) as mcp:
                assert leaked not in json.loads(said(await mcp.call_tool("odd", "descriptors")))

    asyncio.run(case())


def test_arguments_are_never_read_by_a_shell(tmp_path: Any) -> None:
    trap = tmp_path / "trap"

    async def case() -> None:
        shady = [f"; touch {trap}", f"$(touch {trap})", f"`touch {trap}`", f"| touch {trap}", f"&& touch {trap}"]
        async with servers(odd=python("rude.py", "plain", *shady), bad={"command": f"true; touch {trap}"}) as mcp:
            assert said(await mcp.call_tool("odd", "echo")) == "plain"
            with pytest.raises(ConnectionError, match="no program"):
                await mcp.connect("bad")

    asyncio.run(case())
    assert not trap.exists()
