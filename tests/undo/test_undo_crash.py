"""SIGKILL at random instants of runs and their undos, as `bench/undo.py` measures it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import fork_server
from tiers import Scale

pytestmark = pytest.mark.process
BENCH = Path(__file__).parents[2] / "bench" / "undo.py"


@pytest.mark.campaign("recovery")
@pytest.mark.timeout(3600)
def test_killed_processes_undo_each_step_once_in_reverse(tmp_path: Path, scale: Scale, seed: int) -> None:
    runs = scale(6, 300)
    command = [sys.executable, str(BENCH), "--runs", str(runs), "--seed", str(seed + 6)]
    done = fork_server.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = re.search(rf"{runs} runs, (\d+) kills, (\d+) steps undone, .* 0 runs with faults", done.stdout)
    assert figures is not None, done.stdout
    assert int(figures[1]) > 0
    assert int(figures[2]) > runs
