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
import pytest

from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql.leases import Owner, boottime, owner_state, start_time_of, this_process
from ropewalk.journal.sqlite.store import SqliteStore


def test_this_process_is_alive_and_itself() -> None:
    assert owner_state(this_process()) == "live"
    assert this_process().pid == os.getpid()
    assert Owner.load(this_process().dump()) == this_process()
    assert str(this_process()).endswith(f"(pid {os.getpid()})")


def test_no_run_copies_the_fields_of_its_owner_with_asdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dataclasses.asdict` costs ten times as much as the whole row."""
    copied: list[object] = []
    copy = dataclasses._asdict_inner  # type: ignore[attr-defined]  # what asdict calls, whatever it is imported as
    monkeypatch.setattr(
        dataclasses, "_asdict_inner", lambda value, factory: (copied.append(value), copy(value, factory))[1]
    )

    async def main() -> None:
        store = SqliteStore(str(tmp_path / "store.db"))
        for number in range(3):
            await (await store.open(NewRun(id=f"r{number}", kind="chain"))).release()
        store.close()

    asyncio.run(main())
    assert copied == []
    dataclasses.asdict(this_process())
    assert copied != []  # the count counts


def test_nobody_is_dead() -> None:
    assert owner_state(None) == "dead"


def test_process_that_ended_is_dead_even_before_its_parent_looks() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(this_process(), pid=process.pid, started=start_time_of(process.pid) or "")
    assert owner_state(owner) == "live"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # It is a zombie now.
    assert owner_state(owner) == "dead"
    process.communicate()
    assert owner_state(owner) == "dead"


def test_pid_that_was_given_to_another_process_is_dead() -> None:
    assert owner_state(dataclasses.replace(this_process(), started="1")) == "dead"


def test_owner_from_before_the_machine_started_anew_is_dead() -> None:
    assert owner_state(dataclasses.replace(this_process(), boot="another")) == "dead"


def test_owner_out_of_sight_is_unknown() -> None:
    assert owner_state(dataclasses.replace(this_process(), host="faraway")) == "unknown"
    assert owner_state(dataclasses.replace(this_process(), space="pid:[1]")) == "unknown"


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
