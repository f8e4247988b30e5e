"""How fast tools may be called: calls of a tool under a limit wait for their turn.

Each limit is a line of its own, for all tools whose id fits its pattern (`github:*`, `fetch`). Where the line is kept
is handed in: in this process, or where many processes see it. The wait is no part of the call's timeout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from ..config.workplace import Rate

Line: TypeAlias = Callable[[str, float, int], Awaitable[float]]
"""`await line(name, per_second, burst)` takes a place in the line and gives the seconds until it is its turn."""
Turn: TypeAlias = Callable[[], Awaitable[None]]


class Pace:
    """The limits of a project, by pattern."""

    def __init__(self, rates: Mapping[str, Rate], line: Line) -> None:
        self._rates, self._line = rates, line

    def of(self, tool_id: str) -> Turn | None:
        """What to wait for before each call of the tool; None where nothing limits it."""
        found = [(name, rate) for name, rate in self._rates.items() if fnmatchcase(tool_id, name)]
        if not found:
            return None

        async def turn() -> None:
            for name, rate in found:
                wait = await self._line(name, rate.per_second, rate.burst)
                if wait > 0:
                    await asyncio.sleep(wait)

        return turn


class Here:
    """The lines of one process."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    async def take(self, name: str, per_second: float, burst: int) -> float:
        """See `Line`."""
        now, step = time.monotonic(), 1 / per_second
        due = self._due[name] = max(self._due.get(name, now), now) + step
        return due - now - step * burst
