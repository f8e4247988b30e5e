"""What is said of stores, times and signals where a store is in Postgres and workers execute the runs."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ropewalk import App
from ropewalk.errors import StoreError
from ropewalk.journal.postgres.store import store_error

from .crew import Crew, ended
from .test_worker_runs import ASKS, WHO

Start = Callable[..., Crew]


def test_the_store_that_was_searched_is_named(crew: Start) -> None:
    scene = crew(WHO)
    missing = scene.run("runs", "show", "nope")
    assert (missing.code, "postgresql://" in missing.err, "searched " in missing.err) == (2, True, True), missing.err


def test_a_database_that_is_not_there_is_told_as_that(postgres_url: str) -> None:
    with pytest.raises(StoreError, match=r"the server has no such database .* create it"):
        App(urlsplit(postgres_url)._replace(path="/nope").geturl()).runs.list()


def test_a_wrong_password_is_no_server_that_is_away() -> None:
    import psycopg

    said = str(
        store_error("postgresql://h/d", psycopg.OperationalError('FATAL: password authentication failed for "u"'))
    )
    assert "check user and password" in said
    assert "check that it runs" not in said
    assert "check that it runs" in str(store_error("postgresql://h/d", psycopg.OperationalError("Connection refused")))


def test_a_signal_to_who_waits_names_the_run_as_data(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire()
    waiting = scene.start("run", "chain.yaml", "--id", "x", "--json")
    scene.until(lambda: "long" in scene.started())
    waiting.send_signal(signal.SIGTERM)
    gone = ended(waiting)
    assert (gone.code, gone.data["error"]["kind"], gone.data["runId"]) == (130, "Interrupted", "x")
    (scene.folder / "go").touch()


def test_a_stopped_run_waits_for_nothing_any_more(crew: Start) -> None:
    scene = crew(ASKS)
    scene.hire()
    assert scene.run("run", "chain.yaml", "--id", "x").code == 4
    scene.run("runs", "stop", "x")
    shown = scene.run("runs", "show", "x").out
    assert ("ask  waited for an approval" in shown, "waits for" in shown) == (True, False), shown


def test_queues_of_who_has_no_workers_and_directories_that_are_not_there(crew: Start) -> None:
    scene = crew(WHO)
    said = scene.run("run", "chain.yaml", "--engine", "local", "--queue", "nope").err
    assert 'engine = "dbos"' in said
    nowhere = scene.run("worker", "-C", "/nowhere")
    assert (nowhere.code, "project directory /nowhere: there is no such directory" in nowhere.err) == (2, True), (
        nowhere.err
    )


async def naps(ms: int) -> int:
    """Takes its time."""
    await asyncio.sleep(ms / 1000)
    return ms


def test_the_time_of_a_run_is_that_of_all_its_stretches_and_not_of_its_waits(tmp_path: Path) -> None:
    nodes = [
        {"id": "a", "type": "tool", "tool": "naps", "params": {"ms": 300}},
        {"id": "ask", "type": "wait", "approval": "Go on?"},
        {"id": "b", "type": "tool", "tool": "naps", "params": {"ms": 1}},
    ]

    async def body() -> None:
        async with App(tmp_path / "runs.db", tools=[naps]) as app:
            await app.run({"kind": "chain", "nodes": nodes}, run_id="x", park=True)
            app.runs.approve("x")
            done = await app.resume("x")
            shown = app.runs.get("x")
            assert shown is not None
            assert done["duration"] >= 300
            assert shown["duration"] == pytest.approx(done["duration"], abs=0.01)
            assert shown["elapsed"] >= shown["duration"]

    asyncio.run(body())


def test_a_timeout_names_the_key_that_sets_it(crew: Start) -> None:
    scene = crew(WHO.replace("name: who", "name: who\ntimeout: 50"))
    done = scene.run("run", "chain.yaml", "--engine", "local", "--json")
    assert (done.code, "`timeout` of the definition" in json.dumps(done.data)) == (124, True), done.out
