"""The clock starts runs: one for each time that is due, however many workers there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from .crew import Crew

ONE = """
kind: chain
name: one
nodes:
  - {id: one, type: tool, tool: who, params: {at: $input.at}}
"""
SECONDS = '[schedules.often]\ncron = "* * * * * *"\nflow = "chain.yaml"\ninput = {at = "tick"}\n'
Start = Callable[..., Crew]


def starts(crew: Crew) -> list[str]:
    return [row["id"] for row in crew.run("runs", "ls", "--json").data if row["id"].startswith("schedule/often/")]


def test_each_time_that_is_due_starts_one_run_whatever_the_number_of_workers(crew: Start) -> None:
    scene = crew(ONE, SECONDS)
    scene.hire(2)
    scene.until(lambda: len(scene.pids("tick", "end")) >= 4, most=60)
    assert scene.run("schedules", "pause", "often").code == 0
    ids = starts(scene)
    times = [datetime.fromisoformat(id.rpartition("/")[2]) for id in ids]
    assert len(set(times)) == len(times) >= 4
    assert {time.microsecond for time in times} == {0}
    for id in ids:
        scene.until_ended(id)
    assert len(scene.pids("tick")) == len(starts(scene))


def test_schedules_are_listed_paused_started_by_hand_and_forgotten(crew: Start) -> None:
    yearly = SECONDS.replace("* * * * * *", "0 0 1 1 *").replace("often", "yearly")
    scene = crew(ONE, yearly)
    scene.hire()
    [row] = scene.run("schedules", "ls", "--json").data
    assert (row["name"], row["flow"], row["paused"], row["last"]) == ("yearly", "chain.yaml", False, None)
    assert row["next"][4:] == "-01-01T00:00:00+00:00"
    assert scene.run("schedules", "pause", "yearly").code == 0
    assert scene.run("schedules", "ls", "--json").data[0]["paused"] is True
    assert scene.run("schedules", "run", "yearly").code == 0
    scene.until(lambda: len(scene.pids("tick", "end")) == 1)
    assert scene.run("schedules", "resume", "yearly").code == 0
    unknown = scene.run("schedules", "pause", "yearlt")
    assert (unknown.code, "yearly" in unknown.err) == (2, True)
    scene.settings("")
    scene.hire()
    assert scene.run("schedules", "ls", "--json").data == []


def test_a_wrong_time_is_told_when_the_worker_starts(crew: Start) -> None:
    scene = crew(ONE, SECONDS.replace("* * * * * *", "every day"))
    done = scene.run("worker")
    assert (done.code, "[schedules.often] cron" in done.err) == (2, True), done.err
