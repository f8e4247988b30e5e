"""What every store must do: signals, and runs that wait without an owner."""

from __future__ import annotations

import asyncio
import time

import pytest
from stores import new, run

from ropewalk.errors import InvalidValue, JournalConflict, NotFound, RunEnded, StoreError
from ropewalk.journal.open_waits import open_waits
from ropewalk.journal.protocol import Entry, OpenWait, Store


def paid(path: str = "w", due: float | None = None) -> OpenWait:
    return OpenWait("paid", path, path, due)


def test_a_signal_is_kept_until_a_wait_takes_it_and_is_taken_once(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        assert store.send("r", "paid", {"sum": 1})
        assert store.send("r", "other", 2)
        [entry] = await log.take([paid()])
        assert (entry.path, entry.kind, entry.data["value"]) == ("w", "signal", {"sum": 1})
        assert await log.take([paid("v")]) == []
        assert [(e.path, e.kind, e.data["value"]) for e in store.history("r")] == [("w", "signal", {"sum": 1})]
        assert [(s.name, s.payload, s.taken) for s in store.signals("r")] == [
            ("paid", {"sum": 1}, "w"),
            ("other", 2, None),
        ]

    run(test())


def test_signals_go_to_the_first_wait_in_order_of_sending(store: Store) -> None:
    """DUR-10"""

    async def test() -> None:
        log = await store.open(new())
        for i in range(3):
            store.send("r", "paid", i)
        store.send("r", "shipped", "x")
        waits = [paid("a"), OpenWait("shipped", "s"), paid("b")]
        assert [(e.path, e.data["value"]) for e in await log.take(waits)] == [("a", 0), ("b", 1), ("s", "x")]
        assert [(e.path, e.data["value"]) for e in await log.take([paid("c"), paid("d")])] == [("c", 2)]

    run(test())


def test_what_runs_wait_for_is_found_without_what_else_they_recorded(store: Store) -> None:
    async def test() -> None:
        asked = {"event": "paid", "due": None}
        logs = {id: await store.open(new(id)) for id in ("plain", "waits", "had", "ended", "b-parked")}
        for id, log in logs.items():
            await log.append(Entry("c", "call", "c", "x" * 100, "d", 1.0, 2.0))
            await log.append(Entry("n", "node", "n", {"big": id}, "", 1.0, 2.0))
            if id != "plain":
                await log.append(Entry("w", "wait", "w", asked, "", 3.0, 3.0))
        store.send("had", "paid", 1)
        await logs["had"].take([paid()])
        await logs["ended"].finish("completed", {})
        assert await logs["b-parked"].park(None)
        store.send("waits", "other", {"much": 1}, id="s")
        store.send("plain", "paid", 1)
        found = store.waits()
        assert store.waits(signalled=True) == {id: item for id, item in found.items() if id == "waits"}
        assert list(found) == ["b-parked", "had", "waits"]
        assert {id: [(e.path, e.data) for e in open_waits(seen)] for id, (seen, _) in found.items()} == {
            "b-parked": [("w", asked)],
            "had": [],
            "waits": [("w", asked)],
        }
        assert {id: [(s.id, s.name) for s in kept] for id, (_, kept) in found.items()} == {
            "b-parked": [],
            "had": [],
            "waits": [("s", "other")],
        }

    run(test())


def test_what_was_sent_after_its_time_is_not_for_a_wait(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        over = time.time() - 1
        store.send("r", "paid", 1)
        assert [e.path for e in await log.take([paid("late", over), paid("patient")])] == ["patient"]

    run(test())


def test_the_same_id_is_sent_once(store: Store) -> None:
    """DUR-12"""

    async def test() -> None:
        log = await store.open(new())
        assert store.send("r", "paid", {"sum": 1}, id="order-7")
        assert not store.send("r", "paid", {"sum": 1}, id="order-7")
        with pytest.raises(JournalConflict, match="another signal was sent with the id 'order-7'"):
            store.send("r", "paid", {"sum": 2}, id="order-7")
        assert len(store.signals("r")) == 1
        await log.finish("completed", None)
        assert not store.send("r", "paid", {"sum": 1}, id="order-7")

    run(test())


def test_what_cannot_be_sent_is_refused(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        for unknown in ("nowhere", "no\0where"):
            with pytest.raises(NotFound, match="no run"):
                store.send(unknown, "paid")
        with pytest.raises(InvalidValue, match="name of a signal: must be a text that is not empty"):
            store.send("r", " ")
        with pytest.raises(InvalidValue, match="NUL"):
            store.send("r", "pa\0id")
        with pytest.raises(InvalidValue, match=r"name of a signal: has 1,001 characters"):
            store.send("r", "x" * 1001)
        with pytest.raises(InvalidValue, match="is not JSON"):
            store.send("r", "paid", [float("nan")])
        with pytest.raises(InvalidValue, match=r"payload: 1,000,00\d bytes of JSON; at most 1,000,000 are allowed"):
            store.send("r", "paid", "x" * 1_000_000)
        await log.finish("failed", None)
        with pytest.raises(RunEnded, match=r"run r has ended \(failed\) and no longer receives events"):
            store.send("r", "paid")
        assert store.signals("r") == store.signals("nowhere") == []

    run(test())


def test_a_large_payload_arrives_whole_and_goes_with_its_run(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        payload = {"text": "xyz" * 100_000}
        store.send("r", "paid", payload)
        [entry] = await log.take([paid()])
        assert entry.data["value"] == payload
        [signal] = store.signals("r")
        assert signal.payload == payload
        await log.finish("completed", None)
        assert store.prune(keep=0).runs == 1
        assert store.signals("r") == []

    run(test())


def test_the_owner_hears_of_a_signal(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        told = asyncio.Event()
        log.on_signal = told.set
        await asyncio.to_thread(store.send, "r", "paid")
        await told.wait()

    run(test())


def test_a_parked_run_has_no_owner_and_goes_on_when_something_is_sent(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new(input={"x": 1}))
        await log.append(Entry("w", "wait", "w", {"event": "paid"}))
        due = time.time() + 1000
        log.touch("w", 1.5)
        assert await log.park(due, ["paid"])
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.due, row.ended_at, row.spent) == ("waiting", due, None, 1.5)
        assert [r.id for r in store.list_runs(status="waiting")] == ["r"]
        assert store.orphans() == []
        with pytest.raises(StoreError):
            await log.append(Entry("x", "node"))
        assert store.send("r", "paid", 7)
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.due) == ("running", None)
        assert [r.id for r in store.orphans()] == ["r"]
        again = await store.reopen("r")
        assert again.resumed
        assert again.run.spent == 1.5
        assert [e.data["value"] for e in await again.take([paid()])] == [7]
        assert store.orphans() == []

    run(test())


def test_a_run_is_not_parked_past_a_signal_that_it_waits_for(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        store.send("r", "other")
        store.send("r", "paid")
        assert not await log.park(None, ["paid"])
        row = store.get_run("r")
        assert row is not None
        assert row.status == "running"
        assert [e.path for e in await log.take([paid()])] == ["w"]
        assert await log.park(None, ["paid"])

    run(test())


def test_a_parked_run_goes_on_waiting_when_something_else_comes(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.append(Entry("w", "wait", data={"event": "paid", "due": None}))
        await log.append(Entry("a", "wait", data={"approval": "Ship it?", "due": None}))
        for name, status in (("other", "waiting"), ("approval:w", "waiting"), ("approval:a", "running")):
            assert await log.park(None, ["paid", "approval:a"])
            store.send("r", name)
            row = store.get_run("r")
            assert row is not None
            assert row.status == status
            log = await store.reopen("r")
        assert [signal.name for signal in store.signals("r")] == ["other", "approval:w", "approval:a"]

    run(test())


def test_a_parked_run_whose_time_is_due_is_for_whoever_runs_runs(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        assert await log.park(time.time() - 1)
        await (await store.open(new("patient"))).park(None)
        await (await store.open(new("later"))).park(time.time() + 1000)
        assert [(r.id, r.status) for r in store.orphans()] == [("r", "waiting")]
        log = await store.open(new())
        assert log.resumed
        assert log.finished is None
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.due) == ("running", None)

    run(test())


def test_a_parked_run_is_stopped_at_once_and_never_pruned_before(store: Store) -> None:
    async def test() -> None:
        await (await store.open(new())).park(None)
        assert store.prune(before=time.time() + 1000, keep=0).runs == 0
        assert store.request_stop("r")
        row = store.get_run("r")
        assert row is not None
        assert row.status == "stopped"
        assert row.ended_at is not None
        assert store.orphans() == []
        with pytest.raises(RunEnded):
            store.send("r", "paid")
        assert store.prune(keep=0).runs == 1

    run(test())


def test_a_stopped_run_is_not_parked(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        store.request_stop("r")
        assert not await log.park(None)
        row = store.get_run("r")
        assert row is not None
        assert row.status == "stopped"

    run(test())


def test_a_replaced_owner_takes_nothing_and_parks_nothing(store: Store) -> None:
    async def test() -> None:
        old = await store.open(new())
        await old.release()
        log = await store.reopen("r")
        store.send("r", "paid")
        for late in (old.take([paid()]), old.park(None)):
            with pytest.raises(StoreError):
                await late
        assert [e.path for e in await log.take([paid()])] == ["w"]

    run(test())


def test_a_signal_sent_while_its_run_is_parked_is_never_lost(store: Store) -> None:
    """DUR-11. Whichever comes first, the run is running and has the signal, or it was not parked."""

    async def test() -> None:
        for i in range(40):
            log = await store.open(new(f"r{i}"))
            sending = asyncio.create_task(asyncio.to_thread(store.send, f"r{i}", "paid", i))
            if i % 3:
                await asyncio.sleep(0)
            parked = await log.park(None, ["paid"])
            await sending
            if parked:
                assert f"r{i}" in [row.id for row in store.orphans()]
                log = await store.reopen(f"r{i}")
            assert [e.data["value"] for e in await log.take([paid()])] == [i]
            await log.finish("completed", None)

    run(test())
