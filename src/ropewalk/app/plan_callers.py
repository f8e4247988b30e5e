"""Callers for the tools of a plan's run: one keeps to a budget, one answers calls from the record of an earlier run.

Both wrap the usual caller of the run. Their settings are recorded in the context of the run, so a run that another
process resumes has the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call that an earlier run made."""

    tool: str
    line: int | None
    effect: str
    entry: Entry

    def to_dict(self) -> dict[str, Json]:
        """Return the call as JSON for people and models."""
        return {"tool": self.tool, "line": self.line, "effect": self.effect, "result": self.entry.data}


class RecordedCaller:
    """Answers calls from the record of an earlier run, as long as tool and arguments are the same in the same order."""

    def __init__(self, caller: Any, run_id: str, recorded: Iterable[RecordedCall], effects: Mapping[str, str]) -> None:
        self._caller, self._run_id, self._effects = caller, run_id, effects
        self.remaining = list(recorded)
        self._origins: dict[str, tuple[str, str]] = {}  # by the idempotency key of the call that was answered

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
                self._origins[key] = (self._run_id, known.entry.path)
                return known.entry.data
            value: Json = await bound.call(args, key, *more, **named)
            return value

        return replace(bound, call=call, direct=None, origin=self._origins.get)

    def _take(self, tool: str, args: Json, is_read: bool) -> RecordedCall | None:
        """Return the recorded call that fits and remove it; None for a call to make."""
        mark = digest([tool, args])
        writes = [call for call in self.remaining if call.effect != "read"]
        match = next((call for call in self.remaining if call.entry.digest == mark), None)
        if match is not None and (is_read or match is writes[0]):
            self.remaining.remove(match)
            return match
        if not is_read and writes:
            raise RecordedCallChanged(self._run_id, writes[0], {"tool": tool, "arguments": args})
        return None


class RecordedCallChanged(JournalConflict):
    """A corrected plan would not repeat a write that an earlier run made."""

    # `recorded`: The call that was made.
    # `changed`: The call that the corrected plan makes in its place; None if it makes none.

    def __init__(self, run_id: str, recorded: RecordedCall, changed: dict[str, Json] | None) -> None:
        self.recorded, self.changed = recorded, changed
        now = f"calls {changed['tool']} with other arguments or in another order" if changed else "does not make it"
        line = f" (line {recorded.line})" if recorded.line else ""
        super().__init__(
            run_id, recorded.entry.path, f"the record holds a call of {recorded.tool}{line}; the new code {now}"
        )


def apply_limits(context: Context, job: Job, limits: Mapping[str, Any], row: RunRow | None = None) -> None:
    """Wrap the caller of a job by the limits of a plan."""
    job.new.context[CONTEXT] = dict(limits)
    corrects = limits.get("corrects")
    job.budget = {name: limits[name] for name in ("calls", "seconds", "tokens", "cost") if name in limits}
    job.chain = limits.get("chain")
    if corrects is not None:
        recorded = recorded_calls(context, str(corrects))
        if row is not None:  # what this run has from the record already
            for entry in context.history(row.id):
                own = next((call for call in recorded if call.entry.digest == entry.digest), None)
                if entry.kind == "call" and own is not None:
                    recorded.remove(own)
        job.caller = RecordedCaller(job.caller, str(corrects), recorded, context.plans.effects)


def recorded_calls(context: Context, run_id: str) -> list[RecordedCall]:
    """Return the successful calls of a run, in order; those it took from an earlier run included."""
    row = context.store.get_run(run_id)
    if row is None:
        return []
    flow = pinned_definition(context, row).flow
    nodes = {node.id: node for node in calls_of(flow.body)}
    calls = []
    for entry in context.history(run_id):
        node = nodes.get(entry.node)
        if entry.kind == "call" and node is not None:
            source = node.meta.source
            line = int(source.removeprefix("code:")) if source.startswith("code:") else None
            tool = node.op.tool
            effect = effect_of(context.toolbox.get(tool), context.plans.effects, id=tool)
            calls.append(RecordedCall(tool=tool, line=line, effect=effect, entry=entry))
    return calls
