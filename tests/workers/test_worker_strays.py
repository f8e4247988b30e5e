"""What a process other than a worker left unfinished: workers go on with it, where they can have its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ropewalk import App
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.postgres.worker_registry import WorkerRegistry
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.lease_watch import OrphanFinder
from ropewalk.journal.sql.leases import Owner, this_process

from .crew import Crew, kill
from .test_worker_runs import WHO

Start = Callable[..., Crew]
FAR = Owner(host="far.example", boot="b", space="s", pid=1, started="1")


def test_a_run_whose_own_process_was_killed_goes_on_with_a_worker(crew: Start) -> None:
    scene = crew(WHO)
    scene.hire()
    running = scene.start("run", "chain.yaml", "--engine", "local", "--id", "x")
    scene.until(lambda: "long" in scene.started())
    kill(running)
    (scene.folder / "go").touch()
    assert scene.until_ended("x") == "completed"
    assert scene.started() == ["first", "long", "long", "last"]


def test_a_run_whose_own_process_lives_is_left_to_it(crew: Start) -> None:
    scene = crew(WHO)
    running = scene.start("run", "chain.yaml", "--engine", "local", "--id", "x")
    scene.until(lambda: "long" in scene.started())
    registry = WorkerRegistry(PostgresStore(scene.url).target)
    assert registry.release_orphaned_runs(OrphanFinder(lease=0.0)) == []
    registry.close()
    (scene.folder / "go").touch()
    assert running.wait(50) == 0


class Seen:
    """A store in which the run `r` belongs to a process on another host, and a worker's look at it at times of ours."""

    def __init__(self, url: str, **context: Any) -> None:
        self.url, self.now = url, 100.0
        self.registry, self.strays = (
            WorkerRegistry(PostgresStore(url).target),
            OrphanFinder(lease=10.0, clock=lambda: self.now),
        )
        asyncio.run(self._begin(context))

    async def _begin(self, context: dict[str, Any]) -> None:
        store = PostgresStore(self.url)
        await store.open(NewRun(id="r", kind="chain", context=context))
        store.close()
        self.sql("UPDATE lease SET owner = ?, beat = 1", FAR.dump())

    def sql(self, query: str, *values: Any) -> None:
        self.registry.run_in_transaction(lambda session: session.execute(query, values))

    def look(self, after: float) -> list[Owner]:
        self.now += after
        return self.registry.release_orphaned_runs(self.strays)


@pytest.fixture
def seen(postgres_url: str) -> Any:
    made: list[Seen] = []

    def make(**context: Any) -> Seen:
        made.append(Seen(postgres_url, **context))
        return made[-1]

    yield make
    for one in made:
        one.registry.close()


def test_an_owner_on_another_host_is_gone_when_its_lease_was_still_for_its_time(seen: Callable[..., Seen]) -> None:
    there = seen(project="/some/project")
    assert there.look(after=1000) == []  # it was never looked at before
    assert there.look(after=9) == []
    there.sql("UPDATE lease SET beat = 2")
    assert there.look(after=9) == []  # it has spoken
    assert there.look(after=9) == []
    assert there.look(after=2) == [FAR]
    assert there.look(after=100) == []  # once


class Between:
    """A session in which the owner beats just before its run is freed."""

    def __init__(self, session: Any, beat: Callable[[], None]) -> None:
        self._session, self._beat = session, beat

    def execute(self, query: str, values: Any = ()) -> Any:
        if query.startswith("UPDATE lease SET owner = NULL"):
            self._beat()
        return self._session.execute(query, values)


def test_an_owner_that_beats_between_the_look_and_the_write_keeps_its_run(seen: Callable[..., Seen]) -> None:
    there = seen(project="/p")
    assert there.look(after=1) == []
    there.now += 11
    other = WorkerRegistry(PostgresStore(there.url).target)
    beat = "UPDATE lease SET beat = 2"
    freed = there.registry.run_in_transaction(
        lambda session: there.strays.release(
            Between(session, lambda: other.run_in_transaction(lambda s: s.execute(beat))), 1
        )  # type: ignore[arg-type]
    )
    assert freed == {}
    other.close()


def test_runs_of_living_processes_hide_none_of_one_that_is_gone(seen: Callable[..., Seen]) -> None:
    """However many they are."""
    there = seen(project="/p")
    columns = "id, kind, name, fingerprint, started_at, status"
    there.sql(
        f"INSERT INTO run ({columns}) SELECT 'l' || n, 'chain', '', '', 0, 'running' FROM generate_series(1, 1500) AS n"
    )
    there.sql(
        "INSERT INTO lease (run, owner, epoch, beat) SELECT seq, ?, 1, 1 FROM run WHERE id <> 'r'",
        this_process().dump(),
    )
    there.sql("UPDATE run SET context = (SELECT context FROM run WHERE id = 'r') WHERE id = 'l1500'")
    there.sql("UPDATE lease SET owner = ? WHERE run = (SELECT seq FROM run WHERE id = 'r')", this_process().dump())
    there.sql("UPDATE lease SET owner = ? WHERE run = (SELECT seq FROM run WHERE id = 'l1500')", FAR.dump())
    assert there.look(after=1) == []
    assert there.look(after=11) == [FAR]


@pytest.mark.parametrize("context", [{}, {"project": None}, {"project": "/p", "executor": True}])
def test_what_only_its_own_process_had_the_tools_of_is_left_alone(seen: Callable[..., Seen], context: Any) -> None:
    there = seen(**context)
    assert there.look(after=1) == there.look(after=11) == []


def test_a_run_of_a_program_with_tools_of_its_own_is_not_taken_from_it(crew: Start) -> None:
    """Its own, as no project has them: a worker could only let it fail."""
    scene = crew(WHO)
    scene.hire()
    begun = asyncio.Event()

    async def mine() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def main() -> None:
        async with App(scene.url, tools=[mine]) as app:
            nodes = [{"id": "m", "type": "tool", "tool": "mine"}]
            running = asyncio.create_task(app.run({"kind": "chain", "nodes": nodes}, run_id="x"))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        registry = WorkerRegistry(PostgresStore(scene.url).target)
        assert registry.count_waiting_runs() == {}
        registry.close()

    asyncio.run(main())
    assert scene.status("x") == "running"
