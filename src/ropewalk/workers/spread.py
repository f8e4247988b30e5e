"""Large maps over many workers: cut into chunks, put in line, gathered in order.

How a map is cut is journaled with its run, so that whoever goes on with the run finds the same chunks. A map that says
how many of its items may be under way at once keeps to that over all workers together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from ..engine.chunks import scope_entry
from ..engine.durable import failed_of
from ..errors import NodeFailed
from ..journal import chunks
from ..journal.fleet import Fleet
from ..journal.news import News
from ..values import Json
from .dbos_adapter import CHUNKS, PLAY, Client
from .dispatches import Undispatched, dispatch_id, undispatched
from .pulse import driver_errors

LEAST: Final = 500  # items; what is smaller is done before others have heard of it
_SIZES: Final = (100, 4000)
_PER_WORKER: Final = 4
_PAUSE: Final = 0.5  # seconds between looks at chunks whose end was not heard of
_LOOK: Final = 2.0  # seconds between looks for chunks that nobody was told of


class Chunks:
    """See `Spread`. `staying` says whether this worker goes on: what it lets go of, others go on with."""

    def __init__(self, fleet: Fleet, client: Client, staying: Callable[[], bool]) -> None:
        self._fleet, self._client, self._staying = fleet, client, staying
        self._workers = 1
        self._loop = asyncio.get_running_loop()
        self._gathering: dict[asyncio.Event, str] = {}  # set when something ends whose id begins so

    def wants(self, run: Any, path: str, count: int, limit: int | None) -> bool:
        if (path, "scope") in run.log.past:
            return True
        return count > LEAST and (limit is None or limit > 1) and self._workers > 1

    def count(self, workers: int) -> None:
        """Told by the pulse."""
        self._workers = workers

    def heard(self, news: News) -> None:
        """Told by the store, in a thread of its own."""
        if news.kind in ("end", ""):
            for event, beginning in list(self._gathering.items()):
                if not news.run or news.run.startswith(beginning):
                    self._loop.call_soon_threadsafe(event.set)

    async def __call__(self, run: Any, path: str, place: str, count: int, limit: int | None, scope: Json) -> list[Any]:
        known = run.log.past.get((path, "scope"))
        if known is None:
            least, most = _SIZES
            size = max(least, min(most, -(-count // (_PER_WORKER * self._workers))))
            before = run.now()
            await run.log.append(scope_entry(path, place.rpartition("/")[2], size, scope, before))
        else:
            size = int(known.data["size"])
        ids = [f"{run.id}/{path}/{first // size}" for first in range(0, count, size)]
        at_once, each = _shares(limit, len(ids), 2 * self._workers)
        told: dict[str, Json] = {
            id: {
                "run": run.id,
                "path": path,
                "place": place,
                "first": i * size,
                "count": min(size, count - i * size),
                "limit": each,
                "fresh": not run.log.past,
            }
            for i, id in enumerate(ids)
        }
        ended = asyncio.Event()
        self._gathering[ended] = f"{run.id}/{path}/"
        try:
            return await self._gathered(run.id, ids, told, at_once, ended)
        except BaseException:
            if self._staying():
                fleet = self._fleet
                await asyncio.to_thread(fleet.do, lambda session: chunks.stop(session, fleet.where, run.id))
            raise
        finally:
            del self._gathering[ended]

    async def _gathered(
        self, run_id: str, ids: list[str], told: dict[str, Json], at_once: int, ended: asyncio.Event
    ) -> list[Any]:
        """Keep so many chunks in line, until all are over or one has failed."""
        done: dict[str, Any] = {}
        waiting, begun = list(reversed(ids)), set[str]()
        looked = 0.0
        while len(done) < len(ids):
            ended.clear()
            new = [waiting.pop() for _ in range(min(len(waiting), at_once - len(begun)))]
            begun.update(new)
            look = time.monotonic() - looked > _LOOK
            try:
                if new or look:
                    looked = time.monotonic()
                    await asyncio.to_thread(
                        self._put, run_id, {id: told[id] for id in new}, begun if look else set(new)
                    )
                over = await asyncio.to_thread(self._fleet.do, lambda session: chunks.ended(session, begun))
            except driver_errors():
                over = []  # The server is away: what is put twice is put once.
                waiting += reversed([id for id in new if id not in waiting])
                begun.difference_update(new)
            for one in over:
                if one.status != "completed":
                    raise _failure(one)
                done[one.id] = one.result
                begun.discard(one.id)
            if not over:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _PAUSE)
        return [done[id] for id in ids]

    def _put(self, run_id: str, new: dict[str, Json], looked_at: set[str]) -> None:
        """Blocking: write chunks down, and put those in line that are in none."""

        def work(session: Any) -> list[Undispatched]:
            if new:
                chunks.make(session, run_id, new)
            return undispatched(session, self._fleet.where, looked_at)

        found = {dispatch_id(one.id, one.epoch): [one.id] for one in self._fleet.do(work)}
        if found:
            self._client.enqueue_all(PLAY, CHUNKS, found)


def _shares(limit: int | None, count: int, hands: int) -> tuple[int, int | None]:
    """How many chunks may be in line, and how many items of each under way: no more than `limit` in all."""
    if limit is None:
        return count, None
    at_once = max(1, min(count, limit, hands))
    return at_once, limit // at_once


def _failure(one: chunks.Ended) -> NodeFailed:
    said = (one.error or {}).get("failed")
    if said is not None:
        return failed_of(said)
    message = (one.error or {}).get("message", f"the chunk {one.id} was {one.status}")
    path = one.id.rpartition("/")[0]
    return NodeFailed(path, message, node=path, tool=None, kind="Parked" if one.status == "parked" else "RunStopped")
