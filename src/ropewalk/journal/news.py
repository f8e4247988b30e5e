"""News of runs between processes: a run was stopped, taken over, ended, or got a signal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class News:
    """An action of some process on a run."""

    # `kind` is "stop", "take" (over), "end" or "signal"; "" if some news may have been lost. `run` is the id of the
    # run, "" if it is too long; `seq` is for the store itself. With any other kind, `run` does not name a run.

    kind: str
    seq: int
    run: str


NewsCallback: TypeAlias = Callable[[News], None]
