"""The lease of a worker: its heartbeat, and the reaping of workers that have none.

The heartbeat itself is a child process (`heartbeat.py`), because a tool may hold the interpreter of this one. A thread
here answers the child and reads which heartbeats the database has acknowledged. Another thread reaps dead workers; it
may wait for the database as long as it likes.

A worker is sure of its runs until somewhat less than a lease after the last acknowledged heartbeat, counted from
before that was sent. While the database is away, calls wait and nothing is cancelled: nobody else can take the runs
either. A worker that others have given up meanwhile lets go of everything, and starts again as if it were new.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import orjson

from ..errors import Fenced, RopewalkError
from ..journal.boottime import boottime as clock
from ..journal.fleet import Fleet
from ..journal.postgres_session import driver
from .blocked import Blocked
from .heart import Beat, Heart, Reading, start_heart

_STEPS = 5  # looks for dead workers per lease
_SURE = 0.8  # of a lease
_PATIENT = 3  # failures in a row of the reaper, with a good heartbeat, before it says so
log = logging.getLogger("ropewalk.workers")


class Pulse:
    """Keep the lease of one worker.

    Args:
        fleet: The workers of the store. Only this object uses it.
        id: The worker's id.
        about: What others may know about the worker.
        longest_block: Seconds for which a tool may hold the interpreter.
        lost: Called on the event loop when others have given this worker up; its argument is True if the database was
            away from this worker, so that nothing died.
        reaped: Called in the reaper's thread with the ids of dead workers.
        round_: Called in the reaper's thread after each look.
    """

    def __init__(
        self,
        fleet: Fleet,
        id: str,
        about: dict[str, object],
        *,
        longest_block: float,
        lost: Callable[[bool], None],
        reaped: Callable[[list[str]], None],
        round_: Callable[[], None],
    ) -> None:
        self.until = 0.0
        self._fleet, self._id, self._about = fleet, id, orjson.dumps(about).decode()
        self._longest = longest_block
        self._lost, self._reaped, self._round = lost, reaped, round_
        self._loop = asyncio.get_running_loop()
        self._blocked = Blocked(fleet.lease / 2)
        self._sure = asyncio.Event()
        self._ended = threading.Event()
        self._losses = 0
        self._is_lost = False  # others have given this worker up, and its event loop has not heard of it yet
        self._began = ""
        self._away_since: float | None = None
        self._heart: Heart | None = None
        self._threads = [
            threading.Thread(target=self._listen, name="ropewalk-pulse", daemon=True),
            threading.Thread(target=self._reap, name="ropewalk-reaper", daemon=True),
        ]

    def start(self) -> None:
        """Register the worker and begin to beat.

        Raises:
            StoreError, psycopg.Error: The database refuses.
        """
        before = clock()
        self._began = self._fleet.beat(self._id, self._about)
        self._beaten(Beat(before, self._began))
        self._heart = self._start_heart()
        for thread in self._threads:
            thread.start()

    async def renewed(self, run_id: str) -> None:
        """Wait until this worker is sure of its runs again.

        Args:
            run_id: The run that wants to go on.

        Raises:
            Fenced: The run is somebody else's by now.
        """
        losses = self._losses
        while clock() >= self.until:
            self._sure.clear()
            await self._sure.wait()
        if losses != self._losses:
            raise Fenced(run_id)

    def stop(self) -> None:
        """Stop the heartbeat; the worker's row stays. Blocks for a moment."""
        self._ended.set()
        for thread in self._threads:
            thread.join(5)
        if self._heart is not None:
            self._heart.close()

    # --- the thread that talks with the heartbeat ---------------------------------------------

    def _start_heart(self) -> Heart:
        return start_heart(self._fleet, self._id, self._about, self._began, self._longest)

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self._listen_once()
            except Exception:  # without this thread the worker would never again be sure of its runs
                log.exception("could not read the heartbeat; trying again")
                self._ended.wait(self._fleet.lease / _STEPS)

    def _listen_once(self) -> None:
        assert self._heart is not None
        for reading in self._heart.answer(self._fleet.lease / _STEPS / 2):
            self._read(reading)
        if culprit := self._blocked.look():
            log.warning("%s", culprit)
        if self._heart.has_ended() and not self._ended.is_set():
            log.warning("the heartbeat process of this worker has ended; starting another one")
            self._heart.close()
            self._heart = self._start_heart()

    def _read(self, reading: Reading) -> None:
        if isinstance(reading, Beat):
            self._beaten(reading)
        else:
            self._missed(reading)

    def _beaten(self, beat: Beat) -> None:
        if beat.thread is not None:
            self._blocked.thread = beat.thread
        self._began = beat.began
        until = beat.sent + self._fleet.lease * _SURE
        if beat.away is not None:
            why = f", because it could not reach the database for {beat.away:.1f} s" if beat.away else ""
            lease = self._fleet.lease
            log.warning("this worker was silent for more than %s s%s: its runs are others' now", lease, why)
            self._is_lost = True
            self._loop.call_soon_threadsafe(self._start_again, beat.away > 0, until)
        elif not self._is_lost:
            self.until = max(self.until, until)
            self._loop.call_soon_threadsafe(self._sure.set)
        if self._away_since is not None:
            log.warning("the database is back after %.1f s", clock() - self._away_since)
            self._away_since = None

    def _start_again(self, was_away: bool, until: float) -> None:
        """On the event loop: nothing may begin between being sure again and the end of what others have now."""
        self._losses += 1
        self._lost(was_away)
        self.until = max(self.until, until)
        self._sure.set()
        self._is_lost = False

    def _missed(self, why: str) -> None:
        if self._away_since is None:
            self._away_since = clock()
            log.warning("the database cannot be reached; this worker tries on, and its runs wait: %s", why)
        else:
            log.debug("no heartbeat: %s", why)

    # --- the thread that reaps ----------------------------------------------------------------

    def _reap(self) -> None:
        pause = self._fleet.lease / _STEPS
        away: tuple[type[Exception], ...] = (*driver_errors(), RopewalkError)
        failures = 0
        while not self._ended.wait(pause):
            if clock() >= self.until:
                continue  # a worker that is not sure of itself judges nobody
            try:
                dead = self._fleet.reap()
                if dead:
                    log.warning("gave up %s: silent for too long, or dead", ", ".join(dead))
                self._reaped(dead)
                self._round()
                failures = 0
            except away as error:
                failures += 1
                # While the database is away the heartbeat says so.
                level = logging.WARNING if failures == _PATIENT and self._away_since is None else logging.DEBUG
                log.log(level, "could not look for dead workers; trying again: %s", " ".join(str(error).split()))
            except Exception:  # without this thread nobody would take over the runs of dead workers
                failures += 1
                log.log(
                    logging.ERROR if failures == 1 else logging.DEBUG,
                    "could not look for dead workers; trying again",
                    exc_info=True,
                )


def driver_errors() -> tuple[type[Exception], ...]:
    """Return what may be raised while the server is away or has no connection left: by psycopg, and by SQLAlchemy, on
    which DBOS stands."""
    from sqlalchemy.exc import DBAPIError, TimeoutError

    return (driver().Error, DBAPIError, TimeoutError)
