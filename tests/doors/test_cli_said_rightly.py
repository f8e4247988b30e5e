"""What a mistake is called: by what it is, not by what it came through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk import Toolbox, tool, toolchain
from ropewalk.errors import InvalidTool

COMMAND = str(Path(sys.executable).with_name("ropewalk"))


def test_an_unknown_variable_is_not_called_input(project):
    done = project("run", "shout.yaml", "--input", '{"text": "a"}', "--var", "zzz=1")
    assert done.code == 2
    assert "the variables do not fit what the definition declares" in done.err
    assert "input" not in done.err
    done = project("run", "shout.yaml", "--input", '{"text": 1}')
    assert "the input does not fit the input schema that the definition declares" in done.err


def test_the_projects_file_is_no_definition(project):
    done = project("validate", "ropewalk.toml")
    assert done.code == 2
    assert "a project's file, not a definition; `ropewalk doctor` checks it" in done.err


def test_help_that_nobody_reads_to_its_end_is_no_failure(project):
    read, write = os.pipe()
    os.close(read)  # the reader has gone before anything is written
    done = subprocess.run([COMMAND, "mcp", "--help"], cwd=project.home, env=project.env(), stdout=write, timeout=60)
    os.close(write)
    assert done.returncode == 141


class Counter:
    """Counts."""

    def __call__(self, most: int):
        yield from range(most)


def test_a_plain_generator_is_refused_as_a_tool():
    with pytest.raises(InvalidTool, match=r"count is a plain generator.*async def with yield"):

        @tool
        def count(most: int):
            yield from range(most)

    with pytest.raises(InvalidTool, match="plain generator"):
        Toolbox([Counter()])


def test_configure_says_what_it_takes():
    with pytest.raises(TypeError, match=r"configure takes an App, not str: configure\(App\(store='sqlite:///r.db'\)\)"):
        toolchain.configure("sqlite:///r.db")  # type: ignore[arg-type]
