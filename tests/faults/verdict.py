"""Whether the promise was kept: what was acknowledged is there, what was recorded is not called again, the result is
that of a run that was left alone."""

from __future__ import annotations

from typing import Any

from faults.hands import Alone
from faults.scene import Scene
from faults.tally import Counts


def ends_well(alone: Alone, scene: Scene, id: str, whole: dict[str, Any], counts: Counts) -> None:
    """Go on with a run that somebody left, or begin it if nothing of it is there."""
    done = alone.run(scene, "resume" if scene.row(id) is not None else "run", id)
    if done != whole:
        counts.wrong.append(f"{id}: {done}")


def check(scene: Scene, id: str, before: list[str], recorded: set[str], counts: Counts) -> None:
    """Count what became of the steps: `before` is the log as it was, and `recorded` what was in the store then."""
    acknowledged = {line.split()[1] for line in before if line.startswith("ack ") and line.endswith(" call")}
    counts.acknowledged += len(acknowledged)
    kept = scene.recorded(id)
    counts.lost += [f"{id}: {path}" for path in sorted(acknowledged - (recorded & kept))]
    counts.again += [f"{id}: {path}" for path in sorted(recorded & set(scene.started(since=len(before))))]


THREADS = {"a", "end"}
"""The paths of the functions that run in a thread."""


def check_woken(scene: Scene, id: str, since: int, counts: Counts, at: int | None = None) -> None:
    """Count what a process that was paused (at line `at` of the log) and replaced calls again, from line `since` on.

    What was being called already does not count: functions that had been handed to a thread, and, where a thread wrote
    the line, the one function that the loop was about to enter.
    """
    again = [path for path in scene.started(since) if path in scene.recorded(id) - THREADS]
    by_thread = at is not None and any(
        scene.lines()[at - 1].startswith(("start " + path, "end " + path)) for path in THREADS
    )
    counts.again += [f"{id}: {path}, by the woken one" for path in again[by_thread:]]
