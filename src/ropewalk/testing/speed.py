"""How fast steps are on this machine and on the disk or server of a store: `ropewalk bench`.

The steps are those of a tool that returns at once, so that what is measured is Ropewalk and its store: each case is
run again and again, and the time of a step is the median's. Nothing is written into the store itself: for one in a
file there is another file beside it, for one in Postgres another schema of the same database; both are gone afterwards.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from ..app import App
from ..frozen import dataclass
from ..journal.address import DEFAULT, is_postgres, open_store

if TYPE_CHECKING:
    from ..definitions import Loaded

Work = Callable[[], Awaitable[Any]]
_EACH: Final = 10  # steps of each of the runs at once
_LONG: Final = 600_000  # milliseconds: nothing is to be cut off on a slow machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One case: `seconds` per step, the median of the rounds."""

    case: str
    where: str
    steps: int
    seconds: float


async def speeds(
    store: str | None, folder: Path, sync: Literal["normal", "full"], steps: int, rounds: int
) -> list[Speed]:
    """Plain asyncio, runs in memory, and runs on the disk or server of the store at this address, `steps` in each."""
    found = [await _timed("one after another", "plain asyncio", steps, rounds, _by_hand(steps))]
    found += await _cases("memory", "memory", sync, steps, rounds)
    if store != "memory":
        with _beside(store, folder) as (address, where):
            found += await _cases(address, where, sync, steps, rounds)
    return found


async def _cases(address: str, where: str, sync: Literal["normal", "full"], steps: int, rounds: int) -> list[Speed]:
    app = App(address, tools=[step], sync=sync)
    chain, few, wide = (app.load(document) for document in (_chain(steps), _chain(_EACH), _chain(steps, "parallel")))
    runs = max(1, steps // _EACH)

    def run(loaded: Loaded) -> Work:
        return lambda: app.execute(loaded)

    async def together() -> None:
        await asyncio.gather(*(app.execute(few) for _ in range(runs)))

    async with app:
        return [
            await _timed("one after another", where, steps, rounds, run(chain)),
            await _timed("all at once", where, steps, rounds, run(wide)),
            await _timed(f"runs of {_EACH} steps at once", where, runs * _EACH, rounds, together),
        ]


async def _timed(case: str, where: str, steps: int, rounds: int, work: Work) -> Speed:
    await work()  # compiled, connected, and what is slow the first time
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return Speed(case=case, where=where, steps=steps, seconds=median(took) / steps)


async def step(x: int) -> int:
    """Gives the number after this one."""
    return x + 1


def _by_hand(steps: int) -> Work:
    async def work() -> int:
        value = 0
        for _ in range(steps):
            value = await step(value)
        return value

    return work


def _chain(steps: int, mode: str = "sequential") -> dict[str, Any]:
    values = ["$prev" if i and mode == "sequential" else i for i in range(steps)]
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": x}} for i, x in enumerate(values)]
    together = {} if mode == "sequential" else {"concurrency": steps}
    return {"kind": "chain", "name": f"bench {mode}", "mode": mode, "nodes": nodes, "timeout": _LONG, **together}


@contextmanager
def _beside(store: str | None, folder: Path) -> Iterator[tuple[str, str]]:
    """An empty store where this one is, and what to call that place."""
    if store is not None and is_postgres(store):
        from ..journal.postgres_session import Session, target

        name = f"ropewalk_bench_{os.getpid()}"
        here = target(store)
        apart = _in_schema(store, name)
        try:
            yield apart, "postgres"
        finally:
            with closing(Session(here)) as session:
                session.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        return
    if store is not None and "://" in store and not store.startswith("sqlite:///"):
        open_store(store)  # which says what is wrong with it
    file = folder / DEFAULT if store is None else Path(store.removeprefix("sqlite:///"))
    beside = file.parent.resolve()  # `..` as it is written has other parents
    home = next(at for at in (beside, *beside.parents) if at.is_dir())
    with tempfile.TemporaryDirectory(prefix=".ropewalk-bench-", dir=home) as empty:
        yield f"sqlite:///{Path(empty).resolve() / 'bench.db'}", "sqlite"


def _in_schema(store: str, name: str) -> str:
    """The address of another schema of the same database."""
    rest, _, query = store.partition("?")
    words = [word for word in query.split("&") if word and not word.startswith("schema=")]
    return f"{rest}?{'&'.join([*words, f'schema={name}'])}"
