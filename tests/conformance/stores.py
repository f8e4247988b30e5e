"""The stores that must all pass this folder's tests, and what the tests share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from ropewalk.journal.base_store import BaseStore
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import NewRun, Store
from ropewalk.journal.sqlite.store import SqliteStore


class FileStore(BaseStore):
    """A store of the size that an outsider writes: one line of JSON per batch of changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("ab")
        super().__init__()

    def load(self) -> Iterable[tuple[str, Any]]:
        known: dict[str, Any] = {}
        for line in self.path.read_bytes().splitlines():
            known.update(json.loads(line))
        return [(key, value) for key, value in known.items() if value is not None]

    def save(self, changes: Mapping[str, Any], /) -> None:
        self.file.write(json.dumps(changes).encode() + b"\n")
        self.file.flush()

    def close(self) -> None:
        super().close()
        self.file.close()


def postgres_store(url: str) -> Store:
    from ropewalk.journal.postgres.store import PostgresStore  # an outsider need not have its driver

    return PostgresStore(url, poll=0.05)


STORES: dict[str, Callable[[Any], Store]] = {
    "memory": lambda path: MemoryStore(durable=True),
    "base": lambda path: FileStore(path / "store.jsonl"),
    "sqlite": lambda path: SqliteStore(path / "store.db", poll=0.05),
    "sqlite-full": lambda path: SqliteStore(path / "store.db", sync="full", poll=0.05),
    "postgres": lambda url: postgres_store(url),
}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def new(id: str = "r", **more: Any) -> NewRun:
    return NewRun(id=id, kind=more.pop("kind", "chain"), **more)
