"""The clock of the machine is set by an hour, forward or back, at every boundary of a run: pauses and retries take as
long as they should, nobody takes the run for abandoned, and after a crash it goes on as ever."""

from __future__ import annotations

import signal
from itertools import cycle
from pathlib import Path

import pytest

from faults.hands import Alone, died
from faults.scene import BRIEF, Scene
from faults.tally import Counts
from faults.verdict import check
from tiers import Scale, on_one_store

ALONE = Alone()
JUMPS = [(3600.0, 0), (-3600.0, 0), (3600.0, signal.SIGKILL), (-3600.0, signal.SIGKILL)]
"""By how much, and what else happens."""
BETWEEN = 3  # Every third boundary in the short form.


@pytest.mark.timeout(3600)
@on_one_store("faults", "sqlite")
def test_a_clock_that_is_set_at_any_boundary_changes_nothing(
    tmp_path: Path, store: str | None, counts: Counts, scale: Scale
) -> None:
    counts.item = f"clock set by an hour at every boundary: {'SQLite' if store is None else 'Postgres'}"
    sound = Scene(tmp_path / "sound", BRIEF, store)
    whole = ALONE.run(sound, "run", "sound")
    turns = cycle(JUMPS if store is None else JUMPS[::-1])
    for at in range(1, len(sound.lines()) + 1, scale(BETWEEN, 1)):
        for jump, also in scale([next(turns)], JUMPS):
            _jumps(
                Scene(tmp_path / f"{at}{jump:+}{also}", BRIEF, store),
                f"{at}{jump:+}{also}",
                at,
                jump,
                also,
                whole,
                counts,
            )
    counts.clean()


def _jumps(scene: Scene, id: str, at: int, jump: float, also: int, whole: object, counts: Counts) -> None:
    (scene.folder / "fate").write_text(f"{at} {int(also)}")
    process = ALONE.start(scene, "run", id, jump=jump)
    dead = died(process)
    counts.points += 1
    before, recorded = scene.lines(), scene.recorded(id)
    if dead:
        done = ALONE.run(scene, "resume" if scene.row(id) else "run", id, jump=jump)
    else:
        done = ALONE.answer(scene, "run", process)
    if done != whole:
        counts.wrong.append(f"{id}: {done}")
    check(scene, id, before, recorded, counts)
