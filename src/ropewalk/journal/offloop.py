"""Ask a store from an event loop without holding the loop up while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from .journal import Store
from .memory import MemoryStore

T = TypeVar("T")


async def off_loop(store: Store, work: Callable[[], T]) -> T:
    """Return what `work` gives, which calls plain methods of the store.

    It runs on another thread, so that a slow query holds up nobody else. Only the store in memory is asked on the loop:
    its answers are look-ups, and a thread would cost more than they do.
    """
    return work() if type(store) is MemoryStore else await asyncio.to_thread(work)
