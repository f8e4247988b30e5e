"""Asking a store from an event loop: not on the loop when the answer may be long in coming."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from .journal import Store

T = TypeVar("T")


async def off_loop(store: Store, work: Callable[[], T]) -> T:
    """What `work` gives, which calls plain methods of the store: here when it is quick, else on another
    thread, so that a server that is away holds up nobody else."""
    return await asyncio.to_thread(work) if store.remote else work()
