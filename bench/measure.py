"""How a case is timed: contenders side by side, so that what disturbs the machine disturbs them all.

Each round runs every contender once, in an order that turns with the round; a sample is as many
runs as take a few milliseconds. Before a sample everybody gets the same garbage collection; it stays
switched on while the clock runs, because it does for users. A ratio is the median of the rounds'
ratios, a time the median of the rounds' times.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

Work = Callable[[], Awaitable[Any]]

SAMPLE = 0.02  # seconds a sample should take at least
SLOW = 0.5  # a run slower than this is timed once per sample, in few rounds


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds per run, one number per round, in the order of the rounds."""

    seconds: tuple[float, ...]

    @property
    def typical(self) -> float:
        return median(self.seconds)

    def ratio(self, floor: Timing) -> float:
        """How many times the floor's time, round by round."""
        return median(a / b for a, b in zip(self.seconds, floor.seconds, strict=False))


@dataclass(frozen=True)
class Contender:
    """Something that does the work, and what it must give to be believed."""

    work: Work
    answer: Any


class WrongAnswer(Exception):
    """A contender is fast, and wrong."""


async def _sample(work: Work, runs: int) -> float:
    start = time.perf_counter()
    for _ in range(runs):
        await work()
    return (time.perf_counter() - start) / runs


def compare(contenders: Mapping[str, Contender], *, rounds: int, sample: float = SAMPLE) -> dict[str, Timing]:
    """Time every contender on one event loop; each must first give its answer."""
    with asyncio.Runner() as runner:
        runs: dict[str, int] = {}
        slow: set[str] = set()
        for name, contender in contenders.items():
            work = contender.work
            got = runner.run(_once(work))
            if got != contender.answer:
                raise WrongAnswer(f"{name} gives {str(got)[:200]}, not {str(contender.answer)[:200]}")
            took = runner.run(_sample(work, 1))
            if took < SLOW:
                took = min(took, runner.run(_sample(work, max(1, math.ceil(sample / 4 / took)))))
            runs[name] = max(1, math.ceil(sample / took))
            if took > SLOW:
                slow.add(name)
        gc.collect()
        gc.freeze()  # what was imported and built is not looked through again in every sample
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        names = list(contenders)
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if name in slow and turn >= 3:
                    continue
                gc.collect()
                seconds[name].append(runner.run(_sample(contenders[name].work, runs[name])))
        gc.unfreeze()
    return {name: Timing(seconds=tuple(found)) for name, found in seconds.items()}


async def _once(work: Work) -> Any:
    return await work()


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of the values do not pass."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
