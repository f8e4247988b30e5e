"""How the time of each public operation grows with its input, and how long others wait meanwhile.

    python bench/cost.py                    # every operation at n and 4n
    python bench/cost.py --only expression  # those whose name contains a text
    python bench/cost.py --delay            # GET /api/runs while the server has much to do

Exits with 1 where an operation takes more than six times as long for four times the input and is not in BOUNDED, or
where an answer takes longer than a second.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from cost_operations import OPERATIONS, Operation

FACTOR: Final = 6.0
LONG_ENOUGH: Final = 0.02  # seconds, below which the clock says little
MOST: Final = 16_000
BOUNDED: Final[dict[str, str]] = {
    "expression rename": "up to 10 times",
    "expression merge": "up to 10 times",
    "convert chain of conditions to experience": "up to 9 times",
}
"""Operations that grow faster, with the bound that docs/security-limits-reference.md gives."""


def seconds(work: Callable[[], Any], rounds: int = 2) -> float:
    """The least CPU time of some rounds."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
        gc.enable()
    return min(taken)


def calls(work: Callable[[], Any]) -> int:
    """Count the calls that a piece of work makes in this thread: Python functions, built-in ones and generator steps.

    No load of the machine changes the count, and the profiler that counts is written in C.
    """
    profile = cProfile.Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def growth(make: Operation, n: int = 1_000, most: int = MOST) -> tuple[int, float, float]:
    """The size at which an operation takes long enough to be measured, and its time at this size and at four times."""
    while True:
        small = seconds(make(n))
        if small >= LONG_ENOUGH or n * 4 > most:
            large = seconds(make(4 * n))
            for _ in range(2):  # perhaps only the step out of the processor's cache, which comes once
                if large <= FACTOR * small or n >= 4 * most:
                    break
                n, small, large = 4 * n, large, seconds(make(16 * n))
            return n, small, large
        n *= 4


def measure(only: str) -> int:
    slow = 0
    print(f"{'operation':44} {'n':>7} {'ms at n':>9} {'at 4n':>9} {'times':>6}")
    for name, make in OPERATIONS.items():
        if only not in name:
            continue
        n, small, large = growth(make)
        times = large / max(small, 1e-4)
        wrong = large > LONG_ENOUGH and times > FACTOR and name not in BOUNDED
        slow += wrong
        mark = "  TOO SLOW" if wrong else f"  bounded: {BOUNDED[name]}" if name in BOUNDED else ""
        print(f"{name:44} {n:7} {small * 1e3:9.2f} {large * 1e3:9.2f} {times:6.1f}{mark}", flush=True)
    print(
        f"{slow} operations grow faster than their input" if slow else "every operation grows no faster than its input"
    )
    return 1 if slow else 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="A text in the names of the operations that are measured.")
    arguments.add_argument("--delay", action="store_true", help="Measure how long GET /api/runs takes meanwhile.")
    given = arguments.parse_args()
    if given.delay:
        from cost_delay import measure_delay

        sys.exit(measure_delay())
    sys.exit(measure(given.only))
