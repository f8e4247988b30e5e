"""A progress callback that hears of things in order and cannot break the run: an exception that it raises is logged."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable
from typing import Any

from ..errors.given import wants
from .listener import Listener
from .result import ProgressEvent
from .route import OnProgress

log = logging.getLogger("ropewalk.tools")


class Progress:
    """Guards one callback, sync or async. An async one runs beside the call, one event at a time."""

    __slots__ = ("_callback", "_last")

    def __init__(self, callback: OnProgress | None) -> None:
        if callback is not None and not callable(callback):
            raise wants("on_progress", "a function", callback)
        self._callback = callback
        self._last: asyncio.Task[None] | None = None

    def tell(self, event: ProgressEvent) -> None:
        """Hand one event over; returns at once and never raises."""
        if self._callback is None:
            return
        try:
            result = self._callback(event)
        except Exception:
            log.exception("a progress callback raised")
            return
        if inspect.isawaitable(result):
            self._last = asyncio.ensure_future(_after(self._last, result))

    async def flush(self) -> None:
        """Wait until an async callback has seen every event."""
        if self._last is not None:
            await self._last


def guarded(on_progress: OnProgress | None) -> OnProgress | None:
    """Return a callback that never raises: a Listener as it is, any other callback guarded."""
    if on_progress is None or isinstance(on_progress, Listener):
        return on_progress
    return Progress(on_progress).tell


async def _after(previous: asyncio.Task[None] | None, result: Awaitable[Any]) -> None:
    if previous is not None:
        await previous
    try:
        await result
    except Exception:
        log.exception("a progress callback raised")
