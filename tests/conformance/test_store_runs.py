"""What every store must do: stopping, finding and pruning runs, threads, closing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from stores import new, run

from ropewalk.errors import StoreError
from ropewalk.journal.protocol import Entry, Pruned, Store

# --- stopping -----------------------------------------------------------------------------


def test_stop_is_final_and_reaches_the_owner(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        told = asyncio.Event()
        log.on_stop = told.set
        assert store.request_stop("r")
        assert not store.request_stop("r")
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.stop_requested) == ("stopped", True)
        assert row.ended_at is not None
        await asyncio.wait_for(told.wait(), 0.5)
        await log.append(Entry("late", "call", data=1))
        assert await log.finish("completed", 7, results=1) == "stopped"
        after = store.get_run("r")
        assert after is not None
        assert (after.status, after.ended_at, after.result, after.result_count) == ("stopped", row.ended_at, 7, 1)
        assert [e.path for e in store.history("r")] == ["late"]

    run(test())


def test_a_running_run_is_listed_with_the_results_it_has_so_far(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        for entry in (Entry("a", "call", data=1), Entry("b", "call_failed"), Entry("b", "attempt"), Entry("c", "node")):
            await log.append(entry)
        assert [row.result_count for row in store.list_runs()] == [2]
        await log.finish("completed", 7, results=5)
        assert [row.result_count for row in store.list_runs()] == [5]

    run(test())


def test_stop_before_anyone_listens_is_not_lost(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        store.request_stop("r")
        for _ in range(3):
            await asyncio.sleep(0)
        told: list[int] = []
        log.on_stop = lambda: told.append(1)
        await log.append(Entry("a", "node"))
        await asyncio.sleep(0)
        assert told == [1]

    run(test())


def test_stop_can_come_from_another_thread(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        told = asyncio.Event()
        log.on_stop = told.set
        assert await asyncio.to_thread(store.request_stop, "r")
        await asyncio.wait_for(told.wait(), 0.5)

    run(test())


def test_only_a_running_run_can_be_stopped(store: Store) -> None:
    async def test() -> None:
        assert not store.request_stop("nowhere")
        log = await store.open(new())
        await log.finish("completed", None)
        assert not store.request_stop("r")
        row = store.get_run("r")
        assert row is not None
        assert row.status == "completed"

    run(test())


# --- finding runs -------------------------------------------------------------------------


def test_runs_are_listed_newest_first_and_filtered(store: Store) -> None:
    async def test() -> None:
        for i, (kind, name) in enumerate([("chain", "Alpha"), ("flow", "Beta"), ("chain", "GÄMMA %_")]):
            log = await store.open(
                new(f"r{i}", kind=kind, name=name, definition_id=f"d{i}", input={"x": 1}, started_at=100.0 + i)
            )
            if i == 1:
                await log.finish("failed", {"big": 1}, {"message": "Quota gone"})

        def ids(**filters: Any) -> list[str]:
            return [row.id for row in store.list_runs(**filters)]

        assert ids() == ["r2", "r1", "r0"]
        assert ids(limit=2) == ["r2", "r1"]
        assert ids(kind="chain") == ["r2", "r0"]
        assert ids(kind="chain", status="running", limit=1) == ["r2"]
        assert ids(status="failed") == ["r1"]
        assert ids(status=["failed", "running"]) == ["r2", "r1", "r0"]
        assert ids(flow="d1") == ids(flow="Beta") == ["r1"]
        assert ids(flow="Bet") == []
        assert ids(until=101.0) == ["r0"]
        assert ids(since=100.5, until=102.0) == ["r1"]
        assert ids(after="r2") == ["r1", "r0"]
        assert ids(after="r2", limit=1) == ["r1"]
        assert ids(after="r1", kind="chain", text="alpha") == ["r0"]
        assert ids(after="r0") == ids(after="nowhere") == []
        assert ids(definition_id="d0") == ["r0"]
        assert ids(since=101.0) == ["r2", "r1"]
        assert ids(text="alph") == ["r0"]
        assert ids(text="gämma") == ["r2"]
        assert ids(text="%") == ["r2"]
        assert ids(text="quota GONE") == ["r1"]
        assert ids(text="D1") == ["r1"]
        assert ids(text="' OR 1=1 --") == []
        assert ids(text="") == ["r2", "r1", "r0"]
        failed = store.list_runs(status="failed")[0]
        assert (failed.input, failed.result, failed.error) == (None, None, {"message": "Quota gone"})

    run(test())


def test_the_parts_of_a_run_are_told_apart_from_runs_of_their_own(store: Store) -> None:
    async def test() -> None:
        for id, parent in (("r", None), ("r/a", "r"), ("r/a/b", "r/a"), ("s/x", None)):
            await store.open(new(id, parent=parent))
        assert [row.id for row in store.list_runs(top=True)] == ["s/x", "r"]
        assert [row.id for row in store.list_runs(parent="r", status="running")] == ["r/a"]
        assert [row.parent for row in store.list_runs()] == [None, "r/a", "r", None]
        part = store.get_run("r/a")
        assert part is not None
        assert part.parent == "r"

    run(test())


def test_where_a_run_is_can_be_seen_at_once_from_its_own_process(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        log.touch("fetch", 1.5)
        row = store.get_run("r")
        assert row is not None
        assert (row.current_node, row.spent) == ("fetch", 1.5)
        assert store.list_runs()[0].current_node == "fetch"

    run(test())


def test_pruning_takes_the_oldest_ended_runs_only(store: Store) -> None:
    async def test() -> None:
        await store.open(new("live"))
        for i in range(5):
            log = await store.open(new(f"r{i}", input="x" * 60_000))
            await log.append(Entry("a", "call", data="y" * 100_000))
            await log.finish("completed", None)
        assert store.prune() == Pruned(runs=0, bytes=0)
        assert store.prune(before=0.0).runs == 0
        assert store.prune(keep=5).runs == 0
        assert store.prune(keep=2, status=["failed", "stopped"]).runs == 0
        would = store.prune(keep=2, dry=True)
        assert would.runs == 3
        assert would.bytes >= 180_000
        assert len(store.list_runs()) == 6
        assert store.prune(keep=2, most=1).runs == 1
        assert store.prune(keep=2, status=["completed"]).runs == 2
        assert [row.id for row in store.list_runs()] == ["r4", "r3", "live"]
        assert store.history("r0") == []
        assert store.history("r4")[0].data == "y" * 100_000
        assert store.prune(before=1e12).runs == 2
        assert [row.id for row in store.list_runs()] == ["live"]

    run(test())


def test_parts_are_pruned_with_their_run_and_never_before(store: Store) -> None:
    async def test() -> None:
        live, done = await store.open(new("live")), await store.open(new("done"))
        for id, parent in (("live/a", "live"), ("done/a", "done"), ("done/a/b", "done/a"), ("lost/a", "lost")):
            await (await store.open(new(id, parent=parent))).finish("completed", None)
        await done.finish("completed", None)
        assert store.prune(before=1e12, dry=True).runs == 2
        assert store.prune(before=1e12).runs == 2
        assert [row.id for row in store.list_runs()] == ["live/a", "live"]
        await live.finish("completed", None)
        assert store.prune(keep=0).runs == 1
        assert store.list_runs() == []

    run(test())


def test_a_turn_is_taken_once_in_its_time(store: Store) -> None:
    assert store.take_turn("prune", 60.0, 1000.0)
    assert not store.take_turn("prune", 60.0, 1059.0)
    assert store.take_turn("other", 60.0, 1059.0)
    assert store.take_turn("prune", 60.0, 1060.0)
    assert store.take_turn("prune", 60.0, 900.0), "a clock that was set back"
    assert not store.take_turn("prune", 60.0, 959.0)


# --- forks --------------------------------------------------------------------------------


def test_a_fork_has_what_it_copies_and_leaves_the_other_as_it_is(store: Store) -> None:
    async def test() -> None:
        big = "x" * 100_000
        first = await store.open(new(input=1))
        given = [Entry("a", "call", "a", big, "d1", 1.0, 2.0), Entry("b@2", "call", "b", 2), Entry("c", "call", "c", 3)]
        for entry in given:
            await first.append(entry)
        await first.finish("completed", 7)
        before = store.get_run("r"), store.history("r")
        copies = {("a", "call"): ("a", "call"), ("b@2", "call"): ("b", "offer"), ("nothing", "call"): ("n", "call")}
        log = await store.open(new("f", input=2, forked_from="r", copies=copies))
        expected = [given[0], Entry("b", "offer", "b", 2)]
        assert store.history("f") == list(log.past.values()) == expected
        assert (log.run.forked_from, log.run.input, log.resumed, log.finished) == ("r", 2, False, None)
        assert (store.get_run("r"), store.history("r")) == before
        await log.append(Entry("z", "call"))
        await log.finish("completed", None)
        assert store.prune(keep=1).runs == 1
        assert store.history("f")[0].data == big
        assert [row.forked_from for row in store.list_runs()] == ["r"]
        late = await store.open(new("g", forked_from="r", copies=copies))
        assert dict(late.past) == {}

    run(test())


# --- the store as a whole -----------------------------------------------------------------


def test_loops_and_threads_share_a_store(store: Store) -> None:
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        log = await store.open(new(name))
        await asyncio.gather(*[log.append(Entry(f"n{i}", "call", data=i)) for i in range(50)])
        for i in range(50):
            await log.append(Entry(f"m{i}", "call", data=i))
            store.get_run(name)
        await log.finish("completed", None)

    def thread(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=thread, args=(f"t{i}",)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert [len(store.history(f"t{i}")) for i in range(4)] == [100] * 4


def test_entry_is_recorded_though_the_waiting_was_cancelled(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())

        async def wait() -> None:
            await log.append(Entry("a", "call", data=1))

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await log.append(Entry("b", "call", data=1))
        assert [e.path for e in store.history("r")] == ["a", "b"]

    run(test())


def test_closed_store_refuses_and_can_be_closed_again(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            await log.append(Entry("a", "call"))
        with pytest.raises(StoreError, match="closed"):
            await store.open(new("s"))

    run(test())


def test_runs_and_their_failures_are_counted_by_time_definition_and_status(store: Store) -> None:
    gone, odd = {"message": "b: gone", "kind": "NodeFailed"}, {"message": "ä" * 5000, "kind": "NodeFailed"}
    ended = [
        ("r0", "one", 99.0, "failed", gone),  # before the first period
        ("r1", "one", 100.0, "failed", gone),
        ("r2", "one", 109.9, "failed", gone),
        ("r3", "two", 110.0, "timeout", gone),
        ("r4", "two", 111.0, "completed", None),
        ("r5", "two", 112.0, "partial", None),
        ("r6", "one", 113.0, "parked", odd),
        ("r7", "one", 120.0, "failed", gone),  # after the last one
    ]

    async def test() -> None:
        for id, name, started, status, error in ended:
            log = await store.open(new(id, name=name, definition_id=f"id of {name}", started_at=started))
            await log.finish(status, None, error)
        await store.open(new("r8", name="file", started_at=105.0))
        await (await store.open(new("r1/part", name="one", parent="r1", started_at=105.0))).finish("failed", None, gone)
        counted = {
            (c.period, c.status, c.kind, c.definition_id, c.name): c.count for c in store.count_runs([100, 110, 120])
        }
        assert counted == {
            (0, "failed", "chain", "id of one", "one"): 2,
            (0, "running", "chain", None, "file"): 1,
            (1, "timeout", "chain", "id of two", "two"): 1,
            (1, "completed", "chain", "id of two", "two"): 1,
            (1, "partial", "chain", "id of two", "two"): 1,
            (1, "parked", "chain", "id of one", "one"): 1,
        }
        failures = store.count_failures(100, 120)
        assert [(f.name, f.definition_id, f.error, f.count, f.run_id) for f in failures] == [
            ("one", "id of one", odd, 1, "r6"),
            ("two", "id of two", gone, 1, "r3"),
            ("one", "id of one", gone, 2, "r2"),
        ]
        row = store.get_run("r2")
        assert row is not None
        assert failures[2].last == row.ended_at
        assert [f.run_id for f in store.count_failures(100, 120, 1)] == ["r6"]
        assert store.count_runs([50, 60]) == store.count_failures(50, 60) == []
        await store.open(new("r9", context={"queue": "fast"}))
        await (await store.open(new("r10", context={"queue": "fast"}))).release()
        await (await store.open(new("r11", context={"queue": "fast"}))).release()
        await (await store.open(new("r12", context={"queue": "slow"}))).finish("completed", 1)
        assert [(q.name, q.waiting, q.running) for q in store.count_queues()] == [("fast", 2, 1)]
        assert [(q.name, q.waiting, q.running) for q in store.count_queues(1)] == [("fast", 1, 0)]

    run(test())
