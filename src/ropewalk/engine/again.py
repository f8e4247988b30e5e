"""The same id again: the very run that was started with it, or a conflict. Looked at only where there is a run."""

from __future__ import annotations

from ..errors import RunExists
from ..journal.journal import NewRun, RunRow
from ..values import digest


def check_same(row: RunRow, new: NewRun) -> None:
    """Raise RunExists unless `new` is the run that has its id: the same definition, input and variables."""
    if row.fingerprint and row.fingerprint != new.fingerprint:
        raise RunExists(row.id, "another definition")
    check_given(row, new)


def check_given(row: RunRow, new: NewRun) -> None:
    """The same for a run that is gone on with, where another definition is told with what differs."""
    if row.parent is not None or new.parent is not None:
        return  # its input follows from the run that it is part of
    if digest(row.input) != digest(new.input):
        raise RunExists(row.id, "another input")
    before, now = ((one.context or {}).get("variables") or {} for one in (row, new))
    if digest(before) != digest(now):
        raise RunExists(row.id, "other variables")
