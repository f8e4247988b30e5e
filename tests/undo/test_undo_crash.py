"""SIGKILL at random instants of runs and their undos; the campaign in its long form is `bench/undo.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import fork_server

pytestmark = pytest.mark.process
BENCH = Path(__file__).parents[2] / "bench" / "undo.py"


def test_killed_processes_undo_each_step_once_in_reverse(tmp_path: Path) -> None:
    done = fork_server.run(
        [sys.executable, str(BENCH), "--runs", "12", "--seed", "7"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = re.search(r"12 runs, (\d+) kills, (\d+) steps undone, .* 0 runs with faults", done.stdout)
    assert figures is not None, done.stdout
    assert int(figures[1]) > 0
    assert int(figures[2]) > 12
