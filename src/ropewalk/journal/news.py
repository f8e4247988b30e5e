"""What a store tells of what any process does to a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..frozen import dataclass


@dataclass(frozen=True, slots=True)
class News:
    """What some process has done to a run: "stop", "take" (over), "end", "signal"; "" when something may
    have been missed. `run` is its id, "" where that does not fit; `seq` is for the store itself. Of other kinds, what
    `run` names is no run."""

    kind: str
    seq: int
    run: str


Hear: TypeAlias = Callable[[News], None]
