"""A run played once more in memory, with what its journal has and something in the place of every tool: nothing is
called, waited for or written down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from ..engine.engine import Engine, Job
from ..events import Event
from ..journal.journal import Entry, RunRow
from ..journal.memory import MemoryStore
from ..redaction import Redaction
from ..tools.bound import Bound, Rules, bind_route
from ..tools.route import Args, OnProgress, Route
from ..values import Json
from .pinned import pinned

if TYPE_CHECKING:
    from ..app import App

PATIENCE: Final = 5.0
"""Seconds; what is known by then is told."""


class Instead:
    """In the place of every tool: `send` is what a call meets."""

    version = 0

    def bind(self, tool_id: str) -> Bound:
        return bind_route(tool_id, None, None, Route(send=self.send), Rules())

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        raise NotImplementedError

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("calls are bound here, so that it is known which one is meant")


async def play(
    app: App,
    row: RunRow,
    tools: Instead,
    past: Iterable[Entry],
    *,
    on_event: Callable[[Event], None] | None = None,
    park: bool = False,
) -> tuple[Job, MemoryStore, Awaitable[dict[str, Json]]]:
    """The run as a job with this `past`, the store that it is in, and the playing of it, not begun."""
    job = await app.jobs.again(row, executor=tools, loaded=pinned(app, row), on_event=on_event)
    job.caller, job.park, job.secrets = tools, park, Redaction()
    store = MemoryStore(durable=True)
    log = await store.open(job.new)
    log.past.update({(entry.path, entry.kind): entry for entry in past})
    return job, store, Engine(store).drive(job, log)
