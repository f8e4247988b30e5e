"""What workers keep to, as frozen data: how they take runs, in which lines those wait, how fast tools may be called,
what is run by the clock.

To add a setting, add a field here and its key to `table.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Literal, TypeAlias, get_args

from ..errors import ConfigError, Place
from ..frozen import dataclass
from ..values import Json

Where: TypeAlias = Callable[[str], Place] | None
"""Where a key stands in its file; None for what was set up in Python."""


def check_engine(name: str) -> str:
    """Return the name of the engine; raise ConfigError unless there is such an engine."""
    if name not in ("local", "dbos"):
        raise ConfigError(f'engine="{name}": use "local" (this process) or "dbos" (workers)')
    return name


CatchUp: TypeAlias = Literal["run_once", "skip", "run_all"]
CATCH_UP: Final = get_args(CatchUp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A line in which runs wait for workers: how many of them run at once, everywhere (`concurrency`) and in one worker
    (`worker_concurrency`), and how many may begin within `period` seconds (`limit`)."""

    concurrency: int | None = None
    worker_concurrency: int | None = None
    limit: int | None = None
    period: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many calls may begin in a second, and how many at once after a pause."""

    per_second: float
    burst: int = 1
    where: Where = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A definition (`flow`, a file, relative to `ropewalk.toml`) that is run with `input` whenever `cron` says, in the
    time of `timezone`, put into `queue`. `catch_up` says what happens to due times that no worker could handle:
    "run_once" starts one run for all of them, "skip" none, "run_all" one for each."""

    cron: str
    flow: str
    input: Json = None
    timezone: str = "UTC"
    queue: str | None = None
    catch_up: CatchUp = "run_once"
    where: Where = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What workers keep to: how many runs one has at once, the silence in seconds after which one is given up,
    the seconds its runs have when it is told to stop, and after how many deaths in a row a run is parked.

    `longest_block` is how many seconds a tool may hold the Python interpreter of a worker before the worker counts as
    dead."""

    concurrency: int = 10
    lease: float = 2.5
    grace: float = 30.0
    recoveries: int = 5
    longest_block: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """All of it."""

    terms: Terms = Terms()
    queues: Mapping[str, Queue] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
