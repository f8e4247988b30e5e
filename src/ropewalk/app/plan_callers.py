"""The record that a run of corrected code takes results from: the calls of the other runs of its chain.

The host of the program asks it before each call, so nobody approves a call again that was made. The context of a run
names its chain, so a process that resumes the run offers it the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ..engine.engine import Job
from ..errors import JournalConflict
from ..journal.address import run_sync_in_thread
from ..journal.protocol import Entry, RunRow
from ..tools.annotations import effect_of
from ..values import Json, digest
from .corrections import CONTEXT, Corrections, Place, RecordedCall
from .recorded_calls import is_compiled
from .run_budget import accounts_of_correction

if TYPE_CHECKING:
    from .context import Context


class Record:
    """The calls that earlier runs recorded, which a run takes as long as it makes the same calls in the same order."""

    def __init__(self, recorded: Iterable[RecordedCall], is_read: Callable[[str], bool]) -> None:
        self.remaining, self._is_read = list(recorded), is_read
        self.origins: dict[str, Place] = {}  # by the idempotency key of the call that was answered

    def take(self, tool: str, args: Json, key: str) -> Entry | None:
        """Return the recorded call that fits and remove it; None for a call to make."""
        mark, is_read = digest([tool, args]), self._is_read(tool)
        equal = [call for call in self.remaining if call.entry.digest == mark]
        for call in sorted(equal, key=lambda call: not call.in_effect):
            if is_read or not self._is_behind_a_write(call):
                self.remaining.remove(call)
                if not call.in_effect:
                    return None  # an undone call may be made again
                self.origins[key] = (call.run, call.entry.path)
                return call.entry
        writes = [call for call in self.remaining if call.is_write]
        if not is_read and writes:
            raise RecordedCallChanged(writes[0], {"tool": tool, "arguments": args})
        return None

    def _is_behind_a_write(self, call: RecordedCall) -> bool:
        """Return True if a write that was not asked for yet comes before a call; writes that overlap have no order."""
        earlier = takewhile(lambda other: other is not call, self.remaining)
        return any(other.is_write and other.precedes(call) for other in earlier)


class RecordedCaller:
    """The caller of a run of a chain of corrections, with the record that the run takes results from."""

    def __init__(self, caller: Any, record: Record, chain: Corrections) -> None:
        self._caller, self.record, self._chain = caller, record, chain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)

    def wrap(self, wrapper: Callable[[Any], Any]) -> None:
        """Wrap the caller of the calls that the record does not answer."""
        self._caller = wrapper(self._caller)

    async def begins(self, row: RunRow, store: Any) -> None:
        """Raise RunBusy if the record has changed since it was read."""
        await run_sync_in_thread(store, lambda: self._chain.take_turn(row))

    def ends(self) -> None:
        """Raise RecordedCallChanged if a recorded write remains that the run has not asked for."""
        left = next((call for call in self.record.remaining if call.is_write), None)
        if left is not None:
            raise RecordedCallChanged(left, None)

    def bind(self, tool_id: str) -> Any:
        """Return a bound tool whose undos name the call that was made."""
        return replace(self._caller.bind(tool_id), origin=self.record.origins.get)


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
    """Limit a new job as a plan is limited, and offer it the record of the runs that it corrects."""
    job.new.context[CONTEXT] = dict(limits)
    job.budget = {name: limits[name] for name in ("calls", "seconds", "tokens", "cost") if name in limits}
    job.chain = limits.get("chain")
    corrected = context.store.get_run(str(limits.get("corrects") or ""))
    if corrected is not None:
        job.corrected = accounts_of_correction(corrected)
        chain = Corrections(context, corrected)
        chain.require_idle()
        _offer(context, job, chain, chain.offered())


def offer_record(context: Context, job: Job, row: RunRow) -> None:
    """Offer the job of an existing run the record of the other runs of its chain."""
    if is_compiled(context.store, row.id):
        why = "an earlier version of Ropewalk recorded it in another form; continue it as corrected code"
        raise JournalConflict(row.id, "", why)
    chain = Corrections(context, row)
    if chain.chain != row.id:
        job.chain = chain.chain
    chain.require_idle(but=row.id)
    _offer(context, job, chain, chain.offered(row) if len(chain.rows) > 1 else ())


def _offer(context: Context, job: Job, chain: Corrections, recorded: Iterable[RecordedCall]) -> None:
    def is_read(tool: str) -> bool:
        return effect_of(context.toolbox.get(tool), context.plans.effects, id=tool) == "read"

    job.caller = RecordedCaller(job.caller, Record(recorded, is_read), chain)
