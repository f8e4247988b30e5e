"""The problems of a project's definitions, as a server lists them: each with its place and a short path."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InvalidFlow, Problem, RopewalkError, display_path

if TYPE_CHECKING:
    from ..check import Checked
    from ..config.settings import Schedule


async def problems_within(seconds: float, checking: Coroutine[Any, Any, Checked]) -> Sequence[Problem] | None:
    """Return the problems that the check of a definition finds; None if its servers do not answer in time."""
    task = asyncio.ensure_future(checking)
    if not (await asyncio.wait([task], timeout=seconds))[0]:
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
        return None
    try:
        return list(map(_with_short_path, task.result().problems))
    except (RopewalkError, OSError) as error:
        return problems_of(error)


def problems_of(error: Exception) -> Sequence[Problem]:
    """Return an error as problems."""
    problems = error.problems if isinstance(error, InvalidFlow | ConfigError) else ()
    return list(map(_with_short_path, problems)) or [Problem(path="", message=str(error))]


def schedule_faults(schedules: Mapping[str, Schedule]) -> Mapping[str, ConfigError]:
    """Return what is wrong with the times of schedules, by name."""
    if not schedules:
        return {}
    from ..workers.cron import schedule_faults  # few projects have schedules

    return schedule_faults(schedules)


def _with_short_path(problem: Problem) -> Problem:
    """Return a problem with the path of its file as people write it."""
    place = problem.place
    if place is None or not os.path.isabs(place.file):
        return problem
    return replace(problem, place=replace(place, file=display_path(Path(place.file))))
