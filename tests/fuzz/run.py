"""Fuzz for as long as you like: `python tests/fuzz/run.py --seconds 600 --seed 3`, or `--only documents`.

Prints each kind of finding once, with its case. Exits with 1 where there are any.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import costs, documents, expressions
from fuzz.judging import Finding

FUZZERS: dict[str, Callable[[Random], Iterator[Iterator[Finding]]]] = {
    "expressions": expressions.cases,
    "documents": documents.cases,
    "costs": costs.cases,
}


def fuzz(name: str, seed: int, seconds: float, most: int | None = None) -> tuple[int, dict[tuple[str, str], Finding]]:
    """Run one fuzzer.

    Args:
        name: Which of FUZZERS.
        seed: The same seed gives the same cases.
        seconds: For how long, in seconds.
        most: At most so many cases.

    Returns:
        How many cases there were, and one finding of each kind.
    """
    found: dict[tuple[str, str], Finding] = {}
    count, end = 0, time.monotonic() + seconds
    cases = FUZZERS[name](Random(seed))
    while time.monotonic() < end and count != most:
        count += 1
        for finding in next(cases):
            kind = finding.what.partition(":")[0] + finding.what.partition(":")[2][:30]
            if found.setdefault((kind, finding.at), finding) is finding:
                print(f"FOUND by {name}, seed {seed}, case {count}: {finding}".encode("utf-8", "replace").decode())
                sys.stdout.flush()
    cases.close()  # type: ignore[attr-defined]
    return count, found


def main() -> int:
    """Run the fuzzers that were asked for, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long in all (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same cases (default: 1)")
    parser.add_argument("--only", choices=sorted(FUZZERS), help="this fuzzer alone")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # a case that eats memory is a finding, too
    names = [given.only] if given.only else list(FUZZERS)
    findings = 0
    for name in names:
        count, found = fuzz(name, given.seed, given.seconds / len(names))
        print(f"{name}: {count:,} cases, {len(found)} findings")
        findings += len(found)
    return min(findings, 1)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of cases that were cut off do not keep it
