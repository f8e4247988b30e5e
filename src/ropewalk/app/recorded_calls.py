"""The successful calls that a run of a program recorded, and their order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from ..fast_dataclass import dataclass
from ..journal.protocol import Entry, RunRow, Store
from ..notations.plan.flow import PROGRAM
from ..plans.rows import Row, RowOrder, step_key
from .runs.program_rows import free_offers, row_entries, row_of, rows_of

_STEP: Final = re.compile(r"[^/]*\[(?P<key>[\w.:-]+-(?P<line>\d+):[\w.:]+)\]/[^/]+")
_COMPILED: Final = re.compile(r"_(\d+)(?:_\d+)?")
"""The end of the id of a node of the first design of plans, which compiled programs; it begins with the tool's name."""


def is_compiled(store: Store, run_id: str) -> bool:
    """Return True for a run of the first design of plans, whose record only corrected code can take."""
    first = store.history_page(run_id, 0, 1)[0] if store.durable else []
    return bool(first) and not re.match(rf"{PROGRAM}(\[|$)", first[0].path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as its run recorded it: the id of the tool, the line of the program, and the entry with the result."""

    tool: str
    line: int
    entry: Entry


class RecordedCalls:
    """The calls of one run in the order of its rows."""

    def __init__(self, row: RunRow, history: Iterable[Entry]) -> None:
        document: Any = row.document
        self._tools = {name: str(entry["id"]) for name, entry in (document.get("tools") or {}).items()}
        entries = list(history)
        self.calls = [call for entry in entries if (call := self._call_of(entry)) is not None]
        self._rows: dict[str, str] = {}  # the path in rows, by the path of the entry of a call
        programs = rows_of(entries)
        rows = [row for program in programs.values() for row in program]
        by_key = {step_key(row.path): row.path for row in rows}
        for call in self.calls:
            step = _STEP.fullmatch(call.entry.path)
            path = None if step is None else by_key.get(step["key"])
            if path is not None:
                self._rows[call.entry.path] = path
        if len(self._rows) < len(self.calls):  # a run of the first design, which recorded no rows
            rows = _rows_by_time(self.calls)
            self._rows = {row.path: row.path for row in rows}
        for program, offers in row_entries(entries, "offer").items():
            rows += self._add_offers(program, offers, programs[program])
        self._order = RowOrder(rows)
        self.calls.sort(key=lambda call: self._order.number(self._rows[call.entry.path]))

    def _call_of(self, entry: Entry) -> ToolCall | None:
        """Return the call of an entry; None if the program did not make it."""
        if entry.kind != "call":
            return None
        step = _STEP.fullmatch(entry.path)
        if step is not None and entry.node in self._tools:
            return ToolCall(tool=self._tools[entry.node], line=int(step["line"]), entry=entry)
        for name in sorted(self._tools, key=len, reverse=True) if step is None else ():
            begin = name.replace(".", "_")
            end = _COMPILED.fullmatch(entry.node.removeprefix(begin)) if entry.node.startswith(begin) else None
            if end is not None:
                return ToolCall(tool=self._tools[name], line=int(end[1]), entry=entry)
        return None

    def _add_offers(self, program: str, offers: Iterable[Entry], rows: Iterable[Row]) -> Iterator[Row]:
        """Add the calls that a retry offered and the program has not asked for again; yield a row for each."""
        # The undo of such a call is at the same path: that of the call and the epoch of the retry.
        entry_of = {id(row := row_of(entry)): (entry, row) for entry in offers}
        for row in free_offers(rows, [row for _, row in entry_of.values()])[0]:
            offer = entry_of[id(row)][0]
            data: Any = offer.data
            path = f"{program}[{step_key(row.path)}]/{offer.node}#{data[-1]}"
            entry = replace(offer, path=path, kind="call", data=json.loads(row.value))
            line = line_at(path.partition("#")[0])
            self.calls.append(ToolCall(tool=self._tools[offer.node], line=line or 0, entry=entry))
            self._rows[path] = f"{row.path}#{data[-1]}"
            yield replace(row, path=self._rows[path])

    def precedes(self, first: str, second: str) -> bool:
        """Return True if the run made the call at the second path only after the one at the first path."""
        return self._order.precedes(self._rows[first], self._rows[second])


def line_at(path: str) -> int | None:
    """Return the line of the program at which a step with this path in the journal was requested."""
    step = _STEP.fullmatch(path)
    return None if step is None else int(step["line"])


def _rows_by_time(calls: Iterable[ToolCall]) -> list[Row]:
    """Return a row for each call, which knows the calls that had ended when it began."""
    ended = sorted((call.entry for call in calls), key=attrgetter("ended"))
    return [
        Row(entry.path, "call", entry.node, "", "ok", after=sum(other.ended <= entry.started for other in ended[:at]))
        for at, entry in enumerate(ended)
    ]
