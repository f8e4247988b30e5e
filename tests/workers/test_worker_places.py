"""Where unfinished runs are: every queued run ends, whatever became of its dispatch, and a violation is repaired."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from postgres_server import PostgresServer
from ropewalk import App

from .crew import Crew

QUICK = """
kind: chain
name: quick
nodes:
  - {id: only, type: tool, tool: who, params: {at: $input.at, ms: 1}}
"""
Start = Callable[..., Crew]


def put(scene: Crew, id: str) -> str:
    return scene.submit("chain.yaml", input={"at": id}, id=id)


LOST = {
    "cancelled": "status = 'CANCELLED', completed_at = 1",
    "over without a claim": "status = 'SUCCESS', completed_at = 1",
    "taken by a worker that is gone": "status = 'PENDING', executor_id = 'gone', updated_at = 1",
}


@pytest.mark.parametrize("how", LOST)
def test_a_run_whose_dispatch_came_to_nothing_is_dispatched_again(crew: Start, how: str) -> None:
    scene = crew(QUICK)
    put(scene, "x")
    scene.sql(f"UPDATE {{dbos}}.workflow_status SET {LOST[how]} WHERE workflow_uuid = 'x@1'")
    [worker] = scene.hire()
    assert scene.until_ended("x") == "completed"
    message = "queued runs again, because no worker has claimed them: x"
    assert any(message in line for line in scene.logged(worker))
    statuses = dict(scene.sql("SELECT workflow_uuid, status FROM {dbos}.workflow_status WHERE name = 'ropewalk.run'"))
    assert set(statuses) == {"x@1", "x@2"}
    assert statuses["x@1"] in ("CANCELLED", "SUCCESS")


@pytest.mark.campaign("reliability", only=True)
def test_a_dispatch_that_a_live_worker_took_and_does_not_execute_is_made_again(crew: Start) -> None:
    scene = crew(QUICK, "[workers]\nlease = 1.5\n[queues.nobody]\n")
    scene.hire(1, "--queue", "default")
    scene.submit("chain.yaml", input={"at": "x"}, id="x", queue="nobody")  # so that nobody takes it
    scene.sql(
        "UPDATE {dbos}.workflow_status SET status = 'PENDING', updated_at = 1, executor_id = (SELECT id FROM worker)"
        " WHERE workflow_uuid = 'x@1'",
    )
    scene.sql(
        "UPDATE run SET context = convert_to(replace(convert_from(context, 'UTF8'), 'nobody', 'default'), 'UTF8')",
    )
    assert scene.until_ended("x") == "completed"


@pytest.mark.campaign("reliability", only=True)
def test_a_run_that_a_live_worker_owns_and_does_not_execute_is_given_back(crew: Start) -> None:
    scene = crew(QUICK, "[workers]\nlease = 1.5\n")
    put(scene, "x")
    scene.sql("UPDATE run SET status = 'waiting'")  # out of the worker's way for a moment
    scene.hire()
    scene.sql("UPDATE {dbos}.workflow_status SET status = 'CANCELLED' WHERE workflow_uuid = 'x@1'")
    scene.sql("UPDATE lease SET epoch = 7, owner = (SELECT owner FROM worker)")
    scene.sql("UPDATE run SET status = 'running'")
    assert scene.until_ended("x") == "completed"


def test_doctor_says_where_unfinished_runs_are_and_repairs_what_has_no_place(crew: Start) -> None:
    scene = crew(QUICK)
    for id in ("x", "y", "z"):
        put(scene, id)
    scene.sql("UPDATE {dbos}.workflow_status SET status = 'CANCELLED' WHERE workflow_uuid = 'x@1'")
    scene.sql("UPDATE run SET status = 'parked' WHERE id = 'z'")
    told = scene.run("doctor", "--runs")
    assert "unfinished: 1 queued, 0 executing, 0 waiting, 1 parked, 0 interrupted" in told.out
    assert "its entry in the queue was lost; queued again" in told.out
    again = scene.run("doctor", "--runs")
    assert "unfinished: 2 queued" in again.out
    scene.hire()
    assert [scene.until_ended(id) for id in ("x", "y")] == ["completed"] * 2
    assert "unfinished: 0 queued" in scene.run("doctor", "--runs").out


@pytest.mark.campaign("reliability", only=True)
def test_a_run_that_cannot_be_read_is_dispatched_ever_more_seldom(crew: Start) -> None:
    scene = crew(QUICK)
    put(scene, "x")
    scene.sql("UPDATE run SET input = convert_to('{', 'UTF8')")
    scene.hire()
    # Dispatched again after none, 1 and 2 seconds.
    query = "SELECT created_at FROM {dbos}.workflow_status WHERE name = 'ropewalk.run' ORDER BY created_at"
    scene.until(lambda: len(scene.sql(query)) >= 4)
    made = scene.sql(query)
    at = [milliseconds / 1000 for (milliseconds,) in made[1:]]
    assert at[1] - at[0] > 0.9
    assert at[2] - at[1] > 1.9 or at[1] - at[0] > 2.5  # not lost again for so long: the pauses start again
    scene.sql("UPDATE run SET input = convert_to('{\"at\": \"x\"}', 'UTF8')")
    assert scene.until_ended("x") == "completed"


# --- many runs, and workers or a server that stop in between ---------------------------------


@pytest.fixture
def line(tmp_path: Path, own_url: str) -> Iterator[Crew]:
    scene = Crew(tmp_path / "project", own_url, QUICK, "[workers]\nconcurrency = 60\n")
    yield scene
    scene.dismiss()


def waiting_for(line: Crew, before: int | None = None) -> int:
    """How many runs have not ended, once these are fewer than before; asks again while the server is away."""

    def look() -> list[int]:
        try:
            left = int(line.sql("SELECT count(*) FROM run WHERE status <> 'completed'")[0][0])
        except psycopg.OperationalError:
            return []
        return [left] if before is None or left < before else []

    return wait_until(look)[0]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["pause", "server"])
@pytest.mark.campaign("faults", only=True)
def test_every_queued_run_ends(line: Crew, postgres_server: PostgresServer, how: str, seed: int) -> None:
    many, times, chance = 2500, 6, random.Random(f"{how} {seed}")

    async def submit() -> None:
        async with App.open(str(line.folder), store=line.url) as app:
            turn = asyncio.Semaphore(20)

            async def one(id: str) -> None:
                async with turn:
                    await app.submit(str(line.folder / "chain.yaml"), {"at": id}, run_id=id)

            await asyncio.gather(*(one(f"q{i}") for i in range(many)))

    asyncio.run(submit())
    line.hire(2)
    for _ in range(times):
        time.sleep(chance.uniform(0.1, 1.2))
        if how == "pause":
            worker = chance.choice(line.workers)
            os.kill(worker.pid, signal.SIGSTOP)
            time.sleep(chance.uniform(2.9, 4))
            os.kill(worker.pid, signal.SIGCONT)
        else:
            postgres_server.down(signal.SIGQUIT)
            time.sleep(chance.choice((0, 1, 3)))
            postgres_server.up()
    left = waiting_for(line)
    while left:
        left = waiting_for(line, before=left)
    assert [worker.poll() for worker in line.workers] == [None, None], "the workers live"
