"""The clock starts runs: one for each time that is due, however many workers there are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

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
    return [row["runId"] for row in crew.run("runs", "ls", "--json").data if row["runId"].startswith("schedule/often/")]


@pytest.mark.campaign("reliability", only=True)
def test_each_time_that_is_due_starts_one_run_whatever_the_number_of_workers(crew: Start) -> None:
    scene = crew(ONE, SECONDS)
    scene.hire(2)
    scene.until(lambda: len(scene.pids("tick", "end")) >= 3)
    assert scene.run("schedules", "pause", "often").code == 0
    ids = starts(scene)
    times = [datetime.fromisoformat(id.rpartition("/")[2]) for id in ids]
    assert len(set(times)) == len(times) >= 3
    assert {time.microsecond for time in times} == {0}
    for id in ids:
        scene.until_ended(id)
    # One more may have started meanwhile, and not called its tool yet.
    assert len(ids) <= len(scene.pids("tick")) <= len(starts(scene))


def test_schedules_are_listed_paused_started_by_hand_and_forgotten(crew: Start) -> None:
    yearly = SECONDS.replace("* * * * * *", "0 0 1 1 *").replace("often", "yearly")
    scene = crew(ONE, yearly)
    scene.hire()
    [row] = scene.run("schedules", "ls", "--json").data
    assert (row["name"], row["flow"], row["paused"], row["last"]) == ("yearly", "chain.yaml", False, None)
    assert row["next"][4:] == "-01-01T00:00:00+00:00"
    assert scene.run("schedules", "pause", "yearly").code == 0
    assert scene.run("schedules", "ls", "--json").data[0]["paused"] is True
    started = scene.run("schedules", "run", "yearly")
    assert (started.code, started.out.count("schedule/yearly/")) == (0, 2), "the id, and how to follow the run"
    scene.until(lambda: len(scene.pids("tick", "end")) == 1)
    assert scene.run("schedules", "resume", "yearly").code == 0
    unknown = scene.run("schedules", "pause", "yearlt")
    assert (unknown.code, "yearly" in unknown.err) == (2, True)
    scene.settings("")
    scene.hire()
    assert scene.run("schedules", "ls", "--json").data == []


def test_a_schedule_that_cannot_run_is_a_failed_run_each_time_it_is_due(crew: Start) -> None:
    wrong = '[schedules.never]\ncron = "0 0 31 2 *"\nflow = "chain.yaml"\n'
    scene = crew(ONE, wrong + SECONDS.replace("chain.yaml", "gone.yaml"))
    [worker] = scene.hire()
    assert worker.stderr is not None
    logged = scene.logged(worker)
    said = next(line for line in logged if "[schedules.never] cron: " in line)
    assert "ropewalk.toml:6:1: " in said
    said = next(line for line in logged if "; the schedule often cannot run" in line)
    assert ": [schedules.often] flow: no file" in said
    assert "gone.yaml" in said
    scene.until(lambda: bool(starts(scene)))
    assert scene.run("schedules", "pause", "often").code == 0
    rows = scene.run("runs", "ls", "--json").data
    assert {(row["kind"], row["name"], row["status"]) for row in rows} == {("schedule", "often", "failed")}
    assert "gone.yaml" in scene.run("runs", "show", rows[0]["runId"]).out
    retried = scene.run("runs", "retry", rows[0]["runId"])
    assert (retried.code, "ropewalk schedules run often" in retried.err) == (1, True), retried.err
    row, never = sorted(scene.run("schedules", "ls", "--json").data, key=lambda row: row["name"], reverse=True)
    assert (never["name"], "cron" in never["error"]) == ("never", True)
    assert (row["last"] is not None, row["status"]) == (True, "failed")
    by_hand = scene.run("schedules", "run", "often")
    assert (by_hand.code, "gone.yaml" in by_hand.err, by_hand.out) == (2, True, "")


def test_doctor_tells_who_executes_what_waits_and_what_is_wrong_with_schedules(crew: Start) -> None:
    more = "".join(
        f'[schedules.{name}]\ncron = "{cron}"\nflow = "{flow}"\n{rest}\n'
        for name, cron, flow, rest in (
            ("fine", "0 0 1 1 *", "chain.yaml", 'input = {at = "x"}'),
            ("when", "every day", "chain.yaml", ""),
            ("what", "0 0 1 1 *", "gone.yaml", ""),
            ("input", "0 0 1 1 *", "strict.yaml", "input = {at = 1}"),
        )
    )
    scene = crew(ONE, more)
    scene.write("strict.yaml", ONE + "inputSchema: {type: object, properties: {at: {type: string}}}\n")
    scene.submit("chain.yaml", input={"at": "y"})
    done = scene.run("doctor", "--json")
    found = {one["name"]: (one["state"], one["message"]) for one in done.data["findings"]}
    assert done.code == 1
    assert found["engine"][1].startswith("dbos 3.")
    nobody = "no worker is running, so nothing executes the schedules (fine, when, what, input)"
    assert found["workers"] == ("fault", f"{nobody}; start `ropewalk worker`")
    assert found["queues"] == ("ok", "queued: 1 in default")
    assert found["schedule fine"][0] == "ok"
    assert "ropewalk.toml:" in found["schedule when"][1]
    assert {found[f"schedule {name}"][0] for name in ("when", "what", "input")} == {"fault"}
    scene.settings("")
    [worker] = scene.hire()
    found = {one["name"]: one["message"] for one in scene.run("doctor", "--json").data["findings"]}
    assert found["workers"].startswith("1: ")
    assert f"-{worker.pid}-" in found["workers"]
