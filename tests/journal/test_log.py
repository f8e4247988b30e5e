"""Who may claim a run, and how its entries are read in pages."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import NotFound, RunBusy
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql import log as module
from ropewalk.journal.sql.leases import this_process
from ropewalk.journal.sql.log import (
    PackedValues,
    SqlEntries,
    Timestamps,
    UncertainOwner,
    claim_run,
    create_run,
    each_entry,
    entries_at,
    entry_page,
    timestamps,
)
from ropewalk.journal.sql.rows import fetch
from ropewalk.journal.sqlite.store import SqliteStore

LEASE = 10.0
FARAWAY = dataclasses.replace(this_process(), host="faraway")


class Runs:
    """A store whose runs are claimed in transactions of their own."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.writer = store, store._writer

    def create(self, id: str = "r", beat: float = 0.0) -> Any:
        run, large = NewRun(id=id, kind="chain"), PackedValues(input=None, context=None, document=None)
        return self.writer.run(lambda c: create_run(c, run, large, beat or timestamps.next(), LEASE, 1.0))

    def claim(self, beat: float = 0.0, restart: bool = False, silent: UncertainOwner | None = None) -> Any:
        return self.writer.run(lambda c: claim_run(c, "r", LEASE, restart, silent, beat or timestamps.next()))

    def set(self, table: str, **values: Any) -> None:
        for name, value in values.items():
            self.writer.run(lambda c, name=name, value=value: c.execute(f"UPDATE {table} SET {name} = ?", (value,)))

    def lease(self) -> tuple[Any, ...]:
        return tuple(self.writer.read(lambda c: fetch(c, "SELECT owner, epoch, beat FROM lease"))[0])


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    store = SqliteStore(tmp_path / "s.db", lease=LEASE)
    yield Runs(store)
    store.close()


# --- claims --------------------------------------------------------------------------------------


def test_a_new_run_is_owned_by_this_process(runs: Runs) -> None:
    claim = runs.create(beat=5.0)
    assert (claim.epoch, claim.is_new, claim.has_ended) == (1, True, False)
    assert runs.lease() == (this_process().dump(), 1, 5.0)
    assert runs.create() is None  # the id is taken
    assert runs.lease() == (this_process().dump(), 1, 5.0)


def test_a_claim_that_is_sent_again_is_the_same_claim(runs: Runs) -> None:
    first = runs.create(beat=5.0)
    again = runs.claim(beat=5.0)
    assert (again.seq, again.epoch, again.is_new) == (first.seq, 1, True)
    with pytest.raises(RunBusy):
        runs.claim(beat=6.0)
    runs.set("lease", owner=None)
    for _ in range(2):
        later = runs.claim(beat=7.0)
        assert (later.seq, later.epoch, later.is_new, later.has_ended) == (first.seq, 2, False, False)
    assert runs.lease() == (this_process().dump(), 2, 7.0)


def test_a_run_that_does_not_exist_cannot_be_claimed(runs: Runs) -> None:
    with pytest.raises(NotFound):
        runs.claim()


@pytest.mark.parametrize(("age", "is_recent"), [(0.0, True), (LEASE - 2, True), (LEASE + 2, False), (-60.0, False)])
def test_an_owner_out_of_sight_is_watched_first(runs: Runs, age: float, is_recent: bool) -> None:
    runs.create()
    beat = time.time() - age
    runs.set("lease", owner=FARAWAY.dump(), beat=beat)
    uncertain = runs.claim()
    assert type(uncertain) is UncertainOwner
    assert uncertain == UncertainOwner(str(FARAWAY), 1, beat, is_recent)
    # It was watched for a whole lease, but has moved since: it lives.
    for moved in (dataclasses.replace(uncertain, beat=beat - 1), dataclasses.replace(uncertain, epoch=0)):
        assert runs.claim(silent=moved) == uncertain
    assert runs.lease()[:2] == (FARAWAY.dump(), 1)
    claim = runs.claim(silent=uncertain)
    assert (claim.epoch, claim.is_new) == (2, False)
    assert runs.lease()[:2] == (this_process().dump(), 2)


@pytest.mark.parametrize("status", ["completed", "partial", "failed", "stopped", "timeout", "parked"])
def test_a_run_that_has_ended_is_claimed_only_to_start_it_again(runs: Runs, status: str) -> None:
    runs.create()
    runs.set("lease", owner=None)
    runs.set("run", status=status)
    claim = runs.claim()
    assert (claim.epoch, claim.has_ended) == (1, True)
    assert runs.lease()[:2] == (None, 1)
    claim = runs.claim(restart=True)
    assert (claim.epoch, claim.has_ended, claim.is_new) == (2, False, False)
    row = runs.store.get_run("r")
    assert row is not None
    assert row.status == "running"


def test_no_two_beats_of_a_process_are_equal() -> None:
    beats: list[float] = []
    source = Timestamps()

    def work() -> None:
        for _ in range(2_000):
            beats.append(source.next())

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(beats)) == len(beats)
    assert before <= min(beats) <= max(beats) <= time.time() + 1e-3


def test_a_beat_is_the_time_of_the_clock_or_just_behind_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 1_000.0

        def time(self) -> float:
            return self.now

    clock, source = Clock(), Timestamps()
    monkeypatch.setattr(module, "time", clock)
    beats = [source.next() for _ in range(100)]
    assert beats[0] == 1_000.0
    assert beats == sorted(set(beats))
    assert beats[-1] < 1_000.001
    clock.now = 2_000.0
    assert source.next() == 2_000.0
    clock.now = 500.0  # set back
    assert source.next() == 500.0


# --- entries -------------------------------------------------------------------------------------


def fill(runs: Runs, count: int) -> int:
    """Record entries whose places and paths have another order, and return the number of the run's row."""

    async def work() -> int:
        log: Any = await runs.store.open(NewRun(id="r", kind="chain"))
        for i in range(count):
            await log.append(Entry(f"n{(7 * i) % 10}/{i}", "call", "n", {"i": i}, f"d{i}", 100.0 - i, 200.0 + i))
            await log.append(Entry(f"n{(7 * i) % 10}/{i}", "attempt", "n", None, "", 50.0, 51.0))
        await log.release()
        return int(log.seq)

    return asyncio.run(work())


@pytest.mark.parametrize("count", [0, 1, 3, 8])
@pytest.mark.parametrize("limit", [1, 2, 3, 16, 17])
def test_pages_of_entries_hold_each_once_in_the_order_of_recording(runs: Runs, count: int, limit: int) -> None:
    seq = fill(runs, count)
    whole = runs.store.history("r")
    assert [entry.kind for entry in whole] == ["call", "attempt"] * count
    after: int | None = 0
    pages: list[list[Entry]] = []
    while after is not None:
        start = after
        page, after = runs.writer.read(lambda c: entry_page(runs.writer, c, seq, start, limit))  # noqa: B023
        pages.append(page)
    assert [entry for page in pages for entry in page] == whole
    assert len(pages) == max(1, -(-2 * count // limit))
    assert [entry for page in each_entry(runs.writer, seq) for entry in page] == whole


def test_entries_are_found_by_path_and_kind(runs: Runs) -> None:
    seq = fill(runs, 4)
    whole = runs.store.history("r")
    source = SqlEntries(runs.writer, seq, remote=False)
    for entry in whole:
        found = source.find((entry.path, entry.kind))
        assert found is not None
        assert found[1] == entry
        assert source.page([found[0]]) == [entry]
    assert source.find(("n0/0", "wait")) is None
    assert source.latest() == 100.0
    assert sorted((path, kind) for keys in source.all_keys() for path, kind, _ in keys) == sorted(
        (entry.path, entry.kind) for entry in whole
    )
    paths = [whole[4].path, whole[0].path, whole[4].path, "none"]
    assert runs.writer.read(lambda c: entries_at(c, seq, paths)) == [whole[0], whole[1], whole[4], whole[5]]
