"""Queues from `ropewalk.toml`: in which lines runs wait for workers."""

from __future__ import annotations

from typing import Final

from .table import QUEUE_KEYS, TomlFile
from .workplace import Queue

RESERVED: Final = "_"


def read_queues(table: TomlFile | None) -> dict[str, Queue]:
    """Every `[queues.NAME]`."""
    found = {}
    for name in table.table(("queues",)) if table is not None else ():
        assert table is not None
        if name.startswith(RESERVED):
            table.wrong(("queues", name), f"[queues.{name}]: names that begin with {RESERVED} are not free")
        queue = Queue(**table.check(("queues", name), QUEUE_KEYS))
        if queue.concurrency and queue.worker_concurrency and queue.worker_concurrency > queue.concurrency:
            table.wrong(
                ("queues", name, "worker_concurrency"),
                f"[queues.{name}] worker_concurrency: at most the concurrency, which is {queue.concurrency}",
            )
        found[name] = queue
    return found
