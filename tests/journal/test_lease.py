"""Whether a process is alive, dead, or out of sight."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import apsw

from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.leases import Owner, boottime, judge, me, started
from ropewalk.journal.sqlite.store import SqliteStore


def test_this_process_is_alive_and_itself() -> None:
    assert judge(me()) == "live"
    assert me().pid == os.getpid()
    assert Owner.load(me().dump()) == me()
    assert str(me()).endswith(f"(pid {os.getpid()})")


def test_nobody_is_dead() -> None:
    assert judge(None) == "dead"


def test_process_that_ended_is_dead_even_before_its_parent_looks() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(me(), pid=process.pid, started=started(process.pid) or "")
    assert judge(owner) == "live"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # It is a zombie now.
    assert judge(owner) == "dead"
    process.communicate()
    assert judge(owner) == "dead"


def test_pid_that_was_given_to_another_process_is_dead() -> None:
    assert judge(dataclasses.replace(me(), started="1")) == "dead"


def test_owner_from_before_the_machine_started_anew_is_dead() -> None:
    assert judge(dataclasses.replace(me(), boot="another")) == "dead"


def test_owner_out_of_sight_is_unknown() -> None:
    assert judge(dataclasses.replace(me(), host="faraway")) == "unknown"
    assert judge(dataclasses.replace(me(), space="pid:[1]")) == "unknown"


LEASE = 10.0
MARGIN = 0.2  # of the lease: what another process needs no longer wait for, and this one no longer uses


def test_tools_are_called_only_well_within_the_lease(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "s.db", lease=LEASE, poll=0.05)
        try:
            before = boottime()
            log = await store.open(NewRun(id="r", kind="chain"))
            lease = store.lease
            assert lease is not None
            assert before < lease.until <= boottime() + LEASE * (1 - MARGIN)
            await log.renew()
            await lease.renewed("r")
            assert lease.until <= boottime() + LEASE * (1 - MARGIN)
        finally:
            store.close()

    asyncio.run(main())


def test_a_lease_counts_from_when_its_renewal_began(tmp_path: Path) -> None:
    """Other processes may see the time of the write, which comes long before its answer when the disk is slow."""

    async def main() -> None:
        store = SqliteStore(tmp_path / "s.db", lease=LEASE, poll=0.05)
        other = apsw.Connection(str(tmp_path / "s.db"))
        try:
            await store.open(NewRun(id="r", kind="chain"))
            lease = store.lease
            assert lease is not None
            other.execute("BEGIN IMMEDIATE")
            began = boottime()
            threading.Timer(0.5, lambda: other.execute("ROLLBACK")).start()
            await lease.renewed("r")
            assert boottime() - began > 0.4
            assert lease.until <= began + LEASE * (1 - MARGIN) + 0.1
        finally:
            store.close()
            other.close()

    asyncio.run(main())
