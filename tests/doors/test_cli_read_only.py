"""A store that whoever types may not write to: looked at with every command that looks, refused by those that write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

if os.name != "posix":
    pytest.skip("modes of files", allow_module_level=True)

ASK = "kind: chain\nname: ask\nnodes: [{id: ask, type: wait, approval: Ship it?}]\n"


@pytest.fixture
def bound(project) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command, bound by the modes of files also where root runs it."""
    without: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if (setpriv := shutil.which("setpriv")) is None:
            pytest.skip("root may write to everything, and there is no setpriv to take that from it")
        without = (setpriv, "--bounding-set=-dac_override,-dac_read_search")

    command = str(Path(sys.executable).with_name("ropewalk"))

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*without, command, *words],
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
        assert f"error: {project.home / 'runs.db'} can only be read here: this user may not write to it" in done.stderr
        assert "noise" not in done.stdout  # no tool was called
    assert sorted(project.home.iterdir()) == before


def test_a_store_in_a_directory_of_others_is_told_in_words(project, bound):
    inner = project.home / "inner"
    inner.mkdir()
    inner.chmod(0)
    done = bound("runs", "ls", "--store", "inner/runs.db")
    assert (done.returncode, done.stderr) == (1, "error: inner/runs.db: cannot check if it exists: Permission denied\n")
    inner.chmod(0o755)
