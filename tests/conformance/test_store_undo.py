"""What every store must do: the mark of a run that another run undoes, and the runs whose policy is due."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stores import new, run

from ropewalk.errors import NotFound, RunBusy, RunUndone
from ropewalk.journal.protocol import Entry, NewRun, RunRow, Store
from ropewalk.journal.undo import UndoneCalls


def row_of(store: Store, id: str = "r") -> RunRow:
    row = store.get_run(id)
    assert row is not None
    return row


def undoing(store: Store, id: str = "u", **more: Any) -> Any:
    return new(id, undoes="r", undoes_epoch=row_of(store).epoch, input={"steps": []}, **more)


async def ended(store: Store, status: str = "failed", **more: Any) -> None:
    log = await store.open(new(**more))
    await log.append(Entry("a", "undo", data={"of": "order", "tool": "cancel", "args": {}}))
    await log.append(Entry("a", "call", data=1))
    await log.finish(status, {})


def test_the_run_that_undoes_marks_the_other_one(store: Store) -> None:
    async def test() -> None:
        await ended(store)
        assert row_of(store).undo is None
        log = await store.open(undoing(store))
        assert row_of(store).undo == "u"
        assert [entry.kind for entry in store.history("r")] == ["undo", "call"]
        with pytest.raises(RunUndone) as caught:
            await store.reopen("r", again=True)
        assert caught.value.undo == "u"
        await log.finish("completed", {})
        assert (await store.open(undoing(store))).finished is not None
        with pytest.raises(RunUndone):
            await store.open(undoing(store, "other"))
        assert store.get_run("other") is None

    run(test())


def test_another_run_continues_an_undo_that_it_names(store: Store) -> None:
    async def test() -> None:
        await ended(store)
        await (await store.open(undoing(store))).finish("failed", {})
        await (await store.open(undoing(store, "u2", forked_from="u"))).finish("completed", {})
        assert row_of(store).undo == "u2"

    run(test())


def test_only_an_ended_run_that_nobody_changed_is_undone(store: Store) -> None:
    async def test() -> None:
        with pytest.raises(NotFound):
            await store.open(new("u", undoes="r", undoes_epoch=1))
        log = await store.open(new())
        with pytest.raises(RunBusy):
            await store.open(undoing(store))
        # A run that is being stopped still has calls in progress.
        store.request_stop("r")
        with pytest.raises(RunBusy):
            await store.open(undoing(store))
        await log.finish("stopped", {})
        early = undoing(store)
        again = await store.reopen("r", again=True)
        await again.finish("failed", {})
        with pytest.raises(RunBusy):
            await store.open(early)
        assert row_of(store).undo is None
        assert store.get_run("u") is None
        await store.open(undoing(store))

    run(test())


def test_of_two_that_undo_at_once_one_does(store: Store) -> None:
    async def test() -> None:
        await ended(store)
        both = [undoing(store, id) for id in ("u", "v")]
        results = await asyncio.gather(*map(store.open, both), return_exceptions=True)
        refused = [result for result in results if isinstance(result, RunUndone | RunBusy)]
        assert len(refused) == 1
        assert row_of(store).undo in ("u", "v")

    run(test())


def test_a_call_that_two_runs_share_is_marked_by_one_undo(store: Store) -> None:
    async def test() -> None:
        await ended(store)
        await (await store.open(new("s"))).finish("failed", {})
        calls = (UndoneCalls(run="r", epoch=row_of(store).epoch, paths=("a",)),)

        def undoing_s() -> NewRun:
            return new("v", undoes="s", undoes_epoch=row_of(store, "s").epoch, undoes_calls=calls)

        await (await store.open(undoing_s())).finish("completed", {})
        assert [entry.kind for entry in store.history("r")] == ["undo", "call", "undone"]
        now = (UndoneCalls(run="r", epoch=row_of(store).epoch, paths=("a",)),)
        with pytest.raises(RunUndone) as caught:
            await store.open(undoing(store, undoes_calls=now))
        assert (caught.value.run_id, caught.value.undo) == ("r", "v")
        assert store.get_run("u") is None
        assert row_of(store).undo is None
        with pytest.raises(RunUndone):
            await store.reopen("r", again=True)
        # The undo itself may be opened again, and the rest of the run be undone.
        assert (await store.open(undoing_s())).finished is not None
        await store.open(undoing(store, "w"))

    run(test())


def test_a_call_of_a_run_that_was_continued_since_is_not_marked(store: Store) -> None:
    async def test() -> None:
        await ended(store)
        await (await store.open(new("s"))).finish("failed", {})
        calls = (UndoneCalls(run="r", epoch=row_of(store).epoch, paths=("a",)),)
        again = await store.reopen("r", again=True)
        early = new("v", undoes="s", undoes_epoch=row_of(store, "s").epoch, undoes_calls=calls)
        with pytest.raises(RunBusy):
            await store.open(early)
        await again.finish("failed", {})
        with pytest.raises(RunBusy):
            await store.open(early)
        assert row_of(store, "s").undo is None

    run(test())


def test_a_policy_is_due_until_the_run_is_undone(store: Store) -> None:
    async def test() -> None:
        await ended(store, undo_policy="on_failure")
        assert row_of(store).undo_policy == "on_failure"
        assert store.undo_due() == ["r"]
        await store.open(undoing(store))
        assert store.undo_due() == []
        for id, status, more in (
            ("done", "completed", {"undo_policy": "on_failure"}),
            ("part", "failed", {"undo_policy": "on_failure", "parent": "r"}),
            ("asked", "failed", {}),
        ):
            await (await store.open(new(id, **more))).finish(status, {})
        assert store.undo_due() == []

    run(test())


def test_a_run_without_anything_to_undo_is_not_due_until_it_is_retried(store: Store) -> None:
    async def test() -> None:
        await ended(store, undo_policy="on_failure")
        store.skip_undo("r")
        store.skip_undo("nobody")
        assert store.undo_due() == []
        assert row_of(store).undo == ""
        log = await store.reopen("r", again=True)
        assert row_of(store).undo is None
        await log.finish("failed", {})
        assert store.undo_due() == ["r"]

    run(test())
