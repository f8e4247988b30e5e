"""Programs in a process that dies at random moments: no recorded call is made again, and the results are those of the
rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tiers import Scale, on_one_store

from .killed_programs import Campaign, programs

pytestmark = pytest.mark.process
_BATCH = 20


@pytest.fixture
def store(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""


@pytest.mark.timeout(3600)
@pytest.mark.campaign("recovery")
@on_one_store("recovery", "sqlite")
def test_killed_programs_make_each_recorded_call_once(store: str, tmp_path: Path, scale: Scale, seed: int) -> None:
    count, kills = scale((8, 3), (200, 8))
    texts = asyncio.run(programs(seed * 10_000, count))
    counts, faults = Counter[str](), list[str]()
    for first in range(0, count, _BATCH):
        folder = tmp_path / str(first)
        url = store or f"sqlite:///{folder / 'runs.db'}"
        campaign = Campaign(folder, url, texts[first : first + _BATCH], f"b{first}-")
        campaign.run(kills, 0.3, seed + first)
        counts, faults = counts + campaign.counts, [*faults, *campaign.faults]
    print(dict(counts))
    assert faults == []
    # Few programs can end, or not begin, before they are killed.
    assert counts["recorded calls at starts"] > 0 or count < 200
