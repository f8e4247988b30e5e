"""Executes a suspect apart: alone in its worker, until it has recorded something or is over.

Owners of a suspect died repeatedly (`journal/poison.py`), and nobody knows of which run. While one waits for its turn
or has it, the worker takes no other run; the other workers do. A suspect that does not get the worker for itself in
time begins all the same: that a run ends matters more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

log = logging.getLogger("ropewalk.workers")
PATIENCE: Final = 60.0  # seconds that a suspect waits for the runs of its worker to end
OF_A_CHUNK: Final = 10.0  # the same for a chunk, for which a run elsewhere waits
_LOOK: Final = 0.5  # seconds between looks whether it still is one


class Quarantine:
    """The places of one worker's runs. Used on its event loop."""

    def __init__(self) -> None:
        self._inside: list[str] = []
        self._waiting = 0
        self._alone: str | None = None
        self._changed = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether a suspect has the worker, or waits for it: no other run begins."""
        return self._alone is not None or self._waiting > 0

    @contextlib.asynccontextmanager
    async def shared(self, run_id: str, *, at_once: bool = False) -> AsyncIterator[None]:
        """Hold a place among others; unless `at_once`, wait for suspects first."""
        while self.is_closed and not at_once:
            await self._change()
        self._inside.append(run_id)
        try:
            yield
        finally:
            self._inside.remove(run_id)
            self._tell()

    @contextlib.asynccontextmanager
    async def alone(
        self, run_id: str, still: Callable[[], Awaitable[bool]], patience: float = PATIENCE
    ) -> AsyncIterator[None]:
        """Hold the worker for one suspect. When `still` says that it is none any more, others may begin."""
        self._waiting += 1
        try:
            await asyncio.wait_for(self._until_empty(run_id), patience)
        except TimeoutError:
            log.warning("run %s may kill its worker; others are executed beside it, since they take long", run_id)
        finally:
            self._waiting -= 1
            self._tell()
        mine = self._alone is None
        if mine:
            self._alone = run_id
        self._inside.append(run_id)
        looking = asyncio.ensure_future(self._look(run_id, still))
        try:
            yield
        finally:
            looking.cancel()
            self._inside.remove(run_id)
            if mine and self._alone == run_id:
                self._alone = None
            self._tell()

    async def _until_empty(self, run_id: str) -> None:
        # The run that waits for a chunk is of its family.
        while self._alone is not None or any(not run_id.startswith(f"{one}/") for one in self._inside):
            await self._change()

    async def _look(self, run_id: str, still: Callable[[], Awaitable[bool]]) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if not await still():
                break
        if self._alone == run_id:
            self._alone = None
            self._tell()

    async def _change(self) -> None:
        await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
