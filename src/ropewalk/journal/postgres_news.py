"""What other processes have done to runs, heard the moment it is committed: LISTEN and NOTIFY.

One thread with a connection of its own listens on a channel named as the schema. Nothing depends on
it: whoever hears still looks into the store, and polls while `live` is false. To announce something
else, think of a kind and have `tell` sent in the transaction that does it.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from typing import Any, Final

from .connection import Connection
from .news import Hear, News
from .postgres_session import Session, Target

_LONGEST: Final = 7000  # bytes of a message, of 8000 that Postgres takes
_PAUSE: Final = (0.1, 5.0)  # seconds before it connects again, at first and at most


def tell(connection: Connection, where: Target, news: News) -> None:
    """Announce it when, and if, the transaction commits."""
    connection.execute("SELECT pg_notify(?, ?)", message(where, news))


def message(where: Target, news: News) -> tuple[str, str]:
    """What `pg_notify` is to be given: the channel and what is said there."""
    return where.schema, _written(news)


def tell_all(session: Session, where: Target, some: list[News]) -> None:
    """Announce what is committed already, in one round trip."""
    session.execute(
        "SELECT pg_notify(?, message) FROM unnest(CAST(? AS text[])) AS these (message)",
        (where.schema, [_written(news) for news in some]),
    )


class Listener:
    """Everything public is safe from any thread. Callbacks run on the listener's, the first time maybe on that
    of whoever adds them: they are short and raise nothing."""

    def __init__(self, where: Target, failures: tuple[type[Exception], ...]) -> None:
        self._where, self._failures = where, failures
        self.live = False
        self.session: Session | None = None
        self._callbacks: tuple[Hear, ...] = ()
        self._lock = threading.Lock()
        self._over = False
        self._ear, self._mouth = socket.socketpair()  # wakes the thread for the end
        self._thread = threading.Thread(target=self._main, name="ropewalk-news", daemon=True)
        self._thread.start()

    def add(self, callback: Hear) -> None:
        with self._lock:
            self._callbacks += (callback,)
            live = self.live
        if live:
            callback(News("", 0, ""))  # as those were told who were there when it began to listen

    def remove(self, callback: Hear) -> None:
        with self._lock:
            self._callbacks = tuple(one for one in self._callbacks if one != callback)

    def close(self) -> None:
        """Idempotent."""
        self._over = True
        self._mouth.close()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._ear.close()

    # --- the thread -----------------------------------------------------------------------

    def _main(self) -> None:
        pause, most = _PAUSE
        while not self._over:
            with contextlib.suppress(*self._failures):
                self.session = Session(self._where)
                self.session.execute(f'LISTEN "{self._where.schema}"')
                with self._lock:  # Whoever is added meanwhile is told by one of the two, and once.
                    self.live, pause, there = True, _PAUSE[0], self._callbacks
                self._tell(there, News("", 0, ""))  # What happened before is to be looked for.
                self._follow(self.session)
            self.live = False
            if self.session is not None:
                self.session.close()
                self.session = None
                if not self._over:
                    self._hear(News("", 0, ""))
            self._until_woken(pause)
            pause = min(2 * pause, most)

    def _follow(self, session: Session) -> None:
        raw: Any = session.raw
        with selectors.DefaultSelector() as selector:
            selector.register(raw.socket, selectors.EVENT_READ)
            selector.register(self._ear, selectors.EVENT_READ)
            while not self._over:
                while (message := raw.notifies()) is not None:
                    self._hear(_read(message.extra.decode()))
                selector.select()
                if not self._over:
                    raw.consume_input()

    def _until_woken(self, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ear, selectors.EVENT_READ)
            selector.select(seconds)

    def _hear(self, news: News) -> None:
        self._tell(self._callbacks, news)

    def _tell(self, callbacks: tuple[Hear, ...], news: News) -> None:
        for callback in callbacks:
            callback(news)


def _written(news: News) -> str:
    run = news.run if len(news.run.encode()) <= _LONGEST else ""
    return f"{news.kind} {news.seq} {run}"


def _read(message: str) -> News:
    kind, seq, run = message.split(" ", 2)
    return News(kind, int(seq), run)
