"""Ends a run with the slowest files, the check that failed first, and the command that repeats it: `pytest --closing`.

The option names a file that has a line for each other check that failed, as `.ci/run` writes it beside the tests.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_SLOWEST = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--closing", metavar="FILE", help="end with what a person needs; the file names the other checks that failed"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--closing")
    if file is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Closing(Path(file)), "closing")


class Closing:
    """The pytest hooks of this module."""

    def __init__(self, checks: Path) -> None:
        self._checks = checks
        self._failed: dict[str, str] = {}  # the command that repeats it, by what failed
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = f"./test.sh -n0 {shlex.quote(report.nodeid)}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after what every other hook writes
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        write = terminalreporter.write_line
        write("slowest files:")
        for file in sorted(self._seconds, key=lambda file: -self._seconds[file])[:_SLOWEST]:
            write(f"{self._seconds[file]:7.1f} s  {file}")
        # A check ends before the tests, whatever has failed in the meantime.
        checks = {check: f".venv/bin/python -m {check}" for check in self._checks.read_text().splitlines()}
        failed = checks | self._failed
        if failed:
            first, command = next(iter(failed.items()))
            write(f"failed first: {first}")
            write(f"repeat it: {command}")
            if more := len(failed) - 1:
                write(f"{more} more failed")
