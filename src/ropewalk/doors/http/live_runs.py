"""Runs that this process started for somebody on HTTP, and their events for everybody who follows them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ...errors import RopewalkError, RunBusy
from ...events import Brief, Event

if TYPE_CHECKING:
    from ...app.app import App

Start = Callable[[Callable[[Event], None]], Awaitable[Any]]
MOST_KEPT: Final = 100_000  # events of a run that goes on; what is older is in its journal only
_LIVE, _RECORDED = "l", "j"


class Feed:
    """The events of one run so far, and whoever waits for more."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=MOST_KEPT)
        self.count = 0
        self.ended = False
        self._waiting: set[asyncio.Event] = set()

    def take(self, event: Event) -> None:
        self.events.append(event)
        self.count += 1
        self.wake()

    def end(self) -> None:
        self.ended = True
        self.wake()

    def wake(self) -> None:
        for waiting in self._waiting:
            waiting.set()

    async def follow(self, after: int) -> AsyncIterator[tuple[int, Event]]:
        """Yield every event of the run with its number, until the run ends.

        Args:
            after: The number of the last event that the reader has.

        Returns:
            Pairs of a number and an event.
        """
        more = asyncio.Event()
        self._waiting.add(more)
        try:
            while True:
                more.clear()
                first = self.count - len(self.events)
                for number in range(max(after, first), self.count):
                    after = number + 1
                    yield after, self.events[number - (self.count - len(self.events))]
                if self.ended and after >= self.count:
                    return
                if after >= self.count:
                    await more.wait()
        finally:
            self._waiting.discard(more)


class Live:
    """The runs of this process. The runs of other processes are followed through their journals."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._feeds: dict[str, Feed] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, run_id: str, start: Start) -> asyncio.Task[Any]:
        """Set a run going; returns once it has begun, raises what keeps it from that. The task gives its outcome."""
        if run_id in self._feeds:
            raise RunBusy(run_id, "this server")
        feed = self._feeds[run_id] = Feed()
        first_event = asyncio.Event()

        def take(event: Event) -> None:
            first_event.set()
            feed.take(event)

        # What workers execute is followed through its journal, by those who follow it.
        hears = Brief(take) if self._app.distributed else take
        task: asyncio.Task[Any] = asyncio.create_task(self._run(run_id, start, hears))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        first = asyncio.create_task(first_event.wait())
        await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
        first.cancel()
        if task.done():
            await task  # which raises
        return task

    def holds(self, run_id: str) -> bool:
        """Return True if this process executes the run."""
        return run_id in self._feeds

    async def wait_until_begun(self, run_id: str) -> None:
        """Wait until a run that is being started here has begun, or has failed to begin.

        Args:
            run_id: The id of the run.
        """
        feed = self._feeds.get(run_id)
        if feed is not None:
            async for _ in feed.follow(0):
                return

    async def _run(self, run_id: str, start: Start, take: Callable[[Event], None]) -> Any:
        feed = self._feeds[run_id]
        try:
            return await start(take)
        finally:
            feed.end()
            del self._feeds[run_id]  # from here on the journal has everything

    async def follow(self, run_id: str, last: str = "") -> AsyncIterator[tuple[str, Event]]:
        """Yield the events of a run with their ids, until it has ended.

        Ids of events of a run in this process are not known to its journal. A reader that continues from the journal
        gets every event again; events name their node and attempt, so that does no harm.

        Args:
            run_id: The id of the run.
            last: The id of the last event that the reader has.

        Returns:
            Pairs of an id and an event.
        """
        feed = self._feeds.get(run_id)
        if feed is not None and not self._app.distributed:
            async for number, event in feed.follow(_number(last, _LIVE)):
                yield f"{_LIVE}{number}", event
            return
        number, after = 0, _number(last, _RECORDED)
        async for event in self._app.runs.watch(run_id):
            number += 1
            if number > after:
                yield f"{_RECORDED}{number}", event

    async def close(self) -> None:
        """Release every run. Runs in a durable store can be resumed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for done in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(done, Exception) and not isinstance(done, RopewalkError):
                raise done


def _number(id: str, kind: str) -> int:
    return int(id[1:]) if id[:1] == kind and id[1:].isdecimal() and len(id) < 12 else 0
