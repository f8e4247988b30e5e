"""`app.stream`: a run as an async iterator of events that ends with the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from .dialects.records import Outcome
from .engine.engine import check_run_id, new_run_id
from .errors.given import wants
from .events import Event
from .values import Json

if TYPE_CHECKING:
    from .definitions import Source

_STOPPING: Final = 5.0  # seconds that a stopped run has to let its tools go
Start = Callable[[Callable[[Event], None]], Awaitable[Outcome]]


class Streaming:
    """The part of an app that streams runs."""

    if TYPE_CHECKING:
        run: Callable[..., Awaitable[Outcome]]
        runs: Any

    def stream(self, source: Source, input: Json = None, **options: Any) -> RunStream:
        """Run a definition and iterate over its events while it runs.

        The last event is `run.outcome`; its data is `Outcome.to_dict()`. The outcome itself is then in
        `stream.outcome`. Closing the iterator early (`aclose()`, or the end of `async with`) stops the run: its status
        is `stopped`. Cancelling the task that iterates cancels the run as it cancels `run`, so a run in a durable
        store can be resumed. Events wait in memory for a slow reader; the run does not wait.

        Args:
            source: A file, a directory, text, a document, or a flow written in Python, as for `run`.
            input: The input of the run.
            **options: Every option of `run`: `run_id`, `variables`, `executor`, `request`, `concurrency`, `state`,
                `keep_state`, `park`. `on_event` also gets each event.

        Returns:
            A `RunStream`: an async iterator of `Event`, and an async context manager. The run starts at the first
            step of the iteration.

        Raises:
            InvalidFlow: At the first step: the definition is wrong, or a tool is missing.
            InvalidInput: At the first step: the input does not fit the definition.
            RopewalkError: Whatever else `run` raises. A failing tool raises nothing: the outcome says it.
        """
        run_id, heard = options.pop("run_id", None), options.pop("on_event", None)
        check_run_id(run_id)
        if heard is not None and not callable(heard):
            raise wants("on_event", "a function of an event", heard)
        run_id = run_id or new_run_id()
        return RunStream(
            run_id,
            lambda take: self.run(source, input, run_id=run_id, on_event=both(take, heard), **options),
            lambda: self.runs.stop(run_id),
        )


def both(take: Callable[[Event], None], heard: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """One watcher that hands each event to both."""
    if heard is None:
        return take

    def each(event: Event) -> None:
        take(event)
        heard(event)

    return each


class RunStream(AsyncIterator[Event]):
    """The events of one run, and its outcome. Iterate over it once; `app.stream` makes it.

    `run_id` is the id of the run. `outcome` is None until the iteration has ended.
    """

    def __init__(self, run_id: str, start: Start, stop: Callable[[], bool]) -> None:
        self.run_id = run_id
        self._ended: list[Outcome] = []
        # A generator that does not refer to this object: `break` leaves nobody with it, and the loop closes it.
        self._events = _events(run_id, start, stop, self._ended)

    @property
    def outcome(self) -> Outcome | None:
        return self._ended[0] if self._ended else None

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the run if it has not ended. Returns when it has, after at most ten seconds."""
        await self._events.aclose()

    async def __aenter__(self) -> RunStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        await self.aclose()


async def _events(
    run_id: str, start: Start, stop: Callable[[], bool], ended: list[Outcome]
) -> AsyncGenerator[Event, None]:
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.ensure_future(start(queue.put_nowait))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        ended.append(await task)
        yield Event(run_id=run_id, kind="run.outcome", at=time(), data=ended[0].to_dict())
    except GeneratorExit:
        await _stopped(task, stop)
        raise
    finally:
        if not task.done():  # the reader was cancelled
            task.cancel()
            await asyncio.wait([task], timeout=_STOPPING)


async def _stopped(task: asyncio.Future[Any], stop: Callable[[], bool]) -> None:
    """Stop a run; cancel one that has not begun, or that does not let its tools go."""
    if not task.done():
        if stop():  # else it has not begun: there is nothing but the task
            await asyncio.wait([task], timeout=_STOPPING)
        task.cancel()
        await asyncio.wait([task], timeout=_STOPPING)
    if task.done() and not task.cancelled():
        task.exception()  # retrieved: the reader is gone
