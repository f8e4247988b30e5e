"""The caller for the tools of corrected code: it answers calls from the record of the chain of its run.

It wraps the usual caller of the run. The context of a run names its chain, so a process that resumes the run offers it
the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..engine.engine import Job
from ..errors import JournalConflict
from ..journal.protocol import RunRow
from ..tools.annotations import effect_of
from ..values import Json, digest
from .corrections import CONTEXT, Corrections, Place, RecordedCall
from .run_budget import accounts_of_correction

if TYPE_CHECKING:
    from .context import Context


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
        equal = [call for call in self.remaining if call.entry.digest == mark]
        for call in sorted(equal, key=lambda call: not call.in_effect):
            if is_read or not self._is_behind_a_write(call):
                self.remaining.remove(call)
                return call if call.in_effect else None  # an undone call may be made again
        writes = [call for call in self.remaining if call.is_write]
        if not is_read and writes:
            raise RecordedCallChanged(writes[0], {"tool": tool, "arguments": args})
        return None

    def _is_behind_a_write(self, call: RecordedCall) -> bool:
        """Return True if a write that was not asked for yet comes before a call; writes that overlap have no order."""
        earlier = takewhile(lambda other: other is not call, self.remaining)
        return any(other.is_write and other.precedes(call) for other in earlier)


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


def apply_limits(context: Context, job: Job, limits: Mapping[str, Any]) -> None:
    """Wrap the caller of a new job by the limits of a plan."""
    job.new.context[CONTEXT] = dict(limits)
    job.budget = {name: limits[name] for name in ("calls", "seconds", "tokens", "cost") if name in limits}
    job.chain = limits.get("chain")
    corrected = context.store.get_run(str(limits.get("corrects") or ""))
    if corrected is not None:
        job.corrected = accounts_of_correction(corrected)
        recorded = Corrections(context, corrected).offered()
        job.caller = RecordedCaller(job.caller, recorded, context.plans.effects)


def offer_record(context: Context, job: Job, row: RunRow) -> None:
    """Wrap the caller of the job of an existing run, unless it is the only run of its chain."""
    chain = Corrections(context, row)
    if chain.chain != row.id:
        job.chain = chain.chain
    if len(chain.rows) > 1:
        job.caller = RecordedCaller(job.caller, chain.offered(row), context.plans.effects)
