"""Ends a run with the slowest files, the check that failed first, and the command that repeats it: `pytest --closing`.

The value of the option names the checks that failed before the tests, as `.ci/run` does.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Generator

import pytest

_SLOWEST = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--closing", metavar="CHECKS", help="end with what a person needs; names the checks that failed before"
    )


def pytest_configure(config: pytest.Config) -> None:
    checks = config.getoption("--closing")
    if checks is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Closing([check for check in checks.split(",") if check]), "closing")


class Closing:
    """The pytest hooks of this module."""

    def __init__(self, failed: list[str]) -> None:
        self._commands = [f".venv/bin/python -m {check}" for check in failed]
        self._failed = list(failed)
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration
        self._note(report)

    def _note(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._failed:
            self._failed.append(report.nodeid)
            self._commands.append(f"./test.sh -n0 {shlex.quote(report.nodeid)}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after what every other hook writes
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        yield
        write = terminalreporter.write_line
        write("slowest files:")
        for file in sorted(self._seconds, key=lambda file: -self._seconds[file])[:_SLOWEST]:
            write(f"{self._seconds[file]:7.1f} s  {file}")
        if self._failed:
            write(f"failed first: {self._failed[0]}")
            write(f"repeat it: {self._commands[0]}")
            if more := len(self._failed) - 1:
                write(f"{more} more failed")
