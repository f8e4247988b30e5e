"""Keeps the leases of the open runs, and hears when one is stopped or taken over elsewhere, or sent something."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..errors import Fenced
from .boottime import boottime
from .connection import AMONG, Connection, fetch, numbers

if TYPE_CHECKING:
    from .sql_log import SqlLog
    from .writer import Writer

_LINGER: Final = 1.0
_SHOW: Final = 1.0
_SURE: Final = 0.8  # of a lease: nobody may have taken a run over that was beaten for within it
_SELDOM: Final = 2.0  # seconds between looks while what happens is told

BEAT: Final = "UPDATE lease SET beat = ?, node = ?, spent = ? WHERE run = ? AND epoch = ?"
RELEASE: Final = "UPDATE lease SET owner = NULL, beat = ?, node = ?, spent = ? WHERE run = ? AND epoch = ?"
GIVE_BACK: Final = "UPDATE lease SET owner = NULL WHERE run = ? AND epoch = ?"
OWNED_BY: Final = (
    "SELECT seq, run.id, epoch FROM run JOIN lease ON lease.run = seq WHERE status = 'running' AND owner = ?"
)
_EPOCHS: Final = f"SELECT run, epoch FROM lease WHERE run {AMONG}"
_STATE: Final = f"SELECT seq, status, epoch FROM run JOIN lease ON lease.run = seq WHERE seq {AMONG}"

_SENT: Final = f"SELECT run, max(seq) FROM signal WHERE run {AMONG} GROUP BY run"


class Watch:
    """The runs open in this store. `tick` is called by the writer, which holds its lock.

    It is also what lets this process call tools (`Lease`): until `until`, by the clock `boottime`, all of them are its
    own; a process that was paused for longer asks for each run before it goes on.
    """

    def __init__(self, writer: Writer, lease: float, poll: float) -> None:
        self._writer, self._lease, self._poll = writer, lease, poll
        self._logs: dict[int, SqlLog] = {}
        self._linger = self._next_look = self._next_beat = 0.0
        self._version: int | None = None
        self._unclaimed: deque[tuple[int, int]] = deque()
        self.opening: set[int] = set()
        """Runs that are claimed, and whose journal is being read."""
        self.until = 0.0

    def give_back(self, seq: int, epoch: int) -> None:
        """Release a claim whose asker is gone, from any thread.

        The writer thread does it as soon as it can, and tries again until the store has taken it: as long as this
        process lives nobody else could take the run.
        """
        self._unclaimed.append((seq, epoch))
        self._writer.nudge()

    def add(self, log: SqlLog) -> None:
        old = self._logs.get(log.seq)
        sure = log.sure + self._lease * _SURE
        self.until = min(self.until, sure) if self._logs else sure
        self._logs[log.seq] = log
        if old is not None:
            old.stop_soon()  # Taken over within this process.
        self._writer.wake()

    def remove(self, log: SqlLog) -> None:
        if self._logs.get(log.seq) is log:
            del self._logs[log.seq]
            # Runs often follow one another: waking the thread for each would cost more.
            self._linger = time.monotonic() + _LINGER

    async def renewed(self, run_id: str) -> None:
        """See `Lease`."""
        for log in list(self._logs.values()):
            if log.run.id == run_id:
                await log.renew()
                self._reckon()
                return
        raise Fenced(run_id)

    def find(self, seq: int) -> SqlLog | None:
        return self._logs.get(seq)

    def holds(self, seq: int) -> bool:
        """Return True if this store has the run open, is about to, or releases it."""
        return seq in self._logs or seq in self.opening or any(seq == one for one, _ in tuple(self._unclaimed))

    def open_runs(self) -> list[int]:
        """Return the runs that are open in this process, by their number in the store."""
        return list(self._logs)

    def look_soon(self) -> None:
        """From any thread: something has been done to a run."""
        self._next_look = 0.0
        self._writer.nudge()

    def wanted(self) -> bool:
        return bool(self._logs or self._unclaimed) or time.monotonic() < self._linger

    def wait(self) -> float:
        return max(0.0, self._next_look - time.monotonic())

    def tick(self) -> None:
        if self._unclaimed:
            with contextlib.suppress(*self._writer.failures):
                self._writer.patiently(self._release_unclaimed)
        now = time.monotonic()
        if now < self._next_look:
            return
        self._writer.see_place()
        self._next_look = now + (max(self._poll, _SELDOM) if self._writer.attend() else self._poll)
        # A failed beat or look is made up for at the next: the lease is many of them long.
        with contextlib.suppress(*self._writer.failures):
            self._writer.patiently(self._look)
        if now >= self._next_beat:
            with contextlib.suppress(*self._writer.failures):
                self._let_go()
                self._beat()
                self._next_beat = now + min(self._lease / 3, _SHOW)

    def release_all(self) -> None:
        rows = [log.told() for log in list(self._logs.values())]
        self._logs.clear()
        if self._unclaimed:
            self._release_unclaimed()
        if rows:
            self._in_one(RELEASE, rows)

    def _release_unclaimed(self) -> None:
        claims = list(self._unclaimed)
        self._writer.transaction(lambda connection: connection.executemany(GIVE_BACK, claims))
        for _ in claims:  # only now: what has failed is tried again
            self._unclaimed.popleft()

    def _let_go(self) -> None:
        """Release the runs whose event loop was closed under them: nobody goes on with them here."""
        abandoned = [log for log in list(self._logs.values()) if log.abandoned]
        if abandoned:
            self._writer.patiently(lambda: self._in_one(RELEASE, [log.told() for log in abandoned]))
            for log in abandoned:
                self.remove(log)

    def _beat(self) -> None:
        before, sent = time.monotonic(), boottime()
        due = before - self._lease / 3
        logs = [log for log in list(self._logs.values()) if log.touched or log.beaten <= due]
        rows = [log.told() for log in logs]
        epochs = self._writer.patiently(lambda: self._in_one(BEAT, rows)) if rows else {}
        for log in logs:
            log.touched, log.beaten = False, time.monotonic()
            if epochs.get(log.seq) == log.epoch:
                log.sure = sent
        self._reckon()

    def _reckon(self) -> None:
        self.until = min((log.sure for log in list(self._logs.values())), default=0.0) + self._lease * _SURE

    def _in_one(self, statement: str, rows: Sequence[tuple[float | str, ...]]) -> dict[int, int]:
        """Do it for all of them; at which epochs they are then."""

        def work(connection: Connection) -> dict[int, int]:
            connection.executemany(statement, rows)
            return dict(fetch(connection, _EPOCHS, (numbers(int(row[-2]) for row in rows),)))

        return self._writer.transaction(work)

    def _look(self) -> None:
        """Only when another process has written can it have stopped a run, taken one over or sent something."""
        version = self._writer.version()
        if version is not None and version == self._version:
            return
        logs = dict(self._logs)
        if logs:
            found = fetch(self._writer.connection, _STATE, (numbers(logs),))
            states = {seq: (status, epoch) for seq, status, epoch in found}
            for seq, log in logs.items():
                if states.get(seq) != ("running", log.epoch):
                    log.stop_soon()
            self._listen({seq: log for seq, log in logs.items() if log.on_signal is not None})
        self._version = version

    def _listen(self, logs: dict[int, SqlLog]) -> None:
        """Tell those runs that wait of what was sent to them."""
        if logs:
            for seq, last in fetch(self._writer.connection, _SENT, (numbers(logs),)):
                if last > logs[seq].heard:
                    logs[seq].heard = last
                    logs[seq].signal_soon()
