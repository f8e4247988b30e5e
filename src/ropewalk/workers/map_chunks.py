"""Execute large maps on many workers: cut them into chunks, queue these, and collect the results in order.

The run's journal records how a map was cut, so that every later owner of the run finds the same chunks. The limit of
items at once of a map holds over all workers together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from ..engine.compile.durable import failure_from_json
from ..engine.map_chunks import scope_entry
from ..errors import NodeFailed
from ..journal.news import News
from ..journal.postgres import chunks
from ..journal.postgres.worker_registry import WorkerRegistry
from ..values import Json
from .dbos_adapter import CHUNK_QUEUE, CHUNK_WORKFLOW, Client
from .dispatches import UndispatchedRun, dispatch_id, find_undispatched
from .heartbeat import driver_errors

MIN_ITEMS: Final = 500  # items; a smaller map ends before other workers could help
_CHUNK_SIZES: Final = (100, 4000)  # smallest and largest number of items
_CHUNKS_PER_WORKER: Final = 4
_POLL_INTERVAL: Final = 0.5  # seconds between looks for chunks that have ended without a notification
_DISPATCH_CHECK: Final = 2.0  # seconds between looks for chunks without a dispatch


class MapChunks:
    """Executes maps in chunks on the workers of a store; `engine/ports.py` describes its methods."""

    def __init__(self, registry: WorkerRegistry, client: Client, keeps_runs: Callable[[], bool]) -> None:
        self._registry, self._client, self._keeps_runs = registry, client, keeps_runs
        self._workers = 1
        self._loop = asyncio.get_running_loop()
        self._collecting: dict[asyncio.Event, str] = {}  # set when a run ends whose id has this prefix

    def wants(self, run: Any, path: str, count: int, limit: int | None) -> bool:
        """Return True if a map is worth cutting, or was cut by an earlier owner of the run."""
        if (path, "scope") in run.log.past:
            return True
        return count > MIN_ITEMS and (limit is None or limit > 1) and self._workers > 1

    def set_worker_count(self, workers: int) -> None:
        """Set the number of workers."""

        # The heartbeat calls it.
        self._workers = workers

    def receive(self, news: News) -> None:
        """Take news of the store, in a thread of the store."""
        if news.kind in ("end", ""):
            for event, prefix in list(self._collecting.items()):
                if not news.run or news.run.startswith(prefix):
                    self._loop.call_soon_threadsafe(event.set)

    async def __call__(self, run: Any, path: str, place: str, count: int, limit: int | None, scope: Json) -> list[Any]:
        """Execute a map in chunks and return the results of the chunks in order."""
        # Every owner of the run must cut the map in the same way, so the size is journaled before the first chunk.
        recorded = run.log.past.get((path, "scope"))
        if recorded is None:
            smallest, largest = _CHUNK_SIZES
            size = max(smallest, min(largest, -(-count // (_CHUNKS_PER_WORKER * self._workers))))
            before = run.now()
            await run.log.append(scope_entry(path, place.rpartition("/")[2], size, scope, before))
        else:
            size = int(recorded.data["size"])
        ids = [f"{run.id}/{path}/{first // size}" for first in range(0, count, size)]
        at_once, items_at_once = _share_limit(limit, len(ids), 2 * self._workers)
        contexts: dict[str, Json] = {
            id: {
                "run": run.id,
                "path": path,
                "place": place,
                "first": i * size,
                "count": min(size, count - i * size),
                "limit": items_at_once,
                "fresh": not run.log.past,
            }
            for i, id in enumerate(ids)
        }
        ended = asyncio.Event()
        self._collecting[ended] = f"{run.id}/{path}/"
        try:
            return await self._collect(run.id, ids, contexts, at_once, ended)
        except BaseException:
            if self._keeps_runs():  # otherwise the next owner of the run uses the chunks
                registry = self._registry
                await asyncio.to_thread(
                    registry.run_in_transaction, lambda session: chunks.stop_chunks(session, registry.target, run.id)
                )
            raise
        finally:
            del self._collecting[ended]

    async def _collect(
        self, run_id: str, ids: list[str], contexts: dict[str, Json], at_once: int, ended: asyncio.Event
    ) -> list[Any]:
        """Keep `at_once` chunks queued until all have ended, and return their results in the order of `ids`."""
        results: dict[str, Any] = {}
        waiting, queued = list(reversed(ids)), set[str]()
        looked_at = 0.0
        while len(results) < len(ids):
            ended.clear()
            new = [waiting.pop() for _ in range(min(len(waiting), at_once - len(queued)))]
            queued.update(new)
            must_look = time.monotonic() - looked_at > _DISPATCH_CHECK
            try:
                if new or must_look:
                    looked_at = time.monotonic()
                    new_contexts = {id: contexts[id] for id in new}
                    await asyncio.to_thread(self._queue, run_id, new_contexts, queued if must_look else set(new))
                over = await asyncio.to_thread(
                    self._registry.run_in_transaction, lambda session: chunks.ended_chunks(session, queued)
                )
            except driver_errors():
                over = []  # the server is away; queueing a chunk again later changes nothing if it is queued
                waiting += reversed([id for id in new if id not in waiting])
                queued.difference_update(new)
            for chunk in over:
                if chunk.status != "completed":
                    raise _failure(chunk)
                results[chunk.id] = chunk.result
                queued.discard(chunk.id)
            if not over:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _POLL_INTERVAL)
        return [results[id] for id in ids]

    def _queue(self, run_id: str, new: dict[str, Json], to_check: set[str]) -> None:
        """Create new chunks, and dispatch those of `to_check` that have no dispatch."""

        # Blocking.

        def work(session: Any) -> list[UndispatchedRun]:
            if new:
                chunks.create_chunks(session, run_id, new)
            return find_undispatched(session, self._registry.target, to_check)

        arguments = {
            dispatch_id(chunk.id, chunk.epoch): [chunk.id] for chunk in self._registry.run_in_transaction(work)
        }
        if arguments:
            self._client.enqueue_all(CHUNK_WORKFLOW, CHUNK_QUEUE, arguments)


def _share_limit(limit: int | None, count: int, queue_places: int) -> tuple[int, int | None]:
    """Divide a limit of items at once between chunks."""
    if limit is None:
        return count, None
    at_once = max(1, min(count, limit, queue_places))
    return at_once, limit // at_once


def _failure(chunk: chunks.EndedChunk) -> NodeFailed:
    error = chunk.error or {}
    if error.get("failed") is not None:
        return failure_from_json(error["failed"])
    message = error.get("message", f"the chunk {chunk.id} was {chunk.status}")
    path = chunk.id.rpartition("/")[0]
    kind = "Parked" if chunk.status == "parked" else "RunStopped"
    return NodeFailed(path, message, node=path, tool=None, kind=kind)
