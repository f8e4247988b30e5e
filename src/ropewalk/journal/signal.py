"""Signals: what is sent to a run that waits for an event or an approval, the same in every store.

Refused: what is not JSON, or is larger than `MOST_BYTES`.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from ..errors import InvalidValue, JournalConflict
from ..values import Json, check_json
from .journal import APPROVAL, Entry, Signal, Wanted

MOST_BYTES: Final = 1_000_000
MOST_NAME: Final = 1_000


def outgoing(name: str, payload: Json, id: str | None) -> Signal:
    """A signal that may be sent; raises InvalidValue for any other."""
    for what, text in (("the name of a signal", name), ("the id of a signal", id)):
        if text is None and what != "the name of a signal":
            continue
        check_json(text, what)
        if not isinstance(text, str) or not text.strip():
            raise InvalidValue(what, "must be a text that is not empty")
        if len(text) > MOST_NAME:
            raise InvalidValue(what, f"has {len(text):,} characters; at most {MOST_NAME:,} are right")
    from .blobs import dump  # only where something is sent

    payload = check_json(payload, "payload")
    size = len(dump(payload, "payload") or b"")
    if size > MOST_BYTES:
        message = f"{size:,} bytes of JSON; a signal has at most {MOST_BYTES:,}: send a reference to what is larger"
        raise InvalidValue("payload", message)
    return Signal(id=id or uuid.uuid4().hex, name=name, payload=payload, sent=time.time())


def same(run_id: str, old: Signal, new: Signal) -> None:
    """Raise JournalConflict where the id of a signal was used for another one."""
    if (old.name, old.payload) != (new.name, new.payload):
        raise JournalConflict(run_id, "", f"another signal was sent with the id {new.id!r}: {old.name}")


def awaited(wait: Entry) -> str:
    """The name of the signal that a wait gets."""
    return str(wait.data["event"]) if "event" in wait.data else APPROVAL + wait.path


def wakes(name: str, waits: Iterable[Entry]) -> bool:
    """Whether a parked run is to go on for a signal of this name. One whose waits are all for others goes on waiting;
    one that has recorded none has somebody else know what it waits for."""
    names = {awaited(wait) for wait in waits}
    return not names or name in names


def given(waits: Sequence[Wanted], kept: Iterable[Signal]) -> list[tuple[Wanted, Signal]]:
    """Which wait gets which of the signals that are kept: in order of sending, to the first for its name
    whose time was not over when it was sent."""
    by_name: dict[str, deque[Wanted]] = {}
    for wait in waits:
        by_name.setdefault(wait.name, deque()).append(wait)
    found = []
    for signal in kept:
        line = by_name.get(signal.name, ())
        first = next((one for one in line if one.due is None or signal.sent <= one.due), None)
        if first is not None:
            by_name[signal.name].remove(first)
            found.append((first, signal))
    return found


def arrival(wait: Wanted, signal: Signal) -> Entry:
    """What is recorded of a signal that a wait has got."""
    data = {"value": signal.payload, "sent": signal.sent}
    return Entry(wait.path, "signal", wait.node, data, signal.id, signal.sent, time.time())
