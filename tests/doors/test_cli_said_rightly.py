"""What a mistake is called: by what it is, not by what it came through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server
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


def test_help_that_nobody_reads_to_its_end_is_no_failure(project):
    read, write = os.pipe()
    os.close(read)  # the reader has gone before anything is written
    done = fork_server.run([COMMAND, "mcp", "--help"], cwd=project.home, env=project.env(), stdout=write, timeout=300)
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("serve", "--port", "65536"), "cannot listen on 127.0.0.1:65536: "),
        (("serve", "--port", "-1"), "cannot listen on 127.0.0.1:-1: "),
        (("serve", "--port", "0", "--host", "a" * 70), ":0: "),
        (("mcp", "--http", "a" * 70 + ":0"), ":0: "),
        (("serve", "--port", "0", "--host", "\udce9"), ":0: "),
        (("mcp", "--http", "\udce9:0"), ":0: "),
    ],
)
def test_an_address_that_cannot_be_is_told(project, words, says):
    done = project(*words)
    assert (done.code, "cannot listen on " in done.err, says in done.err) == (2, True, True), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("token", ["a\nb", "a b", "a;b", "é", '"a"'])
def test_a_token_that_no_header_can_carry_is_refused(project, token):
    for words in (["serve", "--port", "0"], ["mcp", "--http", "0"]):
        done = fork_server.run(
            [COMMAND, *words],
            cwd=project.home,
            env={**project.env(), "ROPEWALK_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, "ROPEWALK_TOKEN: must be ASCII letters, digits and signs" in done.stderr) == (
            2,
            True,
        ), done.stderr


def test_an_empty_token_is_none(project):
    with fork_server.Popen(
        [COMMAND, "serve", "--port", "0"],
        cwd=project.home,
        env={**project.env(), "ROPEWALK_TOKEN": ""},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline()
        server.terminate()
    assert "?token=" in address
    assert "$" not in address  # nobody knows what another one would be
