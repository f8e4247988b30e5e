"""What a store in memory keeps of one run."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from ..content import contents, hashes_of
from ..values import Json
from .journal import ENDS, Entry, Key, Live, NewRun, RunRow, Signal, ending

if TYPE_CHECKING:
    from .memory import MemoryLog


class Record:
    """A run, its live log if any, and what is kept of its entries. Its row is made when somebody
    asks: making one costs as much as running a few nodes."""

    __slots__ = (
        "contents", "current_node", "due", "ended_at", "entries", "epoch", "error", "error_count", "live", "log", "new",
        "result", "result_count", "signals", "spent", "started_at", "status", "stop_requested",
    )  # fmt: skip

    def __init__(self, new: NewRun) -> None:
        self.new = new
        self.status, self.started_at = "running", new.started_at or time.time()
        self.ended_at: float | None = None
        self.result: Json = None
        self.error: Json = None
        self.result_count = self.error_count = 0
        self.epoch, self.stop_requested = 1, False
        self.current_node, self.spent = "", 0.0
        self.entries: dict[Key, Entry] = {}
        self.live: Live | None = None
        self.log: MemoryLog | None = None
        self.signals: Sequence[Signal] = ()
        self.due: float | None = None
        self.contents = _NONE
        if contents.count:
            self.keep_contents(new.input)

    def keep_contents(self, value: Json) -> None:
        """Hold on to the content in a value; free in a process that has none."""
        if contents.count:
            found = {hash: contents.in_memory(hash) for hash in hashes_of(value)}
            if found:
                self.contents = {**self.contents, **{hash: data for hash, data in found.items() if data is not None}}

    def row(self, *, so_far: bool = False) -> RunRow:
        """The run; one that goes on with the results that it has `so_far`."""
        new = self.new
        return RunRow(
            id=new.id,
            kind=new.kind,
            definition_id=new.definition_id,
            name=new.name,
            status=self.status,
            input=new.input,
            context=new.context,
            document=new.document,
            fingerprint=new.fingerprint,
            started_at=self.started_at,
            ended_at=self.ended_at,
            result=self.result,
            error=self.error,
            owner=OWNER,
            epoch=self.epoch,
            spent=self.elapsed(),
            current_node=self.current_node,
            result_count=self._results_so_far() if so_far else self.result_count,
            error_count=max(self.error_count, self._let_go),
            stop_requested=self.stop_requested,
            parent=new.parent,
            due=self.due,
            forked_from=new.forked_from,
        )

    def light(self) -> RunRow:
        """The row without its large values."""
        return dataclasses.replace(self.row(so_far=True), input=None, context=None, document=None, result=None)

    @property
    def _let_go(self) -> bool:
        """Whether it was stopped while nobody executed it."""
        return self.status == "stopped" and self.result is None

    def _results_so_far(self) -> int:
        """How many nodes have a result; of a run that goes on those that are done."""
        if self._let_go:
            ended = {"call", "node", "skip", "attempt"}
            return len({e.node for e in self.history() if e.kind in ended and "/" not in e.path})
        if self.status in ENDS:
            return self.result_count
        return sum(entry.kind in ("call", "node") and "/" not in entry.path for entry in self.history())

    def size(self) -> int:
        """Bytes of what is recorded."""
        values = [self.new.input, self.new.context, self.new.document, self.result, self.error]
        values += [entry.data for entry in self.entries.values()]
        return sum(len(orjson.dumps(value)) for value in values if value is not None)

    def begin_again(self, past: dict[Key, Entry]) -> None:
        """An ended run runs once more; how it had ended stays among its facts."""
        told = self.status, self.ended_at, self.error, self.result_count, self.error_count, self.spent
        entry = ending(self.epoch, *told)
        self.entries[entry.path, entry.kind] = past[entry.path, entry.kind] = entry
        self.status, self.ended_at, self.stop_requested, self.spent = "running", None, False, 0.0
        self.result = self.error = None
        self.result_count = self.error_count = 0

    @property
    def held(self) -> bool:
        """Whether somebody goes on with it; nobody does when the event loop was closed under it."""
        return self.log is not None and not self.log.abandoned

    def history(self) -> list[Entry]:
        if self.entries or self.live is None:
            return list(self.entries.values())
        return self.live.entries()

    def elapsed(self) -> float:
        """Seconds of execution; while a log is open its run says it."""
        return self.spent if self.log is None or self.live is None else self.live.elapsed()


def error_text(row: RunRow) -> str:
    return "" if row.error is None else orjson.dumps(row.error).decode()


_NONE: Mapping[str, bytes] = {}
OWNER = f"{socket.gethostname()} (pid {os.getpid()})"
