"""JavaScript tool modules: one warm Node.js process per run, started at the first call.

A call belongs to the live run whose id its idempotency key begins with (an id may have slashes in it; of several the
longest). A call of no such run has the process of what stands before the first slash. The process goes with the run; it
runs with the user's rights: it can be killed, has a clean environment and a time limit, and is no sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .inside import Impl, find
from .node_process import NodeProcess


class NodeProcesses:
    """The Node.js processes of a directory, by run."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._root, self._env = root, env
        self._started: dict[str, asyncio.Task[NodeProcess]] = {}
        self._live: set[str] = set()

    async def call(self, impl: Impl, args: dict[str, Any], key: str | None) -> Any:
        """What the default export gives, parsed and unchecked; ModuleFailed names the file."""
        find(self._root, impl.shown)  # Node.js reads it by its path: look again that it leads nowhere else
        run = self._run_of(key or "")
        while True:
            process = await self._process(run, impl.shown)
            if await process.usable():
                return await process.call(impl, args)
            await self._drop(run, process)

    def began(self, run_id: str) -> None:
        """A run has begun; its process is started when it is needed."""
        self._live.add(run_id)

    async def ended(self, run_id: str) -> None:
        """End the process of a run, if there is one; nothing of it is left."""
        self._live.discard(run_id)
        starting = self._started.pop(run_id, None)
        if starting is not None:
            await _stop(starting)

    async def close(self) -> None:
        """End all of them."""
        started, self._started = list(self._started.values()), {}
        await asyncio.gather(*map(_stop, started))

    def _run_of(self, key: str) -> str:
        run = key
        while run and run not in self._live:
            run = run.rpartition("/")[0]
        return run or key.partition("/")[0]

    async def _process(self, run: str, shown: str) -> NodeProcess:
        """The process of a run; calls that come together share one start."""
        loop = asyncio.get_running_loop()
        starting = self._started.get(run)
        if starting is None or starting.get_loop() is not loop:
            starting = loop.create_task(NodeProcess.start(self._root, self._env, run, shown))
            self._started[run] = starting
        try:
            return await asyncio.shield(starting)
        except BaseException:
            if starting.done() and self._started.get(run) is starting:
                del self._started[run]
            raise

    async def _drop(self, run: str, process: NodeProcess) -> None:
        starting = self._started.get(run)
        if starting is not None and starting.done() and starting.result() is process:
            del self._started[run]
        await process.stop()


async def _stop(starting: asyncio.Task[NodeProcess]) -> None:
    if starting.get_loop() is not asyncio.get_running_loop():
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            starting.result().kill()  # its loop is gone, or goes on without us
        return
    starting.cancel()  # nothing, where it has started already
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await (await starting).stop()
