"""The mark of an undone run, and of its calls, in a store in memory. The store holds its lock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import NotFound, RunBusy, RunUndone
from .protocol import ENDS, Entry, NewRun
from .undo import UNDONE, UndoneCalls

if TYPE_CHECKING:
    from .memory import Record


def begin_undo(records: Mapping[str, Record], run: NewRun, durable: bool) -> None:
    """Mark the run that a new run undoes, and each of its calls in the run that made it."""
    id = str(run.undoes)
    record = _record(records, id)
    if record.undo and record.undo != run.forked_from:
        raise RunUndone(id, record.undo)
    if record.status not in ENDS or record.epoch != run.undoes_epoch or record.has_owner:
        raise RunBusy(id, record.row().owner)
    # Every call is checked before the first one is marked.
    makers = [(_unmarked(records, run, calls), calls.paths) for calls in run.undoes_calls] if durable else []
    record.undo = run.id
    record.epoch += 1
    now = time.time()
    for maker, paths in makers:
        for path in paths:
            mark = Entry(path, UNDONE, data={"run": id, "undo": run.id}, started=now, ended=now)
            maker.entries.setdefault((path, UNDONE), mark)


def require_not_undone(record: Record) -> None:
    """Raise RunUndone if another run undoes calls of a run."""
    for (_, kind), entry in record.entries.items():
        if kind == UNDONE:
            data: Any = entry.data
            raise RunUndone(record.new.id, data["undo"])


def _unmarked(records: Mapping[str, Record], run: NewRun, calls: UndoneCalls) -> Record:
    maker = _record(records, calls.run)
    is_busy = (maker.new.parent is None and maker.status not in ENDS) or maker.has_owner
    if calls.run != run.undoes and (is_busy or maker.epoch != calls.epoch):
        raise RunBusy(calls.run, maker.row().owner)
    for path in calls.paths:
        mark: Any = maker.entries.get((path, UNDONE))
        if mark is not None and mark.data["undo"] != run.forked_from:
            raise RunUndone(calls.run, mark.data["undo"])
    return maker


def _record(records: Mapping[str, Record], id: str) -> Record:
    record = records.get(id)
    if record is None:
        raise NotFound("run", id)
    return record
