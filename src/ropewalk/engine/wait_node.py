"""The node that waits for an event or an approval: what it records, and what becomes its value."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..errors import JournalConflict, NodeFailed, Rejected
from ..ir import Getter, Step, whole
from ..journal.journal import APPROVAL, Entry, Wanted
from ..values import Json
from .frame import RUN, Frame, Spot, path_of
from .lane import clock
from .waits import Pending, Waits


def wait(text: Getter, approval: bool, timeout: Getter | None, spot: Spot, durable: bool, looked_at: bool) -> Step:
    """What a wait is for, and until when, is committed before it begins; what came before anything depends
    on it. The value is the event's payload, or what was said of the approval; a refusal that is `looked_at` too."""
    word = "approval" if approval else "event"

    async def run(frame: Frame) -> Json:
        run_: Any = frame[RUN]
        waits: Waits = run_.waits
        path, said = path_of(frame, spot), run_.redact(text(frame))
        known = run_.log.past.get((path, "wait"))
        again = known is not None
        if known is None:
            seconds = timeout(frame) if timeout is not None else None
            now = run_.now()
            known = Entry(path, "wait", spot.id, {word: said, "node": spot.name, "timeout": seconds}, "", now, now)
            known.data["due"] = None if seconds is None else now + seconds
            if durable:
                await run_.log.append(known)
        elif known.data.get(word) != said:
            raise JournalConflict(run_.id, path, f"the journal holds a wait for {known.data}, not for {word} {said!r}")
        arrived: Any = run_.log.past.get((path, "signal")) or await waits.arrived_before(known, durable, again)
        pending = None
        if arrived is None:
            run_.begins(spot.id, clock())
            asked = await waits.recorded(known, durable)
            name = APPROVAL + asked.path if approval else said
            pending = Pending(Wanted(name, asked.path, asked.node, known.data["due"]), known, durable, asked=asked)
            if again:  # told once it is known that nothing has come meanwhile
                pending.tell = partial(waits.tell, "wait.started", path, spot.name, known.data)
            waits.add(pending)
        if pending is None or not again:
            told = {**known.data, "replayed": True} if again else known.data
            waits.tell("wait.started", path, spot.name, told)
        if pending is not None:
            arrived = await waits.copied(path, spot.id, await waits.until(pending), durable)
        if "late" in arrived.data:
            raise _late(path, spot, known.data)
        value = run_.redact(arrived.data["value"])
        waits.tell("signal.received", path, spot.name, value)
        return _answer(value, path, spot, looked_at) if approval else value

    return Step(whole, run)


def _late(path: str, spot: Spot, data: dict[str, Json]) -> NodeFailed:
    what = f"no event {data['event']!r}" if "event" in data else "no approval"
    return NodeFailed(path, f"{what} within {data['timeout']:g} s", node=spot.name, tool=None, kind="ToolTimeout")


def _answer(value: Json, path: str, spot: Spot, looked_at: bool) -> Json:
    """What was said of an approval as the node's value; what is none fails the node, and trying again would not
    help. So does a refusal that nothing looks at."""
    said = value if type(value) is dict else {}
    answer = {"approved": said.get("approved"), "by": said.get("by"), "note": said.get("note")}
    if answer["approved"] is True or (answer["approved"] is False and looked_at):
        return answer
    cause = Rejected(answer["by"], answer["note"])
    message = str(cause) if answer["approved"] is False else "what was sent is no answer: {approved: true or false}"
    raise NodeFailed(path, message, node=spot.name, tool=None, kind="Rejected", retryable=False) from cause
