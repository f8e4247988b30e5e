"""What 100,000 captured lines of a tool cost, beside a run that prints nothing and beside Python alone.

`python bench/step_logs.py` prints the CPU seconds of each, and how many lines and characters are kept.
"""

from __future__ import annotations

import asyncio
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ropewalk import App, tool
from ropewalk.tools.capture import capture

LINES, ROUNDS = 100_000, 5


@tool
def work(lines: int, prints: bool) -> int:
    """Make lines, and print them if wanted."""
    return _work(lines, print if prints else str)


def _work(lines: int, take: Callable[[str], Any]) -> int:
    for number in range(lines):
        take(f"line {number} of the work")
    return lines


def _seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _bare() -> None:
    stream, sys.stdout = sys.stdout, io.StringIO()
    try:
        _work(LINES, print)
    finally:
        sys.stdout = stream


async def _run(folder: Path, prints: bool) -> tuple[int, int]:
    args = {"lines": LINES, "prints": prints}
    document = {"kind": "chain", "nodes": [{"id": "n", "type": "tool", "tool": "work", "params": args}]}
    async with App(f"sqlite:///{folder / 'runs.db'}", tools=[work]) as app:
        outcome = await app.run(document)
        kept = [line for line in app.runs.logs(outcome.run_id) if "text" in line]
        return len(kept), sum(len(str(line["text"])) for line in kept)


def main() -> None:
    """Print the table."""
    kept: tuple[int, int] = (0, 0)
    rows: dict[str, list[float]] = {"print into a buffer": [], "a run without prints": [], "a run that prints": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            rows["print into a buffer"].append(_seconds(_bare))
            with capture(None):
                rows["a run without prints"].append(_seconds(lambda: asyncio.run(_run(Path(name), False))))
                began = time.process_time()
                kept = asyncio.run(_run(Path(name), True))
                rows["a run that prints"].append(time.process_time() - began)
    for title, seconds in rows.items():
        print(f"{title:24} {statistics.median(seconds):6.3f} s of CPU")
    print(f"kept of {LINES:,} lines: {kept[0]:,} lines, {kept[1]:,} characters")


if __name__ == "__main__":
    main()
