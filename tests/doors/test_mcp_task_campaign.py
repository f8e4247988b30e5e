"""Tasks while their server is killed: the short form of `bench/mcp_tasks.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
pytestmark = pytest.mark.process


def test_no_task_is_lost_or_executed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import mcp_tasks

    figures = asyncio.run(mcp_tasks.campaign(tasks=60, kill_after=2.0, in_flight=6, home=tmp_path))
    assert (figures["lost"], figures["executed_twice"]) == (0, 0), figures
