"""A plan whose process is killed at any call resumes: nothing recorded is repeated, and the result is the same."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from tiers import Scale

from .oracle import run_python
from .programs import Writer

pytestmark = pytest.mark.process

PROGRAM = """
import asyncio, json, os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from plans.oracle import World, tools_of
from ropewalk import App

folder, die_at, when = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
code = (folder / "code.py").read_text()

class Killed(World):
    async def answer(self, name, args):
        if when == "before" and len(self.calls) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        with (folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps([name, args]) + chr(10))
        result = None
        try:
            return await super().answer(name, args)
        finally:
            if when == "inside" and len(self.calls) == die_at + 1:
                os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with App(str(folder / "runs.db"), tools=tools_of(Killed())) as app:
        plan = {{"kind": "plan", "code": code, "function": True}}
        if die_at >= 0:
            outcome = await app.run(plan, run_id="r")
        else:
            outcome = await app.resume("r")
        (folder / "outcome.json").write_text(json.dumps([outcome["success"], outcome["result"]]))

asyncio.run(main())
"""


def execute(folder: Path, die_at: int, when: str) -> int:
    """Execute or resume the program of a folder; return the exit code."""
    script = folder / "program.py"
    script.write_text(PROGRAM.format(tests=str(Path(__file__).parents[1])))
    arguments = [sys.executable, str(script), str(folder), str(die_at), when]
    done = fork_server.run(arguments, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return int(done.returncode)


def calls_of(folder: Path) -> list[Any]:
    """Return every call that was made in a folder, by whatever process."""
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def programs(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return programs with three to nine calls one after another, with what Python makes of each."""
    found: list[tuple[str, dict[str, Any]]] = []
    seed = 1000
    while len(found) < count:
        code = Writer(seed).program()
        seed += 1
        if "gather" not in code:
            outcome = run_python(code, {})
            if "result" in outcome and 3 <= len(outcome["calls"]) <= 9:
                found.append((code, outcome))
    return found


@pytest.mark.timeout(3600)
@pytest.mark.campaign("recovery")
@pytest.mark.parametrize("when", ["before", "inside"])
def test_a_killed_plan_repeats_nothing_recorded_and_gives_the_same_result(
    when: str, tmp_path: Path, scale: Scale
) -> None:
    for number, (code, python) in enumerate(programs(scale(2, 40))):
        for die_at in range(len(python["calls"])):
            folder = tmp_path / f"{number}-{die_at}"
            folder.mkdir()
            (folder / "code.py").write_text(code)
            assert execute(folder, die_at, when) == -signal.SIGKILL
            assert execute(folder, -1, when) == 0
            success, result = json.loads((folder / "outcome.json").read_text())
            assert (success, result) == (True, python["result"]), code
            # Only the call in which the process died may have been made twice.
            expected = [[name, args] for name, args in python["calls"]]
            again = expected[: die_at + 1] + expected[die_at:]
            assert calls_of(folder) == (again if when == "inside" else expected), code
