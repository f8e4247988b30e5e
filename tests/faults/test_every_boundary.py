"""`kill -9` at every boundary of a run: as a tool begins and when it is done, as its result is handed to the store
and when that is acknowledged, around the ending. Whoever resumes it ends as if nothing had happened."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from faults.hands import Alone, died
from faults.scene import BRIEF, STEPS, Scene
from faults.tally import Counts
from faults.verdict import check, ends_well
from tiers import Scale, on_one_store

ALONE = Alone()


@pytest.mark.timeout(3600)
@on_one_store("faults", "postgres")
def test_a_run_killed_at_any_boundary_ends_as_if_it_had_been_left_alone(
    tmp_path: Path, store: str | None, counts: Counts, scale: Scale
) -> None:
    counts.item = f"kill -9 at every boundary: {'SQLite' if store is None else 'Postgres'}"
    for round, chain in enumerate(scale([BRIEF], [BRIEF, STEPS])):
        _every_boundary(tmp_path / str(round), chain, store, counts, scale(3, 1))
    counts.clean()


def _every_boundary(folder: Path, chain: str, store: str | None, counts: Counts, stride: int) -> None:
    sound = Scene(folder / "sound", chain, store)
    whole = ALONE.run(sound, "run", f"{folder.name}-sound")
    assert whole["status"] == "completed", whole
    at, last = 1 - stride, False
    while not last:
        at += stride
        id = f"{folder.name}-{at}"
        scene = Scene(folder / str(at), chain, store or str(folder / "store.db"))
        scene.fate(at, signal.SIGKILL)
        last = not died(ALONE.start(scene, "run", id))
        if not last:
            counts.points += 1
            before, recorded = scene.lines(), scene.recorded(id)
            ends_well(ALONE, scene, id, whole, counts)
            check(scene, id, before, recorded, counts)
    assert at > len(sound.lines()) - 2, "not every boundary was met"
