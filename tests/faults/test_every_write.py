"""The disk fails at every write and at every sync of a run: it is full, reports an error, or the process dies there,
with nothing or half of it written. And the store is kept locked by another process."""

from __future__ import annotations

import contextlib
import time
from collections import Counter as Times
from itertools import cycle
from pathlib import Path

import apsw
import pytest

from faults.hands import Alone, died
from faults.scene import BRIEF, Scene
from faults.tally import Counts
from faults.verdict import check, ends_well
from tiers import Scale

ALONE = Alone()
HOWS = [("full", 10**9), ("error", 10**9), ("kill", 1), ("full", 1), ("torn", 1), ("error", 1)]
"""What happens at a position, and how often: for good, or once."""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("what", ["write", "sync"])
@pytest.mark.campaign("faults")
def test_a_disk_that_fails_at_any_position_costs_nothing_acknowledged(
    tmp_path: Path, what: str, counts: Counts, scale: Scale
) -> None:
    counts.item = f"disk full, I/O errors, kill -9 at every {what}: SQLite"
    whole = ALONE.run(Scene(tmp_path / "sound", BRIEF), "run", "sound")
    hows = [how for how in HOWS if what == "write" or how[0] != "torn"]
    turns = cycle(hows)
    at, met = 0, True  # In the slice at every eleventh write.
    while met:
        some = scale([next(turns)], hows)
        met = max(
            [_fails(tmp_path / f"{at}-{how}-{times}", what, at, how, times, whole, counts) for how, times in some]
        )
        at += scale(4 if what == "sync" else 11, 1)
    assert at > (20 if what == "write" else 8)
    counts.clean()


def _fails(folder: Path, what: str, after: int, how: str, times: int, whole: dict[str, object], counts: Counts) -> bool:
    scene = Scene(folder, BRIEF)
    process = ALONE.start(scene, "run", "x", disk=(what, after, how, times))
    done = None if died(process) else ALONE.answer(scene, "run", process)
    met = (folder / "struck").exists()
    counts.points += met
    if done is not None and done != whole:
        assert (done["status"], done.get("kind")) == ("refused", "StoreError"), done
    before, recorded = scene.lines(), scene.recorded("x")
    ends_well(ALONE, scene, "x", whole, counts)
    check(scene, "x", before, recorded, counts)
    with contextlib.closing(apsw.Connection(str(scene.db))) as connection:
        assert connection.pragma("integrity_check") == "ok"
    return met


def test_a_store_that_another_process_keeps_locked_is_waited_for(tmp_path: Path, counts: Counts) -> None:
    counts.item = "database locked by another process: SQLite"
    whole = ALONE.run(Scene(tmp_path / "sound", BRIEF), "run", "sound")
    scene = Scene(tmp_path / "locked", BRIEF)
    process = ALONE.start(scene, "run", "x")
    scene.until(lambda: any(line.startswith("ack") for line in scene.lines()))
    other = apsw.Connection(str(scene.db))
    other.set_busy_timeout(10_000)
    other.execute("BEGIN IMMEDIATE")
    [(committed,)] = other.execute("SELECT count(*) FROM entry")
    time.sleep(1)  # Longer than any single try.
    assert process.is_alive()
    assert sum(line.startswith("ack") for line in scene.lines()) <= committed
    other.execute("ROLLBACK")
    other.close()
    assert ALONE.answer(scene, "run", process) == whole
    counts.points += 1
    check(scene, "x", scene.lines(), scene.recorded("x"), counts)
    assert set(Times(scene.started()).values()) == {1}
    counts.clean()
