"""A floor under the quality, on a small sample; `bench/select.py` has the real figures."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from ropewalk.select.selector import Selector

pytestmark = pytest.mark.process

SAMPLE = Path(__file__).parent / "sample"
BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def _bench_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def figures(selector: Selector, queries: list[dict[str, object]], threshold: float) -> tuple[float, float]:
    from select_data import MEASURES, mean, measure

    rows = []
    for query in queries:
        found = selector.select(query["query"], threshold=threshold)  # type: ignore[arg-type]
        rows.append(measure([one["name"] for one in found.results], query))
    got = dict(zip(MEASURES, mean(rows), strict=True))
    return got["hit@1"], got["recall@5"]


def test_the_right_tool_is_mostly_first_and_nearly_always_among_the_first_five() -> None:
    """SELECT-QUALITY-1"""
    from select_data import load
    from selection import with_slips

    sample = load(SAMPLE)
    selector = Selector(sample.tools)
    hit, recall = figures(selector, sample.queries, 0)
    assert (hit >= 0.62, recall >= 0.81) == (True, True), (hit, recall)
    assert figures(selector, sample.queries, 0.3)[1] >= recall - 0.06  # the usual threshold costs little
    assert figures(selector, with_slips(sample).queries, 0)[1] >= recall - 0.02


def test_measures_are_what_they_are_called() -> None:
    from select_data import measure

    query = {"gold": ["a", "b"], "alts": {"b": ["b2"]}}
    hit, r1, r3, r5, r10, all5, mrr, ndcg = measure(["x", "a", "b2", "y"], query)
    assert (hit, r1, r3, r5, r10, all5, mrr) == (0, 0, 1, 1, 1, 1, 0.5)
    assert 0.6 < ndcg < 0.75
    assert measure(["a", "b"], query) == [1, 0.5, 1, 1, 1, 1, 1, 1]
    assert measure([], query) == [0] * 8


def test_reliability_is_the_weighted_share_of_right_ones_by_tenths_of_the_score() -> None:
    """SELECT-BENCH-1"""
    import numpy as np

    from select_reliability import tenths

    rows = [(0.81, 1, 1, 1.0), (0.85, 0, 1, 2.0), (0.89, 0, 0, 1.0), (0.83, -1, -1, 4.0), (1.0, 1, 1, 1.0)]
    low, high = tenths(np.array(rows))
    assert (low["from"], low["requests"], low["without a tool"]) == (0.8, 3, 1)
    assert (low["first"], low["five"], low["five, some have no tool"]) == (0.25, 0.75, 0.375)
    assert (high["from"], high["requests"], high["first"]) == (0.9, 1, 1.0)


def test_the_bench_runs_on_any_folder(tmp_path: Path) -> None:
    """SELECT-BENCH-1"""
    import subprocess

    queries = (SAMPLE / "queries.jsonl").read_text().splitlines()
    (tmp_path / "queries.jsonl").write_text("\n".join(random.Random(1).sample(queries, 12)))
    (tmp_path / "tools.jsonl").write_text((SAMPLE / "tools.jsonl").read_text())
    out = tmp_path / "out.json"
    command = [sys.executable, str(BENCH / "select.py"), str(tmp_path), "--json", str(out), "--misspelt", "--learnt"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    for said in ("ropewalk", "documented formula", "bm25s", "FastMCP", "hit@1", "p99 ms", "misspelt", "remembered"):
        assert said in done.stdout
    rows = json.loads(out.read_text())[tmp_path.name]
    assert rows["ropewalk"]["recall@5"] > 0.5
    assert rows["ropewalk + MiniLM"] == {"skipped": "not asked for: --minilm"}


def test_a_script_called_select_does_not_hide_the_standard_library(tmp_path: Path) -> None:
    import subprocess

    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); import select, asyncio; print(select.select)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bench" not in done.stdout
