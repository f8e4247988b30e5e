"""A worker's heartbeat: it tells the store that it lives, and buries those that do not.

A worker is sure of its runs until somewhat less than the lease after the last beat that was acknowledged, counted
from before that was sent, on the monotonic clock. One that was paused longer finds itself given up: it lets go of
everything it had, and goes on as if it had just come.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

import orjson

from ..errors import Fenced, RopewalkError
from ..journal.fleet import Fleet
from ..journal.postgres_session import driver

_BEATS = 5  # per lease
_SURE = 0.8  # of a lease
clock = time.monotonic
log = logging.getLogger("ropewalk.workers")


class Pulse:
    """Beats in a thread of its own, so that a tool that holds the event loop does not stop it. `reaped` is called there
    with the ids of dead workers, `round_` after every beat, `lost` on the loop when this worker has been given up."""

    def __init__(
        self,
        fleet: Fleet,
        id: str,
        about: dict[str, object],
        *,
        lost: Callable[[], None],
        reaped: Callable[[list[str]], None],
        round_: Callable[[], None],
    ) -> None:
        self.until = 0.0
        self._fleet, self._id, self._about = fleet, id, orjson.dumps(about).decode()
        self._lost, self._reaped, self._round = lost, reaped, round_
        self._loop = asyncio.get_running_loop()
        self._sure = asyncio.Event()
        self._ended = threading.Event()
        self._known = False
        self._losses = 0
        self._away_since: float | None = None
        self._thread = threading.Thread(target=self._main, name="ropewalk-pulse", daemon=True)

    def start(self) -> None:
        """The first beat is made here, so that whatever is wrong is told at once."""
        self._beat()
        self._thread.start()

    async def renewed(self, run_id: str) -> None:
        """See `Lease`."""
        losses = self._losses
        while clock() >= self.until:
            self._sure.clear()
            await self._sure.wait()
        if losses != self._losses:
            raise Fenced(run_id)

    def stop(self) -> None:
        """Beat no more; the row stays. Blocking for a moment."""
        self._ended.set()
        self._thread.join(5)

    def _main(self) -> None:
        pause = self._fleet.lease / _BEATS
        away: tuple[type[Exception], ...] = (*driver_errors(), RopewalkError)
        while not self._ended.wait(pause):
            try:
                self._beat()
                dead = self._fleet.reap()
                if dead:
                    log.warning("gave up %s: silent for too long, or dead", ", ".join(dead))
                self._reaped(dead)
                self._round()
                self._reached()
            except away as error:
                # The store is away: nobody can be given up either. Calls wait until it is back.
                self._missed(error)

    def _missed(self, error: Exception) -> None:
        if self._away_since is None:
            self._away_since = clock()
            said = " ".join(str(error).split())
            log.warning("the database cannot be reached; this worker tries on, and its runs wait: %s", said)
        else:
            log.debug("no heartbeat: %s", error)

    def _reached(self) -> None:
        if self._away_since is not None:
            log.warning("the database is back after %.1f s", clock() - self._away_since)
            self._away_since = None

    def _beat(self) -> None:
        before = clock()
        new = self._fleet.beat(self._id, self._about)
        if new and self._known:
            self._losses += 1
            log.warning("this worker was silent for more than %s s: its runs are others' now", self._fleet.lease)
            self._loop.call_soon_threadsafe(self._lost)
        self._known = True
        self.until = before + self._fleet.lease * _SURE
        self._loop.call_soon_threadsafe(self._sure.set)


def driver_errors() -> tuple[type[Exception], ...]:
    """What may be raised while the server is away, by psycopg and by what DBOS stands on."""
    from sqlalchemy.exc import DBAPIError

    return (driver().Error, DBAPIError)
