"""Ids of runs are UUIDs of version 7 that grow."""

from __future__ import annotations

import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from ropewalk.journal.run_ids import new_run_id


def test_ids_are_uuids_of_version_7_of_now() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_run_id())
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_grow() -> None:
    made = [new_run_id() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_of_threads_differ() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [new_run_id() for _ in range(2_000)], range(8)))
    assert len({id for part in made for id in part}) == 16_000
    assert all(part == sorted(part) for part in made)


def test_ids_grow_when_the_clock_is_set_back(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    first = new_run_id()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    assert new_run_id() > first


def test_a_forked_process_has_other_ids() -> None:
    new_run_id()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, new_run_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    own, other = new_run_id(), os.read(read, 36).decode()
    assert own[14:] != other[14:]
