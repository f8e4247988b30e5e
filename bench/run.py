"""The benchmark: python bench/run.py [--quick] [--only CASE ...] [--json FILE] [--no-peers]

bench/README.md says how to read what it prints.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from cases import CASES, Bench, Row
from peers import installed


def main() -> int:
    given = _arguments()
    here, missing = ({}, {}) if given.no_peers else installed()
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    for name, reason in missing.items():
        print(f"not here: {name} ({reason})")
    found: list[Row] = []
    with tempfile.TemporaryDirectory(dir=given.dir) as folder:
        bench = Bench(rounds=3 if given.quick else 11, folder=Path(folder), peers=here)
        print("\n" + _line("case", "measured", "target", "", "us per node (ratio)"))
        for name in given.only or CASES:
            for row in CASES[name](bench):
                found.append(row)
                print("\n".join(shown(row)), flush=True)
    for name, reason in bench.failed.items():
        print(f"left out: {name}: {reason}")
    judged = [row for row in found if row.met is not None]
    print(f"\n{sum(bool(row.met) for row in judged)} of {len(judged)} targets met")
    if given.json:
        rows = [{**asdict(row), "met": row.met} for row in found]
        Path(given.json).write_text(json.dumps({"python": platform.python_version(), "rows": rows}, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ropewalk beside plain asyncio and its peers.")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 11")
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--dir", metavar="FOLDER", help="on which disk the durable cases write (default: temporary)")
    return parser.parse_args()


def shown(row: Row) -> Iterator[str]:
    """A row, and a line for each contender but the first two."""
    mark = {True: "met", False: "MISSED", None: ""}[row.met]
    target = "" if row.target is None else f"{row.target:g} {row.unit}"
    parts = [_part(row, name) for name in row.times]
    yield _line(row.case, f"{row.value:.2f} {row.unit}", target, mark, "  ".join(parts[:2]))
    for part in parts[2:]:
        yield _line("", "", "", "", part)


def _part(row: Row, name: str) -> str:
    ratio = f" ({row.ratios[name]:.2f})" if name in row.ratios else ""
    return f"{name} {row.times[name]:.2f}{ratio}"


def _line(case: str, measured: str, target: str, mark: str, parts: str) -> str:
    return f"{case:58} {measured:>11} {target:>9} {mark:6} {parts}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
