"""Kills at every call: the process dies before a call of a program, and another one resumes the run.

Each process is a fork of this one, so that only the run itself costs time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plans.oracle import run_python
from plans.programs import Writer
from plans.test_plan_kills import PROGRAM, calls_of

TESTS = str(Path(__file__).parents[1] / "tests")


def programs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield programs with three to nine calls one after another, with what Python makes of each."""
    seed = 1000
    while True:
        code = Writer(seed).program()
        seed += 1
        if "gather" not in code and "TaskGroup" not in code:
            outcome = run_python(code, {})
            if "result" in outcome and 3 <= len(outcome["calls"]) <= 9:
                yield code, outcome


def execute(folder: Path, die_at: int) -> None:
    """Execute the program of a folder in a fork that dies before a call, or resume it if `die_at` is -1."""
    child = os.fork()
    if not child:
        sys.argv = ["-c", str(folder), str(die_at), "before"]
        try:
            exec(PROGRAM.format(tests=TESTS), {"__name__": "__main__"})
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def measure(count: int, seconds: float) -> bool:
    """Kill and resume each program at every call; return True if every run ended like Python.

    Args:
        count: The number of programs.
        seconds: When to stop before all programs are killed.
    """
    done = kills = same_calls = same_result = 0
    ends = time.monotonic() + seconds
    for code, python in programs():
        if done == count or time.monotonic() > ends:
            break
        done += 1
        for die_at in range(len(python["calls"])):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "code.py").write_text(code)
                (folder / "calls.jsonl").touch()
                execute(folder, die_at)
                execute(folder, -1)
                kills += 1
                same_calls += calls_of(folder) == [[tool, args] for tool, args in python["calls"]]
                outcome = folder / "outcome.json"
                same_result += outcome.exists() and json.loads(outcome.read_text()) == [True, python["result"]]
    print(f"{done} programs, {kills} kills: {same_calls} made exactly Python's calls, {same_result} gave its result")
    return same_calls == same_result == kills
