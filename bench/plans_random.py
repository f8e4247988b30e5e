"""Random programs of Python's grammar in an `App`, against Python itself; time is virtual in both."""

from __future__ import annotations

import time
from collections import Counter

from plans.grammar import PARAMETERS, Grammar
from plans.test_grammar import world
from plans.virtual_app import VirtualApp
from ropewalk.plans.program import Program


def compare(count: int, seed: int, seconds: float) -> bool:
    """Compare programs with Python; return True if none differs and the language refuses at most 1 %."""
    counts: Counter[str] = Counter()
    ends = time.perf_counter() + seconds  # not one of the clocks that are virtual
    with VirtualApp.opened() as app:
        for number in range(seed, seed + count):
            if time.perf_counter() > ends:
                break
            text = Grammar(number).program()
            ended, details = app.compared(text, PARAMETERS, world)
            if ended == "by the check" and Program(text, PARAMETERS, function=True).problems:
                ended = "by the language"
            counts[ended] += 1
            if ended == "different":
                print(f"seed {number}: {details[0]}")
    print(f"{counts.total()} programs, by their end: " + ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    return not counts["different"] and counts["by the language"] <= 0.01 * counts.total()
