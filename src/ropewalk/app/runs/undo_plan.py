"""Which calls an undo of a run makes. Nothing is called here.

A fork and a corrected plan use results of calls that an earlier run made. Such a call has one effect, so it is undone
once, whichever of the runs is undone. Its undo and the mark that it is undone are in the journal of the run that made
the call; this module leads from a run to those journals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson

from ...errors import RopewalkError
from ...fast_dataclass import dataclass
from ...ir import nodes_of
from ...journal.protocol import ENDS, Entry, RunRow
from ...journal.undo import UNDONE, UndoneCalls
from ...ops import Call
from ...tools.annotations import effect_of
from ...values import Json
from ..recorded_run import MOST_PARTS, outermost
from .instances import without_attempts

if TYPE_CHECKING:
    from ..context import Context

LOOP: Final = "undo"
"""The node of an undo that contains its calls, one iteration for each step."""
_PLACE: Final = re.compile(rf"{LOOP}\[(\d+)\]/")
_FAILED: Final = ("call_failed", "attempt")
READS: Final = "it only reads"
"""Why a call that reads is not undone."""
_LEFT: Final = "left by the undo"
"""How far an undo is that failed before it came to a call, or at it."""
_AGAIN: Final = "#"
"""Between the path of a call that a retry repeated and the epoch of the retry, in the path of its first undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """A finished step to undo."""

    # `path` is its path in the run, that of inner runs included; `of` is its tool, `tool` and `args` make the call that
    # takes it back. `ended` orders the steps. `maker` is the run that made the call, `places` the paths of its undos
    # there; `taken_from` is that run if the undone run took the result from another one.

    path: str
    of: str
    tool: str
    args: Json
    ended: float
    maker: str = ""
    places: tuple[str, ...] = ()
    taken_from: str | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the step as JSON, for the input of the run that undoes it and for people."""
        shown: dict[str, Json] = {"path": self.path, "of": self.of, "tool": self.tool, "args": self.args}
        return shown if self.taken_from is None else {**shown, "madeBy": self.taken_from}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The steps of a run to undo, the last one first, and the finished steps that are not undone, with the reasons."""

    # `undone` has the steps that another run undoes, with `undoRun`. `epochs` has the epoch of each run that made a
    # call.

    steps: list[UndoStep]
    left: list[dict[str, Json]]
    undone: list[dict[str, Json]]
    epochs: dict[str, int] = field(default_factory=dict)

    def calls(self) -> tuple[UndoneCalls, ...]:
        """Return the calls to mark as undone, by the run that made them."""
        places: dict[str, list[str]] = {}
        for step in self.steps:
            places.setdefault(step.maker, []).extend(step.places)
        return tuple(UndoneCalls(run=run, epoch=self.epochs[run], paths=tuple(paths)) for run, paths in places.items())


def plan_undo(context: Context, row: RunRow, *, shared: bool = True) -> UndoPlan:
    """Read from the journals of a run and its parts what to undo."""
    planner = _Planner(context, row, shared)
    planner.add_run(planner.journal(row.id, row), "")
    order = sorted(enumerate(planner.steps), key=lambda item: (item[1].ended, item[0]), reverse=True)
    # A retry repeats a call under the same key, so both calls may have had one effect: it is undone once.
    unique: dict[tuple[str, str, str, bytes], UndoStep] = {}
    places: dict[tuple[str, str, str, bytes], list[str]] = {}
    for _, step in order:
        [place] = step.places
        args = orjson.dumps(step.args, option=orjson.OPT_SORT_KEYS)
        key = (step.maker, place.partition(_AGAIN)[0], step.tool, args)
        unique.setdefault(key, step)
        places.setdefault(key, []).append(place)
    steps = [replace(step, places=tuple(places[key])) for key, step in unique.items()]
    return UndoPlan(steps=steps, left=planner.left, undone=planner.undone, epochs=planner.epochs())


class _Journal:
    """The calls of one run, their undos, and the marks of undone calls, as its journal has them."""

    def __init__(self, context: Context, row: RunRow) -> None:
        self._context, self.row = context, row
        by_kind: dict[str, dict[str, Entry]] = {"undo": {}, "call": {}, UNDONE: {}}
        for entry in context.history(row.id):
            by_kind.get(entry.kind, {})[entry.path] = entry
        self.undos, self.calls, self.marks = by_kind["undo"], by_kind["call"], by_kind[UNDONE]

    @cached_property
    def parts(self) -> dict[str, RunRow]:
        """The flows that the run called as tools, by the paths of the calls."""
        rows = self._context.store.list_runs(parent=self.row.id, limit=MOST_PARTS)
        return {part.id.removeprefix(f"{self.row.id}/"): part for part in rows}

    @cached_property
    def places(self) -> dict[tuple[str, float, str], str]:
        """The path of each call by what a fork has of it: digest, end, and path without attempts."""
        calls = reversed(self.calls.items())  # of equal calls the first one counts
        return {(call.digest, call.ended, without_attempts(path)): path for path, call in calls}

    @cached_property
    def has_ended(self) -> bool:
        """Whether the outermost run has ended, so that its calls can be undone."""
        return outermost(self._context.store, self.row).status in ENDS

    @cached_property
    def tools(self) -> dict[str, str]:
        """The tool of each node that calls one; empty if the definition cannot be read here."""
        row = self.row if self.row.document is not None else self._context.store.get_run(self.row.id)
        try:
            flow = self._context.definitions.get(row or self.row).flow
        except (RopewalkError, TypeError):
            return {}
        return {node.id: node.op.tool for node in nodes_of(flow.body) if isinstance(node.op, Call)}

    def undo_with(self, path: str, args: Json) -> str:
        """Return the path of the undo of a call with some arguments: a retry may have moved it."""
        places = [place for place in self.undos if place.partition(_AGAIN)[0] == path]
        return next((place for place in places if _args_of(self.undos[place]) == args), path)


def _args_of(undo: Entry) -> Json:
    data: Any = undo.data
    return data.get("args")


class _Planner:
    """Collects the steps of a run, of its parts, and of the runs whose results it uses."""

    def __init__(self, context: Context, row: RunRow, shared: bool) -> None:
        self._context, self._row, self._shared = context, row, shared
        self._journals: dict[str, _Journal | None] = {}
        self._undos: dict[str, tuple[str, RunRow | None, list[dict[str, Any]]]] = {}
        self.steps: list[UndoStep] = []
        self.left: list[dict[str, Json]] = []
        self.undone: list[dict[str, Json]] = []

    def epochs(self) -> dict[str, int]:
        """Return the epoch at which the journal of each run was read."""
        return {id: journal.row.epoch for id, journal in self._journals.items() if journal is not None}

    def journal(self, run_id: str, row: RunRow | None = None) -> Any:
        """Return the journal of a run; None if there is no such run any more."""
        if run_id not in self._journals:
            row = row or self._context.store.get_run(run_id)
            self._journals[run_id] = None if row is None else _Journal(self._context, row)
        return self._journals[run_id]

    def add_run(self, journal: _Journal, prefix: str, taken_from: str | None = None) -> None:
        """Add the calls of a run whose paths begin with `prefix` in the run to undo."""
        for path in journal.undos:
            self._add_call(journal, path, prefix + path, taken_from)
        for path in journal.calls:
            if path not in journal.undos and path not in journal.parts:
                self._add_call(journal, path, prefix + path, taken_from)
        # The undo of a call covers everything inside the flow that it called.
        for path, part in journal.parts.items():
            if path not in journal.undos:
                self.add_run(self.journal(part.id, part), f"{prefix}{path}/", taken_from)

    def _add_call(self, journal: _Journal, path: str, shown: str, taken_from: str | None) -> None:
        """Add one call, or say why it is not undone."""

        # `shown` is its path in the run to undo.
        call, undo = journal.calls.get(path), journal.undos.get(path)
        data: Any = {} if undo is None else undo.data
        source, place = self._origin(journal, path, data)
        if source is not None:
            if not self._shared and "made" not in data:
                self._leave(shown, data.get("of") or self._tool(journal, call), f"run {source.row.id} made its call")
            else:
                self._add_call(source, place, shown, source.row.id)
        elif undo is None:
            if path in journal.parts:
                part = journal.parts[path]
                self.add_run(self.journal(part.id, part), f"{shown}/", taken_from)
            else:
                tool = self._tool(journal, call)
                self._leave(shown, tool, self._why_not(journal, call, tool))
        elif "error" in data:
            self._leave(shown, data["of"], f"its undo cannot be called: {data['error']}")
        elif "tool" not in data:
            self._leave(shown, data["of"], f"run {data['made']['run']} made its call, and its record was deleted")
        elif taken_from is not None and not journal.has_ended:
            self._leave(shown, data["of"], f"run {taken_from} made its call, and has not ended")
        elif (mark := self._mark(journal, path)) is not None:
            undo_id, state = self._state_elsewhere(mark, data)
            reason = f"{state} in run {mark['run']}, by run {undo_id}"
            # The result of a call whose undo failed still holds, so it is not among the undone ones.
            listed = self.left if state == _LEFT else self.undone
            listed.append({"path": shown, "tool": data["of"], "reason": reason, "undoRun": undo_id})
        else:
            step = UndoStep(
                path=shown,
                of=data["of"],
                tool=data["tool"],
                args=data["args"],
                ended=undo.ended,
                maker=journal.row.id,
                places=(path,),
                taken_from=taken_from,
            )
            self.steps.append(step)

    def _origin(self, journal: _Journal, path: str, data: dict[str, Any]) -> tuple[Any, str]:
        """Return the journal and the path of the call whose result a call took; (None, "") if it was made here."""
        if "made" in data:  # by a corrected plan
            source = self.journal(data["made"]["run"])
            place = data["made"]["path"]
            return source, "" if source is None else source.undo_with(place, data.get("args"))
        call, row = journal.calls.get(path), journal.row
        # A fork has the call with its times, and without its undo.
        if row.forked_from is None or call is None or path in journal.undos or call.ended >= row.started_at:
            return None, ""
        source = self.journal(row.forked_from)
        if source is not None:
            place = source.places.get((call.digest, call.ended, without_attempts(path)))
            if place is not None:
                return source, place
        return None, ""

    def _mark(self, journal: _Journal, path: str) -> Any:
        """Return the mark of a call that the undo of another run undoes; None for none."""
        mark: Any = journal.marks.get(path)
        return None if mark is None or mark.data["run"] == self._row.id else mark.data

    def _state_elsewhere(self, mark: dict[str, Any], data: dict[str, Any]) -> tuple[str, str]:
        """Return the undo of another run to which a call is left, and in words how far it is with the call."""
        run_id = str(mark["run"])
        if run_id not in self._undos:
            # After a rejection another undo makes the calls, and the marks still name the first one.
            undone = self._context.store.get_run(run_id)
            undo_id = str(mark["undo"] if undone is None or not undone.undo else undone.undo)
            undoing = self._context.store.get_run(undo_id)
            self._undos[run_id] = undo_id, undoing, [] if undoing is None else steps_of(self._context, undoing)
        undo_id, undoing, steps = self._undos[run_id]
        if undoing is None or undoing.status == "completed":
            return undo_id, "undone already"
        same = [step for step in steps if (step["tool"], step["args"]) == (data["tool"], data["args"])]
        if same and all(is_in_effect(undoing, step) for step in same):
            return undo_id, _LEFT
        return undo_id, "undone already" if undoing.status in ENDS else "being undone"

    def _leave(self, path: str, tool: str, reason: str) -> None:
        self.left.append({"path": path, "tool": tool, "reason": reason})

    def _tool(self, journal: _Journal, call: Entry | None) -> str:
        return "" if call is None else journal.tools.get(call.node, "")

    def _why_not(self, journal: _Journal, call: Entry | None, tool: str) -> str:
        context, row = self._context, journal.row
        if call is not None and row.forked_from is not None and call.ended < row.started_at:
            return f"run {row.forked_from} made its call"
        if tool and effect_of(context.toolbox.get(tool), context.plans.effects, id=tool) == "read":
            return READS
        return "it has no undo"


# --- the steps of an undo that has begun ------------------------------------------------------


def is_in_effect(undoing: RunRow, step: dict[str, Any]) -> bool:
    """Return True if an undo has ended without undoing one of its steps."""
    return step["status"] != "undone" and undoing.status in ENDS


def steps_of(context: Context, undoing: RunRow) -> list[dict[str, Any]]:
    """Return the steps of an undo in order, those of the undo that it continues included."""

    # Each has `path`, `of`, `tool`, `args`, `status` (undone or left), and `at` or `error`.
    steps: list[dict[str, Any]] = []
    before = context.store.get_run(undoing.forked_from) if undoing.forked_from is not None else None
    if before is not None:
        steps += [step for step in steps_of(context, before) if step["status"] == "undone"]
    given: Any = undoing.input
    states = _states(context.history(undoing.id))
    for number, item in enumerate(given["steps"] if isinstance(given, dict) else ()):
        steps.append({**item, "status": "left", **states.get(number, {})})
    return steps


def _states(history: Iterable[Entry]) -> dict[int, dict[str, Json]]:
    states: dict[int, dict[str, Json]] = {}
    undone: set[int] = set()
    for number, entry in _numbered(history):
        if entry.kind == "call":
            states[number] = {"status": "undone", "at": entry.ended}
            undone.add(number)
        elif entry.kind in _FAILED and isinstance(entry.data, dict) and number not in undone:
            states[number] = {"error": entry.data.get("message")}
    return states


def _numbered(history: Iterable[Entry]) -> Iterator[tuple[int, Entry]]:
    for entry in history:
        place = _PLACE.match(entry.path)
        if place is not None:
            yield int(place[1]), entry
