"""The parts of `doctor`, each with a time limit: one that does not answer keeps nobody from the next."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from ...app import App

T = TypeVar("T")

LIMIT: Final = 20.0
"""Seconds for each part of the check."""
SERVERS: Final = 40.0
"""Seconds for connecting all servers, where no limit is given: more than the time that a server has by itself."""


class Stalled(Exception):
    """A part did not answer within its limit."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"no answer within {limit:g} s")


class Parts:
    """Runs the parts one after another and remembers whether one of them is still waiting."""

    def __init__(self, limit: float | None) -> None:
        self.limit, self.servers = limit or LIMIT, limit or SERVERS
        self.is_stalled = False

    async def check(self, work: Callable[[], T]) -> T:
        """Return what `work` gives. It runs on a thread that nobody waits for when the process ends.

        Raises:
            Stalled: It did not end within the limit.
        """
        loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def settle(value: T | None, error: BaseException | None) -> None:
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)

        def run() -> None:
            value, raised = None, None
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                raised = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, value, raised)

        threading.Thread(target=run, name="ropewalk-doctor", daemon=True).start()
        found: T = await self.within(result, self.limit)
        return found

    async def within(self, awaited: Awaitable[T], limit: float) -> T:
        """Await something for no longer than the limit; raises Stalled."""
        # Not `wait_for`: what does not heed that it is cancelled would be waited for.
        task = asyncio.ensure_future(awaited)
        done, _ = await asyncio.wait({task}, timeout=limit)
        if done:
            return task.result()
        task.cancel()
        self.is_stalled = True
        raise Stalled(limit)

    async def close(self, app: App) -> None:
        """End the servers that were started, as far as they let themselves be ended in a second."""
        with contextlib.suppress(Exception):
            await self.within(app.toolbox.close(), 1.0)
