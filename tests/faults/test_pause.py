"""A process is paused for longer than its lease, as seen from another host, at every boundary of its run. Another one
takes the run over and ends it; woken, the first one changes nothing any more."""

from __future__ import annotations

import contextlib
import os
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

import apsw
import pytest

from faults.hands import Alone, paused
from faults.scene import BRIEF, Scene
from faults.tally import Counts
from faults.verdict import check, check_woken
from ropewalk.journal.address import is_postgres
from tiers import Scale, on_one_store

ALONE = Alone()
LEASE = 0.3
STRIDE = 12  # Every twelfth boundary in the short form, the first of them another one on each store.


@pytest.mark.timeout(3600)
@on_one_store("faults", "sqlite")
def test_an_owner_that_was_paused_and_replaced_changes_nothing(
    tmp_path: Path, store: str | None, counts: Counts, scale: Scale
) -> None:
    counts.item = f"SIGSTOP beyond the lease, then woken: {'SQLite' if store is None else 'Postgres'}"
    whole = ALONE.run(Scene(tmp_path / "sound", BRIEF, store), "run", "sound")
    at, more = 1 if store is None else 3, True
    while more:
        more = _paused(Scene(tmp_path / str(at), BRIEF, store), f"x{at}", at, whole, counts)
        at += scale(STRIDE, 1)
    counts.clean()


def _paused(scene: Scene, id: str, at: int, whole: dict[str, object], counts: Counts) -> bool:
    scene.fate(at, signal.SIGSTOP)
    first = ALONE.start(scene, "run", id, host="one", lease=LEASE)
    assert first.pid is not None
    scene.until(lambda: (scene.folder / "fate.met").exists() or not first.is_alive())
    if not first.is_alive():
        return False
    paused(first.pid)
    if store_is_locked(scene):
        os.kill(first.pid, signal.SIGCONT)
        assert ALONE.answer(scene, "run", first) == whole
        return True
    counts.points += 1
    before, row, recorded = scene.lines(), scene.row(id), scene.recorded(id)
    try:
        if row is None:
            return True
        done = ALONE.run(scene, "rerun", id, host="two", lease=LEASE)
        if done != whole:
            counts.wrong.append(f"{id}: {done}")
        check(scene, id, before, recorded, counts)
        ended, history, called = scene.row(id), scene.history(id), len(scene.lines())
    finally:
        os.kill(first.pid, signal.SIGCONT)
    _wakes(scene, first, whole, row.status == "running")
    assert scene.history(id) == history, "the first one wrote"
    assert scene.row(id) == ended
    check_woken(scene, id, called, counts, at)
    return True


def store_is_locked(scene: Scene) -> bool:
    """Whether it was paused within a transaction: then nobody can write to a file, until it is woken or killed."""
    if is_postgres(scene.address):
        return False
    with contextlib.closing(apsw.Connection(scene.address)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return True
    return False


def _wakes(scene: Scene, first: BaseProcess, whole: dict[str, object], running: bool) -> None:
    """It learns that it was replaced, or that its run has ended, in one way or another."""
    woken = ALONE.answer(scene, "run", first)
    if running:
        assert woken == whole or woken.get("kind") == "Fenced" or woken["status"] == "stopped", woken
    else:
        assert woken == whole
