"""Two workers and the database on three hosts, and a cable that is pulled out and put back at boundaries of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.network import Network, NoNetwork, inside, named
from faults.shift import Shift
from faults.tally import WITHIN, Counts
from faults.test_every_worker import ends_well, places, sound
from faults.verdict import check_woken
from postgres_server import PostgresServer, fresh


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        made = Network(2)
    except NoNetwork as error:
        pytest.skip(f"no network namespaces: {error}")
    yield made
    made.close()


@pytest.fixture
def server(network: Network) -> Iterator[PostgresServer]:
    with inside(network.hub):
        made = PostgresServer(host=network.address)
    yield made
    made.stop()


@pytest.fixture
def shift(tmp_path: Path, server: PostgresServer) -> Iterator[Shift]:
    for url in fresh(server.url):
        made = Shift(tmp_path / "project", url)
        yield made
        made.dismiss()


def begin(shift: Shift, network: Network, host: str) -> subprocess.Popen[str]:
    """A worker on that host, which reaches the store over its cable and in no other way."""
    schema = shift.url.rpartition("schema=")[2]
    with inside(host):
        return shift.begin(
            before=named(host), store=f"postgresql://postgres@{network.address}/postgres?schema={schema}"
        )


@pytest.mark.timeout(36000)
@pytest.mark.campaign("faults", only=True)
def test_a_worker_that_is_cut_off_loses_its_runs_to_the_others_and_writes_nothing_more(
    shift: Shift, network: Network, counts: Counts
) -> None:
    counts.item = "a host cut off and joined again: 2 workers on Postgres, each on a host"
    workers = {host: begin(shift, network, host) for host in network.hosts}
    for worker in workers.values():
        shift.ready(worker)
    whole, boundaries = sound(shift, "whole")
    for id, at in places("cut", boundaries, boundaries):
        shift.give(id, fate=(at, signal.SIGSTOP))
        if not shift.met(id):
            continue
        since = time.monotonic()
        worker = shift.paused()
        host = next(host for host, one in workers.items() if one is worker)
        counts.points += 1
        before, recorded = shift.moment(id)
        over = shift.status(id) != "running"  # at the last boundary: nobody has to go on with it
        network.cut(host)
        os.kill(worker.pid, signal.SIGCONT)  # It goes on, and nobody hears of it.
        try:
            shift.until(lambda: bool(shift.callers(len(before)) - {worker.pid}) or shift.status(id) != "running")  # noqa: B023
            ends_well(shift, id, whole, before, recorded, since, counts)
            row, history, called, said = (
                shift.row(id),
                shift.history(id),
                len(shift.lines()),
                len(shift.said[worker.pid]),
            )
        finally:
            network.mend(host)
        if not over:
            shift.until_given_up(worker, said)
        shift.give("after-" + id)
        assert shift.until_ended("after-" + id) == "completed"
        assert (shift.row(id), shift.history(id)) == (row, history), "the one that was cut off wrote"
        check_woken(shift, id, called, counts)
    counts.clean()
    assert max(counts.seconds) < WITHIN
