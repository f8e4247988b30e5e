"""The stores that must all pass this folder's tests, and what the tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ropewalk.journal import MemoryStore, NewRun, Store
from ropewalk.journal.postgres import PostgresStore
from ropewalk.journal.sqlite import SqliteStore

STORES: dict[str, Callable[[Any], Store]] = {
    "memory": lambda path: MemoryStore(durable=True),
    "sqlite": lambda path: SqliteStore(path / "store.db", poll=0.05),
    "sqlite-full": lambda path: SqliteStore(path / "store.db", sync="full", poll=0.05),
    "postgres": lambda url: PostgresStore(url, poll=0.05),
}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


def new(id: str = "r", **more: Any) -> NewRun:
    return NewRun(id=id, kind=more.pop("kind", "chain"), **more)
