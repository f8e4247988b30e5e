"""Poison runs: find the run that kills its process among the runs of that process.

When a process dies, any of its runs may be the cause. Every death is counted for each of them. Only a run that was
alone in the process is blamed; the others become suspects. A suspect is executed apart until it records a step or its
process dies again (`workers/quarantine.py`). So the guilty run is parked and the others finish. A server starts new
runs at any time, so a suspect may never be alone there: the only suspect of a process is blamed, too.

This module also decides which runs a server may resume without a person, and counts the deaths of their processes. A
run whose process died still has it as owner. A run that a person interrupted has no owner and is left alone. A server
that ends releases its runs: they have no owner, but a mark. A run whose wait was answered has no owner, but a signal.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from ..open_waits import match_signals, open_waits, signal_name
from ..protocol import BEGUN, BEGUN_PATH, LOG, OpenWait, RunRow
from .leases import Owner, stored_owner_state
from .rows import AMONG, Connection, fetch, json_list, load, waits
from .signals import pending_signals
from .upkeep import find_orphaned, light_rows

DEATHS_OF_SUSPECT: Final = 2
"""Deaths with other runs after which a run is executed apart. One death is mostly chance: a restart, a lost host."""

SERVER_RECOVERIES: Final = 2
"""Processes in a row that may die on a run that is in no queue without recording anything; the next one parks it."""

_ROOTS: Final = f"""
    WITH RECURSIVE climb (seq, top, parent) AS (
        SELECT seq, seq, parent FROM run WHERE seq {AMONG}
        UNION ALL SELECT climb.seq, run.seq, run.parent FROM climb JOIN run ON run.id = climb.parent
    )
    SELECT count(DISTINCT top) FROM climb WHERE parent IS NULL
"""
# What a run's parts record is progress of the run.
_FAMILY: Final = f"""
    WITH RECURSIVE family (top, seq, id) AS (
        SELECT seq, seq, id FROM run WHERE seq {AMONG}
        UNION ALL SELECT family.top, run.seq, run.id FROM family JOIN run ON run.parent = family.id
    )
"""
# That a call began, and what it printed, is no progress: the process died in it.
# SQLite needs the WHERE to tell the ON of a join from the one of a conflict.
_ENTRIES: Final = f"""count(entry.run) FROM family
    LEFT JOIN entry ON entry.run = family.seq AND entry.kind NOT IN ('{BEGUN}', '{LOG}') WHERE true GROUP BY top"""
# A run that recorded something since its last death made progress, so counting starts again at 1. The parameter is the
# most deaths to count: a run that is not blamed gets as many as make it a suspect, but never enough to be parked.
_COUNT_DEATHS: Final = f"""
    {_FAMILY} INSERT INTO mishap (run, deaths, entries) SELECT top, 1, {_ENTRIES}
    ON CONFLICT (run) DO UPDATE SET entries = excluded.entries, deaths = CASE
        WHEN excluded.entries > mishap.entries THEN 1
        WHEN mishap.deaths < CAST(? AS INTEGER) THEN mishap.deaths + 1
        ELSE mishap.deaths END
    RETURNING run, deaths
"""
_NO_LIMIT: Final = 2**31 - 1
_DEATHS: Final = "SELECT seq, deaths, entries FROM mishap JOIN run ON seq = mishap.run WHERE run.{which} = ?"
_PARK: Final = "UPDATE run SET status = 'parked', ended_at = ?, error = ? WHERE {which} = ? AND status = 'running'"


def count_death_and_park(
    connection: Connection, limits: Mapping[int, int], owner: Owner | str, *, blames_only_suspect: bool = False
) -> dict[int, int]:
    """Count the death of a process for its runs, and park what is to blame."""

    # `connection`: A transaction.
    # `limits`: By the number of each run in the store: the deaths after which it is not parked yet.
    if not limits:
        return {}
    blamed = _blamed_runs(connection, limits, blames_only_suspect)
    result: dict[int, int] = {}
    for limit, is_blamed in sorted({(limit, run in blamed) for run, limit in limits.items()}):
        among = json_list([run for run, most in limits.items() if most == limit and (run in blamed) is is_blamed])
        for run, deaths in fetch(connection, _COUNT_DEATHS, (among, _NO_LIMIT if is_blamed else _fewest(limit))):
            result[int(run)] = int(deaths)
            if is_blamed and deaths > limit:
                _park_deadly(connection, run, deaths, owner)
    return result


def _park_deadly(connection: Connection, run: int, deaths: int, owner: Owner | str) -> None:
    """Park a run that has killed too many processes, with the calls that the last of them was in."""
    calls = calls_at_death(connection, run)
    message = (
        f"parked: {deaths} processes died while they executed this run, and none of them finished a step; the last one,"
        f" {owner}, died{f' in {named_calls(calls)}' if calls else ''}; to let a worker try again, "
        f"{'correct the tool and ' if calls else ''}release the run"
    )
    park_run(connection, "seq", run, message, calls[0].get("place") if len(calls) == 1 else None)


def _blamed_runs(connection: Connection, limits: Mapping[int, int], blames_only_suspect: bool) -> set[int]:
    """Return the runs of a dead process that are known to have killed it."""
    if fetch(connection, _ROOTS, (json_list(limits),))[0][0] <= 1:
        return set(limits)
    if not blames_only_suspect:
        return set()
    suspects = {run for run, limit in limits.items() if _is_suspect(connection, "seq", run, limit)}
    return suspects if len(suspects) == 1 else set()


def _fewest(recoveries: int) -> int:
    """Return the number of deaths after which a run is a suspect."""
    return max(1, min(DEATHS_OF_SUSPECT, recoveries))


def is_suspect(connection: Connection, run_id: str, recoveries: int) -> bool:
    """Return True if owners of the run died repeatedly and it has recorded nothing since."""
    return _is_suspect(connection, "id", run_id, recoveries)


def _is_suspect(connection: Connection, column: str, run: int | str, recoveries: int) -> bool:
    mishaps = fetch(connection, _DEATHS.format(which=column), (run,))
    if not mishaps or mishaps[0][1] < _fewest(recoveries):
        return False
    seq, _, entries = mishaps[0]
    counts = fetch(connection, f"{_FAMILY} SELECT {_ENTRIES}", (json_list([seq]),))
    return bool(counts[0][0] <= entries)


_BEGUN: Final = f"""
    SELECT run.id, epoch, data FROM run JOIN lease ON lease.run = seq JOIN entry ON entry.run = seq
    WHERE seq = ? AND path = '{BEGUN_PATH}' AND entry.kind = '{BEGUN}'
"""
_HAS_RESULT: Final = """
    SELECT 1 FROM run JOIN entry ON entry.run = seq
    WHERE run.id = ? AND path = ? AND entry.kind IN ('call', 'call_failed', 'attempt', 'node')
"""


def calls_at_death(connection: Connection, run: int) -> list[dict[str, Any]]:
    """Return the calls that the last process of a run was in when it died; none if that is not recorded."""

    # Only a run that had lost a process before records the calls that it begins. Each has its path in the outermost
    # run, its node, its tool, its place in a file, and the deaths in it, that of the last process included.
    rows = fetch(connection, _BEGUN, (run,))
    if not rows:
        return []
    id, epoch, begun = rows[0][0], rows[0][1], load(connection, rows[0][2])
    if begun["epoch"] != epoch:
        return []
    calls = [call for call in begun["calls"] if not fetch(connection, _HAS_RESULT, (call["run"], call["path"]))]
    paths = [f"{call['run']}/{call['path']}".removeprefix(f"{id}/") for call in calls]
    return [
        {
            **{key: call[key] for key in ("node", "tool", "place") if key in call},
            "path": path,
            "deaths": call["deaths"] + 1,
        }
        for call, path in zip(calls, paths, strict=True)
        # A call of a flow is in progress as long as the calls inside it are.
        if not any(other.startswith(f"{path}/") for other in paths)
    ]


def named_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """Name the calls that a process was in when it died."""
    names = [f"{call['path']} (tool {call['tool']})" for call in calls]
    return f"step {names[0]}" if len(names) == 1 else f"one of the steps {', '.join(names)}"


def park_run(connection: Connection, column: str, run: int | str, message: str, place: str | None = None) -> None:
    """Keep a run, found by its column `column`, from being tried again until somebody releases it."""

    # `place`: The line of a file that defines the step in which the processes died.
    error = orjson.dumps({"kind": "Parked", "message": message, **({"place": place} if place else {})})
    connection.execute(_PARK.format(which=column), (time.time(), error, run))


_WITHOUT_OWNER: Final = """
    SELECT seq FROM run JOIN lease ON lease.run = seq
    WHERE status = 'running' AND parent IS NULL AND owner IS NULL AND {condition} AND {sign} ORDER BY seq
"""
_NUMBERS: Final = """
    SELECT seq, run.id, epoch FROM run JOIN lease ON lease.run = seq WHERE run.id IN (SELECT value FROM json_each(?))
"""
_IS_MARKED: Final = "epoch = (SELECT handed_back FROM mishap WHERE mishap.run = seq)"
# With the epoch: whoever takes the run over makes the mark stale.
_MARK_HANDED_BACK: Final = """
    INSERT INTO mishap (run, deaths, entries, handed_back) SELECT run, 0, 0, epoch FROM lease WHERE run = ?
    ON CONFLICT (run) DO UPDATE SET handed_back = excluded.handed_back
"""


# The process that answers may resume the run itself, so others wait for a moment.
_HAS_SIGNAL: Final = "EXISTS (SELECT 1 FROM signal WHERE signal.run = run.seq AND mark IS NULL AND sent <= ?)"
_TIME_TO_RESUME: Final = 0.5  # seconds
DIED: Final = "its process died"
HANDED_BACK: Final = "the process that executed it has handed it back"
ANSWERED: Final = "it was answered"


class RecoverableRun(NamedTuple):
    """An unfinished run that a server may resume without a person, and the reason."""

    row: RunRow
    reason: str


def find_recoverable(
    connection: Connection,
    lease: float,
    limit: int,
    condition: str = "true",
    left_alone: Collection[tuple[str, int]] = (),
) -> list[RecoverableRun]:
    """List the unfinished runs that a server may resume, for each reason at most `limit`, the oldest first."""

    # `condition`: An SQL condition on `run` and `lease`.
    # `left_alone`: Ids and epochs of runs to leave out before the limit, as those of other projects.
    def candidates(sign: str, *values: float) -> list[int]:
        rows = fetch(connection, _WITHOUT_OWNER.format(condition=condition, sign=sign), values)
        return [seq for (seq,) in rows if seq not in to_leave]

    rows = fetch(connection, _NUMBERS, (orjson.dumps([id for id, _ in left_alone]).decode(),)) if left_alone else []
    to_leave = {seq for seq, id, epoch in rows if (id, epoch) in left_alone}
    is_owned = f"owner IS NOT NULL AND parent IS NULL AND {condition}"
    orphaned = [seq for seq in find_orphaned(connection, lease, is_owned) if seq not in to_leave]
    handed_back = candidates(_IS_MARKED)
    found = [RecoverableRun(row, DIED) for row in light_rows(connection, orphaned[:limit]) if row.owner]
    found += [RecoverableRun(row, HANDED_BACK) for row in light_rows(connection, handed_back[:limit])]
    with_signal = candidates(_HAS_SIGNAL, time.time() - _TIME_TO_RESUME)
    answered = _answered(connection, set(with_signal).difference(handed_back))
    return [*found, *(RecoverableRun(row, ANSWERED) for row in answered[:limit])]


def _answered(connection: Connection, seqs: Collection[int]) -> list[RunRow]:
    """Return those of the runs that have a wait with an answer, oldest first."""
    if not seqs:
        return []
    histories, signals = waits(connection, seqs), pending_signals(connection, seqs)

    def is_answered(id: str) -> bool:
        requests = [
            OpenWait(signal_name(wait), wait.path, wait.node, wait.data["due"])
            for wait in open_waits(histories.get(id, ()))
        ]
        return bool(match_signals(requests, signals.get(id, ())))

    return [row for row in light_rows(connection, seqs) if is_answered(row.id)]


def hand_back(connection: Connection, run_id: str) -> None:
    """Mark a run that a server gives up because it ends."""
    for (seq,) in fetch(connection, "SELECT seq FROM run WHERE id = ?", (run_id,)):
        connection.execute(_MARK_HANDED_BACK, (seq,))


class HandedBack(NamedTuple):
    """A run that was taken from a process that died."""

    id: str
    owner: str
    # Processes that have died on it without recording anything.
    deaths: int
    is_parked: bool
    # What the process was in when it died; "" if that is not recorded.
    calls: str

    def __str__(self) -> str:
        if self.is_parked:
            died = f"{self.deaths} processes died while they executed it, the last one {self.owner}"
            return f"run {self.id} is parked: {died}{f' in {self.calls}' if self.calls else ''}"
        return f"run {self.id} is taken over from {self.owner}, which died while it executed {self.calls or 'the run'}"


_OWNER_OF_RUN: Final = """
    SELECT owner FROM run JOIN lease ON lease.run = seq WHERE run.id = ? AND epoch = ? AND status = 'running'
"""
_RUNS_OF_PROCESS: Final = """
    SELECT seq, run.id, beat, {is_queued} FROM run JOIN lease ON lease.run = seq
    WHERE owner = ? AND status = 'running' AND parent IS NULL ORDER BY seq
"""
_PARKED: Final = f"SELECT seq FROM run WHERE seq {AMONG} AND status = 'parked'"


def hand_back_dead_process(
    connection: Connection, row: RunRow, lease: float, recoveries: int, is_queued: str
) -> list[HandedBack]:
    """Hand back the runs of the dead process of a run, for one server to resume; park what it died of too often."""

    # `connection`: A transaction. Nothing is returned if another process was faster.
    # `recoveries`: Deaths of a queued run; `is_queued` is an SQL condition on `run`.
    owners = fetch(connection, _OWNER_OF_RUN, (row.id, row.epoch))
    if not owners or owners[0][0] is None:
        return []
    text, now = owners[0][0], time.time()
    is_dead = stored_owner_state(text) == "dead"  # otherwise only the age of each lease decides
    of_process = {
        int(seq): (id, recoveries if queued else SERVER_RECOVERIES)
        for seq, id, beat, queued in fetch(connection, _RUNS_OF_PROCESS.format(is_queued=is_queued), (text,))
        if is_dead or not 0 <= now - beat <= lease
    }
    among = json_list(of_process)
    connection.execute(f"UPDATE lease SET owner = NULL WHERE run {AMONG}", (among,))
    limits = {seq: limit for seq, (_, limit) in of_process.items()}
    deaths = count_death_and_park(connection, limits, row.owner, blames_only_suspect=True)
    parked = {seq for (seq,) in fetch(connection, _PARKED, (among,))}
    for seq in of_process.keys() - parked:
        connection.execute(_MARK_HANDED_BACK, (seq,))
    return [
        HandedBack(id, row.owner, deaths[seq], seq in parked, named_calls(calls) if calls else "")
        for seq, (id, _) in of_process.items()
        for calls in [calls_at_death(connection, seq)]
    ]


def release_parked(connection: Connection, run_id: str) -> bool:
    """Release a parked run, forget its deaths, and let any process continue it; return False if it is not parked."""
    released = fetch(
        connection,
        "UPDATE run SET status = 'running', ended_at = NULL, error = NULL, undo = NULL"
        " WHERE id = ? AND status = 'parked' AND coalesce(undo, '') = '' RETURNING seq",
        (run_id,),
    )
    if released:
        connection.execute("DELETE FROM mishap WHERE run = ?", released[0])
        connection.execute("UPDATE lease SET owner = NULL WHERE run = ?", released[0])
        connection.execute(_MARK_HANDED_BACK, released[0])
    return bool(released)
