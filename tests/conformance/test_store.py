"""What every store must do: definitions, runs, facts, owners. A new store joins by a line in stores.py."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from stores import new, run

from ropewalk.errors import InvalidValue, JournalConflict, NotFound, RunBusy, StoreError
from ropewalk.journal.protocol import KEPT_VERSIONS, Definition, Entry, Store

# --- definitions --------------------------------------------------------------------------


def test_definition_comes_back_as_it_was_put(store: Store) -> None:
    definition = Definition(
        kind="chain", id="c", name="Chain", document={"steps": [1, "é", None]}, fingerprint="f", created=12.5
    )
    store.put_definition(definition)
    assert store.get_definition("chain", "c") == definition
    assert store.get_definition("flow", "c") is None
    assert store.get_definition("chain", "x") is None


def test_replaced_definition_keeps_its_beginning_and_its_count(store: Store) -> None:
    async def test() -> None:
        store.put_definition(Definition(kind="chain", id="c", name="old", created=1.0))
        await store.open(new(definition_id="c"))
        store.put_definition(Definition(kind="chain", id="c", name="new", document=2, created=9.0))
        found = store.get_definition("chain", "c")
        assert found is not None
        assert (found.name, found.document, found.created, found.run_count) == ("new", 2, 1.0, 1)

    run(test())


def test_every_version_of_a_definition_is_kept(store: Store) -> None:
    async def test() -> None:
        for fingerprint, name in (("f1", "one"), ("f2", "two"), ("f3", "three"), ("f2", "two again")):
            store.put_definition(Definition(kind="chain", id="c", name=name, document=name, fingerprint=fingerprint))
        store.put_definition(Definition(kind="chain", id="d", fingerprint="f1"))
        now = store.get_definition("chain", "c")
        assert now is not None
        assert (now.fingerprint, now.version) == ("f2", 2)
        await store.open(new(definition_id="c", fingerprint="f1"))
        kept = [(d.version, d.fingerprint, d.document, d.run_count) for d in store.list_versions("chain", "c")]
        assert kept == [(3, "f3", "three", 0), (2, "f2", "two again", 0), (1, "f1", "one", 1)]
        assert store.list_versions("flow", "c") == []
        store.delete_definition("chain", "c")
        assert store.list_versions("chain", "c") == []
        assert [d.version for d in store.list_versions("chain", "d")] == [1]

    run(test())


def test_pruning_drops_old_versions_that_no_run_uses(store: Store) -> None:
    async def test() -> None:
        for n in range(KEPT_VERSIONS + 5):
            store.put_definition(Definition(kind="chain", id="c", fingerprint=f"f{n}"))
        store.put_definition(Definition(kind="chain", id="c", fingerprint="f0"))
        log = await store.open(new(definition_id="c", fingerprint="f2"))
        store.prune(keep=100)
        kept = [d.fingerprint for d in store.list_versions("chain", "c")]
        assert kept == [*(f"f{n}" for n in range(KEPT_VERSIONS + 4, 4, -1)), "f2", "f0"]
        await log.finish("completed", None)
        store.prune(keep=0)
        assert "f2" not in [d.fingerprint for d in store.list_versions("chain", "c")]

    run(test())


def test_definitions_are_listed_by_kind_and_id(store: Store) -> None:
    for kind, id in (("flow", "a"), ("chain", "b"), ("chain", "a")):
        store.put_definition(Definition(kind=kind, id=id))
    assert [(d.kind, d.id) for d in store.list_definitions()] == [("chain", "a"), ("chain", "b"), ("flow", "a")]
    assert [d.id for d in store.list_definitions("chain")] == ["a", "b"]
    assert store.list_definitions("tool") == []


def test_deleting_a_definition_leaves_its_runs(store: Store) -> None:
    async def test() -> None:
        store.put_definition(Definition(kind="chain", id="c"))
        await store.open(new(definition_id="c", document={"steps": []}))
        assert store.delete_definition("chain", "c")
        assert not store.delete_definition("chain", "c")
        row = store.get_run("r")
        assert row is not None
        assert row.document == {"steps": []}

    run(test())


# --- a run from its opening to its end ----------------------------------------------------


def test_opened_run_is_running_with_what_it_was_given(store: Store) -> None:
    async def test() -> None:
        given = new(
            name="N", definition_id="c", input={"a": 1}, context=[1], document={"d": "x" * 2000}, fingerprint="f"
        )
        log = await store.open(given)
        assert dict(log.past) == {}
        assert log.finished is None
        row = store.get_run("r")
        assert row == log.run
        assert (row.status, row.epoch, row.ended_at, row.stop_requested) == ("running", 1, None, False)
        for field in ("id", "kind", "name", "definition_id", "input", "context", "document", "fingerprint"):
            assert getattr(row, field) == getattr(given, field)
        assert row.started_at > 1e9

    run(test())


@pytest.mark.parametrize("id", ["a\0b", "a\ud800"])
def test_id_that_is_no_text_is_refused_and_unknown(store: Store, id: str) -> None:
    async def test() -> None:
        with pytest.raises(InvalidValue, match="run id"):
            await store.open(new(id))
        with pytest.raises(NotFound):
            await store.reopen(id)
        assert store.get_run(id) is None
        assert store.history(id) == []
        assert not store.request_stop(id)
        await store.open(new())

    run(test())


def test_text_that_no_store_can_hold_fails_alone(store: Store) -> None:
    async def test() -> None:
        log, other = await store.open(new()), await store.open(new("s"))
        bad = log.append(Entry("a\ud800", "call", data=1))
        good = [other.append(Entry(f"n{i}", "call", data=i)) for i in range(30)]
        await asyncio.gather(bad, *good, return_exceptions=True)
        assert [e.path for e in store.history("s")] == [f"n{i}" for i in range(30)]

    run(test())


def test_entries_come_back_in_order_and_complete(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        given = [
            Entry("a", "call", "a", {"deep": [1, 2.5, "é\u2028", None, True, -(2**63)]}, "d1", 1.0, 2.0),
            Entry("a", "node"),
            Entry("each[3]/fetch@2", "attempt", "fetch", {"due": 7.5, "error": {"m": "x"}}),
            Entry("each", "items", "each", []),
        ]
        for entry in given:
            await log.append(entry)
        assert store.history("r") == given
        assert store.history("unknown") == []

    run(test())


def test_entries_nobody_waited_for_are_there_when_the_run_ends(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        for i in range(100):
            log.append(Entry(f"n{i}", "node"))
        await log.finish("completed", None)
        assert [e.path for e in store.history("r")] == [f"n{i}" for i in range(100)]

    run(test())


def test_finished_run_has_its_result_and_opens_as_finished(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.append(Entry("a", "call", data=1))
        log.touch("a", 2.5)
        assert await log.finish("partial", {"r": [1]}, {"message": "half"}, results=3, errors=1) == "partial"
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.result, row.error, row.result_count, row.error_count) == (
            "partial",
            {"r": [1]},
            {"message": "half"},
            3,
            1,
        )
        assert (row.spent, row.current_node) == (2.5, "a")
        assert row.ended_at is not None
        for again in (await store.open(new()), await store.reopen("r")):
            assert again.finished == row
            assert again.past[("a", "call")].data == 1
            with pytest.raises(StoreError):
                await again.append(Entry("b", "call"))

    run(test())


def test_run_is_over_for_its_log_once_finished(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.finish("completed", None)
        with pytest.raises(StoreError):
            await log.append(Entry("b", "call"))
        with pytest.raises(StoreError):
            await log.finish("failed", None)
        assert store.history("r") == []

    run(test())


def test_only_an_end_can_finish_a_run(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        with pytest.raises(ValueError, match="'running' is not the status of an ended run"):
            await log.finish("running", None)

    run(test())


# --- one owner at a time ------------------------------------------------------------------


def test_run_that_is_being_run_is_refused_with_its_owner(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        for attempt in (store.open(new()), store.reopen("r"), store.reopen("r", again=True)):
            with pytest.raises(RunBusy, match=r"\(pid \d+\)") as caught:
                await attempt
            assert caught.value.owner == log.run.owner

    run(test())


def test_of_many_who_open_one_id_one_gets_it(store: Store) -> None:
    async def test() -> None:
        got = await asyncio.gather(*[store.open(new()) for _ in range(10)], return_exceptions=True)
        assert sum(isinstance(each, RunBusy) for each in got) == 9

    run(test())


def test_released_run_is_taken_over_with_its_past(store: Store) -> None:
    async def test() -> None:
        first = await store.open(new(input=1))
        await first.append(Entry("a", "call", data={"x": 1}))
        await first.release()
        await first.release()
        assert [row.id for row in store.orphans()] == ["r"]
        await (await store.open(new("second"))).release()
        assert [row.id for row in store.orphans(1)] == ["r"]
        assert [row.id for row in store.orphans(1, among=["second", "unknown"])] == ["second"]
        store.request_stop("second")
        second = await store.open(new(input=2))
        assert (second.run.epoch, second.run.input) == (2, 1)
        assert second.past == {("a", "call"): Entry("a", "call", data={"x": 1})}
        assert store.orphans() == []
        with pytest.raises(StoreError):
            await first.append(Entry("b", "call"))
        with pytest.raises(StoreError):
            await first.finish("completed", None)
        assert [e.path for e in store.history("r")] == ["a"]
        await second.append(Entry("b", "call"))
        await second.finish("completed", None)

    run(test())


def test_reopening_an_unknown_run_finds_nothing(store: Store) -> None:
    async def test() -> None:
        with pytest.raises(NotFound):
            await store.reopen("nowhere")

    run(test())


def test_ended_run_can_be_set_running_again(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.append(Entry("a", "call", data=1))
        await log.append(Entry("b", "call_failed", data={"m": 1}))
        await log.append(Entry("c", "call", data=1))
        log.touch("c", 1.5)
        await log.finish("failed", None, {"m": 1})
        log = await store.reopen("r", again=True)
        assert log.finished is None
        row = store.get_run("r")
        assert row is not None
        assert (row.status, row.ended_at, row.epoch, row.error, row.spent) == ("running", None, 2, None, 0.0)
        await log.forget([("b", "call_failed"), ("c", "call"), ("nothing", "call")])
        assert set(log.past) == {("a", "call"), ("#1", "ending")}
        await log.append(Entry("c", "call", data=2))
        assert [(e.path, e.data) for e in store.history("r") if e.kind == "call"] == [("a", 1), ("c", 2)]
        assert await log.finish("completed", 5) == "completed"
        log = await store.reopen("r", again=True)
        await log.finish("stopped", None)
        endings = [e for e in store.history("r") if e.kind == "ending"]
        assert [(e.path, e.data["status"], e.data["error"], e.data["spent"]) for e in endings] == [
            ("#1", "failed", {"m": 1}, 1.5),
            ("#2", "completed", None, 0.0),
        ]
        assert all(e.ended > 1e9 for e in endings)
        # A retry adds facts to the ending that it continues from; they stay, and so does its place.
        log = await store.reopen("r", again=True)
        latest = log.past["#3", "ending"]
        await log.append(replace(latest, data={**latest.data, "failed": [{"path": "c"}]}))
        await log.finish("completed", 6)
        last = [e for e in store.history("r") if e.kind == "ending"][-1]
        assert (last.path, last.data["status"], last.data["failed"]) == ("#3", "stopped", [{"path": "c"}])
        assert last.ended == latest.ended

    run(test())


def test_run_whose_event_loop_was_closed_is_let_go(store: Store) -> None:
    async def begin() -> None:
        log = await store.open(new())
        await log.append(Entry("a", "call", data=1))

    async def go_on() -> None:
        log = await store.open(new())
        assert log.run.epoch == 2
        assert log.past["a", "call"].data == 1
        await log.finish("completed", None)

    run(begin())
    for _ in range(1000):
        if [row.id for row in store.orphans()] == ["r"]:
            break
        time.sleep(0.02)
    run(go_on())


# --- facts that stand ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["call", "timer", "items", "branch"])
def test_decision_once_recorded_stands(store: Store, kind: str) -> None:
    async def test() -> None:
        log = await store.open(new())
        await log.append(Entry("a", kind, data=1, digest="d"))
        await log.append(Entry("a", kind, data=1, digest="d", started=5.0))
        with pytest.raises(JournalConflict, match="run r: a: another"):
            await log.append(Entry("a", kind, data=2, digest="d"))
        both = [log.append(Entry("a", kind, data=1, digest="other")), log.append(Entry("b", kind, data=3))]
        with pytest.raises(JournalConflict):
            await both[0]
        await both[1]
        assert [(e.path, e.data) for e in store.history("r")] == [("a", 1), ("b", 3)]
        await log.finish("failed", None)

    run(test())


def test_of_what_is_no_decision_the_latest_stands(store: Store) -> None:
    async def test() -> None:
        log = await store.open(new())
        for kind in ("call_failed", "attempt", "node", "skip"):
            await log.append(Entry("a", kind, data=1))
            await log.append(Entry("a", kind, "n", 2, "d", 3.0, 4.0))
        assert store.history("r") == [
            Entry("a", kind, "n", 2, "d", 3.0, 4.0) for kind in ("call_failed", "attempt", "node", "skip")
        ]

    run(test())


def test_big_values_come_back_whole(store: Store) -> None:
    async def test() -> None:
        text = "".join(chr(33 + i * 7919 % 90) for i in range(200_000))
        log = await store.open(new(input={"t": text}))
        await asyncio.gather(*[log.append(Entry(f"n{i}", "call", data=[text])) for i in range(3)])
        log.append(Entry("twice", "call", data={"t": text * 50}))
        await log.finish("completed", {"t": text}, {"e": text})
        row = store.get_run("r")
        assert row is not None
        assert (row.input, row.result, row.error) == ({"t": text}, {"t": text}, {"e": text})
        assert [len(str(e.data)) > 200_000 for e in store.history("r")] == [True] * 4
        assert (await store.reopen("r")).past[("n1", "call")].data == [text]

    run(test())
