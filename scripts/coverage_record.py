"""Record which tests execute which lines of some modules: one JSON object per test in a file.

The file grows with every recording. Where a test is in it twice, the later line holds.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Recorded:
    """One test: its id, the seconds that it took, and the lines that it executes in each file.

    Files are relative to the folder of the source.
    """

    test: str
    seconds: float
    lines: dict[str, list[int]] = field(default_factory=dict)


class Recorder:
    """A pytest plugin that measures the lines of files, with one context of coverage for each test."""

    def __init__(self, source: Path, files: Iterable[Path], record: Path) -> None:
        from coverage import Coverage  # only for recording

        self._source = source
        self._files = [str(source / file) for file in files]
        self._record = record
        self._coverage = Coverage(data_file=None, include=self._files, config_file=False, messages=False)
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._pid = os.getpid()

    def pytest_runtestloop(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if os.getpid() != self._pid:
            return
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
        for file in self._files:
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    if context:
                        name = str(Path(file).relative_to(self._source))
                        lines[context].setdefault(name, []).append(line)
        with self._record.open("a") as written:
            for test, executed in lines.items():
                if test not in self._failed:
                    entry = {"test": test, "seconds": round(self._seconds[test], 4), "lines": executed}
                    written.write(json.dumps(entry) + "\n")


def record(source: Path, files: Iterable[Path], target: Path, arguments: list[str]) -> int:
    """Run tests, add what they execute to a file, and return the exit code of pytest."""
    options = ["-n", "0", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    return int(pytest.main([*options, *arguments], plugins=[Recorder(source, files, target)]))


def read(file: Path) -> list[Recorded]:
    """Read the tests of a file."""
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return list({entry["test"]: Recorded(**entry) for entry in entries}.values())
