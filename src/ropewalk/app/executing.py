"""Execute queued runs and schedules in a server, with the present version of its project.

After a reload, the worker of the earlier version takes no more runs, and ends those that it has begun. It keeps its
version open until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from ..errors import StoreError

if TYPE_CHECKING:
    from .app import App
    from .project_versions import ProjectVersions

log = logging.getLogger("ropewalk.workers")
_PAUSE: Final = 5.0  # seconds between attempts to begin
_LONG: Final = 86_400.0  # seconds for which an earlier version may end its runs


class _Execution:
    """The worker of one version of a project."""

    def __init__(self, versions: ProjectVersions) -> None:
        self._worker: Any = None
        self._retired = asyncio.Event()
        self._begun = asyncio.Event()
        self._task = asyncio.create_task(self._execute(versions))

    async def _execute(self, versions: ProjectVersions) -> None:
        with versions.use() as app:
            try:
                while not self._retired.is_set() and await self._try_to_execute(app):
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._retired.wait(), _PAUSE)
            finally:
                self._begun.set()

    async def _try_to_execute(self, app: App) -> bool:
        """Execute until the worker is stopped; return True if the store has failed, which may pass."""
        try:
            if app.workers.executes_here:
                await app.workers.serve(grace=_LONG, started=self._on_started)
        except StoreError as error:  # such as a full disk, or another process that keeps writing
            log.warning("queued runs and schedules are not executed here; trying again: %s", error)
            return True
        except Exception as error:
            log.exception("queued runs and schedules are not executed here: %s", error)
        finally:
            self._worker = None
            self._begun.set()
        return False

    def _on_started(self, worker: Any) -> None:
        self._worker = worker
        self._begun.set()
        if self._retired.is_set():
            worker.retire()

    @property
    def is_over(self) -> bool:
        """True if the worker has ended its runs."""
        return self._task.done()

    async def wait_until_begun(self) -> None:
        """Wait until the worker takes runs, or has failed to start."""
        await self._begun.wait()

    def retire(self) -> None:
        """Take no more runs."""
        if not self._retired.is_set() and self._worker is not None:
            self._worker.retire()
        self._retired.set()

    async def close(self) -> None:
        """Release the runs in progress, so that the next process continues them."""
        self.retire()
        if self._worker is not None:
            self._worker.stop()
        else:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@contextlib.asynccontextmanager
async def executing(versions: ProjectVersions) -> AsyncIterator[None]:
    """Execute queued runs and schedules for as long as the block lasts, unless only workers do."""
    executions: list[_Execution] = []

    def take(_: App) -> None:
        for execution in executions:
            execution.retire()
        executions[:] = [*(execution for execution in executions if not execution.is_over), _Execution(versions)]

    versions.follow(take)
    try:
        await executions[0].wait_until_begun()
        yield
    finally:
        await asyncio.gather(*(execution.close() for execution in executions))
