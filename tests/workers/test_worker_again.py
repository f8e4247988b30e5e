"""Runs that are gone on with, retried or forked by somebody are executed by workers, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx2
import psycopg
import pytest

from patience import wait_until
from ropewalk.journal.postgres.session import parse_target

from .crew import Crew, ended, kill

NEEDS = """
kind: chain
name: needs
nodes:
  - {id: first, type: tool, tool: who, params: {at: first}}
  - {id: needs, type: tool, tool: needs, params: {at: needs, name: $input.file}}
"""
TOOLS = '''

@tool
async def needs(at: str, name: str) -> int:
    """Fails as long as a file is not there."""
    note("start", at, os.getpid())
    if not Path(name).exists():
        raise RuntimeError(f"{name} is not there")
    note("end", at, os.getpid())
    return os.getpid()

@tool
async def item(at: int) -> int:
    """One item."""
    note("start", f"item{at}", os.getpid())
    await asyncio.sleep(0.002)
    note("end", f"item{at}", os.getpid())
    return at
'''
WIDE = """
kind: chain
name: wide
nodes:
  - id: each
    type: loop
    items: $input.items
    concurrency: 200
    nodes:
      - {id: one, type: tool, tool: item, params: {at: $item}}
  - {id: end, type: tool, tool: who, params: {at: end}}
"""
Start = Callable[..., Crew]


def scene_of(crew: Start, chain: str) -> Crew:
    scene = crew(chain)
    tools = scene.folder / "tools.py"
    tools.write_text(tools.read_text() + TOOLS)
    return scene


def test_retry_and_fork_are_done_by_workers(crew: Start) -> None:
    scene = scene_of(crew, NEEDS)
    [worker] = scene.hire()
    assert scene.run("run", "chain.yaml", "--id", "x", "-i", '{"file": "there"}').code == 1
    (scene.folder / "there").touch()
    retried = scene.run("runs", "retry", "x", "--json")
    assert (retried.code, retried.data["status"]) == (0, "completed"), retried.err
    forked = scene.run("runs", "fork", "x", "--from", "first", "--id", "y", "--json")
    assert (forked.code, forked.data["status"]) == (0, "completed"), forked.err
    assert Counter(scene.started()) == {"first": 2, "needs": 3}
    assert scene.callers() == {worker.pid}


def test_resume_puts_a_run_in_line_for_workers(crew: Start) -> None:
    scene = scene_of(crew, NEEDS.replace("tool: needs", "tool: wait_for_file"))
    [first] = scene.hire()
    scene.submit("chain.yaml", id="x", input={"file": "go"})
    scene.until(lambda: "needs" in scene.started())
    kill(first)
    resumed = scene.start("resume", "x", "--json")
    [second] = scene.hire()
    (scene.folder / "go").touch()
    done = ended(resumed)
    assert (done.code, done.data["status"]) == (0, "completed"), done.err
    assert scene.callers() <= {first.pid, second.pid}
    assert scene.started().count("first") == 1


@pytest.mark.campaign("recovery", only=True)
def test_resume_while_the_chunks_of_a_run_are_handed_over_does_no_harm(crew: Start) -> None:
    scene = scene_of(crew, WIDE)
    crowd = scene.hire(2)
    scene.submit("chain.yaml", id="x", input={"items": list(range(3000))})
    scene.until(lambda: len(scene.started()) > 300)
    by = Counter(int(line.split()[2]) for line in scene.lines() if line.startswith("end item"))
    row = scene.row("x")
    assert row is not None
    owner = next(worker for worker in crowd if f"(pid {worker.pid})" in row.owner)
    kill(owner)
    resumed = ended(scene.start("resume", "x", "--json"))
    if resumed.code:  # the other worker had it by then
        assert "is being executed by" in resumed.err, (resumed.err, by)
    assert scene.until_ended("x") == "completed"
    assert scene.callers() <= {worker.pid for worker in crowd}
    end = scene.row("x")
    assert end is not None
    assert end.result["results"]["each"] == list(range(3000))


@pytest.mark.campaign("reliability", only=True)
def test_over_http_they_are_done_by_workers_too(crew: Start, serve: Callable[[Crew], httpx2.Client]) -> None:
    scene = scene_of(crew, NEEDS)
    [worker] = scene.hire()
    client = serve(scene)
    assert client.get("/readyz").text == "ok"
    assert scene.run("run", "chain.yaml", "--id", "x", "-i", '{"file": "there"}').code == 1
    (scene.folder / "there").touch()

    def post(path: str, **body: Any) -> Any:
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert post("/api/runs/x/retry", wait=30)["status"] == "completed"
    assert post("/api/runs/x/fork", runId="y", nodes=["needs"], wait=30)["status"] == "completed"
    kill(worker)
    wait_until(lambda: client.get("/readyz").status_code == 503)
    late = scene.submit("chain.yaml", id="late", input={"file": "later"})
    begun = client.post(f"/api/runs/{late}/resume", json={"wait": 0})
    assert (begun.status_code, begun.json()["status"]) == (202, "running")
    (scene.folder / "later").touch()
    [other] = scene.hire()
    assert scene.until_ended(late) == "completed"
    assert scene.callers() == {worker.pid, other.pid}


def test_what_the_engine_holds_of_a_run_goes_with_it(crew: Start) -> None:
    scene = scene_of(crew, WIDE)
    scene.hire(2)
    items = "@" + scene.write("input.json", json.dumps({"items": list(range(600))}))
    for id in ("x", "y"):
        assert scene.run("run", "chain.yaml", "--id", id, "-i", items).code == 0
    scene.until(lambda: not held(scene, " AND status IN ('ENQUEUED', 'PENDING')"))
    assert {id.partition("/")[0].partition("@")[0] for id in held(scene)} == {"x", "y"}
    assert scene.run("runs", "prune", "--keep", "1").code == 0
    assert {id.partition("/")[0].partition("@")[0] for id in held(scene)} == {"y"}


def held(scene: Crew, more: str = "") -> list[str]:
    where = parse_target(scene.url)
    with psycopg.connect(**where.parameters) as connection:
        query = f"SELECT workflow_uuid FROM {where.schema}_dbos.workflow_status WHERE true{more}"
        return [id for (id,) in connection.execute(query)]  # type: ignore[arg-type]
