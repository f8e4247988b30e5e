"""What is left of a run that was stopped while nobody ran it: how it would have ended had its process been there. Found
by running the definition once more in memory with what the journal has, up to where it ends: no tool is called, nothing
is waited for or written down.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from ..engine.engine import Engine
from ..errors import RopewalkError
from ..events import Event
from ..journal.journal import RunRow
from ..journal.memory import MemoryStore
from ..tools.bound import Bound, Rules, bind_route
from ..tools.route import Args, OnProgress, Route
from ..values import Json
from .arguments import PATIENCE
from .pinned import pinned

if TYPE_CHECKING:
    from ..app import App

_STILL: Final = 100
"""Turns of the loop in which nothing happens, before all that is recorded has been gone through."""
_NOT_RUN: Final = ("ending", "offer")


class _Nobody:
    """In the place of every tool: a call that is not recorded never comes back."""

    version = 0

    def __init__(self) -> None:
        self.asked = 0

    def bind(self, tool_id: str) -> Bound:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            self.asked += 1
            await asyncio.Event().wait()

        return bind_route(tool_id, None, None, Route(send=send), Rules())

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("calls are bound here")


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
        job = await app.jobs.again(row, executor=nobody, loaded=pinned(app, row), on_event=events.append)
        job.caller, job.secrets = nobody, {}
        store = MemoryStore(durable=True)
        log = await store.open(job.new)
        log.past.update({(e.path, e.kind): e for e in app.runs.history(row.id) if e.kind not in _NOT_RUN})
        playing = asyncio.ensure_future(Engine(store).drive(job, log))
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
