"""The runs that this process executes for HTTP requests, and their events for all clients that follow them.

`runs.py` starts runs here and streams their events. A client gives the id of its last event when it connects again. Ids
of events that come from this process begin with `l`, ids of events from the journal with `j`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ...app.current import current_app
from ...app.runs.liveness import status_of
from ...errors import RopewalkError, RunBusy
from ...events import Brief, Event
from ..failed_runs import FailedRuns

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.project_versions import ProjectVersions

log = logging.getLogger("ropewalk.runs")
StartRun = Callable[[Callable[[Event], None]], Awaitable[Any]]
MAX_KEPT_EVENTS: Final = 100_000  # events of a run that goes on; what is older is in its journal only
_LIVE_PREFIX, _RECORDED_PREFIX = "l", "j"  # of the ids of events


class Feed:
    """The events of one run so far, and the readers that wait for more."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=MAX_KEPT_EVENTS)
        self.count = 0
        self.ended = False
        self._readers: set[asyncio.Event] = set()

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.count += 1
        self.wake_readers()

    def end(self) -> None:
        self.ended = True
        self.wake_readers()

    def wake_readers(self) -> None:
        for reader in self._readers:
            reader.set()

    async def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield every event of the run with its number, until the run ends."""
        has_more = asyncio.Event()
        self._readers.add(has_more)
        try:
            while True:
                has_more.clear()
                first = self.count - len(self.events)
                for number in range(max(after, first), self.count):
                    after = number + 1
                    yield after, self.events[number - (self.count - len(self.events))]
                if self.ended and after >= self.count:
                    return
                if after >= self.count:
                    await has_more.wait()
        finally:
            self._readers.discard(has_more)


class LiveRuns:
    """The runs of this process."""

    # The runs of other processes are followed through their journals.

    # `log_failures`: Another program serves the app, so each run that fails gets a line in its log.

    def __init__(self, versions: ProjectVersions, *, log_failures: bool = False) -> None:
        self._failed_runs = FailedRuns(log.error) if log_failures else None
        self._versions = versions
        self._feeds: dict[str, Feed] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def _app(self) -> App:
        return self._versions.app  # any version will do: all have the same store and engine

    async def start(self, run_id: str, start: StartRun) -> asyncio.Task[Any]:
        """Start a run, and wait until it has begun."""
        if run_id in self._feeds:
            raise RunBusy(run_id, "this server")
        feed = self._feeds[run_id] = Feed()
        first_event = asyncio.Event()

        def take(event: Event) -> None:
            first_event.set()
            if self._failed_runs is not None:
                self._failed_runs.take(event)
            feed.add(event)

        # What workers execute is followed through its journal, by those who follow it.
        on_event = Brief(take) if self._app.distributed else take
        task: asyncio.Task[Any] = asyncio.create_task(self._run(run_id, start, on_event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        first = asyncio.create_task(first_event.wait())
        await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if task.done():
            await task  # which raises
        return task

    def executes(self, run_id: str) -> bool:
        """Return True if this process executes the run."""
        return run_id in self._feeds

    def status_of(self, run_id: str) -> str:
        """Return the status of a run that this process executes, for people."""
        row = self._app.runs.row(run_id)
        return "running" if row is None else status_of(self._app.context, row)

    async def wait_until_begun(self, run_id: str) -> None:
        """Wait until a run that is being started here has begun, or has failed to begin."""
        feed = self._feeds.get(run_id)
        if feed is not None:
            async for _ in feed.follow(0):
                return

    async def _run(self, run_id: str, start: StartRun, on_event: Callable[[Event], None]) -> Any:
        feed = self._feeds[run_id]
        try:
            with self._versions.use(current_app()):  # the version of the request, which may end before the run
                return await start(on_event)
        finally:
            feed.end()
            del self._feeds[run_id]  # from here on the journal has everything

    async def follow(self, run_id: str, last: str = "") -> AsyncIterator[tuple[str, Event]]:
        """Yield the events of a run with their ids, until it has ended."""

        # Ids of events of a run in this process are not known to its journal. A reader that continues from the journal
        # gets every event again; events name their node and attempt, so that does no harm.
        feed = self._feeds.get(run_id)
        if feed is not None and not self._app.distributed:
            async for number, event in feed.follow(_number_in_id(last, _LIVE_PREFIX)):
                yield f"{_LIVE_PREFIX}{number}", event
            return
        number, last_number = 0, _number_in_id(last, _RECORDED_PREFIX)
        async for event in self._app.runs.watch(run_id):
            number += 1
            if number > last_number:
                yield f"{_RECORDED_PREFIX}{number}", event

    async def close(self) -> None:
        """Release every run."""

        # Runs in a durable store can be resumed.
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, RopewalkError):
                raise result


def _number_in_id(id: str, kind: str) -> int:
    return int(id[1:]) if id[:1] == kind and id[1:].isdecimal() and len(id) < 12 else 0
