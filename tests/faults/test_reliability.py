"""The reliability campaign: its judge finds every broken promise, and its short form finds none."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer
from tiers import Scale

BENCH = Path(__file__).parents[2] / "bench"
# Without what has to last longer than a lease: tests/workers and test_every_worker.py have a short outage and a pause.
SHORT = ["--steps", "120", "--outages", "0", "--pauses", "0", "--kills", "1", "--workers", "2"]
LONG = ["--steps", "105000", "--outages", "36", "--pauses", "36", "--kills", "12"]


@pytest.mark.timeout(7200)
@pytest.mark.campaign("reliability")
def test_workers_lose_and_repeat_nothing_in_outages_pauses_and_kills(
    postgres_server: PostgresServer, tmp_path: Path, scale: Scale, seed: int
) -> None:
    """The fixture of the server skips it where none can be started."""
    words = [*scale(SHORT, LONG), "--seed", str(seed), "--json", str(tmp_path / "counts.json")]
    done = subprocess.run([sys.executable, BENCH / "reliability.py", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "counts.json").read_text())
    plan, did = counts["plan"], counts["done"]
    assert (did["outage"], did["pause"], did["kill"]) == (plan["outages"], plan["pauses"], plan["kills"])
    assert counts["counts"]["acknowledged"] >= plan["steps"]


# --- the judge ----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _bench_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


class Story:
    """One run of a single chain, told by hand. Process 1 begins every step at its number of seconds."""

    def __init__(self) -> None:
        from reliability_flows import cases
        from reliability_judge import Facts, Start

        [self.case] = cases(1, random.Random(1))
        self.keys = list(self.case.keys)
        self.facts = Facts()
        self.starts = [
            Start(float(at), 1, (self.case.run, key), self.keys[max(0, at - 1) : at])
            for at, key in enumerate(self.keys)
        ]
        self.ended: dict[str, Any] = {self.case.run: {"status": "completed", "results": self.case.results}}
        self.journal = {self.case.run: dict(self.case.keys)}

    def begin(self, number: int, at: float, pid: int) -> None:
        from reliability_judge import Start

        self.starts.append(Start(at, pid, (self.case.run, self.keys[number]), []))

    def counts(self) -> Any:
        from reliability_judge import judge

        starts = sorted(self.starts, key=lambda start: start.at)
        return judge(starts, self.facts, [self.case], self.ended, self.journal)


def test_a_run_that_nothing_happens_to_is_right() -> None:
    story = Story()
    assert story.counts().violations == {}
    assert story.counts().acknowledged == len(story.keys)


def test_a_step_that_begins_again_after_another_one_had_its_result_is_found() -> None:
    story = Story()
    story.begin(2, 3.5, 2)
    assert set(story.counts().violations) == {"again"}


def test_a_step_that_begins_again_after_the_journal_showed_it_is_found() -> None:
    story = Story()
    story.facts.recorded.append((2.2, frozenset({(story.case.run, story.keys[2])})))
    story.facts.pauses[1] = [(2.1, 2.6)]
    story.begin(2, 2.5, 2)
    assert set(story.counts().violations) == {"again"}


def test_a_step_in_progress_begins_again_for_a_reason_only() -> None:
    story = Story()
    story.begin(2, 2.5, 2)  # before the next step, which has its result
    assert set(story.counts().violations) == {"causeless"}
    story.facts.pauses[2] = [(100.0, 101.0)]  # another process, another time
    assert set(story.counts().violations) == {"causeless"}
    story.facts.pauses[1] = [(2.1, 2.4)]
    assert (story.counts().violations, story.counts().repeated) == ({}, 1)
    story.facts.pauses.clear()
    story.facts.deaths[1] = 2.2
    assert (story.counts().violations, story.counts().repeated) == ({}, 1)


def test_more_repeats_than_steps_can_have_been_in_progress_are_found() -> None:
    story = Story()
    story.starts = story.starts[:8]
    for start in story.starts:
        start.seen = []
    for number in range(8):
        story.begin(number, 20 + number, 2)
    story.facts.deaths[1] = 9.0
    assert set(story.counts().violations) == {"too_many"}


def test_a_process_that_has_just_been_woken_is_counted_apart() -> None:
    story = Story()
    story.facts.pauses[2] = [(1.0, 3.0)]
    story.begin(2, 3.5, 2)
    assert (story.counts().violations, story.counts().woken) == ({}, 1)
    story.begin(2, 30.0, 2)  # long awake
    assert set(story.counts().violations) == {"again"}


def test_steps_that_the_journal_lost_and_wrong_values_are_found() -> None:
    story = Story()
    del story.journal[story.case.run][story.keys[3]]
    assert set(story.counts().violations) == {"lost"}
    story = Story()
    story.journal[story.case.run][story.keys[3]] = {"key": story.keys[3], "value": "other"}
    assert set(story.counts().violations) == {"wrong"}


@pytest.mark.parametrize("status", ["failed", "completed", None])
def test_runs_with_a_wrong_ending_or_none_are_found(status: str | None) -> None:
    story = Story()
    if status is None:
        story.ended.clear()
    else:
        story.ended[story.case.run] = {"status": status, "results": {}}
    assert set(story.counts().violations) == ({"unended"} if status is None else {"wrong"})
