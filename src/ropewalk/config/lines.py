"""What `ropewalk.toml` says of workers: queues, limits of tools, schedules."""

from __future__ import annotations

from typing import Any, Final

from .table import QUEUE_KEYS, RATE_KEYS, SCHEDULE_KEYS, TomlFile
from .workplace import Queue, Rate, Schedule, Terms, Where, Workplace

RESERVED: Final = "_"


def read_workplace(table: TomlFile | None) -> Workplace:
    """`[workers]`, every `[queues.NAME]`, `[limits.tools.PATTERN]` and `[schedules.NAME]`."""
    if table is None:
        return Workplace()
    queues = {name: _queue(table, name) for name in table.table(("queues",))}
    rates = {name: _rate(table, name) for name in table.table(("limits", "tools"))}
    schedules = {name: _schedule(table, name, queues) for name in table.table(("schedules",))}
    terms = Terms(**table.data.get("workers", {}))
    return Workplace(terms=terms, queues=queues, rates=rates, schedules=schedules)


def _queue(table: TomlFile, name: str) -> Queue:
    at = ("queues", name)
    if name.startswith(RESERVED):
        table.wrong(at, f"[queues.{name}]: names that begin with {RESERVED} are not free")
    queue = Queue(**table.check(at, QUEUE_KEYS))
    if queue.concurrency and queue.worker_concurrency and queue.worker_concurrency > queue.concurrency:
        said = f"[queues.{name}] worker_concurrency: at most the concurrency, which is {queue.concurrency}"
        table.wrong((*at, "worker_concurrency"), said)
    return queue


def _rate(table: TomlFile, name: str) -> Rate:
    at = ("limits", "tools", name)
    return Rate(**_needing(table, at, table.check(at, RATE_KEYS), "per_second"), where=_where(table, at))


def _schedule(table: TomlFile, name: str, queues: dict[str, Queue]) -> Schedule:
    at = ("schedules", name)
    found = _needing(table, at, table.check(at, SCHEDULE_KEYS), "cron", "flow")
    schedule = Schedule(**found, where=_where(table, at))
    if schedule.queue is not None and schedule.queue not in queues:
        table.wrong((*at, "queue"), f"[schedules.{name}] queue: there is no [queues.{schedule.queue}]")
    return schedule


def _where(table: TomlFile, at: tuple[str, ...]) -> Where:
    return lambda key: table.place((*at, key))


def _needing(table: TomlFile, at: tuple[str, ...], found: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        if key not in found:
            table.wrong(at, f"[{'.'.join(at)}] {key} is missing")
    return found
