"""Several processes on one store, some of them killed or paused."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from places import faults, opened

from patience import until, wait_until
from ropewalk.errors import RunBusy
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sql.leases import this_process
from ropewalk.journal.sql.log import Claim, UncertainOwner, claim_run

pytestmark = pytest.mark.process

Start = Callable[..., "subprocess.Popen[str]"]
KILLS = int(os.environ.get("ROPEWALK_KILLS", "10"))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"{'full:' if request.param == 'sqlite-full' else ''}{tmp_path / 'store.db'}"


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def new(id: str = "r") -> NewRun:
    return NewRun(id=id, kind="chain")


async def begun(place: str) -> None:
    """A run that nobody holds."""
    store = opened(place)
    await (await store.open(new())).release()
    store.close()


@pytest.mark.timeout(600 + 3 * KILLS)
@pytest.mark.parametrize("place", ["sqlite", "sqlite-full", "postgres"], indirect=True)
def test_nothing_acknowledged_is_lost_by_kill_9(place: str, child: Start) -> None:
    run(begun(place))
    acknowledged: list[str] = []
    for epoch in range(max(KILLS // 2, 1)):
        process = child("record", place)
        # The dead owner's run is had at once: its lease would have ten minutes to go.
        assert line(process) == f"open {epoch + 2}"
        rows = [line(process) + "\n" for _ in range(11 + random.randrange(200))]
        process.kill()
        out, _ = process.communicate()
        rows += out.splitlines(keepends=True)
        acknowledged += [row[4:] for row in rows if row.startswith("ack ") and row.endswith("\n")]
    store = opened(place)
    recorded = {entry.path for entry in store.history("r")}
    assert len(acknowledged) > 10 * (KILLS // 2)
    assert {row.strip() for row in acknowledged} <= recorded
    store.close()
    assert faults(place) == []


def test_of_processes_that_race_for_a_run_one_wins(place: str, child: Start) -> None:
    opened(place).close()
    racers = [child("race", place, "r") for _ in range(3)]
    for racer in racers:
        assert line(racer) == "ready"
    for racer in racers:
        say(racer)
    assert sorted(line(racer) for racer in racers) == ["lost RunBusy", "lost RunBusy", "won 1"]


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_of_processes_that_race_for_a_dead_ones_run_one_wins(place: str, child: Start) -> None:
    owner = child("hold", place, "r")
    assert line(owner) == "open 1"
    racers = [child("race", place, "r") for _ in range(3)]
    for racer in racers:
        assert line(racer) == "ready"
    owner.kill()
    wait_until(lambda: is_dead(owner.pid))  # Not waited for: a zombie is as dead as any.
    for racer in racers:
        say(racer)
    assert sorted(line(racer) for racer in racers) == ["lost RunBusy", "lost RunBusy", "won 2"]


def test_live_owner_in_another_process_is_named(place: str, child: Start) -> None:
    async def test() -> None:
        owner = child("hold", place, "r")
        assert line(owner) == "open 1"
        store = opened(place)
        with pytest.raises(RunBusy, match=rf"\(pid {owner.pid}\)"):
            await store.open(new())
        assert store.orphans() == []
        owner.kill()
        owner.wait()
        assert [row.id for row in store.orphans()] == ["r"]
        log = await store.reopen("r")
        assert (log.run.epoch, log.past[("before", "call")].data) == (2, 1)

    run(test())


def test_stop_reaches_an_owner_in_another_process(place: str, child: Start) -> None:
    owner = child("hold", place, "r")
    assert line(owner) == "open 1"
    store = opened(place)
    assert store.request_stop("r")
    assert line(owner) == "stop"
    assert line(owner) == "appended stopped"
    row = store.get_run("r")
    assert row is not None
    assert row.status == "stopped"


def test_process_that_was_paused_and_replaced_writes_nothing(place: str, child: Start) -> None:
    async def test() -> None:
        owner = child("hold", place, "r", "0.05")
        assert line(owner) == "open 1"
        owner.send_signal(signal.SIGSTOP)
        # As seen from another host, whose only sign of life is the lease.
        elsewhere(place, beat=time.time() - 60)
        store = opened(place, lease=0.3, poll=0.05)
        log = await store.reopen("r")
        assert log.run.epoch == 2
        owner.send_signal(signal.SIGCONT)
        assert line(owner) == "stop"
        assert line(owner) == "Fenced"
        assert [entry.path for entry in store.history("r")] == ["before"]
        await log.append(Entry("after", "call", data=3))
        assert await log.finish("completed", None) == "completed"

    run(test())


def test_many_processes_write_at_once_and_none_is_locked_out(place: str, child: Start) -> None:
    # No store is made beforehand: they race for that too.
    crowd = [child("crowd", place, f"p{i}", 40) for i in range(4)]
    assert [line(process) for process in crowd] == ["done"] * 4
    store = opened(place)
    assert len(store.list_runs(status="completed", limit=1000)) == 160
    assert all(len(store.history(f"p{i}.39")) == 40 for i in range(4))


def elsewhere(place: str, beat: float) -> None:
    """Make the run `r` owned by a process on another host, last heard of at `beat`."""
    owner = dataclasses.replace(this_process(), host="faraway", boot="other").dump()
    store = opened(place)
    store._writer.run(lambda c: c.execute("UPDATE lease SET owner = ?, beat = ?", (owner, beat)))
    store.close()


def test_owner_elsewhere_is_believed_alive_while_its_beat_is_recent(place: str) -> None:
    async def test() -> None:
        await begun(place)
        elsewhere(place, beat=time.time())
        store = opened(place)
        with pytest.raises(RunBusy, match="faraway"):
            await store.open(new())
        assert store.orphans() == []

    run(test())


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_clock_that_jumps_does_not_end_a_lease(place: str, jump: float) -> None:
    async def test() -> None:
        await begun(place)
        elsewhere(place, beat=time.time() + jump)
        store = opened(place, lease=20.0, poll=0.02)
        attempt = asyncio.create_task(store.open(new()))
        await asyncio.wait([attempt], timeout=0.1)
        assert not attempt.done()
        elsewhere(place, beat=time.time() + jump + 0.5)  # It lives: its beat goes on, by its own clock.
        with pytest.raises(RunBusy, match="faraway"):
            await attempt

    run(test())


def test_owner_that_beats_at_the_last_moment_keeps_its_run(place: str) -> None:
    run(begun(place))
    elsewhere(place, beat=time.time() - 3600)
    store = opened(place)
    doubt = store._writer.run(lambda c: claim_run(c, "r", 10.0, False, None, 1.0))
    assert isinstance(doubt, UncertainOwner)
    elsewhere(place, beat=time.time() - 3599)
    again = store._writer.run(lambda c: claim_run(c, "r", 10.0, False, doubt, 1.0))
    assert isinstance(again, UncertainOwner)
    assert again.beat != doubt.beat
    assert isinstance(store._writer.run(lambda c: claim_run(c, "r", 10.0, False, again, 1.0)), Claim)
    store.close()


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_clock_that_jumps_does_not_keep_a_dead_owner_alive(place: str, jump: float) -> None:
    async def test() -> None:
        await begun(place)
        elsewhere(place, beat=time.time() + jump)
        store = opened(place, lease=0.2, poll=0.02)
        assert [row.id for row in store.orphans()] == ["r"]
        assert (await store.open(new())).run.epoch == 2

    run(test())


def test_lease_is_renewed_while_a_run_is_open_and_says_where_it_is(place: str) -> None:
    async def test() -> None:
        store = opened(place, lease=0.15, poll=0.02)
        log = await store.open(new())
        other = opened(place)
        log.touch("fetch", 2.5)
        row = await until(lambda: (row := other.get_run("r")) and row.current_node == "fetch" and row)
        assert row
        assert row.spent == 2.5

    run(test())


def test_closing_a_store_releases_its_runs(place: str) -> None:
    async def test() -> None:
        store = opened(place)
        log = await store.open(new())
        waiting = log.append(Entry("a", "call", data=1))
        store.close()
        await waiting
        log = await opened(place).open(new())
        assert log.past[("a", "call")].data == 1

    run(test())


def test_dropped_store_is_closed_but_not_while_a_run_is_held(place: str) -> None:
    async def test() -> None:
        log = await opened(place).open(new())  # Nobody holds the store but the log.
        await log.append(Entry("a", "call", data=1))
        with pytest.raises(RunBusy):
            await opened(place).open(new())
        del log

    run(test())


def test_child_after_fork_is_refused_and_leaves_the_parent_alone(place: str) -> None:
    async def test() -> None:
        store = opened(place)
        log = await store.open(new())
        await log.append(Entry("a", "call", data=1))
        read, write = os.pipe()
        if not (pid := os.fork()):
            told = []
            for use in (lambda: store.get_run("r"), lambda: store.request_stop("r"), store.close):
                try:
                    use()
                except Exception as error:  # noqa: BLE001 - told to the parent
                    told.append(str(error))
            os.write(write, "\n".join(told).encode())
            os._exit(0)
        os.waitpid(pid, 0)  # noqa: ASYNC222 - the child must be gone before we go on
        told = os.read(read, 10_000).decode().splitlines()
        os.close(read)
        os.close(write)
        assert len(told) == 2
        assert all("before os.fork" in text for text in told)
        await log.append(Entry("b", "call", data=1))
        assert await log.finish("completed", None) == "completed"
        assert len(store.history("r")) == 2

    run(test())
