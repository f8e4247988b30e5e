"""Programs of the grammar that are cut after any row, retried or replayed make each call that succeeds once."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from tests.tiers import Scale

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.campaign("plans")
def test_cuts_retries_and_replays_of_programs_of_the_grammar(
    scale: Scale, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    cuts = importlib.import_module("plans_cuts")
    assert cuts.cut_programs(scale(6, 500), seed * 100_000, seconds=3600)
