"""A SQLite store with something in it, for the tests of its file."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.journal.sqlite.store import SqliteStore

Start = Callable[..., "subprocess.Popen[str]"]
PAGE = 4096


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def new(id: str = "r", **more: Any) -> NewRun:
    return NewRun(id=id, kind="chain", **more)


def fill(path: Path, count: int = 200) -> None:
    async def work() -> None:
        store = SqliteStore(path)
        log = await store.open(new())
        for i in range(count):
            await log.append(Entry(f"n{i}", "call", data="x" * 200))
        await log.finish("completed", None)
        store.close()

    run(work())
