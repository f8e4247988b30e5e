"""What is left of a run that was stopped while nobody ran it: how it would have ended had its process been there. Found
by running the definition once more in memory with what the journal has, up to where it ends: no tool is called, nothing
is waited for or written down.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from ..errors import RopewalkError
from ..events import Event
from ..journal.journal import RunRow
from ..tools.route import Args, OnProgress
from ..values import Json
from .played import PATIENCE, Instead, play

if TYPE_CHECKING:
    from ..app import App

_STILL: Final = 100
"""Turns of the loop in which nothing happens, before all that is recorded has been gone through."""
_NOT_RUN: Final = ("ending", "offer")


class _Nobody(Instead):
    """A call that is not recorded never comes back."""

    def __init__(self) -> None:
        self.asked = 0

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        self.asked += 1
        await asyncio.Event().wait()


def let_go(row: RunRow) -> bool:
    """Whether a whole row is of a run that was stopped while nobody executed it: whoever ends one gives it a result."""
    return row.status == "stopped" and row.result is None


def remains(app: App, row: RunRow) -> dict[str, Json] | None:
    """The result of the run in the words of its notation; None where its definition no longer goes with what is
    recorded. May be called on an event loop, which it holds meanwhile."""
    with ThreadPoolExecutor(1) as thread:  # for a loop of its own: there may be one in this
        return thread.submit(lambda: asyncio.run(_played(app, row))).result()


async def _played(app: App, row: RunRow) -> dict[str, Json] | None:
    nobody, events = _Nobody(), list[Event]()
    try:
        past = (entry for entry in app.runs.history(row.id) if entry.kind not in _NOT_RUN)
        _, store, played = await play(app, row, nobody, past, on_event=events.append)
        playing = asyncio.ensure_future(played)
        still, before = 0, (-1, -1)
        end = time.monotonic() + PATIENCE
        while still < _STILL and not playing.done() and time.monotonic() < end:
            await asyncio.sleep(0)
            now = (len(events), nobody.asked)
            still, before = (still + 1 if now == before else 0), now
        store.request_stop(row.id)
        return {**await playing, "duration": round(row.spent * 1000, 3)}  # as far as its own processes came
    except RopewalkError:
        return None  # as after a change of what the definition is made of: there is nothing to be told but the stop
