"""Compile the node that waits for an event or an approval: its journal entries, and its value."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from ...errors import JournalConflict, NodeFailed, Rejected
from ...ir import Getter, Step, whole
from ...journal.open_waits import signal_name
from ...journal.past import load
from ...journal.protocol import Entry, OpenWait
from ...ops import ApprovedCall
from ...values import Json, digest
from ..frame import RUN, Frame, NodeSlot, path_of
from ..timeouts import clock
from ..waits import Pending, Waits

ROUND: Final = "round"
"""In the record of a wait: what the call that asks needs to be continued. Nobody has to read it."""


class CallApproval(NamedTuple):
    """The approval of a call, compiled."""

    call: ApprovedCall
    # Returns the arguments of the call.
    arguments: Getter
    # Returns the version of a tool as it is now; None if there is no such tool.
    version_of: Callable[[str], str | None]

    def describe(self, frame: Frame) -> dict[str, Json]:
        """Return what a person is asked, and what the approval is for."""
        # With its digest the approval fits no other call and no question of a program.
        tool, version, arguments = self.call.tool, self.call.version, self.arguments(frame)
        mark = digest(["call", tool, version, arguments])[:16]
        question = f"Call {tool} with {json.dumps(arguments, ensure_ascii=False)}? [{mark}]"
        return {"approval": question, "call": {"tool": tool, "version": version, "digest": mark}}

    async def check(self, run: Any, path: str) -> None:
        """Raise NodeFailed if the tool has changed since the approval was asked, and the call is still to be made."""
        call = self.call
        if call.version is None or self.version_of(call.tool) in (None, call.version):
            return  # a tool that is gone fails in its call
        before, past = path.rpartition("/")[0], run.log.past
        made = f"{before}/{call.made_by}" if before else call.made_by
        for kind in ("call", "call_failed"):
            if type(past) is not dict:
                await load(past, (made, kind))
            if past.get((made, kind)) is not None:
                return
        message = f"{call.tool} has changed since the approval was asked; the call needs a new approval"
        raise NodeFailed(path, message, node=made, tool=call.tool, kind="Rejected", retryable=False)


def wait(
    text: Getter | None,
    approval: bool,
    timeout: Getter | None,
    node_slot: NodeSlot,
    durable: bool,
    looked_at: bool,
    approved: CallApproval | None = None,
) -> Step:
    """Compile a wait."""

    # Its purpose and its deadline are committed before it begins, and the answer before anything depends on it. The
    # value is the payload of the event, or the answer to the approval; a rejection is a value only if the flow reads
    # `approved`, which `looked_at` says.
    word = "approval" if approval else "event"

    async def wait_for_signal(frame: Frame) -> Json:
        run: Any = frame[RUN]
        path, about = path_of(frame, node_slot), {word: text(frame)} if text is not None else {}
        if approved is not None:
            about = approved.describe(frame)
        about[word] = run.redact(about[word])
        seconds = (lambda: timeout(frame)) if timeout is not None else None
        value = run.redact(await receive(run, node_slot, path, about, seconds, durable))
        if approved is not None:
            await approved.check(run, path)
        return answer_of(value, path, node_slot, looked_at) if approval else value

    return Step(whole, wait_for_signal)


async def receive(
    run: Any,
    node_slot: NodeSlot,
    path: str,
    about: dict[str, Json],
    timeout: Callable[[], float | None] | None,
    durable: bool,
    due: float | None = None,
) -> Json:
    """Record a wait, unless an earlier process has, and return what arrives for it, secrets included."""

    # `timeout`: Returns the seconds until the wait fails; None for no limit.
    # `due`: When it fails, if that is already recorded.
    waits: Waits = run.waits
    entry = run.log.past.get((path, "wait"))
    is_resumed = entry is not None
    if entry is None:
        entry = _wait_entry(run, node_slot, path, about, timeout() if timeout is not None else None, due)
        if durable:
            await run.log.append(entry)
    else:
        _compare(run, entry, about)
    arrived: Any = run.log.past.get((path, "signal")) or await waits.arrived_before(entry, durable, is_resumed)
    shown = {key: value for key, value in entry.data.items() if key != ROUND}
    pending = None
    if arrived is None:
        run.begins(node_slot.id, clock())
        outer_wait = await waits.recorded(entry, durable)
        pending = Pending(
            OpenWait(signal_name(outer_wait), outer_wait.path, outer_wait.node, entry.data["due"]),
            entry,
            durable,
            outer_wait=outer_wait,
        )
        if is_resumed:  # reported later, when it is certain that nothing has arrived meanwhile
            pending.report = partial(waits.report, "wait.started", path, node_slot.name, shown)
        waits.add(pending)
    if pending is None or not is_resumed:
        waits.report("wait.started", path, node_slot.name, {**shown, "replayed": True} if is_resumed else shown)
    if pending is not None:
        arrived = await waits.copied(path, node_slot.id, await waits.until(pending), durable)
    if "late" in arrived.data:
        raise _late(path, node_slot, entry.data)
    value: Json = arrived.data["value"]
    waits.report("signal.received", path, node_slot.name, run.redact(value))
    return value


def _wait_entry(
    run: Any, node_slot: NodeSlot, path: str, about: dict[str, Json], seconds: float | None, due: float | None
) -> Entry:
    """Return the entry of a wait that begins now."""
    now = run.now()
    if due is None and seconds is not None:
        due = now + seconds
    data: dict[str, Any] = {**about, "node": node_slot.name, "timeout": seconds, "due": due}
    return Entry(path, "wait", node_slot.id, data, "", now, now)


def _compare(run: Any, entry: Entry, about: dict[str, Json]) -> None:
    """Raise JournalConflict if the recorded wait was for something else."""
    word = "approval" if "approval" in about else "event"
    if entry.data.get(word) != about[word]:
        recorded = f"{word} {entry.data[word]!r}" if word in entry.data else "something else"
        message = f"the recorded wait was for {recorded}, and this one is for {word} {about[word]!r}"
        raise JournalConflict(run.id, entry.path, message)


def _late(path: str, node_slot: NodeSlot, data: dict[str, Json]) -> NodeFailed:
    subject = f"event {data['event']!r}" if "event" in data else "an approval"
    message = f"timed out after {data['timeout']:g} s waiting for {subject}"
    return NodeFailed(path, message, node=node_slot.name, tool=None, kind="ToolTimeout")


def answer_of(value: Json, path: str, node_slot: NodeSlot, looked_at: bool) -> Json:
    """Return the answer to an approval as the value of the node."""
    fields = value if type(value) is dict else {}
    answer = {"approved": fields.get("approved"), "by": fields.get("by"), "note": fields.get("note")}
    if answer["approved"] is True or (answer["approved"] is False and looked_at):
        return answer
    cause = Rejected(answer["by"], answer["note"])
    message = str(cause) if answer["approved"] is False else "the answer must be an object {approved: true or false}"
    raise NodeFailed(path, message, node=node_slot.name, tool=None, kind="Rejected", retryable=False) from cause
