"""A store that whoever types may not write to: looked at with every command that looks, refused by those that write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import fork_server

pytestmark = pytest.mark.process

if os.name != "posix":
    pytest.skip("modes of files", allow_module_level=True)

ASK = "kind: chain\nname: ask\nnodes: [{id: ask, type: wait, approval: Ship it?}]\n"

# Root may write to everything: the process gives up these rights, and those it starts do not get them back.
BOUND = """
import ctypes, sys
from ropewalk.doors.cli.main import main

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
libc = ctypes.CDLL(None)
if sys.platform.startswith("linux"):
    for right in (DAC_OVERRIDE, DAC_READ_SEARCH):
        libc.prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP
    header, rights = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, rights) == 0
    for i in range(3):  # effective, permitted, inheritable
        rights[i] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
    assert libc.capset(header, rights) == 0
sys.argv[0] = "ropewalk"
sys.exit(main())
"""


@pytest.fixture
def bound(project, tmp_path_factory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command, bound by the modes of files also where root runs it."""
    script = tmp_path_factory.mktemp("bound") / "bound.py"
    script.write_text(BOUND)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return fork_server.run(
            [sys.executable, str(script), *words],
            cwd=project.home, env=project.env(), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    yield call
    project.home.chmod(0o755)


def test_who_may_not_write_to_a_store_looks_at_it_and_is_refused_what_writes(project, bound):
    project.write("ask.yaml", ASK)
    assert project("run", "shout.yaml", "--input", '{"text": "a"}', "--id", "r").code == 0
    assert project("run", "ask.yaml", "--id", "a").code == 4
    (project.home / "runs.db").chmod(0o444)
    project.home.chmod(0o555)
    before = sorted(project.home.iterdir())
    for words, said in (
        (("runs", "ls"), "completed"),
        (("runs", "show", "r"), '"up": "A!"'),
        (("runs", "show", "a"), "ropewalk runs approve a ask"),
        (("runs", "watch", "r"), "run completed"),
        (("runs", "diff", "r", "a"), "definition: "),
        (("runs", "export", "r"), '"ropewalkRun"'),
        (("resume", "r"), "A!"),
        (("tools", "stats"), "upper"),
        (("graph", "shout.yaml"), "Call upper"),
        (("preview", "shout.yaml"), "upper(text: string)"),
        (("doctor",), "2 runs; can only be read: this user may not write to it"),
    ):
        done = bound(*words)
        assert done.returncode == 0, (words, done.stderr)
        assert said in done.stdout, words
    for words in (
        ("run", "shout.yaml"), ("resume", "a"), ("runs", "fork", "r"), ("runs", "retry", "r", "--from", "up"),
        ("runs", "stop", "a"), ("runs", "approve", "a"), ("runs", "send", "a", "e", "--early"),
        ("runs", "prune", "--keep", "1"),
    ):  # fmt: skip
        done = bound(*words)
        assert done.returncode == 1, (words, done.stdout)
        assert "error: runs.db can only be read here: this user may not write to it" in done.stderr
        assert "noise" not in done.stdout  # no tool was called
    assert sorted(project.home.iterdir()) == before


def test_a_store_in_a_directory_of_others_is_told_in_words(project, bound):
    inner = project.home / "inner"
    inner.mkdir()
    inner.chmod(0)
    done = bound("runs", "ls", "--store", "inner/runs.db")
    assert (done.returncode, done.stderr) == (1, "error: inner/runs.db: cannot check if it exists: Permission denied\n")
    inner.chmod(0o755)
