"""What `ropewalk.toml` says of workers: queues, limits of tools, schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from .table import QUEUE_KEYS, RATE_KEYS, SCHEDULE_KEYS, SECTIONS, Check, TomlFile, is_text
from .workplace import Queue, Rate, Schedule, Terms, Where, Workplace

RESERVED: Final = "_"
T = TypeVar("T")


def read_workplace(table: TomlFile) -> Workplace:
    """`[workers]`, every `[queues.NAME]`, `[limits.tools.PATTERN]` and `[schedules.NAME]`."""
    queues = _each(table, ("queues",), _queue)
    rates = _each(table, ("limits", "tools"), _rate)
    schedules = _each(table, ("schedules",), _schedule)
    terms = Terms(**table.check(("workers",), SECTIONS["workers"]))
    return Workplace(terms=terms, queues=queues, rates=rates, schedules=schedules)


def _each(table: TomlFile, at: tuple[str, ...], read: Callable[[TomlFile, str], T]) -> dict[str, T]:
    """What is read of every table inside the one at `at`, by its name."""
    found = {}
    with table.noting():
        for name in table.table(at):
            with table.noting():
                found[name] = read(table, name)
    return found


def _queue(table: TomlFile, name: str) -> Queue:
    at = ("queues", name)
    if name.startswith(RESERVED):
        with table.noting():
            table.wrong(at, f"[queues.{name}]: names that begin with {RESERVED} are not free")
    queue = Queue(**table.check(at, QUEUE_KEYS))
    if queue.concurrency and queue.worker_concurrency and queue.worker_concurrency > queue.concurrency:
        said = f"[queues.{name}] worker_concurrency: at most the concurrency, which is {queue.concurrency}"
        table.wrong((*at, "worker_concurrency"), said)
    return queue


def _rate(table: TomlFile, name: str) -> Rate:
    at = ("limits", "tools", name)
    return Rate(**_needing(table, at, RATE_KEYS, "per_second"), where=_where(table, at))


def _schedule(table: TomlFile, name: str) -> Schedule:
    at = ("schedules", name)
    queue, queues = table.table(at).get("queue"), table.data.get("queues", {})
    if is_text(queue) and isinstance(queues, dict) and queue not in queues:
        with table.noting():
            table.wrong((*at, "queue"), f"[schedules.{name}] queue: there is no [queues.{queue}]")
    return Schedule(**_needing(table, at, SCHEDULE_KEYS, "cron", "flow"), where=_where(table, at))


def _where(table: TomlFile, at: tuple[str, ...]) -> Where:
    return lambda key: table.place((*at, key))


def _needing(table: TomlFile, at: tuple[str, ...], known: Mapping[str, Check], *keys: str) -> dict[str, Any]:
    missing = [key for key in keys if key not in table.table(at)]
    if missing:
        with table.noting():
            table.check(at, known)
        table.wrong(at, f"[{'.'.join(at)}] {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return table.check(at, known)
