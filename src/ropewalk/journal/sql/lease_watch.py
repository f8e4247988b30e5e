"""Keeps the leases of the open runs, and finds runs whose owner has died.

`LeaseWatcher` renews the leases of this process and notices when another process stops a run, takes it over or sends
it a signal. `Silence` measures how long other processes have been silent. `OrphanFinder` releases, for workers, the
runs that a process other than a worker left unfinished when it died.

A heartbeat that is old by the database's clock proves nothing: nobody can write heartbeats while the database is away.
So an observer counts only time in which it read the heartbeats itself, on one connection, without a long gap.

Refused: releasing runs whose tools only their own process had (`runnable_by_any_worker`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...errors import Fenced
from ...fast_dataclass import dataclass
from .leases import Owner, boottime, owner_state
from .ports import LeaseWriter, OpenRun
from .rows import AMONG, Connection, fetch, json_list, load

_LINGER: Final = 1.0  # seconds that the thread keeps looking after the last run was closed
_BEAT_INTERVAL: Final = 1.0  # seconds between heartbeats of runs that have something to show, at most
_SAFE_SHARE: Final = 0.8  # of a lease: nobody can have taken a run over whose heartbeat is younger
_NOTIFIED_INTERVAL: Final = 2.0  # seconds between looks while the database announces changes

BEAT: Final = "UPDATE lease SET beat = ?, node = ?, spent = ? WHERE run = ? AND epoch = ?"
RELEASE: Final = "UPDATE lease SET owner = NULL, beat = ?, node = ?, spent = ? WHERE run = ? AND epoch = ?"
GIVE_BACK: Final = "UPDATE lease SET owner = NULL WHERE run = ? AND epoch = ?"
OWNED_BY: Final = (
    "SELECT seq, run.id, epoch FROM run JOIN lease ON lease.run = seq WHERE status = 'running' AND owner = ?"
)
_EPOCHS: Final = f"SELECT run, epoch FROM lease WHERE run {AMONG}"
_STATE: Final = f"SELECT seq, status, epoch FROM run JOIN lease ON lease.run = seq WHERE seq {AMONG}"

_LAST_SIGNALS: Final = f"SELECT run, max(seq) FROM signal WHERE run {AMONG} GROUP BY run"


class LeaseWatcher:
    """The runs that are open in one store object."""

    # The writer calls `tick`, and holds its lock.
    # The watcher is also the process's `Lease` for calling tools. Until the time `until`, by the clock `boottime`, this
    # process owns all these runs. A process that was paused for longer calls `renewed` for each run before it
    # continues.

    def __init__(self, writer: LeaseWriter, lease: float, poll: float) -> None:
        self._writer, self._lease, self._poll = writer, lease, poll
        self._logs: dict[int, OpenRun] = {}
        self._linger = self._next_look = self._next_beat = 0.0
        self._version: int | None = None
        self._unclaimed: deque[tuple[int, int]] = deque()
        self._opening: dict[tuple[int, int], asyncio.AbstractEventLoop] = {}
        self.until = 0.0

    def begin_opening(self, seq: int, epoch: int, loop: asyncio.AbstractEventLoop) -> None:
        """Keep a claim that is committed until its caller has opened the log."""

        # Safe from any thread.
        # The caller is a task of `loop`. If that loop is closed before the task receives the claim or has read the
        # journal, nobody can open or release the run, so the watcher releases it.
        self._opening[seq, epoch] = loop
        self._writer.wake_regularly()

    def give_back(self, seq: int, epoch: int) -> None:
        """Release a claim whose caller is gone."""

        # Safe from any thread.
        # The writer thread does it as soon as it can, and repeats it until it succeeds: otherwise nobody else could
        # take the run as long as this process lives.
        self._unclaimed.append((seq, epoch))
        self._opening.pop((seq, epoch), None)
        self._writer.wake_once()

    def add(self, log: OpenRun) -> None:
        """Watch a run from now on."""
        old = self._logs.get(log.seq)
        safe_until = log.renewed_at + self._lease * _SAFE_SHARE
        self.until = min(self.until, safe_until) if self._logs else safe_until
        self._logs[log.seq] = log
        self._opening.pop((log.seq, log.epoch), None)
        if old is not None:
            old.stop_soon()  # Taken over within this process.
        self._writer.wake_regularly()

    def remove(self, log: OpenRun) -> None:
        """Stop watching a run."""
        if self._logs.get(log.seq) is log:
            del self._logs[log.seq]
            # Runs often follow one another: waking the thread for each would cost more.
            self._linger = time.monotonic() + _LINGER

    async def renewed(self, run_id: str) -> None:
        """Renew the lease of one run now."""
        for log in list(self._logs.values()):
            if log.run.id == run_id:
                await log.renew()
                self._update_until()
                return
        raise Fenced(run_id)

    def find(self, seq: int) -> OpenRun | None:
        """Return the open run with this row number, or None."""
        return self._logs.get(seq)

    def holds(self, seq: int) -> bool:
        """Return True if this store has the run open, is about to, or releases it."""
        claims = (*tuple(self._opening), *tuple(self._unclaimed))
        return seq in self._logs or any(seq == row for row, _ in claims)

    def open_runs(self) -> list[int]:
        """Return the runs that are open in this process, by their number in the store."""
        return list(self._logs)

    def look_soon(self) -> None:
        """Look soon, because something was done to a run."""

        # Safe from any thread.
        self._next_look = 0.0
        self._writer.wake_once()

    def needs_thread(self) -> bool:
        """Return True if the writer's thread has to wake by itself."""
        return bool(self._logs or self._opening or self._unclaimed) or time.monotonic() < self._linger

    def wait(self) -> float:
        """Return the seconds until the next look."""
        return max(0.0, self._next_look - time.monotonic())

    def tick(self) -> None:
        """Release, look and renew what is due."""
        if self._unclaimed:
            with contextlib.suppress(*self._writer.failures):
                self._writer.retry_transient(self._release_unclaimed)
        now = time.monotonic()
        if now < self._next_look:
            return
        self._writer.check_location()
        is_notified = self._writer.listens_for_changes()
        # A heartbeat needs a look, so that looks are never further apart than heartbeats.
        rest = min(_NOTIFIED_INTERVAL, self._lease / 3) if is_notified else 0.0
        self._next_look = now + max(self._poll, rest)
        # A failed look or heartbeat is repeated at the next tick: a lease is many of them long.
        with contextlib.suppress(*self._writer.failures):
            self._writer.retry_transient(self._check_open_runs)
        if now >= self._next_beat:
            with contextlib.suppress(*self._writer.failures):
                self._release_abandoned()
                self._write_heartbeats()
                self._next_beat = now + min(self._lease / 3, _BEAT_INTERVAL)

    def release_all(self) -> None:
        """Release all runs, because the store is closed."""
        rows = [log.lease_values() for log in list(self._logs.values())]
        self._logs.clear()
        self._unclaimed.extend(self._opening)
        self._opening.clear()
        if self._unclaimed:
            self._release_unclaimed()
        if rows:
            self._execute_many(RELEASE, rows)

    def _release_unclaimed(self) -> None:
        claims = list(self._unclaimed)
        self._writer.transaction(lambda connection: connection.executemany(GIVE_BACK, claims))
        for _ in claims:  # only now, so that a failed transaction is repeated
            self._unclaimed.popleft()

    def _release_abandoned(self) -> None:
        """Release the runs that nobody here can continue or release, because their event loop was closed."""
        for claim, loop in tuple(self._opening.items()):
            if loop.is_closed():
                self.give_back(*claim)
        abandoned = [log for log in list(self._logs.values()) if log.abandoned]
        if abandoned:
            self._writer.retry_transient(lambda: self._execute_many(RELEASE, [log.lease_values() for log in abandoned]))
            for log in abandoned:
                self.remove(log)

    def _write_heartbeats(self) -> None:
        before, sent_at = time.monotonic(), boottime()
        # Runs with nothing to show need a heartbeat only for their lease.
        beaten_before = before - self._lease / 3
        logs = [log for log in list(self._logs.values()) if log.touched or log.beaten_at <= beaten_before]
        rows = [log.lease_values() for log in logs]
        epochs = self._writer.retry_transient(lambda: self._execute_many(BEAT, rows)) if rows else {}
        for log in logs:
            log.touched, log.beaten_at = False, time.monotonic()
            if epochs.get(log.seq) == log.epoch:
                log.renewed_at = sent_at
        self._update_until()

    def _update_until(self) -> None:
        self.until = min((log.renewed_at for log in list(self._logs.values())), default=0.0) + self._lease * _SAFE_SHARE

    def _execute_many(self, statement: str, rows: Sequence[tuple[float | str, ...]]) -> dict[int, int]:
        """Execute a statement for many runs in one transaction; return the epoch of each run afterwards."""

        def work(connection: Connection) -> dict[int, int]:
            connection.executemany(statement, rows)
            return dict(fetch(connection, _EPOCHS, (json_list(int(row[-2]) for row in rows),)))

        return self._writer.transaction(work)

    def _check_open_runs(self) -> None:
        # Only a process that has written can have stopped a run, taken one over or sent a signal.
        version = self._writer.version()
        if version is not None and version == self._version:
            return
        logs = dict(self._logs)
        if logs:
            rows = fetch(self._writer.connection, _STATE, (json_list(logs),))
            states = {seq: (status, epoch) for seq, status, epoch in rows}
            for seq, log in logs.items():
                if states.get(seq) != ("running", log.epoch):
                    log.stop_soon()
            self._notify_of_signals({seq: log for seq, log in logs.items() if log.on_signal is not None})
        self._version = version

    def _notify_of_signals(self, logs: dict[int, OpenRun]) -> None:
        if not logs:
            return
        for seq, last in fetch(self._writer.connection, _LAST_SIGNALS, (json_list(logs),)):
            log = logs[seq]
            if last > log.last_signal:
                log.last_signal = last
                log.signal_soon()


@dataclass(frozen=True, slots=True)
class _Observation:
    beat: float
    since: float
    bonus: float


class Silence:
    """Measure the silence of many processes."""

    # `gap`: Longest time between two looks, in seconds. After a longer one all observations start again.
    # `grace`: Extra seconds that a process gets when observations start, or start again after an interruption. It may
    # need longer than the observer to reconnect.
    # `clock`: Seconds, monotonic.

    def __init__(self, gap: float, grace: float = 0.0, clock: Callable[[], float] = boottime) -> None:
        self._gap, self._grace, self._clock = gap, grace, clock
        self._observations: dict[str, _Observation] = {}
        self._last_look: float | None = None
        self._connection = 0

    def observe(self, beats: Mapping[str, float], connection: int = 0) -> dict[str, float]:
        """Record the latest heartbeat of each process."""
        now = self._clock()
        # At the first look, too: it may come right after an outage.
        interrupted = self._last_look is None or now - self._last_look > self._gap or connection != self._connection
        bonus = self._grace if interrupted else 0.0
        previous = {} if interrupted else self._observations
        self._last_look, self._connection = now, connection
        self._observations = {}
        for name, beat in beats.items():
            observation = previous.get(name)
            if observation is None or observation.beat != beat:
                observation = _Observation(beat, now, bonus)
            self._observations[name] = observation
        return {name: now - observation.since - observation.bonus for name, observation in self._observations.items()}


# By process, of which there are few, and not by run.
_OWNERS_WITHOUT_WORKER: Final = """
    SELECT owner, max(beat) FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND owner IS NOT NULL AND owner NOT IN (SELECT owner FROM worker)
    GROUP BY owner
"""
_RUNS_OF_OWNER: Final = """
    SELECT seq, context, parent IS NULL FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND owner = ? AND beat <= ?
"""
_RELEASE_RUN: Final = "UPDATE lease SET owner = NULL WHERE run = ? AND owner = ? AND beat <= ? RETURNING run"


class OrphanFinder:
    """Finds, for one worker, the runs that a process other than a worker left when it died."""

    # A worker that dies is noticed by its own heartbeat (`worker_registry.py`). Any other process is judged as if
    # somebody reopened its run: on this host at once, elsewhere when all its leases have been silent for a whole lease.
    #
    # `clock`: Seconds, monotonic.

    def __init__(self, lease: float, clock: Callable[[], float] = boottime) -> None:
        self._lease = lease
        self._silence = Silence(gap=2 * lease, clock=clock)
        self._examined: dict[str, float] = {}  # last heartbeat of each dead owner that left nothing to workers

    def release(self, session: Connection, connection: int = 0) -> dict[Owner, list[int]]:
        """Release the runs of processes that are gone."""

        # `session`: Where to read and write, within a transaction.
        released: dict[Owner, list[int]] = {}
        owners: dict[str, float] = dict(fetch(session, _OWNERS_WITHOUT_WORKER))
        silent = self._silence.observe(owners, connection)
        self._examined = {owner: beat for owner, beat in self._examined.items() if owners.get(owner) == beat}
        for text, beat in owners.items():
            owner = Owner.load(text)
            if text in self._examined or not self._is_gone(owner, silent[text]):
                continue
            released_runs: list[int] = []
            for run, context, is_root in fetch(session, _RUNS_OF_OWNER, (text, beat)):
                # A part continues through its parent, which is judged by its own context.
                if is_root and not runnable_by_any_worker(load(session, context)):
                    continue
                if fetch(session, _RELEASE_RUN, (run, text, beat)):
                    released_runs.append(run)
            if released_runs:
                released[owner] = released_runs
            else:  # An owner whose runs were released is done at the next look: this transaction may fail.
                self._examined[text] = beat
        return released

    def _is_gone(self, owner: Owner, silent: float) -> bool:
        verdict = owner_state(owner)
        return verdict == "dead" or (verdict == "unknown" and silent > self._lease)


def runnable_by_any_worker(context: Any) -> bool:
    """Return True if any worker can run this run."""

    # A worker can rebuild the tools of a run that was queued, or that came from a project directory. It cannot when a
    # function of the starting process executes the tools.
    if not isinstance(context, dict) or context.get("executor"):
        return False
    return bool(context.get("project") or "queue" in context)
