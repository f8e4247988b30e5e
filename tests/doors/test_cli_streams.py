"""Standard streams that are closed, or that take nothing: what was asked is done, and what is missing is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiers import sampled

pytestmark = pytest.mark.process

COMMAND = Path(sys.executable).with_name("ropewalk")
FULL = Path("/dev/full")
CHAIN = """
kind: chain
name: e
nodes:
  - {id: a, type: transform, input: {t: 1}, transform: {type: pick, config: {fields: [t]}}}
  - {id: b, type: transform, input: {t: 2}, transform: {type: pick, config: {fields: [t]}}}
"""
LOST = "error: the result could not be written: No space left on device"
full_disk = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture
def shell(project: Any) -> Any:
    """The command in a shell, which closes and redirects streams."""
    project.write("e.yaml", CHAIN)
    project.write("ropewalk.toml", "[store]\nurl = 'runs.db'\n")

    def run(words: str) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in project.env().items() if name != "PYTHONUNBUFFERED"}
        return subprocess.run(
            ["sh", "-c", f"'{COMMAND}' {words}"],
            cwd=project.home, env=env, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    return run


def test_with_closed_streams_a_run_is_the_same(shell: Any, project: Any) -> None:
    silent = shell("run e.yaml --id one 2>&-")
    assert (silent.returncode, "completed in" in silent.stdout) == (0, True)
    unheard = shell("run e.yaml --id two --json >&-")
    assert (unheard.returncode, unheard.stdout, "Traceback" in unheard.stderr) == (0, "", False)
    assert shell("run e.yaml --id three <&- >&- 2>&-").returncode == 0
    assert {row["runId"]: row["status"] for row in project("runs", "ls", "--json").data} == dict.fromkeys(
        ("one", "two", "three"), "completed"
    )
    assert shell("--help >&-").returncode == 0


def test_a_closed_standard_input_is_empty(shell: Any) -> None:
    done = shell("run e.yaml --input @- <&-")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: cannot read --input @-",
        "<stdin>:1:1: the document is empty",
    ]


@full_disk
@pytest.mark.parametrize("words", ["runs ls", "runs ls --json", "validate --help", "--help", "--version"])
def test_what_a_full_disk_does_not_take_is_said_in_one_line(shell: Any, words: str) -> None:
    done = shell(f"{words} >/dev/full")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (141, LOST)
    assert "Traceback" not in done.stderr


@full_disk
@pytest.mark.parametrize("json_", sampled("faults", ["--json", "", "--json --watch"], 1))
def test_a_run_whose_result_is_not_written_is_recorded_and_named(shell: Any, project: Any, json_: str) -> None:
    done = shell(f"run e.yaml {json_} --id one --store other.db >/dev/full")
    last = f"{LOST}; the run is recorded: ropewalk runs show one --store other.db"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (141, last)
    assert "Traceback" not in done.stderr
    assert project("runs", "show", "one", "--store", "other.db", "--json").data["status"] == "completed"
    watched = shell("runs watch one --store other.db >/dev/full")
    assert (watched.returncode, watched.stderr.splitlines()[-1]) == (141, LOST)
    assert shell(f"run e.yaml {json_} --store memory >/dev/full").stderr.splitlines()[-1] == LOST


@full_disk
def test_as_json_lines_it_is_one_of_them(shell: Any) -> None:
    done = shell("run e.yaml --log json --id one >/dev/full")
    assert done.returncode == 141
    assert json.loads(done.stderr.splitlines()[-1])["message"].startswith(LOST)


@full_disk
def test_an_error_keeps_its_exit_code_when_it_cannot_be_told(shell: Any) -> None:
    assert shell("validate nope.yaml --json >/dev/full").returncode == 2
    assert shell("validate nope.yaml 2>/dev/full").returncode == 2
    done = shell("run e.yaml 2>/dev/full")
    assert (done.returncode, "completed in" in done.stdout) == (0, True)
    assert shell("run e.yaml >/dev/full 2>&1").returncode == 141
