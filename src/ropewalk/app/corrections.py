"""The record of a chain of corrections: a run, the runs that correct it, and those that correct these.

One chain has one record, whichever run of it is corrected or retried. The ledger of the store knows its runs. A call is
known by the run and the path where it was made; a run that took its result from the record has it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..engine.budgets import has_ledger, join, run_account
from ..errors import RunBusy, RunUndone
from ..fast_dataclass import dataclass
from ..journal.protocol import ENDS, Entry, RunRow
from ..journal.undo import UNDONE
from ..tools.annotations import effect_of
from ..values import Json
from .recorded_calls import RecordedCalls
from .recorded_run import orphans
from .runs.undone import require_not_undone, undone_paths

if TYPE_CHECKING:
    from .context import Context

CONTEXT: Final = "plan"
"""The member of a run's context with the limits of a plan."""
Place: TypeAlias = tuple[str, str]
"""The run and the path of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call that a run of the chain made, as this run recorded it, or another one if this one is deleted."""

    # `places` has the path of the call in each run that has it. A call that is not in effect is undone.

    run: str
    tool: str
    line: int | None
    effect: str
    entry: Entry
    places: Mapping[str, str]
    runs: Mapping[str, RecordedCalls]
    in_effect: bool = True

    @property
    def is_write(self) -> bool:
        """Whether the call may have changed something, and is not undone."""
        return self.effect != "read" and self.in_effect

    def precedes(self, later: RecordedCall) -> bool:
        """Return True unless a program that has both calls lets them overlap."""
        for run in (later.run, self.run):
            if run in self.places and run in later.places:
                return self.runs[run].precedes(self.places[run], later.places[run])
        return True  # a run makes a write of its own only after it has taken all that it knows

    def to_dict(self) -> dict[str, Json]:
        """Return the call as JSON for people and models."""
        return {"tool": self.tool, "line": self.line, "effect": self.effect, "result": self.entry.data}


class Corrections:
    """The runs of the chain that a run belongs to, oldest first, and what they recorded."""

    def __init__(self, context: Context, row: RunRow) -> None:
        self._context, self._row = context, row
        self.chain = chain_of(row)
        store: Any = context.store
        # This is read first, because a run that begins later has a greater number.
        self._turn = int(store.used(self._turns)["calls"]) if has_ledger(store) else None
        ids = store.members(run_account(self.chain)) if has_ledger(store) else []
        if row.id in ids:
            members = [row if id == row.id else store.get_run(id) for id in ids]
            self.rows = [member for member in members if member is not None]
        else:
            self.rows = list(self._earlier())

    def _earlier(self) -> Iterator[RunRow]:
        """Yield the runs that the run corrects, oldest first, and the run itself, where no ledger knows them."""
        rows = [self._row]
        while (earlier := _limits_of(rows[0]).get("corrects")) is not None:
            row = self._context.store.get_run(str(earlier))
            if row is None:  # it was deleted
                break
            rows.insert(0, row)
        yield from rows

    @cached_property
    def _histories(self) -> dict[str, list[Entry]]:
        return {row.id: self._context.history(row.id) for row in self.rows}

    @cached_property
    def _taken(self) -> dict[Place, Place]:
        """By the place of each call that a record answered: the place that the answer is from."""
        return {place: source for id, history in self._histories.items() for place, source in taken_calls(id, history)}

    def _maker(self, place: Place) -> Place:
        """Return the place where a call was made, also if its run is deleted."""
        for _ in self._taken:
            if place not in self._taken:
                break
            place = self._taken[place]
        return place

    @property
    def _turns(self) -> str:
        """The account that counts how often a run of the chain began with the record of the others."""
        return f"turns:{self.chain}"

    def take_turn(self, row: RunRow) -> None:
        """Raise RunBusy if another run of the chain has begun since this record was read."""
        # The store counts in one transaction, so of two runs that begin with the same record one is refused.
        if self._turn is None:
            return
        store: Any = self._context.store
        join(store, row.id, [self._turns, run_account(self.chain)])
        key = f"{row.id} turn {row.epoch}"
        if store.reserve(key, {self._turns: {"calls": self._turn + 1}}) is not None:
            raise RunBusy(self.chain, "another process, which corrects or continues it")
        store.settle(key, {})

    def require_idle(self, but: str = "") -> None:
        """Raise RunBusy while another run of the chain is executed, because its calls are not known yet."""
        running = [row for row in self.rows if row.status == "running" and row.id != but]
        orphan_ids = orphans(self._context.store, [row.id for row in running]) if running else ()
        for row in running:
            if row.id not in orphan_ids:
                raise RunBusy(row.id, row.owner)

    def require_no_undo(self) -> None:
        """Raise RunUndone while calls of a run are being undone."""
        for row in self.rows:
            undoing = self._context.store.get_run(row.undo) if row.undo else None
            if undoing is not None and undoing.status not in ENDS:
                raise RunUndone(row.id, undoing.id)

    def offered(self, resumed: RunRow | None = None) -> list[RecordedCall]:
        """Return the successful calls of the chain, each behind those that come before it."""

        # A resumed run has its own record: it is not offered the calls that it made, and those that it took.
        runs = {row.id: RecordedCalls(row, self._histories[row.id]) for row in self.rows}
        calls: dict[Place, RecordedCall] = {}
        places: dict[Place, dict[str, str]] = {}
        for row in self.rows:
            for call in self._calls_of(row, runs):
                maker = self._maker((row.id, call.entry.path))
                places.setdefault(maker, {})[row.id] = call.entry.path
                if maker not in calls or maker[0] == row.id:
                    calls[maker] = call
        known = set() if resumed is None else {maker for maker, inside in places.items() if resumed.id in inside}
        gone = self._undone(places)
        return [
            replace(call, places=places[maker], in_effect=maker not in gone)
            for maker, call in calls.items()
            if maker not in known and (resumed is None or maker[0] != resumed.id)
        ]

    def _undone(self, places: Mapping[Place, Mapping[str, str]]) -> set[Place]:
        """Return those of the calls whose effect is undone, at least in part."""
        undone = {
            row.id: undone_paths(self._context, row)
            for row in self.rows
            if row.undo or any(entry.kind == UNDONE for entry in self._histories[row.id])
        }
        return {
            maker
            for maker, inside in places.items()
            if any(_is_at(path, undone[run]) for run, path in inside.items() if run in undone)
        }

    def _calls_of(self, row: RunRow, runs: Mapping[str, RecordedCalls]) -> Iterator[RecordedCall]:
        """Yield the calls of a run in the order of its program."""
        toolbox, effects = self._context.toolbox, self._context.plans.effects
        for call in runs[row.id].calls:
            effect = effect_of(toolbox.get(call.tool), effects, id=call.tool)
            yield RecordedCall(
                run=row.id, tool=call.tool, line=call.line, effect=effect, entry=call.entry, places={}, runs=runs
            )


def chain_of(row: RunRow) -> str:
    """Return the id of the first run of the chain that a run belongs to."""
    return str(_limits_of(row).get("chain") or row.id)


def require_in_effect(context: Context, row: RunRow) -> None:
    """Raise RunUndone if a run that has not ended uses the result of a call that another run undoes."""
    if row.status not in ENDS and (row.forked_from is not None or len(Corrections(context, row).rows) > 1):
        require_not_undone(context, row)


def taken_calls(run_id: str, history: Iterable[Entry]) -> Iterator[tuple[Place, Place]]:
    """Yield the places of the calls of a run that a record answered, each with the place that the answer is from."""
    entries = list(history)
    called = {entry.path for entry in entries if entry.kind == "call"}  # a retry forgets the call, and keeps its undo
    for entry in entries:
        data: Any = entry.data
        if entry.kind == "undo" and entry.path in called and isinstance(data, dict) and "made" in data:
            yield (run_id, entry.path), (data["made"]["run"], data["made"]["path"])


def _limits_of(row: RunRow) -> dict[str, Any]:
    limits: dict[str, Any] = (row.context or {}).get(CONTEXT) or {}
    return limits


def _is_at(path: str, undone: set[str]) -> bool:
    """Return True if a call, or a step inside the flow that it called, is among undone steps."""
    return path in undone or any(step.startswith(f"{path}/") for step in undone)
