"""A server that is away for a while: no run is lost and no call repeated, and a worker says once that it is away."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from patience import BOUND
from postgres_server import PostgresServer
from ropewalk import App
from ropewalk.journal.postgres.session import Session, parse_target
from tiers import Scale

from .crew import Crew, kill
from .cut import Cable
from .test_worker_runs import WHO

LEASE = 2.5


@pytest.fixture
def crews(tmp_path: Path, own_url: str) -> Iterator[Callable[..., Crew]]:
    made: list[Crew] = []

    def make(chain: str = WHO, settings: str = "") -> Crew:
        made.append(Crew(tmp_path / "project", own_url, chain, settings))
        return made[-1]

    yield make
    for crew in made:
        crew.dismiss()


@pytest.fixture
def scene(crews: Callable[..., Crew]) -> Crew:
    return crews()


def test_an_outage_is_told_once_and_so_is_its_end(scene: Crew, postgres_server: PostgresServer) -> None:
    worker = scene.start("worker", "--log", "json", "--log-level", "debug")
    scene.workers.append(worker)
    assert worker.stderr is not None
    lines: Iterator[dict[str, Any]] = map(json.loads, iter(worker.stderr.readline, ""))
    assert any("takes runs" in line["message"] for line in lines)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    postgres_server.down()
    told: list[dict[str, Any]] = []
    try:
        while {"dbos", "ropewalk.workers"} - {line["logger"] for line in told}:  # at this level all of it is heard
            told.append(next(lines))
    finally:
        postgres_server.up()
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    while "is back" not in told[-1]["message"]:
        told.append(next(lines))
    worker.send_signal(signal.SIGTERM)
    told += lines
    serious = [line for line in told if line["level"] in ("warning", "error")]
    assert [line["message"].partition(";")[0].partition(" after ")[0] for line in serious] == [
        "the database cannot be reached",
        "the database is back",
    ], serious
    assert "connection" in serious[0]["message"]
    assert not any("exception" in line for line in serious)


NAPS = """
kind: chain
name: naps
timeout: 600000
nodes:
  - {id: long, type: tool, tool: who, timeout: 300000, params: {at: $input.at, ms: $input.ms}}
  - {id: next, type: tool, tool: who, params: {at: "${$input.at}-next"}}
"""


def mishaps(scene: Crew) -> list[tuple[int, ...]]:
    with closing(Session(parse_target(scene.url))) as session:
        return [tuple(row) for row in session.execute("SELECT run, deaths FROM mishap WHERE deaths > 0").fetchall()]


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults")
def test_outages_longer_than_the_lease_repeat_no_call_and_count_no_death(
    crews: Callable[..., Crew], postgres_server: PostgresServer, scale: Scale
) -> None:
    """Every worker lives, so every call is made once. In the campaign the last outage is longer than other processes
    wait for the server."""
    scene = crews(NAPS, scale("[workers]\nlease = 1.0\n", ""))
    outages, pause = scale(([2.5], 0.2), ([4.0] * 8 + [75.0], 4.0))
    scene.hire(2, "--concurrency", "1")
    ids, ms = ["n0", "n1"], round((sum(outages) + len(outages) * (pause + 1)) * 1000)
    for id in ids:
        scene.submit("chain.yaml", id=id, input={"at": id, "ms": ms})
    scene.until(lambda: set(ids) <= set(scene.started()))
    for away in outages:
        postgres_server.down(signal.SIGQUIT)
        time.sleep(away)
        postgres_server.up()
        time.sleep(pause)
    for id in ids:
        assert scene.until_ended(id) == "completed"
    assert sorted(scene.started()) == sorted([*ids, *(f"{id}-next" for id in ids)])
    assert all(worker.poll() is None for worker in scene.workers)
    assert mishaps(scene) == []


@pytest.mark.campaign("reliability", only=True)
def test_runs_of_a_worker_that_dies_in_an_outage_go_on_within_three_leases(
    scene: Crew, postgres_server: PostgresServer
) -> None:
    scene.hire(2)
    scene.submit("chain.yaml", id="x")
    scene.until(lambda: "long" in scene.started())
    dead = scene.worker(scene.pids("first")[0])
    postgres_server.down()
    kill(dead)
    time.sleep(3)
    postgres_server.up()
    scene.until(lambda: scene.started().count("long") == 2)
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    assert scene.pids("last") != [dead.pid]


@pytest.mark.campaign("reliability", only=True)
def test_a_worker_that_alone_is_cut_off_loses_its_runs_without_a_death(scene: Crew) -> None:
    cable = Cable(scene.url)
    try:
        lonely = scene.start("worker", store=cable.url)
        scene.workers.append(lonely)
        assert lonely.stderr is not None
        lines = iter(lonely.stderr.readline, "")
        assert any("takes runs" in line for line in lines)
        scene.submit("chain.yaml", id="x")
        scene.until(lambda: "long" in scene.started())
        cable.cut_off()  # before the worker has looked again at what it executes
        scene.hire()
        scene.until(lambda: scene.started().count("long") == 2)  # the other one has it
        assert mishaps(scene) == [(1, 1)]
        cable.lose_answers(b"UPDATE mishap", 2)  # a busy server, on which a connection fails again
        cable.join()
        assert any("others have taken over its runs" in line for line in lines)
        assert cable.lost.wait(BOUND)
        scene.until(lambda: mishaps(scene) == [])
        (scene.folder / "go").touch()
        assert scene.until_ended("x") == "completed"
        assert scene.pids("last") != [lonely.pid]
    finally:
        cable.close()


def test_submit_waits_for_a_server_that_is_away(scene: Crew, postgres_server: PostgresServer) -> None:
    """At any moment of an outage, and once for each id."""

    async def submit() -> dict[str, int]:
        async with App.open(str(scene.folder), store=scene.url) as app:
            source = str(scene.folder / "chain.yaml")
            await app.submit(source, run_id="before")
            tasks = []
            for number in range(12):
                tasks.append(asyncio.create_task(app.submit(source, run_id=f"r{number}")))
                await asyncio.sleep(0)
                if number == 4:
                    postgres_server.down(signal.SIGQUIT)
            _, pending = await asyncio.wait(tasks, timeout=1)
            assert pending
            postgres_server.up()
            assert [await task for task in tasks] == [f"r{number}" for number in range(12)]
            return dict((await asyncio.to_thread(app.workers.places)).counts)

    counts = asyncio.run(submit())
    assert (counts["queued"], sum(counts.values())) == (13, 13)
