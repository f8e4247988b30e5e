"""Tasks while their server is killed: the short form of `bench/mcp_tasks.py`."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ropewalk.journal.protocol import Entry
from tiers import Scale

BENCH = Path(__file__).resolve().parents[2] / "bench"
pytestmark = pytest.mark.process


@pytest.mark.campaign("recovery")
def test_no_task_is_lost_or_executed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: Scale) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import mcp_tasks

    tasks, kill_after = scale((12, 1.0), (60, 2.0))
    figures = asyncio.run(mcp_tasks.campaign(tasks, kill_after, in_flight=6, home=tmp_path))
    assert (figures["lost"], figures["executed_twice"]) == (0, 0), figures


def test_the_judge_tells_losses_and_repetitions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import mcp_tasks

    outcomes = [(number, {"status": "completed", "result": f"shipped {number}"}) for number in range(5)]
    outcomes[4] = 4, {"status": "failed"}
    calls = [f"{step} {number}" for number in range(5) for step in ("take", "ship")]
    lines = [line for call in calls for line in (f"begin {call} 1", f"end {call} 2")]
    journals: dict[int, list[Any]] = {
        number: [Entry(step, "call", step, started=1, ended=3) for step in ("take", "ship")] for number in range(5)
    }
    lines += ["begin take 0 2.5", "end take 0 2.6", "begin take 1 2.5", "begin take 2 9", "end take 2 9"]
    effects = Counter([*calls, "ship 3"])
    figures = mcp_tasks.judge(outcomes, lines, effects, journals)
    assert (figures["repeated_unrecorded"], figures["repeated_interrupted"]) == (1, 1)
    assert (figures["executed_twice"], figures["examples"][1:]) == (2, ["take 2", "ship 3"])
    assert figures["lost"] == 1
    journals[0].pop()
    assert mcp_tasks.judge(outcomes, lines, effects, journals)["lost"] == 2
