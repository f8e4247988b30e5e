"""What the campaign counts, and the table at the end of it.

A test that takes part asks for `counts`. `--faults-json FILE` writes the table for machines. tests/conftest.py uses the
hooks, so that they are there whatever is run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

KEY = "faults"
WITHIN = 5.0
"""Seconds in which the work of a dead worker has gone on elsewhere; the long campaign holds it."""


@dataclass
class Counts:
    """What one test saw. `lost`, `again` and `wrong` say which, so that a failure can be understood."""

    item: str = ""
    points: int = 0
    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def clean(self) -> None:
        """Assert that the promise was kept."""
        assert self.points, "no point was tried"
        assert not self.lost, f"acknowledged, and lost: {self.lost}"
        assert not self.again, f"recorded, and run again: {self.again}"
        assert not self.wrong, f"wrong results: {self.wrong}"


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> Iterator[Counts]:
    made = Counts(request.node.name)
    yield made
    if made.points:
        request.node.user_properties.append((KEY, asdict(made)))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults-json", metavar="FILE", help="write the counts of the fault campaign")


class Table:
    """Gathers what the tests of all test processes counted."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for name, counts in report.user_properties:
                if name == KEY:
                    self._rows[counts["item"]].append(counts)  # type: ignore[index]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._rows:
            return
        rows = [_row(item, self._rows[item]) for item in sorted(self._rows)]
        rows.append(_row("all", [counts for some in self._rows.values() for counts in some]))
        terminalreporter.section("faults")
        width = max(len(row["item"]) for row in rows)
        words = ["points", "acknowledged", "lost", "again", "wrong", "recovered within"]
        terminalreporter.write_line(f"{'':{width}}  " + "  ".join(words))
        for row in rows:
            cells = [f"{row[word]:>{len(word)}}" for word in words[:-1]]
            most = row["recovered within"]
            cells.append("" if most is None else f"{most:>14.2f} s")
            terminalreporter.write_line(f"{row['item']:{width}}  " + "  ".join(cells).rstrip())
        if self._file:
            Path(self._file).write_text(json.dumps(rows, indent=1) + "\n")


def _row(item: str, some: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [one for counts in some for one in counts["seconds"]]
    return {
        "item": item,
        "points": sum(counts["points"] for counts in some),
        "acknowledged": sum(counts["acknowledged"] for counts in some),
        **{word: sum(len(counts[word]) for counts in some) for word in ("lost", "again", "wrong")},
        "recovered within": max(seconds, default=None),
    }


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Table(config.getoption("--faults-json")), "faults-table")
