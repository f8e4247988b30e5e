"""The part of a store for the undo of runs, in addition to `Store.open` and `Store.reopen`.

`Store.open` creates the run that undoes another one and marks that one, in one step. `Store.reopen` refuses to set a
marked run running again.
"""

from __future__ import annotations

from typing import Final, Protocol

from ..fast_dataclass import dataclass

UNSUCCESSFUL: Final = ("failed", "stopped", "timeout")
"""Endings after which the policy "on_failure" undoes a run. A parked run is left to a person."""

UNDONE: Final = "undone"
"""Kind of the entry at the path of a call that says who undoes the call: `{run, undo}`, the undone run and the run that
undoes it. It is in the journal of the run that made the call, and `Store.open` writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneCalls:
    """Calls of one run that another run undoes."""

    # The run that made the calls.
    run: str
    # The epoch at which its journal was read.
    epoch: int
    # The paths of their undos in that journal.
    paths: tuple[str, ...]


class UndoStore(Protocol):
    """The part of a `Store` that knows which runs are to be undone by their policy."""

    def undo_due(self, limit: int = 100, /) -> list[str]:
        """List the runs that are to be undone without a request: they ended as failed, stopped or timeout, have the
        policy "on_failure", are part of no other run, and nobody has begun to undo them."""
        ...

    def skip_undo(self, run_id: str, /) -> None:
        """Record that nothing of an ended run is to undo, unless somebody has begun to undo it."""
