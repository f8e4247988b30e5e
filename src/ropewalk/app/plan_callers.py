"""The caller for the tools of corrected code: it answers calls from the record of the runs that the code corrects.

It wraps the usual caller of the run. The context of the run names the corrected run, so a process that resumes the run
offers it the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..engine.engine import Job
from ..errors import JournalConflict
from ..fast_dataclass import dataclass
from ..journal.protocol import Entry, RunRow
from ..ops import calls_of
from ..tools.annotations import effect_of
from ..values import Json, digest
from .pinned_definition import pinned_definition

if TYPE_CHECKING:
    from .context import Context

CONTEXT: Final = "plan"
"""The member of a run's context with the limits of a plan."""
Place: TypeAlias = tuple[str, str]
"""The run and the path of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call that an earlier run made."""

    run: str
    tool: str
    line: int | None
    effect: str
    entry: Entry

    def overlaps(self, earlier: RecordedCall) -> bool:
        """Return True if this call began before an earlier one of the same run had ended."""
        return self.run == earlier.run and self.entry.started < earlier.entry.ended

    def to_dict(self) -> dict[str, Json]:
        """Return the call as JSON for people and models."""
        return {"tool": self.tool, "line": self.line, "effect": self.effect, "result": self.entry.data}


class RecordedCaller:
    """Answers calls from the record of earlier runs, as long as tool and arguments are the same in the same order."""

    def __init__(self, caller: Any, recorded: Iterable[RecordedCall], effects: Mapping[str, str]) -> None:
        self._caller, self._effects = caller, effects
        self.remaining = list(recorded)
        self._origins: dict[str, Place] = {}  # by the idempotency key of the call that was answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)

    def wrap(self, wrapper: Callable[[Any], Any]) -> None:
        """Wrap the caller of the calls that the record does not answer."""
        self._caller = wrapper(self._caller)

    def bind(self, tool_id: str) -> Any:
        """Return a bound tool that first looks into the record."""
        bound = self._caller.bind(tool_id)
        is_read = effect_of(bound.tool, self._effects, id=tool_id) == "read"

        async def call(args: Any, key: str, *more: Any, **named: Any) -> Json:
            known = self._take(tool_id, args, is_read)
            if known is not None:
                self._origins[key] = (known.run, known.entry.path)
                return known.entry.data
            value: Json = await bound.call(args, key, *more, **named)
            return value

        return replace(bound, call=call, direct=None, origin=self._origins.get)

    def _take(self, tool: str, args: Json, is_read: bool) -> RecordedCall | None:
        """Return the recorded call that fits and remove it; None for a call to make."""
        mark = digest([tool, args])
        writes = [call for call in self.remaining if call.effect != "read"]
        match = next((call for call in self.remaining if call.entry.digest == mark), None)
        if match is not None:
            earlier = takewhile(lambda call: call is not match, self.remaining)
            # Writes that overlapped have no order.
            if is_read or all(call.effect == "read" or match.overlaps(call) for call in earlier):
                self.remaining.remove(match)
                return match
        if not is_read and writes:
            raise RecordedCallChanged(writes[0], {"tool": tool, "arguments": args})
        return None


class RecordedCallChanged(JournalConflict):
    """A corrected plan would not repeat a write that an earlier run made."""

    # `recorded`: The call that was made.
    # `changed`: The call that the corrected plan makes in its place; None if it makes none.

    def __init__(self, recorded: RecordedCall, changed: dict[str, Json] | None) -> None:
        self.recorded, self.changed = recorded, changed
        now = f"calls {changed['tool']} with other arguments or in another order" if changed else "does not make it"
        line = f" (line {recorded.line})" if recorded.line else ""
        message = f"the record holds a call of {recorded.tool}{line}; the new code {now}"
        super().__init__(recorded.run, recorded.entry.path, message)


def apply_limits(context: Context, job: Job, limits: Mapping[str, Any], row: RunRow | None = None) -> None:
    """Wrap the caller of a job by the limits of a plan."""
    job.new.context[CONTEXT] = dict(limits)
    job.budget = {name: limits[name] for name in ("calls", "seconds", "tokens", "cost") if name in limits}
    job.chain = limits.get("chain")
    corrected = context.store.get_run(str(limits.get("corrects") or ""))
    if corrected is not None:
        recorded = recorded_calls(context, corrected, row)
        job.caller = RecordedCaller(job.caller, recorded, context.plans.effects)


def corrected_runs(context: Context, row: RunRow) -> list[RunRow]:
    """Return the runs that a run corrects, oldest first, and the run itself."""
    rows = [row]
    while (earlier := ((rows[0].context or {}).get(CONTEXT) or {}).get("corrects")) is not None:
        found = context.store.get_run(str(earlier))
        if found is None:  # it was deleted
            break
        rows.insert(0, found)
    return rows


def recorded_calls(context: Context, row: RunRow, resumed: RunRow | None = None) -> list[RecordedCall]:
    """Return the successful calls of a run and of those it corrects, oldest first, without those of a resumed run."""
    calls: dict[Place, RecordedCall] = {}
    made: dict[Place, Place] = {}  # by the place of a call that a record answered: where it was made
    for run in corrected_runs(context, row):
        history = context.history(run.id)
        made |= {place: made.get(source, source) for place, source in taken_calls(run.id, history)}
        for call in _calls_of(context, run, history):
            place = (run.id, call.entry.path)
            # The run that made a call may be deleted; then those that took it over have its record.
            calls.setdefault(made.get(place, place), call)
    if resumed is not None:
        for _, source in taken_calls(resumed.id, context.history(resumed.id)):
            calls.pop(made.get(source, source), None)
    return list(calls.values())


def taken_calls(run_id: str, history: Iterable[Entry]) -> Iterator[tuple[Place, Place]]:
    """Yield the places of the calls of a run that a record answered, each with the place that the answer is from."""
    for entry in history:
        data: Any = entry.data
        if entry.kind == "undo" and isinstance(data, dict) and "made" in data:
            yield (run_id, entry.path), (data["made"]["run"], data["made"]["path"])


def _calls_of(context: Context, row: RunRow, history: Iterable[Entry]) -> Iterator[RecordedCall]:
    nodes = {node.id: node for node in calls_of(pinned_definition(context, row).flow.body)}
    for entry in sorted(history, key=lambda entry: entry.started):  # they are recorded in the order of their ends
        node = nodes.get(entry.node)
        if entry.kind == "call" and node is not None:
            source = node.meta.source
            line = int(source.removeprefix("code:")) if source.startswith("code:") else None
            tool = node.op.tool
            effect = effect_of(context.toolbox.get(tool), context.plans.effects, id=tool)
            yield RecordedCall(run=row.id, tool=tool, line=line, effect=effect, entry=entry)
