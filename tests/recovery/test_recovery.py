"""Runs whose process died are resumed by a server, without a person; nothing else is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

import fork_server
from faults.scene import STEPS, Scene, ended, kill
from patience import until
from ropewalk import App
from ropewalk.app.runs.recovery import Recovery, resume_all
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.recovery import ANSWERED
from tiers import on_one_store

WAITS = """
kind: chain
name: waits
nodes:
  - {id: first, type: tool, tool: sync_step, params: {at: first, ms: 1}}
  - {id: ask, type: wait, approval: "Go on?"}
  - {id: last, type: tool, tool: sync_step, params: {at: last, ms: 1}}
"""
HELD = """
kind: chain
name: held
nodes:
  - {id: first, type: tool, tool: sync_step, params: {at: first, ms: 1}}
  - {id: hold, type: tool, tool: wait_for_file, params: {at: hold, name: $input.file}}
"""
DEADLY = """
kind: chain
name: deadly
nodes:
  - {id: die, type: tool, tool: die, params: {at: die}}
"""
LONG = """
kind: chain
name: long
nodes:
  - {id: long, type: tool, tool: async_step, params: {at: long, ms: 50000}}
"""
DIE = '''

@tool
async def die(at: str) -> str:
    """Kills its process."""
    import signal
    note("start", at)
    print("never leaves the event loop")
    os.kill(os.getpid(), signal.SIGKILL)
    return "lived"
'''


class Server:
    """`ropewalk serve` over a scene."""

    def __init__(self, scene: Scene) -> None:
        self.process = scene.start("serve", "--port", "0", "--log", "json")
        assert self.process.stdout is not None
        address, _, token = self.process.stdout.readline().strip().partition("/?token=")
        self.client = httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.client.close()
        self.process.send_signal(number)
        self.process.wait(50)


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    made = Scene(tmp_path / "project", STEPS, url)
    (made.folder / "waits.yaml").write_text(WAITS)
    (made.folder / "deadly.yaml").write_text(DEADLY)
    (made.folder / "long.yaml").write_text(LONG)
    (made.folder / "tools.py").write_text((made.folder / "tools.py").read_text() + DIE)
    return made


@pytest.fixture
def serve(scene: Scene) -> Iterator[Callable[[], Server]]:
    servers: list[Server] = []

    def start() -> Server:
        servers.append(Server(scene))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            kill(server.process)
        server.process.communicate()


def document(text: str) -> Any:
    return yaml.safe_load(text)


def status(scene: Scene, run_id: str) -> str:
    rows = scene.run("runs", "ls", "--json").data
    [row] = [row for row in rows if row["runId"] == run_id]
    flags = [flag for flag in ("interrupted", "answered", "queued") if row[flag]]
    return flags[0] if flags else str(row["status"])


def has_status(scene: Scene, run_id: str, status: str) -> bool:
    """Look into the store, which takes no process of its own."""
    row = scene.row(run_id)
    return row is not None and row.status == status


def begun(scene: Scene, run_id: str, lines: int = 3, file: str = "chain.yaml") -> subprocess.Popen[Any]:
    """A run in a process of its own that has made some calls."""
    process = scene.start("run", file, "--id", run_id)
    scene.until(lambda: len(scene.lines()) >= lines, process)
    assert process.poll() is None
    return process


def recorded(scene: Scene, run_id: str) -> set[str]:
    """The calls that the journal holds; each node of the chain passes its path on as `at`."""
    steps = scene.run("runs", "show", run_id, "--json").data["nodes"]
    return {step["path"] for step in steps if step["kind"] == "call"}


def test_a_server_resumes_a_run_whose_process_was_killed(scene: Scene, serve: Callable[[], Server]) -> None:
    process = begun(scene, "r", lines=6)
    scene.until(lambda: any(line.startswith("ack ") for line in scene.lines()), process)
    kill(process)
    assert status(scene, "r") == "interrupted"
    kept, since = recorded(scene, "r"), len(scene.lines())
    serve()
    scene.until(lambda: has_status(scene, "r", "completed"))
    assert kept
    assert not kept & set(scene.started(since))


@on_one_store("recovery", "postgres", "scene")
def test_a_server_that_ends_hands_its_runs_to_the_next(scene: Scene, serve: Callable[[], Server]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        server = serve()
        since, id = len(scene.lines()), f"r{int(number)}"
        run = {"document": document(HELD), "runId": id, "input": {"file": f"go-{id}"}}
        answer = server.client.post("/api/runs", json=run)
        assert answer.status_code < 300, answer.text
        scene.until(lambda since=since: scene.started(since) == ["first", "hold"])  # type: ignore[misc]
        server.stop(number)
        assert status(scene, id) == "interrupted"
        again = serve()
        (scene.folder / f"go-{id}").touch()
        scene.until(lambda id=id: has_status(scene, id, "completed"))  # type: ignore[misc]
        assert scene.started(since) == ["first", "hold", "hold"]
        again.stop()


@on_one_store("recovery", "sqlite", "scene")
def test_what_a_person_interrupted_or_stopped_stays(scene: Scene, serve: Callable[[], Server]) -> None:
    process = begun(scene, "interrupted")
    # Twice: the first asks the run to stop, so send both before it can.
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.wait(50)
    before = status(scene, "interrupted")
    assert before in ("interrupted", "stopped")
    since = len(scene.lines())
    other = begun(scene, "stopped", lines=since + 1, file="long.yaml")
    assert scene.run("runs", "stop", "stopped").code == 0
    ended(other)
    since = len(scene.lines())
    kill(begun(scene, "killed", lines=since + 3))
    serve()
    scene.until(lambda: has_status(scene, "killed", "completed"))
    assert (status(scene, "interrupted"), status(scene, "stopped")) == (before, "stopped")


@on_one_store("recovery", "postgres", "scene")
def test_other_commands_never_resume(scene: Scene) -> None:
    kill(begun(scene, "r"))
    count = len(scene.lines())
    for words in (["runs", "ls"], ["runs", "show", "r"], ["doctor"], ["validate", "chain.yaml"], ["tools", "ls"]):
        scene.run(*words)
    assert (status(scene, "r"), len(scene.lines())) == ("interrupted", count)


@on_one_store("recovery", "postgres", "scene")
def test_a_run_that_kills_three_servers_is_parked_and_can_be_released(
    scene: Scene, serve: Callable[[], Server]
) -> None:
    assert scene.run("run", "deadly.yaml", "--id", "d").code == -signal.SIGKILL
    for _ in range(2):
        server = serve()
        assert server.process.wait(60) == -signal.SIGKILL
    survivor = serve()
    scene.until(lambda: has_status(scene, "d", "parked"))
    assert status(scene, "d") == "parked"
    assert survivor.process.poll() is None
    shown = scene.run("runs", "show", "d").out
    assert "error: deadly.yaml:5: parked: 3 processes died while they executed this run" in shown
    assert "died in step die (tool die); to let a worker try again, correct the tool and release the run" in shown
    assert shown.endswith("correct the cause, then release the run: ropewalk runs release d\n")
    assert scene.started().count("die") == 3
    assert scene.run("runs", "release", "d").code == 0
    assert survivor.process.wait(60) == -signal.SIGKILL


OUTER = "kind: chain\nname: outer\nnodes: [{id: call, type: tool, tool: ./deadly.yaml}]\n"


@pytest.mark.parametrize(("file", "path"), [("deadly.yaml", "die"), ("outer.yaml", "call/die")])
def test_the_step_in_which_a_run_dies_again_is_named(scene: Scene, file: str, path: str) -> None:
    (scene.folder / "outer.yaml").write_text(OUTER)
    assert scene.run("run", file, "--id", "d").code == -signal.SIGKILL
    first = scene.run("runs", "show", "d")
    assert "its process is gone; to resume it: ropewalk resume d" in first.out
    assert "error:" not in first.out

    # Only a run that has lost a process records which calls it begins.
    assert scene.run("resume", "d").code == -signal.SIGKILL
    step = f"step {path} (tool die)"
    died = f"deadly.yaml:5: the process ended while it executed {step}"
    shown = scene.run("runs", "show", "d").out
    assert "its process is gone; check the tool, then resume it: ropewalk resume d" in shown
    assert f"error: {died}" in shown
    logs = scene.run("runs", "logs", "d")
    assert died in logs.err
    if scene.db.exists():  # recorded while the tool held the loop; Postgres may get it too late
        assert "die  stdout: never leaves the event loop" in logs.out
    assert f"{died}; check the tool, then resume it: ropewalk resume d" in scene.run("runs", "watch", "d").err

    assert scene.run("resume", "d").code == -signal.SIGKILL
    shown = scene.run("runs", "show", "d").out
    assert "its process is gone; correct the tool, then resume it: ropewalk resume d" in shown
    assert f"error: deadly.yaml:5: 2 processes ended while they executed {step}" in shown

    # The next one completes, because somebody has corrected the tool.
    tools = scene.folder / "tools.py"
    tools.write_text(tools.read_text().replace("os.kill(os.getpid(), signal.SIGKILL)\n    return", "return"))
    assert scene.run("resume", "d").code == 0
    assert "error" not in scene.run("runs", "show", "d").out
    assert scene.run("runs", "logs", "d").err == ""


def test_every_command_names_the_same_state_of_a_queued_run_without_a_process(scene: Scene) -> None:
    if scene.address.startswith("postgres"):
        settings = scene.folder / "ropewalk.toml"
        settings.write_text(f'{settings.read_text()}[store]\nengine = "dbos"\n')
    assert scene.run("run", "deadly.yaml", "--id", "q", "--no-wait").code == 0
    assert scene.run("worker").code == -signal.SIGKILL
    scene.until(lambda: status(scene, "q") == "queued")  # where leases decide, it is running until its lease is over
    assert "status   queued: " in scene.run("runs", "show", "q").out
    assert "no parked run 'q': it is queued" in scene.run("runs", "release", "q").err
    assert "run q: it has not ended; it is queued, and a worker takes it" in scene.run("runs", "retry", "q").err
    overview = scene.run("overview", "--json").data
    assert {name: sum(counts) for name, counts in overview["statuses"].items()} == {"queued": 1}
    assert [(queue["waiting"], queue["running"]) for queue in overview["queues"]] == [(1, 0)]

    # The log of the third worker says in which step the second one died.
    assert scene.run("worker").code == -signal.SIGKILL
    assert "step die (tool die)" in scene.run("worker").err
    shown = scene.run("runs", "show", "q").out
    assert "; correct the tool first" in shown
    assert "error: deadly.yaml:5: 2 processes ended while they executed step die (tool die)" in shown


@on_one_store("recovery", "sqlite", "scene")
def test_a_run_that_records_something_between_deaths_is_not_parked(scene: Scene, serve: Callable[[], Server]) -> None:
    kill(begun(scene, "r", lines=2))
    for number in range(4):
        known = scene.recorded("r")
        server = serve()
        scene.until(lambda known=known: scene.recorded("r") > known or has_status(scene, "r", "completed"))  # type: ignore[misc]
        kill(server.process)
        assert status(scene, "r") in ("interrupted", "completed"), number
    serve()
    scene.until(lambda: has_status(scene, "r", "completed"))


@on_one_store("recovery", "postgres", "scene")
def test_a_waiting_run_stays_waiting_when_its_process_is_told_to_end(scene: Scene) -> None:
    process = scene.start("run", "waits.yaml", "--id", "w", "--wait")
    scene.until(lambda: is_asked(scene, "w"), process)
    process.terminate()
    process.wait(50)
    assert status(scene, "w") == "waiting"


@on_one_store("recovery", "sqlite", "scene")
def test_a_run_that_waits_in_a_server_stays_waiting(scene: Scene, serve: Callable[[], Server]) -> None:
    server = serve()
    server.client.post("/api/runs", json={"document": document(WAITS), "runId": "w"})
    scene.until(lambda: is_asked(scene, "w"))
    server.stop()
    assert status(scene, "w") == "waiting"
    scene.run("runs", "approve", "w")
    assert scene.run("resume", "w").code == 0
    assert scene.started() == ["first", "last"]


def is_asked(scene: Scene, run_id: str) -> bool:
    return "Go on?" in scene.run("runs", "show", run_id, "--json").out


@on_one_store("recovery", "sqlite", "scene")
def test_resume_all_continues_every_run_that_was_left(scene: Scene) -> None:
    for name in ("a", "b"):
        since = len(scene.lines())
        kill(begun(scene, name, lines=since + 3))
    done = scene.run("resume", "--all", "--json")
    assert done.code == 0, done.err
    assert {row["runId"]: row["status"] for row in json.loads(done.out)} == {"a": "completed", "b": "completed"}
    assert scene.run("resume", "--all").out.strip() == "no run to resume"
    assert scene.run("resume").code == 2
    assert scene.run("resume", "a", "--all").code == 2


PROGRAM = """
import asyncio, sys
from ropewalk import App

async def main() -> None:
    async with App.open(".", store=sys.argv[1], resume=sys.argv[2] == "resume") as app:
        for _ in range(2000 if sys.argv[2] == "resume" else 20):
            await asyncio.sleep(0.05)
            if app.runs.get("r")["status"] == "completed":
                break
        print(app.runs.get("r")["status"])

asyncio.run(main())
"""


@on_one_store("recovery", "sqlite", "scene")
@pytest.mark.parametrize(("word", "status_after"), [("resume", "completed"), ("not", "running")])
def test_a_program_resumes_runs_only_when_it_asks_for_it(scene: Scene, word: str, status_after: str) -> None:
    kill(begun(scene, "r"))
    kept, since = recorded(scene, "r"), len(scene.lines())
    program = scene.folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), scene.address, word]
    done = fork_server.run(command, cwd=scene.folder, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == status_after, done.stderr
    assert not kept & set(scene.started(since))


@pytest.mark.anyio
async def test_an_answered_run_continues_without_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "event": "go"}]}
    async with App(tmp_path / "x.db") as app:
        recovery = Recovery(app)
        for name in ("answered", "asked"):
            await app.run(document, run_id=name, park=True)
        # Somebody has interrupted this one, and its event comes early: it stays.
        await (await app.store.open(NewRun(id="early", kind="chain"))).release()
        app.runs.send("early", "go", early=True)
        app.runs.send("asked", "other", early=True)
        assert await recovery.resume_recoverable() == []
        app.runs.send("answered", "go", 1)
        monkeypatch.setattr("ropewalk.journal.sql.recovery._TIME_TO_RESUME", 60)
        assert await recovery.resume_recoverable() == []  # whoever has answered it may resume it
        monkeypatch.setattr("ropewalk.journal.sql.recovery._TIME_TO_RESUME", -60)
        assert await recovery.resume_recoverable() == ["answered"]
        await until(lambda: not recovery._resuming)
        statuses = {row.id: row.status for row in app.runs.list()}
        assert statuses == {"answered": "completed", "asked": "waiting", "early": "running"}


@pytest.mark.anyio
async def test_runs_of_other_projects_hide_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.journal.sql.recovery._TIME_TO_RESUME", -60)
    document = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "event": "go"}]}
    async with App(tmp_path / "x.db") as app:
        store: Any = app.store
        for name, project in (("theirs-1", "/elsewhere"), ("theirs-2", "/elsewhere"), ("ours", None)):
            await (await store.open(NewRun(id=name, kind="chain", context={"project": project}))).release()
            store.hand_back(name)
        await (await store.open(NewRun(id="early", kind="chain"))).release()
        app.runs.send("early", "go", early=True)  # no wait takes it
        await app.run(document, run_id="answered", park=True)
        app.runs.send("answered", "go", 1)
        monkeypatch.setattr(store, "recoverable", partial(store.recoverable, 1))
        recovery = Recovery(app)
        assert [await recovery.resume_recoverable() for _ in range(3)] == [["answered"], [], ["ours"]]
        await recovery.close()


@pytest.mark.anyio
async def test_many_runs_of_another_project_hide_none_of_ours(tmp_path: Path) -> None:
    document = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "event": "go"}]}
    async with App(tmp_path / "x.db") as app:
        store: Any = app.store
        theirs: Any = {"kind": "chain", "context": {"project": "/elsewhere"}, "undo_policy": "on_failure"}
        for number in range(101):
            await (await store.open(NewRun(id=f"failed-{number}", **theirs))).finish("failed", None)
            await (await store.open(NewRun(id=f"left-{number}", **theirs))).release()
        failed = await store.open(NewRun(id="failed", kind="chain", undo_policy="on_failure"))
        await failed.finish("failed", None)
        await app.run(document, run_id="ours", park=True)
        app.runs.send("ours", "go", 1)
        assert app.runs.liveness_of([store.get_run("ours")]) == {"ours": "answered"}
        assert [outcome.run_id for outcome in await resume_all(app)] == ["ours"]
        recovery = Recovery(app)
        assert await recovery.resume_recoverable() == ["failed"]
        await recovery.close()


@pytest.mark.anyio
async def test_a_look_for_answered_runs_reads_only_what_has_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.journal.sql.recovery._TIME_TO_RESUME", -60)
    document = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "event": "go"}]}
    async with App(tmp_path / "x.db") as app:
        for name in ("waits", "answered"):
            await app.run(document, run_id=name, park=True)
        app.runs.send("answered", "go", 1)
        store: Any = app.store

        def damage(connection: Any) -> None:  # what is not read is not found to be damaged
            connection.execute(
                "UPDATE entry SET data = ? WHERE kind = 'wait' AND run = (SELECT seq FROM run WHERE id = 'waits')",
                (b"{",),
            )

        store.run_in_transaction(damage)
        assert [(run.row.id, run.reason) for run in store.recoverable()] == [("answered", ANSWERED)]


@on_one_store("recovery", "postgres", "scene")
def test_of_two_servers_one_resumes_a_run(scene: Scene, serve: Callable[[], Server]) -> None:
    for name in ("a", "b", "c"):
        since = len(scene.lines())
        kill(begun(scene, name, lines=since + 3))
    since = len(scene.lines())
    serve(), serve()
    scene.until(lambda: all(has_status(scene, name, "completed") for name in "abc"))
    # Each call that was made since is made by one of the servers: a second owner would repeat some of them.
    again = scene.started(since)
    assert again.count("end") == 3, again
