"""Due times of schedules that fall into an outage: a run, or a line that says what became of them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer

from .crew import Crew
from .test_worker_schedules import ONE

POLICIES = ("run_once", "skip", "run_all")


def schedules(every: int) -> str:
    return "".join(
        f'[schedules.{policy}]\ncron = "*/{every} * * * * *"\nflow = "chain.yaml"\ninput = {{at = "{policy}"}}\n'
        f'catch_up = "{policy}"\n'
        for policy in POLICIES
    )


@pytest.fixture
def crew_of_two(tmp_path: Path, own_url: str) -> Iterator[Crew]:
    scene = Crew(tmp_path / "project", own_url, ONE, schedules(2))
    yield scene
    scene.dismiss()


def started(scene: Crew, name: str) -> set[str]:
    rows = scene.run("runs", "ls", "--json", "--limit", "1000").data
    return {row["runId"].rpartition("/")[2][:19] for row in rows if row["runId"].startswith(f"schedule/{name}/")}


def check_missed(policy: str, missed: dict[str, str], runs: set[str]) -> None:
    """Check what became of missed due times; `runs` are the due times that started a run."""
    late = {due for due, outcome in missed.items() if outcome == "late"}
    assert late == runs & set(missed)
    assert set(missed.values()) == {"skip": {"skipped"}, "run_all": {"late"}, "run_once": {"late", "merged"}}[policy]


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults", only=True)
def test_due_times_in_an_outage_are_handled_as_the_schedule_says(
    crew_of_two: Crew, postgres_server: PostgresServer
) -> None:
    """Each due time has a run or is listed."""
    scene = crew_of_two
    workers = [scene.start("worker", "--log", "json") for _ in range(2)]
    scene.workers += workers
    scene.until(lambda: all(len(scene.pids(policy, "end")) >= 2 for policy in POLICIES))
    for _ in range(10):
        postgres_server.down(signal.SIGQUIT)
        time.sleep(9)
        begun = {policy: len(scene.pids(policy, "end")) for policy in POLICIES}
        postgres_server.up()
        scene.until(lambda: all(len(scene.pids(policy, "end")) >= begun[policy] + 3 for policy in POLICIES))  # noqa: B023
    rows: dict[str, dict[str, Any]] = {}
    for policy in POLICIES:
        assert scene.run("schedules", "pause", policy).code == 0
    rows = {row["name"]: row for row in scene.run("schedules", "ls", "--json").data}
    for policy, row in rows.items():
        missed = {one["due"][:19]: one["became"] for one in row["missed"]}
        runs = started(scene, policy)
        ends = [datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() for at in (min(runs), max(runs))]
        due_times = {
            datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            for at in range(int(ends[0]), int(ends[1]) + 1, 2)
        }
        assert due_times == runs | set(missed), (policy, due_times - runs - set(missed))
        check_missed(policy, missed, runs)
        assert policy != "run_all" or runs == due_times
    assert "skipped; last " in scene.run("schedules", "ls").out
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    lines = [line for worker in workers for line in worker.communicate(timeout=300)[1].splitlines()]
    said = [json.loads(line)["message"] for line in lines]
    told = [line for line in said if "while no worker was connected" in line]
    assert len(told) == sum(len(row["missed"]) for row in rows.values()), told
