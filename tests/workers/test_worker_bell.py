"""The bell that workers wait for before they look at their queues. Waiting for nothing takes the whole pause, so that
the pauses here are longer than any test may take."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from ropewalk.journal.news import News
from ropewalk.workers.queue_listener import PUT, QueueListener

LONG = 600.0


def waiting(bell: QueueListener, name: str) -> threading.Thread:
    thread = threading.Thread(target=bell.wait, args=(name, LONG), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "ring",
    [
        lambda bell: bell.wake("one"),
        lambda bell: bell.wake(),
        lambda bell: bell.receive(News(PUT, 0, "one")),
        lambda bell: bell.receive(News("", 0, "")),
        lambda bell: bell.close(),
    ],
    ids=["for one", "for all", "put", "something missed", "end"],
)
def test_who_waits_goes_on_when_it_rings(ring: Callable[[QueueListener], None]) -> None:
    bell = QueueListener(["one", "two"])
    thread = waiting(bell, "one")
    ring(bell)
    thread.join(50)
    assert not thread.is_alive()


def test_what_rang_while_nobody_waited_is_heard_once() -> None:
    bell = QueueListener(["one"])
    bell.wake("one")
    bell.wake("one")
    bell.wait("one", LONG)
    thread = waiting(bell, "one")
    thread.join(0.05)
    assert thread.is_alive()
    bell.close()
    thread.join(50)


def test_other_queues_and_other_news_wake_nobody() -> None:
    bell = QueueListener(["one", "two"])
    thread = waiting(bell, "one")
    bell.wake("two", "unknown")
    bell.receive(News(PUT, 0, "two"))
    bell.receive(News("end", 7, "one"))
    thread.join(0.05)
    assert thread.is_alive()
    bell.close()
    thread.join(50)


def test_after_the_end_nobody_waits() -> None:
    bell = QueueListener(["one"])
    bell.close()
    bell.wait("one", LONG)
    bell.wait("one", LONG)
