"""Claims whose caller is cancelled: no run stays with a process that does not execute it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from patience import until, wait_until
from postgres_server import PostgresServer, fresh
from ropewalk import App, tool
from ropewalk.errors import RopewalkError, StoreError
from ropewalk.journal.address import is_postgres
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql.leases import Owner
from ropewalk.journal.sql.log import SqlLog
from ropewalk.journal.sql.rows import fetch
from ropewalk.journal.sql.store import SqlStore
from ropewalk.journal.sqlite.store import SqliteStore
from tiers import Scale

pytestmark = pytest.mark.anyio

CLAIMS = 60
LEASE = 0.3
PAUSES = (0, 0, 0.0005, 0.001, 0.002)
TURNS = (0, 1, 5, 30, 200, 1000)  # of the loop, before a claim is cancelled


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else f"sqlite:///{tmp_path}/s.db"


def owned(store: SqlStore) -> int:
    """How many runs that have not ended have an owner. An ended run keeps the name of its last one."""
    query = "SELECT count(*) FROM run JOIN lease ON run = seq WHERE owner IS NOT NULL AND ended_at IS NULL"
    return int(store._writer.read(lambda c: fetch(c, query))[0][0])


async def until_free(store: SqlStore) -> None:
    """Wait until no run is owned."""
    await asyncio.to_thread(wait_until, lambda: owned(store) == 0, lambda: f"{owned(store)} runs are still owned")


async def turns(count: int) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def write(log: SqlLog) -> None:
    await log.append(Entry("n", "node"))


def opened(url: str) -> SqlStore:
    """A store that soon looks whether a run has been left behind, as that comes with the beats of its lease."""
    return (
        PostgresStore(url, lease=LEASE)
        if is_postgres(url)
        else SqliteStore(url.removeprefix("sqlite:///"), lease=LEASE)
    )


@pytest.mark.parametrize("way", ["open", "reopen"])
@pytest.mark.campaign("claims")
async def test_a_claim_that_is_cancelled_is_given_back(url: str, way: str, scale: Scale, seed: int) -> None:
    store, chance = opened(url), random.Random(f"{way} {seed}")
    count = scale(CLAIMS, 400)
    new = [NewRun(id=f"r{i}", kind="chain", name="x", document={}) for i in range(count)]
    if way == "reopen":
        for one in new:
            await (await store.open(one)).release()
    cancelled = 0
    busy = await store.open(NewRun(id="busy", kind="chain"))
    for one in new:
        writing = asyncio.ensure_future(write(busy))  # in the same turn, so that the claim waits for its commit
        task = asyncio.ensure_future(store.open(one) if way == "open" else store.reopen(one.id))
        await turns(chance.choice(TURNS))
        task.cancel()
        try:
            await (await task).release()
        except asyncio.CancelledError:
            cancelled += 1
        await writing
    assert cancelled > count / 5, "nothing was cancelled midway"
    await busy.release()
    await until_free(store)
    for one in new:
        if store.get_run(one.id) is not None:
            await (await store.reopen(one.id)).release()
    store.close()


async def test_a_claim_whose_journal_cannot_be_read_is_given_back(url: str) -> None:
    store = opened(url)
    await (await store.open(NewRun(id="r", kind="chain", name="x", document={}))).release()
    store._writer.run(lambda c: c.execute("UPDATE run SET context = ? WHERE id = ?", (b"{", "r")))
    with pytest.raises(StoreError, match="damaged"):
        await store.reopen("r")
    await until_free(store)
    store.close()


@pytest.mark.parametrize("way", ["open", "reopen"])
@pytest.mark.campaign("claims")
def test_a_claim_is_given_back_when_its_event_loop_is_closed_at_any_turn(
    url: str, way: str, scale: Scale, seed: int
) -> None:
    """The answer of the store comes before, while and after the loop ends; its task is cancelled or left pending."""
    store, chance = opened(url), random.Random(f"{way} {seed}")
    new = [NewRun(id=f"r{i}", kind="chain", name="x", document={}) for i in range(scale(CLAIMS, 400))]

    async def create() -> None:
        for run in new:
            await (await store.open(run)).release()

    def leave(run: NewRun) -> None:
        loop = asyncio.new_event_loop()

        async def begin() -> asyncio.Future[object]:
            task = asyncio.ensure_future(store.open(run) if way == "open" else store.reopen(run.id))
            for _ in range(chance.randint(0, 12)):
                await asyncio.sleep(0)
            return task

        task = loop.run_until_complete(begin())
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is what the test is about
        if chance.random() < 0.5:
            task.cancel()
        time.sleep(chance.choice(PAUSES))
        loop.close()

    if way == "reopen":
        asyncio.run(create())
    for run in new:
        leave(run)
    wait_until(lambda: owned(store) == 0)
    store.close()


def test_a_claim_is_given_back_when_asyncio_run_cancels_it(url: str) -> None:
    store = opened(url)

    async def leave(id: str) -> None:
        task = asyncio.ensure_future(store.open(NewRun(id=id, kind="chain", name="x", document={})))
        await asyncio.sleep(0)
        del task

    for i in range(10):
        asyncio.run(leave(f"r{i}"))
    wait_until(lambda: owned(store) == 0)
    store.close()


async def test_a_release_that_is_cancelled_comes_through(url: str) -> None:
    store = opened(url)
    for i in range(20):
        log = await store.open(NewRun(id=f"r{i}", kind="chain", name="x", document={}))
        task = asyncio.ensure_future(log.release())
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await until_free(store)
    watch = store._writer.watch
    await until(lambda: all(watch.find(seq) is None for seq in range(1, 21)))
    store.close()


@pytest.fixture
def own_server(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[str]:
    yield from fresh(postgres_server.url)


async def test_a_claim_is_given_back_after_an_outage(own_server: str, postgres_server: PostgresServer) -> None:
    store = opened(own_server)
    for i in range(5):
        await (await store.open(NewRun(id=f"r{i}", kind="chain", name="x", document={}))).release()
    tasks = [asyncio.ensure_future(store.reopen(f"r{i}")) for i in range(5)]
    await asyncio.sleep(0)
    postgres_server.down()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=0.3)
    postgres_server.up()
    await asyncio.gather(*tasks, return_exceptions=True)
    await until_free(store)
    store.close()


@tool
async def one(x: int) -> int:
    """One."""
    await asyncio.sleep(0.05)
    return x


CHAIN = {
    "kind": "chain",
    "name": "s",
    "timeout": 0,
    "nodes": [{"id": "a", "type": "tool", "tool": "one", "params": {"x": 1}}],
}


@pytest.mark.parametrize("way", ["resume", "retry", "upgrade"])
@pytest.mark.campaign("claims")
async def test_a_run_whose_resume_was_cancelled_can_be_resumed(url: str, way: str, scale: Scale, seed: int) -> None:
    chance = random.Random(f"{way} {seed}")
    more = {**CHAIN["nodes"][0], "id": "b"}  # type: ignore[index]
    changed = {**CHAIN, "nodes": [*CHAIN["nodes"], more]}  # type: ignore[misc]
    store = opened(url)
    async with App(store, tools=[one]) as app:
        begin = {
            "resume": lambda id: app.resume(id),
            "upgrade": lambda id: app.resume(id, changed, upgrade=True),
            "retry": lambda id: app.runs.retry(id, ["a"]),
        }[way]
        ids = [f"r{i}" for i in range(scale(8, 55))]
        for id in ids:
            if way == "retry":
                await app.run(CHAIN, run_id=id)
            else:
                running = asyncio.ensure_future(app.run(CHAIN, run_id=id))
                await until(lambda id=id: app.store.get_run(id))  # type: ignore[misc]
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running
            task = asyncio.ensure_future(begin(id))
            await turns(chance.choice(TURNS))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RopewalkError):
                await task
        await until_free(store)
        finish = begin if way == "upgrade" else app.resume
        ended = await asyncio.gather(*(finish(id) for id in ids), return_exceptions=True)
    store.close()
    assert [str(e) for e in ended if isinstance(e, BaseException)] == []


async def test_an_owner_elsewhere_that_renews_its_lease_keeps_its_run(tmp_path: Path) -> None:
    """Only the lease can tell of an owner on another host; each beat begins the wait again."""
    store = SqliteStore(tmp_path / "s.db", lease=0.6, poll=0.05)
    log = await store.open(NewRun(id="r", kind="chain"))
    await log.release()
    far = Owner(host="far.example", boot="b", space="s", pid=1, started="1").dump()
    other = apsw.Connection(str(tmp_path / "s.db"))

    def beat() -> None:
        other.execute("UPDATE lease SET owner = ?, beat = ?", (far, time.time()))

    beat()
    claim = asyncio.ensure_future(store.reopen("r"))
    last_beat = 0.0
    for _ in range(12):
        await asyncio.sleep(0.1)
        if claim.done():
            break
        beat()
        last_beat = time.monotonic()
    taken = await asyncio.gather(claim, return_exceptions=True)
    assert time.monotonic() - last_beat >= 0.5, taken
    other.close()
    store.close()
