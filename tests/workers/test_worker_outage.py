"""A server that is away for a while: a worker says so once, and that it is back. What DBOS says is for debugging."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer, fresh

from .crew import Crew
from .test_worker_runs import WHO


@pytest.fixture
def scene(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Crew]:
    """On the server of our own: no other goes away."""
    for url in fresh(postgres_server.url):
        scene = Crew(tmp_path / "project", url, WHO)
        yield scene
        scene.dismiss()


def test_an_outage_is_told_once_and_so_is_its_end(scene: Crew, postgres_server: PostgresServer) -> None:
    worker = scene.start("worker", "--log", "json", "--log-level", "debug")
    scene.workers.append(worker)
    assert worker.stderr is not None
    lines: Iterator[dict[str, Any]] = map(json.loads, iter(worker.stderr.readline, ""))
    assert any("takes runs" in line["message"] for line in lines)
    scene.submit("chain.yaml", "--id", "x")
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
