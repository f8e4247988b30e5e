"""`app.stream`: a run as an async iterator of events that ends with the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from ..argument_checks import wrong_type
from ..engine.engine import check_run_id, new_run_id
from ..events import Event
from ..notations.records import Outcome

if TYPE_CHECKING:
    from .start import RunOptions

_STOPPING: Final = 5.0  # seconds that a stopped run has to let its tools go
BeginRun = Callable[[Callable[[Event], None]], Awaitable[Outcome]]


def stream_of(run: Callable[..., Awaitable[Outcome]], stop: Callable[[str], bool], options: RunOptions) -> RunStream:
    """Return the stream of a run, which starts with the iteration."""
    run_id, on_event = options.pop("run_id", None), options.pop("on_event", None)
    check_run_id(run_id)
    if on_event is not None and not callable(on_event):
        raise wrong_type("on_event", "a function of an event", on_event)
    run_id = run_id or new_run_id()
    return RunStream(
        run_id,
        lambda take: run(run_id=run_id, on_event=both(take, on_event), **options),
        lambda: stop(run_id),
    )


def both(take: Callable[[Event], None], on_event: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """Return a function that passes each event to two others."""
    if on_event is None:
        return take

    def each(event: Event) -> None:
        take(event)
        on_event(event)

    return each


class RunStream(AsyncIterator[Event]):
    """Iterate over the events of one run, once; `app.stream` makes it."""

    # The last event is `run.outcome`; its data is `Outcome.to_answer()`. Events wait in memory for a slow reader; the
    # run does not wait. Closing the iterator early (`aclose()`, or the end of `async with`) stops the run: its status
    # is `stopped`. Cancelling the task that iterates cancels the run as it cancels `app.run`, so a run in a durable
    # store can be resumed.
    #
    # `run_id`: The id of the run.
    # `outcome`: The outcome, None until the iteration has ended.

    def __init__(self, run_id: str, begin: BeginRun, stop: Callable[[], bool]) -> None:
        self.run_id = run_id
        self._ended: list[Outcome] = []
        # A generator that does not refer to this object: `break` leaves nobody with it, and the loop closes it.
        self._events = _events(run_id, begin, stop, self._ended)

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, None until the iteration has ended."""
        return self._ended[0] if self._ended else None

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """Stop the run if it has not ended."""

        # Returns when it has, after at most ten seconds.
        await self._events.aclose()

    async def __aenter__(self) -> RunStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        await self.aclose()


async def _events(
    run_id: str, begin: BeginRun, stop: Callable[[], bool], ended: list[Outcome]
) -> AsyncGenerator[Event, None]:
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.ensure_future(begin(queue.put_nowait))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        ended.append(await task)
        yield Event(run_id=run_id, kind="run.outcome", at=time(), data=ended[0].to_answer())
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
