"""One, two and three workers on Postgres: killed at every boundary of a run, paused for longer than they may be
silent, their server restarted. The run goes on elsewhere within five seconds and ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter as Times
from collections.abc import Iterator

import pytest

from faults.scene import BRIEF, STEPS
from faults.shift import Shift
from faults.tally import WITHIN, Counts
from faults.verdict import check, check_woken
from postgres_server import PostgresServer, fresh
from tiers import Scale, sampled


@pytest.fixture(scope="module", params=sampled("faults", [2, 1, 3], 1))
def shift(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[Shift]:
    """So many workers, who stay for all tests of this file."""
    for url in fresh(postgres_server.url):
        made = Shift(tmp_path_factory.mktemp("shift"), url)
        made.hire(request.param)
        yield made
        made.dismiss()


def sound(shift: Shift, name: str, chain: str = BRIEF) -> tuple[object, int]:
    """The result of a run that nothing happens to, and its number of boundaries."""
    shift.give(name, chain)
    assert shift.until_ended(name) == "completed"
    return shift.results(name), len(shift.lines())


def places(name: str, boundaries: int, few: int) -> Iterator[tuple[str, int]]:
    """Ids of runs, and where something happens to each: at `few` of the boundaries, spread evenly."""
    yield from ((f"{name}-{at}", at) for at in [(boundaries + 1) * (turn + 1) // (few + 1) for turn in range(few)])


def ends_well(
    shift: Shift, id: str, whole: object, before: list[str], recorded: set[str], since: float, counts: Counts
) -> None:
    """Wait until somebody goes on, and how it ends."""
    shift.until(lambda: len(shift.lines()) > len(before) or shift.status(id) != "running")
    counts.seconds.append(time.monotonic() - since)
    status = shift.until_ended(id)
    if (status, shift.results(id)) != ("completed", whole):
        counts.wrong.append(f"{id}: {status} {shift.results(id)}")
    check(shift, id, before, recorded, counts)


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults")
def test_a_worker_killed_at_any_boundary_is_replaced(shift: Shift, counts: Counts, scale: Scale) -> None:
    workers = len(shift.workers)
    counts.item = f"kill -9 of a worker at every boundary: {workers} on Postgres"
    whole, boundaries = sound(shift, "unkilled")
    for id, at in places("killed", boundaries, scale(2, boundaries)):
        shift.give(id, fate=(at, signal.SIGKILL))
        if not shift.met(id):
            continue
        shift.bury()
        since = time.monotonic()
        counts.points += 1
        before, recorded = shift.moment(id)
        new = shift.begin()
        if workers == 1:
            shift.ready(new)  # Nobody else is there: it cannot go on earlier.
            since = time.monotonic()
        ends_well(shift, id, whole, before, recorded, since, counts)
        shift.ready(new)
        assert [worker.poll() for worker in shift.workers] == [None] * workers
    counts.clean()
    if scale(False, True):
        assert max(counts.seconds) < WITHIN


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults", only=True)
def test_a_worker_paused_beyond_its_lease_and_woken_does_nothing_more(
    shift: Shift, counts: Counts, scale: Scale
) -> None:
    workers = len(shift.workers)
    counts.item = f"SIGSTOP of a worker beyond its lease, then woken: {workers} on Postgres"
    if workers == 1:
        return  # Nobody is there to replace it.
    whole, boundaries = sound(shift, "unpaused")
    for id, at in places("paused", boundaries, scale(1, boundaries)):
        shift.give(id, fate=(at, signal.SIGSTOP))
        if not shift.met(id):
            continue
        since = time.monotonic()
        held = shift.paused()
        counts.points += 1
        before, recorded = shift.moment(id)
        over = shift.status(id) != "running"  # paused at the last boundary: nobody has to go on with it
        try:
            ends_well(shift, id, whole, before, recorded, since, counts)
            row, history, called, said = shift.row(id), shift.history(id), len(shift.lines()), len(shift.said[held.pid])
        finally:
            os.kill(held.pid, signal.SIGCONT)
        if not over:
            shift.until_given_up(held, said)
        shift.give("after-" + id)  # Whatever it still had in hand is done with when this has ended.
        assert shift.until_ended("after-" + id) == "completed"
        assert (shift.row(id), shift.history(id)) == (row, history), "the woken one wrote"
        check_woken(shift, id, called, counts)
    counts.clean()
    if scale(False, True):
        assert max(counts.seconds) < WITHIN


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults")
def test_runs_of_workers_go_on_when_their_server_is_restarted(
    shift: Shift, counts: Counts, scale: Scale, postgres_server: PostgresServer
) -> None:
    workers = len(shift.workers)
    counts.item = f"Postgres restarted in mid-run: {workers} worker{'s' * (workers > 1)}"
    whole, boundaries = sound(shift, "unshaken", STEPS)
    for id, at in places("shaken", boundaries, scale(1, 4)):
        shift.give(id, STEPS)
        shift.until(lambda at=at: len(shift.lines()) >= at)  # type: ignore[misc]
        counts.points += 1
        postgres_server.restart()
        since = time.monotonic()
        before, recorded = shift.moment(id)
        ends_well(shift, id, whole, before, recorded, since, counts)
        assert set(Times(shift.started()).values()) == {1}, "nobody died"
    counts.clean()
