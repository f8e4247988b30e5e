"""The stream of a flow that is called as a tool: progress of its nodes, chunks of its streams, and its value."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from ..events import Event
from ..tools.listener import Listener, RunProgress
from ..tools.tool import ProgressEvent, StreamEvent, StreamEventKind
from ..values import Json


class FlowStream(Listener):
    """Collects what happens in a run as events of a stream."""

    def __init__(self, *, counted: bool) -> None:
        self._events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._progress = RunProgress(self, counted=counted)
        self.watcher = self._take

    def __call__(self, event: ProgressEvent) -> None:
        self._put(StreamEventKind.PROGRESS, event.to_dict())

    def chunk(self, data: Json) -> None:
        self._put(StreamEventKind.CHUNK, data)

    def _take(self, event: Event) -> None:
        if event.kind == "node.chunk" and isinstance(event.data, dict):
            self.chunk(event.data.get("chunk"))
        else:
            self._progress.take(event)

    def _put(self, kind: StreamEventKind, data: Any) -> None:
        self._events.put_nowait(StreamEvent(kind, "", data))

    async def events_of(self, run: Callable[[FlowStream], Awaitable[Json]]) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of a run, and its value as the data of the last one; raise its failure."""
        task = asyncio.ensure_future(run(self))
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
            yield StreamEvent(StreamEventKind.DONE, "", task.result())
        finally:
            task.cancel()
            await asyncio.wait([task])
