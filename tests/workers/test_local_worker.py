"""Queued runs and schedules in a store on SQLite: any process that serves or works executes them, each once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from faults.scene import Scene, kill
from patience import until
from ropewalk import App, tool
from ropewalk.app.executing import executing
from ropewalk.app.project_versions import ProjectVersions
from ropewalk.config.settings import Queue, Schedule, WorkerLimits, WorkerSettings
from ropewalk.doors.cli.doctor import unfinished
from ropewalk.doors.cli.session import warn_of_idle_schedules
from ropewalk.doors.cli.signals import _continue_answer
from ropewalk.doors.http.site import make_site
from ropewalk.errors import NotFound, RunBusy, StoreError
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.leases import Owner, start_time_of, this_process
from ropewalk.journal.sql.timetable import Timetable
from ropewalk.workers import quarantine
from ropewalk.workers.local_worker import LocalWorker
from ropewalk.workers.run_queue import RunQueue

CHAIN = "kind: chain\nname: c\nnodes: [{id: a, type: tool, tool: hold, params: {at: $input.at}}]\n"
DOCUMENT = {
    "kind": "chain",
    "name": "c",
    "nodes": [{"id": "a", "type": "tool", "tool": "hold", "params": {"at": "$input.at"}}],
}
YEARLY = Schedule(cron="0 0 1 1 *", flow="c.yaml", input={"at": "yearly"})
DEAD = replace(this_process(), pid=2**22 + 1).dump()
STEPS = """
kind: chain
name: s
nodes:
  - {id: first, type: tool, tool: async_step, params: {at: first}}
  - {id: long, type: tool, tool: wait_for_file, params: {at: long, name: go}}
"""
PLAN = "from ropewalk import plan\n\n@plan\nasync def twice(n: int) -> int:\n    return 2 * n\n"
WAITS = """
kind: chain
name: w
nodes:
  - {id: first, type: tool, tool: hold, params: {at: first}}
  - {id: ask, type: wait, event: go}
  - {id: last, type: tool, tool: hold, params: {at: last}}
"""


@pytest.fixture(autouse=True)
def base_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that only Postgres or DBOS needs can be imported."""
    for name in ("psycopg", "dbos", "sqlalchemy", "croniter"):
        monkeypatch.setitem(sys.modules, name, None)


class Project:
    """Apps on one store, whose tool `hold` notes its calls and waits for `go` if there is one."""

    def __init__(self, folder: Path, store: Path | None = None, **settings: Any) -> None:
        self.folder, self.settings = folder, WorkerSettings(**settings)
        self.store = store or folder / "x.db"
        self.calls: list[str] = []
        self.at_once = 0
        self.go: asyncio.Event | None = None
        (folder / "c.yaml").write_text(CHAIN)

    def app(self) -> App:
        @tool
        async def hold(at: str) -> str:
            self.calls.append(at)
            self.at_once += 1
            if self.go is not None:
                await self.go.wait()
            else:
                await asyncio.sleep(0)
            self.at_once -= 1
            return at

        app = App(self.store, tools=[hold], settings=self.settings)
        app.context.project = str(self.folder)
        return app

    async def submit(self, app: App, count: int, **how: Any) -> list[str]:
        return [await app.submit(CHAIN, {"at": str(n)}, **how) for n in range(count)]


async def ended(app: App, ids: list[str]) -> list[str]:
    return [outcome.status for outcome in await asyncio.gather(*map(app.wait, ids))]


@pytest.mark.anyio
async def test_two_processes_execute_each_queued_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(tmp_path, queues={"q": Queue()})
    async with project.app() as app, project.app() as other:
        ids = await project.submit(app, 20, queue="q")
        assert set(app.runs.liveness_of([app.runs.row(id) for id in ids]).values()) == {"queued"}
        assert "no worker is running" in str(app.workers.unattended(ids[0]))
        async with executing(ProjectVersions(app)), executing(ProjectVersions(other)):
            assert await ended(app, ids) == ["completed"] * 20
            assert app.workers.unattended(ids[0]) is None
            assert len(app.workers.list()) == 2
        assert sorted(project.calls) == sorted(str(n) for n in range(20))
        assert app.workers.list() == []
        # The same id is the same run, and a name without a queue is an error.
        assert await app.submit(CHAIN, {"at": "0"}, run_id=ids[0]) == ids[0]
        with pytest.raises(NotFound, match="queue"):
            await app.submit(CHAIN, {"at": "0"}, queue="p")
    async with App("memory", settings=WorkerSettings(schedules={"s": YEARLY})) as app:
        await warn_of_idle_schedules(app)
        assert (
            "nothing executes the schedule s; workers and schedules need a store in a file" in capsys.readouterr().err
        )
        with pytest.raises(StoreError, match="queues no runs"):
            await app.submit(CHAIN)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("queue", "first", "within", "later"),  # runs that may begin at once, after one has ended, and after the period
    [
        (Queue(concurrency=2), 2, 1, 1),
        (Queue(worker_concurrency=1), 1, 1, 1),
        (Queue(concurrency=4, worker_concurrency=3), 3, 1, 1),
        (Queue(limit=2, period=60), 2, 0, 2),
        (Queue(limit=5, period=60, concurrency=1), 1, 1, 1),
        (Queue(), 6, 0, 0),
    ],
)
async def test_the_limits_of_a_queue_hold(tmp_path: Path, queue: Queue, first: int, within: int, later: int) -> None:
    project, now, mine = Project(tmp_path, queues={"q": queue}), [1000.0], str(tmp_path)
    async with project.app() as app:
        runs = RunQueue(app.store, lambda: now[0])  # type: ignore[arg-type]
        queues = {"q": queue, "default": Queue()}
        ids = await project.submit(app, 6, queue="q")
        assert runs.due_runs(queues, "/of/another/project", 9) == []
        assert runs.due_runs(queues, mine, 9) == ids[:first]
        claimed = [await runs.claim(id, queues) for id in ids[:first]]
        for id in ids:  # another process has it, or it is beyond the limit
            with pytest.raises(RunBusy):
                await runs.claim(id, queues)
        other = await app.submit(CHAIN, {"at": "x"})
        assert runs.due_runs(queues, mine, 9) == [other]  # the limit of a queue is not that of another
        await claimed[0].finish("completed", {})
        now[0] += 59.9
        assert len(runs.due_runs({"q": queue}, mine, 9)) == within
        now[0] += 0.2
        assert len(runs.due_runs({"q": queue}, mine, 9)) == later
        now[0] -= 3600  # a clock that is set back blocks no queue for an hour
        assert len(runs.due_runs({"q": queue}, mine, 9)) == later
        for log in claimed[1:]:
            await log.release()


@pytest.mark.anyio
async def test_a_worker_takes_the_most_urgent_runs_that_it_has_room_for(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.go = asyncio.Event()
    async with project.app() as app:
        queue = app.workers.registry
        assert isinstance(queue, RunQueue)
        await project.submit(app, 3)
        await app.submit(CHAIN, {"at": "urgent"}, priority=1)
        worker = LocalWorker(
            queue, str(tmp_path), {"default": Queue()}, WorkerLimits(concurrency=2, grace=0),
            app.jobs.for_existing, app.jobs.continue_run, lambda row, missing: {},
        )  # fmt: skip
        for _ in range(2):
            await worker.take_runs()
            assert queue.count_waiting_runs() == {"default": 2}
        await until(lambda: project.at_once == 2)
        assert project.calls == ["urgent", "0"]
        # Released runs are queued as before, for the next process.
        worker.stop()
        await worker.work()
        assert queue.count_waiting_runs() == {"default": 4}


def make_worker(app: App, queue: RunQueue, make_job: Any = None, concurrency: int | None = None) -> LocalWorker:
    return LocalWorker(
        queue, app.project, {"default": Queue(concurrency=concurrency)}, WorkerLimits(grace=0),
        make_job or app.jobs.for_existing, app.jobs.continue_run, lambda row, missing: {},
    )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("moment", ["during the claim", "before the first step"])
async def test_a_worker_that_is_stopped_twice_keeps_no_run_that_it_is_just_taking(tmp_path: Path, moment: str) -> None:
    project = Project(tmp_path)
    project.go = asyncio.Event()
    async with project.app() as app:

        class Claims(RunQueue):
            async def claim(self, *arguments: Any) -> Any:
                log = await super().claim(*arguments)
                if moment == "during the claim":
                    worker.stop()
                    worker.stop()
                return log

        queue = Claims(app.store)  # type: ignore[arg-type]
        await project.submit(app, 1)
        worker = make_worker(app, queue)
        await worker.take_runs()
        if moment == "before the first step":
            worker.stop()
            worker.stop()
        await until(lambda: queue.count_waiting_runs() == {"default": 1})


@pytest.mark.anyio
async def test_a_run_whose_execution_meets_an_error_of_the_store_is_left_alone_for_a_while(tmp_path: Path) -> None:
    project, attempts = Project(tmp_path), list[str]()
    async with project.app() as app:
        queue = app.workers.registry
        assert isinstance(queue, RunQueue)

        async def broken(row: Any) -> Any:
            attempts.append(row.id)
            raise StoreError("the definition is damaged")

        ids = await project.submit(app, 3)
        worker = make_worker(app, queue, broken, concurrency=1)  # those that are left alone take no place from others
        for n in (1, 2, 3, 3):
            await worker.take_runs()
            await until(lambda: attempts and not worker._tasks)
            assert len(attempts) == n
        assert attempts == ids


@pytest.mark.anyio
async def test_a_worker_that_ends_during_a_heartbeat_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.workers.local_worker._BEAT", 0.01)
    begun, removed, recorded = threading.Event(), threading.Event(), threading.Event()

    class Beats(RunQueue):
        def record_heartbeat(self, *arguments: Any) -> None:
            if self.list_workers():  # not the first one
                begun.set()
                removed.wait(0.1)
            super().record_heartbeat(*arguments)
            if begun.is_set():
                recorded.set()

        def remove_worker(self, id: str) -> None:
            super().remove_worker(id)
            removed.set()

    async with Project(tmp_path).app() as app:
        queue = Beats(app.store)  # type: ignore[arg-type]
        worker = make_worker(app, queue)
        working = asyncio.ensure_future(worker.work())
        await until(begun.is_set)
        worker.stop()
        await working
        await until(recorded.is_set)
        assert queue.list_workers() == []


@pytest.mark.anyio
async def test_a_server_whose_store_fails_when_it_starts_executes_runs_once_the_store_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.app.executing._PAUSE", 0.01)
    monkeypatch.setattr("ropewalk.workers.local_worker._BEAT", 0.01)
    project, commits = Project(tmp_path, schedules={"s": YEARLY}), list[int]()
    async with project.app() as app:
        [run_id] = await project.submit(app, 1)

        def fails() -> bool:  # when the schedules are stored, and then at the first heartbeat
            commits.append(len(commits))
            return commits[-1] in (0, 1, 3)

        app.store._writer.connection.set_commit_hook(fails)
        async with executing(ProjectVersions(app)):
            assert (await app.wait(run_id)).status == "completed"
            await until(lambda: len(app.workers.list()) == 1)


@pytest.mark.anyio
async def test_those_who_follow_a_queued_run_hear_of_its_end_after_a_change_of_the_project(tmp_path: Path) -> None:
    project = Project(tmp_path)
    async with project.app() as app:
        versions = ProjectVersions(app)
        versions.replace(project.app())
        version = versions.app
        transport = httpx2.ASGITransport(make_site(versions, None))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            body = {"document": DOCUMENT, "input": {"at": "x"}, "queue": "default", "runId": "x"}
            assert (await client.post("/api/runs", json=body)).status_code == 202
            await until(lambda: version.workers.engine._awaited)
            versions.replace(project.app())
            following = asyncio.ensure_future(client.get("/api/runs/x/events"))
            unused = ProjectVersions(project.app())
            unused.replace(project.app())
            await until(lambda: not unused._retiring)  # by now, the version of the run would be closed, too
            async with executing(versions):
                await until(following.done)
            assert "run.finished" in following.result().text
        await until(lambda: version not in versions._retiring)
        await unused.close()
        await versions.close()


@pytest.mark.anyio
async def test_only_an_answered_run_is_promised_to_a_server(tmp_path: Path) -> None:
    document = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "event": "go"}]}
    async with Project(tmp_path).app() as app:
        await app.run(document, run_id="answered", park=True)
        # A person has interrupted this one before its wait: a server leaves it alone.
        opened = await app.store.open(NewRun(id="early", kind="chain", context={"project": str(tmp_path)}))
        await opened.release()
        app.runs.send("answered", "go", 1)
        app.runs.send("early", "go", 1, early=True)

        def said(run_id: str) -> str:
            return _continue_answer(app, run_id, {}, "sent", None, None).text or ""

        assert [said(id) for id in ("answered", "early")] == [
            f"sent\nnext: ropewalk resume {id}" for id in ("answered", "early")
        ]
        RunQueue(app.store).record_heartbeat("server", {"project": str(tmp_path)})  # type: ignore[arg-type]
        assert said("answered") == "sent\na server or a worker of its project continues it"
        assert said("early") == "sent\nnext: ropewalk resume early"


@pytest.mark.anyio
async def test_a_queued_run_waits_in_no_process_and_continues_where_there_is_one(tmp_path: Path) -> None:
    project = Project(tmp_path)
    async with project.app() as app:
        run_id = await app.submit(WAITS)
        async with executing(ProjectVersions(app)):
            assert (await app.wait(run_id, park=True)).status == "waiting"
            assert app.workers.resumes(app.runs.row(run_id))  # type: ignore[arg-type]
        assert not app.workers.resumes(app.runs.row(run_id))  # type: ignore[arg-type]
        app.runs.send(run_id, "go", 1)
        assert app.runs.liveness_of([app.runs.row(run_id)]) == {run_id: "queued"}
        async with executing(ProjectVersions(app)):
            assert (await app.wait(run_id)).status == "completed"
    assert project.calls == ["first", "last"]


@pytest.mark.anyio
async def test_schedules_run_now_and_when_they_are_due(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedules = {
        "often": Schedule(cron="* * * * * *", flow="c.yaml", input={"at": "often"}),
        "yearly": YEARLY,
        "gone": Schedule(cron="0 0 1 1 *", flow="gone.yaml"),
        "python": Schedule(cron="0 0 1 1 *", flow="flows_of_years.py:twice", input={"n": 2}),
    }
    project = Project(tmp_path, schedules=schedules)
    (tmp_path / "flows_of_years.py").write_text(PLAN)
    async with project.app() as app:
        await warn_of_idle_schedules(app)
        assert app.workers.executes_here
        said = capsys.readouterr().err
        assert (
            "nothing executes the schedules often, yearly, gone, python; start `ropewalk serve` or `ropewalk worker`"
            in said
        )
        async with executing(ProjectVersions(app)):
            await until(lambda: "often" in project.calls)
            assert not app.workers.idle_schedules()
            app.schedules.pause("often")
            app.schedules.pause("yearly")
            by_hand = await app.schedules.run("yearly")
            assert (await app.wait(by_hand)).result == {"a": "yearly"}
            assert (await app.wait(await app.schedules.run("python"))).result == 4
            [(name, error)] = (await app.workers.broken()).items()
            assert (name, "no file" in str(error)) == ("gone", True)
            del schedules["python"]  # the store has it, but a store does not choose files to import
            for name in ("gone", "python"):
                with pytest.raises(NotFound, match="no file"):
                    await app.schedules.run(name)
        often = {row.name: row for row in app.schedules.list()}["often"]
        assert (often.paused, often.status, often.next) == (True, "completed", None)
        times = [row.id for row in app.runs.list() if row.id.startswith("schedule/often/")]
        assert len(set(times)) == len(times) == project.calls.count("often")
        assert app.workers.idle_schedules() == ["often", "yearly", "gone"]


@pytest.mark.anyio
async def test_a_project_takes_over_equal_schedules_and_those_of_a_project_that_has_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.workers.schedules._TAKE_OVER_PAUSE", 0.01)
    (tmp_path / "other").mkdir()
    project = Project(tmp_path, schedules={"s": YEARLY, "t": YEARLY})
    different = Schedule(cron="@yearly", flow="other.yaml")
    other = Project(tmp_path / "other", project.store, schedules={"s": YEARLY, "t": different})
    async with project.app() as app, other.app() as later:
        owners = lambda: {row.name: row.project for row in Timetable(app.workers.registry).rows()}  # noqa: E731
        first, second = ProjectVersions(app), ProjectVersions(later)
        async with contextlib.AsyncExitStack() as stack:
            async with executing(first):
                await stack.enter_async_context(executing(second))
                assert f"[schedules.t]: the project {tmp_path} has a schedule of this name" in caplog.text
                assert "[schedules.s]" not in caplog.text
                assert owners() == {"s": str(tmp_path / "other"), "t": str(tmp_path)}
            await until(lambda: set(owners().values()) == {str(tmp_path / "other")})


@pytest.mark.anyio
async def test_a_run_started_over_http_goes_to_its_queue(tmp_path: Path) -> None:
    project = Project(tmp_path, queues={"q": Queue()})
    async with project.app() as app, executing(ProjectVersions(app)):
        transport = httpx2.ASGITransport(make_site(app, None))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            body = {"document": DOCUMENT, "input": {"at": "x"}, "queue": "q", "priority": 3, "wait": 60}
            done = (await client.post("/api/runs", json=body)).json()
            assert (done["status"], done["result"]) == ("completed", {"a": "x"})
            row = app.runs.row(done["runId"])
            assert row is not None
            assert row.context is not None
            assert (row.context["queue"], row.context["priority"]) == ("q", 3)
            refused = await client.post("/api/runs", json={**body, "queue": "p"})
            assert (refused.status_code, "q" in refused.text) == (404, True)


@pytest.mark.anyio
async def test_a_changed_project_executes_what_comes_and_the_earlier_version_ends_what_it_has(tmp_path: Path) -> None:
    earlier, later = Project(tmp_path), Project(tmp_path, schedules={"s": YEARLY})
    earlier.go = asyncio.Event()
    async with earlier.app() as app:
        versions = ProjectVersions(app)
        async with executing(versions):
            first = await app.submit(CHAIN, {"at": "first"})
            await until(lambda: earlier.at_once == 1)
            versions.replace(later.app())
            second = await versions.app.submit(CHAIN, {"at": "second"})
            assert (await versions.app.wait(second)).status == "completed"
            assert (earlier.calls, later.calls) == (["first"], ["second"])
            assert [row.name for row in versions.app.schedules.list()] == ["s"]
            earlier.go.set()
            assert (await app.wait(first)).status == "completed"
            earlier.go.clear()
            third = await app.submit(CHAIN, {"at": "third"})
            assert (await versions.app.wait(third)).result == {"a": "third"}
        await versions.close()
        assert (earlier.calls, later.calls) == (["first"], ["second", "third"])


@pytest.mark.anyio
async def test_a_server_may_leave_queued_runs_to_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(tmp_path, schedules={"s": YEARLY}, limits=WorkerLimits(in_server=False))
    async with project.app() as app:
        run_id = await app.submit(CHAIN, {"at": "x"})
        async with executing(ProjectVersions(app)):
            await warn_of_idle_schedules(app)
            assert app.workers.list() == []
        assert "nothing executes the schedule s; start `ropewalk worker`" in capsys.readouterr().err
        assert [finding[:3] for finding in unfinished(app)] == [
            ("runs", "ok", "unfinished: 1 queued, 0 executing, 0 waiting, 0 parked, 0 interrupted")
        ]
        assert app.runs.row(run_id).status == "running"  # type: ignore[union-attr]


async def die(app: App, *runs: str) -> None:
    """Let a process die while it executes queued runs, and release them."""
    queue = app.workers.registry
    assert isinstance(queue, RunQueue)
    for id in runs:
        log = await queue.claim(id, {"default": Queue()})
        app.store._writer.watch.remove(log)  # type: ignore[attr-defined]
    queue.run_in_transaction(lambda c: c.execute("UPDATE lease SET owner = ? WHERE owner IS NOT NULL", (DEAD,)))
    assert app.store.recoverable() == []  # type: ignore[attr-defined]  # the queue leads them to another process
    queue.release_dead(2)


@pytest.mark.anyio
async def test_a_run_that_kills_its_processes_is_parked_and_the_others_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project(tmp_path)
    project.go = asyncio.Event()
    async with project.app() as app:
        ids = await project.submit(app, 4)
        poison, *others = ids
        for _ in range(2):
            await die(app, *ids[:2])
        taken = f"run {others[0]} is taken over from {Owner.load(DEAD)}, which died while it executed the run"
        assert taken in caplog.text
        assert app.workers.registry.suspects(ids, 2) == set(ids[:2])  # type: ignore[union-attr]
        await die(app, poison, ids[2])  # next to a new run
        assert [app.runs.row(id).status for id in ids] == ["parked", *["running"] * 3]  # type: ignore[union-attr]
        assert f"run {poison} is parked: 3 processes died while they executed it" in caplog.text

        # The other suspect executes alone until it has recorded something.
        queue = app.workers.registry
        assert isinstance(queue, RunQueue)
        worker = make_worker(app, queue)
        await worker.take_runs()
        await until(lambda: project.at_once)
        await worker.take_runs()
        assert project.calls == ["1"]
        project.go.set()
        async with executing(ProjectVersions(app)):
            assert await ended(app, others) == ["completed"] * 3
            app.workers.release(poison)
            assert (await app.wait(poison)).status == "completed"


@pytest.mark.anyio
async def test_a_queue_does_not_stand_still_for_a_suspect_that_nobody_relieves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "PATIENCE", 0.0)
    monkeypatch.setattr(quarantine, "_CHECK_INTERVAL", 0.01)
    project = Project(tmp_path)
    project.go = asyncio.Event()
    parent = os.getppid()
    other = replace(this_process(), pid=parent, started=start_time_of(parent) or "").dump()
    async with project.app() as app:
        ids = await project.submit(app, 4)
        queue = app.workers.registry
        assert isinstance(queue, RunQueue)
        worker = make_worker(app, queue)

        def is_served() -> bool:
            return queue.is_served_elsewhere(worker.id, app.project, 2)

        for id, of in (("stranger", "elsewhere"), ("other", app.project)):
            assert not is_served()
            queue.record_heartbeat(id, {"project": of})
            queue.run_in_transaction(
                lambda c, id=id: c.execute("UPDATE worker SET owner = ? WHERE id = ?", (other, id))
            )
        assert is_served()
        for _ in range(2):
            await die(app, *ids[:2])
        # The other process executes a suspect, too, so it takes no other run either.
        await queue.claim(ids[1], {"default": Queue()})
        owned = "UPDATE lease SET owner = ? WHERE owner IS NOT NULL"
        queue.run_in_transaction(lambda c: c.execute(owned, (other,)))
        assert not is_served()
        await worker.take_runs()
        await until(lambda: project.calls == ["0"])
        await until(lambda: not queue.quarantine.is_closed)
        await worker.take_runs()
        await until(lambda: project.calls == ["0", "2", "3"])
        project.go.set()
        assert await ended(app, [ids[0], *ids[2:]]) == ["completed"] * 3


@pytest.mark.process
def test_queued_runs_survive_a_killed_process(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "p", STEPS)
    (scene.folder / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n[queues.q]\nconcurrency = 1\n')

    async def put() -> None:
        async with App.open(scene.folder) as app:
            for id in "xy":
                await app.submit(scene.folder / "chain.yaml", run_id=id, queue="q")

    asyncio.run(put())
    killed = scene.start("worker")
    scene.until(lambda: "long" in scene.started())
    kill(killed)
    assert scene.started() == ["first", "long"]  # one run at a time
    (scene.folder / "go").touch()
    again = scene.start("serve", "--port", "0")
    scene.until(lambda: [scene.row(id).status for id in "xy"] == ["completed"] * 2)  # type: ignore[union-attr]
    # What was recorded is not repeated; the call that was interrupted is.
    assert scene.started() == ["first", "long", "long", "first", "long"]
    again.send_signal(signal.SIGTERM)
    again.communicate()
