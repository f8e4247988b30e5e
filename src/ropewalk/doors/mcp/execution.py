"""One run on behalf of a client: its progress per node told, stopped when the client cancels."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...engine.engine import new_run_id
from ...events import Event
from ...tools.listener import RunProgress
from ...tools.progress import Progress
from ...tools.result import ProgressEvent
from ...values import Json
from .offer import Asked

if TYPE_CHECKING:
    from ...app import App

_MOST: Final = 10  # notifications of progress within
_SECOND: Final = 1.0
_STOPPING: Final = 5.0  # seconds a stopped run may take to let its tools go
_ENDS: Final = {
    "node.finished": "done",
    "node.recovered": "recovered",
    "node.failed": "failed",
    "node.skipped": "skipped",
}

Execute: TypeAlias = Callable[[dict[str, Json], str, Callable[[Event], None]], Awaitable[Any]]
"""Runs a flow: arguments, run id, watcher of events."""


class Steps:
    """The events of a run as progress notifications, and the paths of the nodes that failed.

    Of more than ten notifications within a second only the newest is sent, when there is room again.
    """

    def __init__(self, progress: Progress, *, counted: bool) -> None:
        self._progress = progress
        self._times: deque[float] = deque(maxlen=_MOST)  # of the newest notifications
        self._held: ProgressEvent | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._run = RunProgress(self.tell, counted=counted)
        self.failed: dict[str, str] = {}
        """The path of each node of the run itself that failed and was not handled."""

    def take(self, event: Event) -> None:
        """Tell one event, where it is of a node."""
        data: Any = event.data or {}
        path = event.path or event.node
        if event.kind == "node.failed" and not data.get("handled"):
            self.failed[event.node or path] = path
        self._run.take(event)

    def tell(self, event: ProgressEvent) -> None:
        """Send a notification, or hold it back while there are too many."""
        self._held = event
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if len(self._times) < _MOST or loop.time() >= self._times[0] + _SECOND:
            self.flush()
        else:
            self._timer = loop.call_at(self._times[0] + _SECOND, self.flush)

    def flush(self) -> None:
        """Tell what is held back."""
        held = self._held
        self.drop()
        if held is not None:
            self._times.append(asyncio.get_running_loop().time())
            self._progress.tell(held)

    def drop(self) -> None:
        """Forget what is held back: nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._held = None


async def executed(
    app: App, execute: Execute, args: dict[str, Json], run_id: str | None, asked: Asked, *, counted: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the run gave, and the paths of what failed in it; cancelled, it is stopped first, which its record says."""
    import anyio

    own = run_id or new_run_id()
    progress = Progress(asked.on_progress)
    steps = Steps(progress, counted=counted)
    task = asyncio.ensure_future(execute(args, own, steps.take))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            app.runs.stop(own)
            await asyncio.wait([task], timeout=_STOPPING)
            task.cancel()
            await asyncio.wait([task], timeout=_STOPPING)
        steps.drop()
        raise
    steps.flush()
    await progress.flush()
    return task.result().to_dict(), steps.failed
