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


def wait(text: Getter, approval: bool, timeout: Getter | None, spot: NodeSlot, durable: bool, looked_at: bool) -> Step:
    """Compile a wait.

    Its purpose and its deadline are committed before it begins, and the answer before anything depends on it. The value
    is the payload of the event, or the answer to the approval; a rejection is a value only if the flow reads
    `approved`, which `looked_at` says.
    """
    word = "approval" if approval else "event"

    async def run(frame: Frame) -> Json:
        run_: Any = frame[RUN]
        waits: Waits = run_.waits
        path, subject = path_of(frame, spot), run_.redact(text(frame))
        entry = run_.log.past.get((path, "wait"))
        is_resumed = entry is not None
        if entry is None:
            seconds = timeout(frame) if timeout is not None else None
            now = run_.now()
            entry = Entry(path, "wait", spot.id, {word: subject, "node": spot.name, "timeout": seconds}, "", now, now)
            entry.data["due"] = None if seconds is None else now + seconds
            if durable:
                await run_.log.append(entry)
        elif entry.data.get(word) != subject:
            recorded = f"{word} {entry.data[word]!r}" if word in entry.data else "something else"
            message = f"the recorded wait was for {recorded}, and this one is for {word} {subject!r}"
            raise JournalConflict(run_.id, path, message)
        arrived: Any = run_.log.past.get((path, "signal")) or await waits.arrived_before(entry, durable, is_resumed)
        pending = None
        if arrived is None:
            run_.begins(spot.id, clock())
            outer_wait = await waits.recorded(entry, durable)
            name = APPROVAL + outer_wait.path if approval else subject
            pending = Pending(
                OpenWait(name, outer_wait.path, outer_wait.node, entry.data["due"]),
                entry,
                durable,
                outer_wait=outer_wait,
            )
            if is_resumed:  # reported later, when it is certain that nothing has arrived meanwhile
                pending.report = partial(waits.report, "wait.started", path, spot.name, entry.data)
            waits.add(pending)
        if pending is None or not is_resumed:
            data = {**entry.data, "replayed": True} if is_resumed else entry.data
            waits.report("wait.started", path, spot.name, data)
        if pending is not None:
            arrived = await waits.copied(path, spot.id, await waits.until(pending), durable)
        if "late" in arrived.data:
            raise _late(path, spot, entry.data)
        value = run_.redact(arrived.data["value"])
        waits.report("signal.received", path, spot.name, value)
        return _answer(value, path, spot, looked_at) if approval else value

    return Step(whole, run)


def _late(path: str, spot: NodeSlot, data: dict[str, Json]) -> NodeFailed:
    subject = f"event {data['event']!r}" if "event" in data else "an approval"
    message = f"timed out after {data['timeout']:g} s waiting for {subject}"
    return NodeFailed(path, message, node=spot.name, tool=None, kind="ToolTimeout")


def _answer(value: Json, path: str, spot: NodeSlot, looked_at: bool) -> Json:
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
    raise NodeFailed(path, message, node=spot.name, tool=None, kind="Rejected", retryable=False) from cause
