"""Silence of other processes counts only while it could be heard."""

from __future__ import annotations

import random

from ropewalk.journal.sql.lease_watch import Silence

LEASE, GAP = 2.5, 1.25


class Observer:
    """A `Silence` whose clock the test moves."""

    def __init__(self, grace: float = LEASE) -> None:
        self.now = 1000.0
        self.silence = Silence(GAP, grace, clock=lambda: self.now)

    def look(self, after: float, beat: float, connection: int = 1) -> float:
        self.now += after
        return self.silence.observe({"w": beat}, connection)["w"]


def test_silence_is_the_time_since_the_first_look_at_a_heartbeat() -> None:
    observer = Observer(grace=0)
    assert observer.look(0, beat=1) == 0  # however old the heartbeat is
    assert observer.look(1, beat=1) == 1
    assert observer.look(1, beat=1) == 2
    assert observer.look(1, beat=2) == 0
    assert observer.look(0.5, beat=2) == 0.5


def test_silence_starts_again_after_a_gap_and_on_a_new_connection() -> None:
    observer = Observer()
    observer.look(0, beat=1)
    observer.look(1, beat=1)
    assert observer.look(GAP + 0.1, beat=1) == -LEASE
    assert observer.look(1, beat=1) == 1 - LEASE
    assert observer.look(1, beat=1, connection=2) == -LEASE
    assert observer.look(1, beat=2, connection=2) == 0  # it has reconnected, and needs no grace


def test_whoever_beats_within_a_lease_of_connected_time_is_never_silent_for_one() -> None:
    """Random outages, gaps and heartbeats; the observer may be the first to reconnect."""
    for seed in range(300):
        rnd = random.Random(seed)
        observer = Observer()
        connection, beat, since_beat = 1, 0, 0.0
        for _ in range(200):
            after = rnd.choice([0.1, 0.5, 1.0])
            if rnd.random() < 0.1:  # an outage: nobody reads, nobody beats
                cut = rnd.random() < 0.5  # else the server only stood still
                after, connection = rnd.uniform(0.1 if cut else GAP + 0.01, 60), connection + cut
                since_beat = -LEASE
            elif since_beat + after > LEASE or rnd.random() < 0.4:
                beat, since_beat = beat + 1, 0.0
            else:
                since_beat += after
            assert observer.look(after, beat, connection) <= LEASE + 1e-6, seed


def test_whoever_is_dead_is_found_after_two_leases_of_connected_time() -> None:
    for seed in range(300):
        rnd = random.Random(seed)
        observer = Observer()
        connected = 0.0
        observer.look(0, beat=1)
        if rnd.random() < 0.5:
            observer.look(rnd.uniform(2, 60), beat=1, connection=2)
        while observer.look(0.5, beat=1, connection=2) <= LEASE:
            connected += 0.5
            assert connected <= 2 * LEASE + 1, seed  # and two looks
