"""A run is cancelled, or stopped, at every boundary: nothing of it is left in the process, a cancelled one can be gone
on with, a stopped one stays stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from faults.hands import Alone
from faults.scene import BRIEF, STEPS, Scene
from faults.tally import Counts
from faults.verdict import check, ends_well
from tiers import Scale, sampled

ALONE = Alone()
CASES = sampled(
    "faults", [("sqlite", "cancelled"), ("postgres", "cancelled"), ("postgres", "stopped"), ("sqlite", "stopped")], 1
)
BETWEEN = 4  # Every fourth boundary in the short form, other ones on each store.


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("store", "how"), CASES, indirect=["store"])
def test_a_run_that_is_cancelled_or_stopped_at_any_boundary_leaves_nothing_running(
    tmp_path: Path, store: str | None, how: str, counts: Counts, scale: Scale
) -> None:
    counts.item = f"{how} at every boundary: {'SQLite' if store is None else 'Postgres'}"
    chain = scale(BRIEF, STEPS)
    sound = Scene(tmp_path / "sound", chain, store)
    whole = ALONE.run(sound, "run", f"{how}-sound")
    first = (store is None) == (how == "stopped")
    for at in range(scale(1 + 2 * first, 1), len(sound.lines()) + 1, scale(BETWEEN, 1)):
        _ended(Scene(tmp_path / str(at), chain, store), f"{how}-{at}", at, how, whole, counts)
    counts.clean()


def _ended(scene: Scene, id: str, at: int, how: str, whole: dict[str, object], counts: Counts) -> None:
    scene.fate(at, signal.SIGUSR1 if how == "cancelled" else signal.SIGUSR2)
    done = ALONE.run(scene, "run", id)
    counts.points += (scene.folder / "fate.met").exists()
    before, recorded, row = scene.lines(), scene.recorded(id), scene.row(id)
    assert done == whole or done["status"] == how, f"{id}: {done}"
    assert row is not None
    if done["status"] == "cancelled":
        assert row.status in ("running", "completed"), "completed when it was cancelled as it told of its end"
        ends_well(ALONE, scene, id, whole, counts)
    else:
        assert row.status == done["status"]
        again = ALONE.run(scene, "resume", id)
        assert again["status"] == done["status"]
        assert scene.lines() == before, "what has ended is not gone on with"
    check(scene, id, before, recorded, counts)
