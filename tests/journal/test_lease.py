"""Whether a process is alive, dead, or out of sight."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from ropewalk.errors import Action, StoreError
from ropewalk.journal.protocol import NewRun
from ropewalk.journal.sql import leases
from ropewalk.journal.sql.leases import (
    Owner,
    _start_time_from_ps,
    boottime,
    owner_state,
    start_time_of,
    stored_owner_state,
    this_process,
)
from ropewalk.journal.sqlite.store import SqliteStore

NEVER_A_PID = 2**22 + 1  # the largest of Linux is 2**22


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


BOOTS = ("mine", "another", "")


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("boot", BOOTS)
@pytest.mark.parametrize("space", [True, False])
@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("started", [True, False])
def test_only_what_this_process_can_see_is_alive_or_dead(
    host: bool, boot: str, space: bool, is_running: bool, started: bool
) -> None:
    mine = this_process()
    owner = Owner(
        host=mine.host if host else "faraway",
        boot=mine.boot if boot == "mine" else boot,
        space=mine.space if space else "pid:[1]",
        pid=mine.pid if is_running else NEVER_A_PID,
        started=mine.started if started else "1",
    )
    if host and boot == "mine" and space:
        expected = "live" if is_running and started else "dead"  # else a later process has the pid
    elif host and boot == "another":
        expected = "dead"  # the machine has booted since
    else:
        expected = "unknown"
    assert owner_state(owner) == expected
    assert stored_owner_state(owner.dump()) == expected


def test_nobody_is_stored_as_nothing_and_damage_leaves_it_to_the_lease() -> None:
    assert [stored_owner_state(text) for text in (None, "", "{", "[]", "{}", '{"host": "h"}')] == [
        "dead", "dead", "unknown", "unknown", "unknown", "unknown",
    ]  # fmt: skip


def test_a_damaged_owner_is_named_with_its_run() -> None:
    with pytest.raises(StoreError) as raised:
        Owner.load("{" + "x" * 100, "run 'r'")
    assert str(raised.value).startswith(f"run 'r': its owner '{{{'x' * 79}' is damaged (")
    assert raised.value.remedy is not None
    assert raised.value.remedy.action == Action.EXAMINE_STORE
    with pytest.raises(StoreError, match="a run: its owner"):
        Owner.load("{}")


def test_an_owner_is_a_value_whose_fields_have_names() -> None:
    assert len({this_process(), Owner.load(this_process().dump())}) == 1
    with pytest.raises(TypeError):
        Owner("host", "boot", "space", 1, "1")  # type: ignore[misc]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_this_process_is_named_as_the_system_names_it() -> None:
    mine = this_process()
    assert mine.host == socket.gethostname()
    assert mine.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip() != ""
    assert mine.space == os.readlink("/proc/self/ns/pid")
    assert mine.started == Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert start_time_of(NEVER_A_PID) is None


@pytest.mark.skipif(not shutil.which("ps"), reason="needs ps")
def test_systems_without_proc_ask_ps() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = _start_time_from_ps(process.pid)
    assert started is not None
    assert time.strptime(started, "%a %b %d %H:%M:%S %Y").tm_year >= 2026
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert _start_time_from_ps(process.pid) is None  # a zombie
    process.communicate()
    assert _start_time_from_ps(process.pid) is None


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="needs this clock")
def test_leases_count_the_time_that_the_machine_was_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boottime() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_systems_without_proc_know_less_and_ask_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str, *_: object, **__: object) -> None:
        raise FileNotFoundError(path)

    exists = os.path.exists
    monkeypatch.setattr(leases, "open", missing, raising=False)
    monkeypatch.setattr(os, "readlink", missing)
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).startswith("/proc") and exists(path))
    if shutil.which("ps"):
        assert start_time_of(os.getpid()) == _start_time_from_ps(os.getpid()) is not None
        assert start_time_of(NEVER_A_PID) is None
    owner = leases._owner_of_pid.__wrapped__(os.getpid())
    assert (owner.boot, owner.space, owner.pid) == ("", "", os.getpid())


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_systems_with_proc_start_no_process_to_look_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert start_time_of(NEVER_A_PID) is None


def test_the_clock_of_leases_counts_suspended_time_where_the_system_has_such_a_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", time.CLOCK_PROCESS_CPUTIME_ID, raising=False)
    assert leases._choose_clock()() <= time.process_time()
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    for platform in ("darwin", "linux"):
        monkeypatch.setattr(sys, "platform", platform)
        before = time.clock_gettime(time.CLOCK_MONOTONIC)
        assert before <= leases._choose_clock()() <= time.clock_gettime(time.CLOCK_MONOTONIC)


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
