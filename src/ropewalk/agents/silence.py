"""Report a model that does not answer, so that a run that waits for it is not taken for a dead one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .model import OnPiece

FIRST_NOTICE = 10.0
"""Seconds until the first line; each next one comes after twice the time."""
_log = logging.getLogger("ropewalk.tools")


@contextmanager
def reporting_silence(model: str, limit: float, on_piece: OnPiece) -> Iterator[OnPiece]:
    """Log that a request waits for a model until the first piece of its answer; the function takes the pieces."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    timer: asyncio.TimerHandle

    def report() -> None:
        nonlocal timer
        seconds = loop.time() - began
        limits = f"one request may take {limit:g} s (timeout under [model] in ropewalk.toml)"
        _log.warning("waiting for %s (%.0f s); %s", model, seconds, limits)
        timer = loop.call_later(max(seconds, FIRST_NOTICE), report)

    def take(kind: str, piece: str) -> None:
        timer.cancel()
        on_piece(kind, piece)

    timer = loop.call_later(FIRST_NOTICE, report)
    try:
        yield take
    finally:
        timer.cancel()
