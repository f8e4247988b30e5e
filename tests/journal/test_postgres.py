"""What only a server can do to a store: restart, lose an answer, be away, belong to others too."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from faults.wire import Wire
from patience import BOUND, until
from postgres_server import PostgresServer
from ropewalk.errors import StoreError
from ropewalk.journal.postgres import session
from ropewalk.journal.postgres import store as postgres_writer
from ropewalk.journal.postgres.session import Session, parse_target
from ropewalk.journal.postgres.store import PostgresStore, examine
from ropewalk.journal.protocol import Definition, Entry, NewRun

psycopg = pytest.importorskip("psycopg")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def new(id: str = "r", **more: Any) -> NewRun:
    return NewRun(id=id, kind="chain", **more)


def execute(url: str, query: str) -> list[Any]:
    parts = urlsplit(url)
    words = parse_qs(parts.query)
    with psycopg.connect(f"postgresql://postgres@/postgres?host={words['host'][0]}", autocommit=True) as connection:
        cursor = connection.execute(query.replace("$", words["schema"][0]))
        return list(cursor.fetchall()) if cursor.description else []


# --- answers that are lost ----------------------------------------------------------------


def test_entries_whose_answer_was_lost_are_sent_again_and_stand_once(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.append(Entry("first", "call", data=0))
        wire.lose_answer(b"INSERT INTO entry")
        given = [Entry("a", "call", data=1, digest="d"), Entry("b", "attempt", data=1), Entry("b", "node")]
        await asyncio.gather(*[log.append(entry) for entry in given])
        assert wire.lost.is_set()
        await log.append(Entry("c", "timer", data=3.5))
        assert [(e.path, e.kind) for e in store.history("r")] == [
            ("first", "call"), ("a", "call"), ("b", "attempt"), ("b", "node"), ("c", "timer"),
        ]  # fmt: skip
        assert await log.finish("completed", None) == "completed"

    run(test())


def test_opening_whose_answer_was_lost_opens_once(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        store.put_definition(Definition(kind="chain", id="c"))
        wire.lose_answer(b"COMMIT")
        log = await store.open(new(definition_id="c", input={"x": "y" * 100_000}))
        assert wire.lost.is_set()
        assert (log.run.epoch, log.resumed, log.finished) == (1, False, None)
        definition = store.get_definition("chain", "c")
        assert definition is not None
        assert definition.run_count == 1
        await log.append(Entry("a", "call", data=1))
        await log.release()
        wire.lose_answer(b"COMMIT")
        log = await store.reopen("r")
        assert wire.lost.is_set()
        assert (log.run.epoch, list(log.past)) == (2, [("a", "call")])
        await log.append(Entry("b", "call", data=1))

    run(test())


def test_end_and_stop_whose_answers_were_lost_are_told_as_they_were(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        log = await store.open(new())
        log.append(Entry("a", "call", data=1))
        wire.lose_answer(b"COMMIT")
        assert await log.finish("partial", {"r": 1}, results=1) == "partial"
        assert wire.lost.is_set()
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.result, row.result_count) == ("partial", {"r": 1}, 1)
        log = await store.open(new("s"))
        wire.lose_answer(b"COMMIT")
        assert store.request_stop("s")
        assert wire.lost.is_set()
        assert not store.request_stop("s")
        wire.lose_answer(b"COMMIT")
        assert await log.finish("completed", None) == "stopped"

    run(test())


def test_connections_that_break_are_made_anew(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        log = await store.open(new())
        for i in range(8):  # More than it takes until statements are prepared on the server.
            wire.cut()
            await log.append(Entry(f"n{i}", "call", data=i))
            wire.cut()
            assert len(store.history("r")) == i + 1

    run(test())


# --- servers that go away -----------------------------------------------------------------


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_run_goes_on_when_the_server_has_been_restarted(
    url: str, postgres_server: PostgresServer, how: signal.Signals
) -> None:
    async def test() -> None:
        store = PostgresStore(url, poll=0.05)
        log = await store.open(new())
        told = asyncio.Event()
        log.on_stop = told.set
        acknowledged: list[str] = []
        many = asyncio.Event()

        async def task(number: int) -> None:
            for i in range(60):
                await log.append(Entry(f"{number}[{i}]", "call", data="x" * 500))
                acknowledged.append(f"{number}[{i}]")
                if len(acknowledged) > 100:
                    many.set()

        tasks = [asyncio.create_task(task(n)) for n in range(10)]
        await many.wait()
        assert not all(one.done() for one in tasks)
        postgres_server.down(how)
        postgres_server.up()
        await asyncio.gather(*tasks)
        assert len(acknowledged) == 600
        assert {e.path for e in store.history("r")} == set(acknowledged)
        assert not told.is_set()
        assert await log.finish("completed", None) == "completed"
        store.close()

    run(test())


def test_what_could_not_be_written_is_sent_when_the_server_is_back(
    url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        store = PostgresStore(url, poll=0.05)
        log = await store.open(new())
        monkeypatch.setattr(postgres_writer, "PATIENCE", 0.2)
        postgres_server.down()
        try:
            lost = log.append(Entry("a", "call", data=1))
            with pytest.raises(StoreError, match="cannot be reached or ended the session"):
                await lost
            with pytest.raises(StoreError, match="postgresql://postgres@"):
                store.get_run("r")
        finally:
            postgres_server.up()
        monkeypatch.undo()
        await log.append(Entry("b", "call", data=2))
        assert [e.path for e in store.history("r")] == ["a", "b"]
        store.close()

    run(test())


def test_leases_are_kept_across_a_restart_though_nothing_is_recorded(url: str, postgres_server: PostgresServer) -> None:
    async def test() -> None:
        store = PostgresStore(url, lease=0.15, poll=0.02)
        log = await store.open(new())
        postgres_server.restart()
        other = PostgresStore(url)
        log.touch("fetch", 2.5)
        await until(lambda: (row := other.get_run("r")) and row.current_node == "fetch")
        other.close()
        store.close()

    run(test())


def test_a_stop_is_heard_after_a_restart_though_no_lease_is_due(url: str, postgres_server: PostgresServer) -> None:
    async def test() -> None:
        store, other = PostgresStore(url, lease=600, poll=0.02), PostgresStore(url)
        log = await store.open(new())
        stopped = asyncio.Event()
        log.on_stop = stopped.set
        await until(lambda: log.beaten_at)
        postgres_server.restart()
        assert other.request_stop("r")
        await asyncio.wait_for(stopped.wait(), BOUND)
        other.close()
        store.close()

    run(test())


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_process_that_is_paused_within_a_transaction_does_not_keep_its_runs(
    url: str, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    async def test() -> None:
        store = PostgresStore(url)
        log = await store.open(new())
        await log.release()
        monkeypatch.setattr(session, "IDLE_TRANSACTION_SECONDS", 0.3)
        paused = Session(parse_target(url))
        paused.execute("BEGIN")
        if rows:
            paused.executemany("UPDATE lease SET beat = beat WHERE run > ?", [(0,)] * rows)
        else:
            paused.execute("UPDATE lease SET beat = beat")
        taken = await store.reopen("r")
        assert taken.run.epoch == 2
        with pytest.raises(psycopg.Error, match="idle-in-transaction"):
            paused.execute("COMMIT")
        assert paused.is_closed
        store.close()

    run(test())


# --- batches ------------------------------------------------------------------------------


def test_entries_of_many_runs_go_in_one_round_trip(store: PostgresStore, wire: Wire) -> None:
    async def test() -> None:
        logs = [await store.open(new(f"r{i}")) for i in range(20)]
        before = wire.sent
        await asyncio.gather(*[log.append(Entry(f"n{i}", "call", data=i)) for i in range(20) for log in logs])
        assert wire.sent - before <= 4  # A large statement may travel in pieces.
        assert [len(store.history(f"r{i}")) for i in range(20)] == [20] * 20
        assert [e.data for e in store.history("r7")] == list(range(20))

    run(test())


def test_a_fact_that_comes_twice_in_a_batch_follows_its_kind(store: PostgresStore) -> None:
    async def test() -> None:
        log = await store.open(new())
        other = await store.open(new("s"))
        given = [Entry("a", "attempt", data=1), Entry("b", "call", data=1), Entry("a", "attempt", data=2)]
        waiting = [log.append(entry) for entry in [*given, Entry("b", "call", data=1), Entry("b", "call", data=9)]]
        beside = other.append(Entry("x", "call", data=1))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        await beside
        assert outcomes[:4] == [None] * 4
        assert "another call is recorded here" in str(outcomes[4])
        assert [(e.path, e.data) for e in store.history("r")] == [("a", 2), ("b", 1)]

    run(test())


def test_large_batches_are_cut_into_statements(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(postgres_writer, "_MAX_STATEMENT_BYTES", 100_000)
        log = await store.open(new())
        await asyncio.gather(*[log.append(Entry(f"n{i}", "call", data="x" * 50_000)) for i in range(30)])
        assert [e.path for e in store.history("r")] == [f"n{i}" for i in range(30)]

    run(test())


def test_one_entry_that_cannot_be_written_fails_alone(store: PostgresStore) -> None:
    async def test() -> None:
        log, other = await store.open(new()), await store.open(new("s"))
        bad = log.append(Entry("a\0b", "call", data=1))
        good = other.append(Entry("a", "call", data=1))
        with pytest.raises(StoreError, match="NUL"):
            await bad
        await good
        assert [e.path for e in store.history("s")] == ["a"]

    run(test())


# --- what is kept, and where --------------------------------------------------------------


def test_pruning_waits_for_a_run_that_is_just_storing_the_same_big_value(url: str) -> None:
    big = {"t": "".join(chr(33 + i * 7919 % 90) for i in range(100_000))}

    async def fill(store: PostgresStore) -> None:
        log = await store.open(new("old"))
        await log.append(Entry("a", "call", data=big))
        await log.finish("completed", None)
        await store.open(new("live"))

    store = PostgresStore(url)
    run(fill(store))
    parts = parse_qs(urlsplit(url).query)
    session = psycopg.connect(f"postgresql://postgres@/postgres?host={parts['host'][0]}")
    schema = parts["schema"][0]
    with session.transaction():
        # What a worker of the run `live` does when it records the value.
        session.execute(f"INSERT INTO {schema}.blob SELECT * FROM {schema}.blob ON CONFLICT DO NOTHING")
        session.execute(
            f"INSERT INTO {schema}.held SELECT hash, seq FROM {schema}.blob, {schema}.run WHERE id = 'live'"
        )
        pruning = threading.Thread(target=lambda: store.prune(before=1e12))
        pruning.start()
        while not execute(url, "SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert pruning.is_alive(), "it did not wait"
    pruning.join()
    session.close()
    assert store.get_run("old") is None
    assert execute(url, "SELECT count(*) FROM $.blob") == [(1,)]
    store.close()


def test_a_store_of_a_newer_version_is_refused(url: str) -> None:
    PostgresStore(url).close()
    execute(url, "INSERT INTO $.migration VALUES (99, 'future', 0)")
    with pytest.raises(StoreError, match=r"written by a newer Ropewalk .*99"):
        PostgresStore(url)


def test_a_schema_of_another_program_is_refused_and_left_alone(url: str) -> None:
    execute(url, "CREATE SCHEMA $")
    execute(url, "CREATE TABLE $.theirs (x int)")
    with pytest.raises(StoreError, match="tables of another program \\(theirs\\)"):
        PostgresStore(url)
    assert execute(url, "SELECT tablename FROM pg_tables WHERE schemaname = '$'") == [("theirs",)]


def test_a_user_who_may_not_make_the_store_is_told_so(url: str) -> None:
    execute(url, "DROP ROLE IF EXISTS poor")
    execute(url, "CREATE ROLE poor LOGIN")
    with pytest.raises(StoreError, match=r"may not do this .*grant it CREATE"):
        PostgresStore(url.replace("postgres@", "poor@"))


def test_damaged_big_values_are_found(url: str) -> None:
    async def fill() -> None:
        store = PostgresStore(url)
        log = await store.open(new())
        await log.append(Entry("a", "call", data="x" * 100_000))
        store.close()

    run(fill())
    assert examine(url)[1] == []
    execute(url, "UPDATE $.blob SET data = '\\x00'")
    assert "missing or damaged" in examine(url)[1][0]
