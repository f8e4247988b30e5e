"""Playing chunks of runs that other workers have."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..engine.chunk_run import played
from ..engine.durable import said_of
from ..engine.engine import Engine, Job
from ..errors import Fenced, NodeFailed, RunBusy
from ..journal import chunks
from ..journal.fleet import Fleet
from ..journal.journal import ENDS, RunRow
from ..journal.sql_log import SqlLog

_KEPT: Final = 4  # runs whose items and scopes are kept, since their chunks come one after another


class Hand:
    """Plays chunks on this worker's engine."""

    def __init__(self, engine: Engine, fleet: Fleet, again: Callable[[RunRow], Awaitable[Job]]) -> None:
        self._engine, self._fleet, self._again = engine, fleet, again
        self._jobs: OrderedDict[str, asyncio.Future[tuple[int, Job]]] = OrderedDict()
        self._maps: OrderedDict[tuple[str, str], asyncio.Future[tuple[Any, Any]]] = OrderedDict()

    async def play(self, row: RunRow) -> str:
        """Play the chunk of this row to its end; raises what keeps it from one."""
        chunk: dict[str, Any] = row.context
        seq, job = await _kept(self._jobs, chunk["run"], lambda: self._whole(chunk["run"]))
        key = (chunk["run"], chunk["path"])
        items, scope = await _kept(self._maps, key, lambda: asyncio.to_thread(self._map, seq, chunk["path"]))
        try:
            log = await self._engine.store.reopen(row.id)
        except RunBusy:
            return "elsewhere"
        if log.finished is not None:
            return log.finished.status
        assert isinstance(log, SqlLog)
        first, count = chunk["first"], chunk["count"]
        try:
            past = {}
            if not chunk["fresh"] or log.epoch > row.epoch + 1 or row.epoch > 1:
                path = chunk["path"]
                past = await asyncio.to_thread(self._fleet.do, lambda s: chunks.past(s, seq, path, first, count))
            log.write_into(seq, past)
            some = items[first : first + count]
            ending = await played(self._engine.program(job), chunk["run"], job.input, log, chunk, scope, some)
            error = ending.error
            said: Any = None if error is None else {"message": str(error), "kind": type(error).__name__}
            if said is not None and isinstance(error, NodeFailed):
                said["failed"] = said_of(error)
            return await log.finish(ending.status, ending.value, said, results=count, errors=len(ending.failures))
        except Fenced:
            return "lost"
        except BaseException:
            await log.release()
            raise

    async def _whole(self, run_id: str) -> tuple[int, Job]:
        row = await asyncio.to_thread(self._engine.store.get_run, run_id)
        if row is None or row.status in ENDS:
            raise Fenced(run_id)
        return await asyncio.to_thread(self._fleet.do, lambda s: chunks.seq_of(s, run_id)), await self._again(row)

    def _map(self, seq: int, path: str) -> tuple[Any, Any]:
        return self._fleet.do(lambda s: (chunks.fact(s, seq, path, "items"), chunks.fact(s, seq, path, "scope")))


async def _kept(known: OrderedDict[Any, asyncio.Future[Any]], key: Any, make: Callable[[], Awaitable[Any]]) -> Any:
    """Made once for all who ask meanwhile; what failed is made anew."""
    found = known.get(key)
    if found is None or (found.done() and (found.cancelled() or found.exception() is not None)):
        found = known[key] = asyncio.ensure_future(make())
        while len(known) > _KEPT:
            known.popitem(last=False)
    return await asyncio.shield(found)
