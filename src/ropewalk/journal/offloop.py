"""Ask a store from an event loop without holding the loop up while it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from .journal import Store
from .memory import MemoryStore

T = TypeVar("T")


async def off_loop(store: Store, work: Callable[[], T]) -> T:
    """Return what `work` gives, which calls plain methods of the store.

    It runs on another thread, so that a slow query holds up nobody else. Only the store in memory is asked on the loop:
    its answers are look-ups, and a thread would cost more than they do.
    """
    return work() if type(store) is MemoryStore else await asyncio.to_thread(work)


class Lookups:
    """Short queries of a store, answered on another thread.

    A thread costs more than a short query. So while some are answered, further ones collect, and the next hop to the
    thread answers all of them. A query always starts after it was asked for: nobody gets an answer from before.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: dict[asyncio.AbstractEventLoop, list[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, query: Callable[[], T]) -> T:
        """Return what `query` gives, or raise what it raises.

        Args:
            query: Calls plain methods of the store, and takes milliseconds at most in a store that is well.
        """
        if type(self.store) is MemoryStore:
            return query()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        waiting = self._waiting.get(loop)
        if waiting is None:
            self._waiting[loop] = [(query, answer)]
            task = loop.create_task(self._answer(loop))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append((query, answer))
        return await answer

    async def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        batch: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        try:
            while batch := self._waiting[loop]:
                self._waiting[loop] = []
                results = await asyncio.to_thread(_run_all, [query for query, _ in batch])
                for (_, answer), (value, error) in zip(batch, results, strict=True):
                    if answer.done():  # its asker was cancelled
                        continue
                    if error is None:
                        answer.set_result(value)
                    else:
                        answer.set_exception(error)
        finally:
            # When this task is cancelled, nobody else would end those who wait.
            for _, answer in (*batch, *self._waiting.pop(loop)):
                answer.cancel()


def _run_all(queries: list[Callable[[], Any]]) -> list[tuple[Any, BaseException | None]]:
    """Run each query; an error of one does not keep the others from their answers."""
    results: list[tuple[Any, BaseException | None]] = []
    for query in queries:
        try:
            results.append((query(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where the query was asked for
            results.append((None, error))
    return results
