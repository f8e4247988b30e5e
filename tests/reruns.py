"""Prints the failures of tests that passed when they ran again, so that one run is enough to find a rare race."""

from __future__ import annotations

import pytest
from _pytest.terminal import TerminalReporter

_LINES = 40  # of each failure: its end, which has the assertion or the place that hung


class Reruns:
    """The pytest hook of this module."""

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        reports: list[pytest.TestReport] = terminalreporter.stats.get("rerun", [])
        if reports:
            terminalreporter.section("failed at first")
        for report in reports:
            terminalreporter.write_line(report.nodeid)
            for line in report.longreprtext.splitlines()[-_LINES:]:
                terminalreporter.write_line(f"    {line}")
