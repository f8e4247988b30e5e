"""Runs a test that fails once more, and names each that passes then: `pytest --second-try`.

Such a test does not fail the run, but the last lines show the race behind it, so that one run is enough to find it.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

_LINES = 40  # of each failure: its end, which has the assertion or the place that hung


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-try", action="store_true", help="run a test that fails once more; name it UNSTEADY if it passes then"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--second-try"):
        config.pluginmanager.register(SecondTry(), "second-try")


class SecondTry:
    """The pytest hooks of this module."""

    def __init__(self) -> None:
        self._first_failure: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        is_second, hook = self._first_failure is not None, item.ihook
        if not is_second:
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failures = [report.longreprtext for report in reports if report.failed]
        if failures and not is_second:
            self._first_failure = failures[0]
            try:
                # Every fixture starts again, those of the session too: the failure may have broken one of them.
                item.session._setupstate.teardown_exact(None)
                # Through the hook, so that the second try has a timeout of its own.
                hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            finally:
                self._first_failure = None
        else:
            if not failures:
                reports[-1].unsteady = self._first_failure
            for report in reports:
                hook.pytest_runtest_logreport(report=report)
        if not is_second:
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("unsteady", "U", "UNSTEADY") if getattr(report, "unsteady", None) else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after what every other hook writes
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> Generator[None]:
        yield
        for report in terminalreporter.stats.get("unsteady", []):
            terminalreporter.write_line(f"UNSTEADY {report.nodeid}")
            for line in report.unsteady.splitlines()[-_LINES:]:
                terminalreporter.write_line(f"    {line}")
