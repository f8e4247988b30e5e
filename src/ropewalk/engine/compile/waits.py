"""Compile the node that waits for an event or an approval: its journal entries, and its value."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...errors import JournalConflict, NodeFailed, Rejected
from ...ir import Getter, Step, whole
from ...journal.protocol import APPROVAL, Entry, OpenWait
from ...values import Json
from ..frame import RUN, Frame, NodeSlot, path_of
from ..timeouts import clock
from ..waits import Pending, Waits


def wait(
    text: Getter, approval: bool, timeout: Getter | None, node_slot: NodeSlot, durable: bool, looked_at: bool
) -> Step:
    """Compile a wait.

    Its purpose and its deadline are committed before it begins, and the answer before anything depends on it. The value
    is the payload of the event, or the answer to the approval; a rejection is a value only if the flow reads
    `approved`, which `looked_at` says.
    """
    word = "approval" if approval else "event"

    async def wait_for_signal(frame: Frame) -> Json:
        run: Any = frame[RUN]
        waits: Waits = run.waits
        path, subject = path_of(frame, node_slot), run.redact(text(frame))
        entry = run.log.past.get((path, "wait"))
        is_resumed = entry is not None
        if entry is None:
            seconds = timeout(frame) if timeout is not None else None
            now = run.now()
            entry = Entry(
                path, "wait", node_slot.id, {word: subject, "node": node_slot.name, "timeout": seconds}, "", now, now
            )
            entry.data["due"] = None if seconds is None else now + seconds
            if durable:
                await run.log.append(entry)
        elif entry.data.get(word) != subject:
            recorded = f"{word} {entry.data[word]!r}" if word in entry.data else "something else"
            message = f"the recorded wait was for {recorded}, and this one is for {word} {subject!r}"
            raise JournalConflict(run.id, path, message)
        arrived: Any = run.log.past.get((path, "signal")) or await waits.arrived_before(entry, durable, is_resumed)
        pending = None
        if arrived is None:
            run.begins(node_slot.id, clock())
            outer_wait = await waits.recorded(entry, durable)
            name = APPROVAL + outer_wait.path if approval else subject
            pending = Pending(
                OpenWait(name, outer_wait.path, outer_wait.node, entry.data["due"]),
                entry,
                durable,
                outer_wait=outer_wait,
            )
            if is_resumed:  # reported later, when it is certain that nothing has arrived meanwhile
                pending.report = partial(waits.report, "wait.started", path, node_slot.name, entry.data)
            waits.add(pending)
        if pending is None or not is_resumed:
            data = {**entry.data, "replayed": True} if is_resumed else entry.data
            waits.report("wait.started", path, node_slot.name, data)
        if pending is not None:
            arrived = await waits.copied(path, node_slot.id, await waits.until(pending), durable)
        if "late" in arrived.data:
            raise _late(path, node_slot, entry.data)
        value = run.redact(arrived.data["value"])
        waits.report("signal.received", path, node_slot.name, value)
        return _answer(value, path, node_slot, looked_at) if approval else value

    return Step(whole, wait_for_signal)


def _late(path: str, node_slot: NodeSlot, data: dict[str, Json]) -> NodeFailed:
    subject = f"event {data['event']!r}" if "event" in data else "an approval"
    message = f"timed out after {data['timeout']:g} s waiting for {subject}"
    return NodeFailed(path, message, node=node_slot.name, tool=None, kind="ToolTimeout")


def _answer(value: Json, path: str, node_slot: NodeSlot, looked_at: bool) -> Json:
    """Return the answer to an approval as the value of the node.

    Raises:
        NodeFailed: The answer is malformed, or it is a rejection that nothing in the flow reads. Another attempt would
            not help.
    """
    fields = value if type(value) is dict else {}
    answer = {"approved": fields.get("approved"), "by": fields.get("by"), "note": fields.get("note")}
    if answer["approved"] is True or (answer["approved"] is False and looked_at):
        return answer
    cause = Rejected(answer["by"], answer["note"])
    message = str(cause) if answer["approved"] is False else "the answer must be an object {approved: true or false}"
    raise NodeFailed(path, message, node=node_slot.name, tool=None, kind="Rejected", retryable=False) from cause
