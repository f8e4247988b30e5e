"""Two tiers of tests, and the order of a run.

The quick tier is every test without the marker `process`. A test gets the marker by itself from its folder, from a
fixture that starts Postgres or a browser, or from the marker `node`; other tests carry it where they are written.
`./test.sh` runs the quick tier, `./test.sh --all` runs everything.

Several workers run the slowest files first, so that none of them works alone at the end. `durations.json` holds the
seconds of each file; `./test.sh --all --durations-file tests/durations.json` writes it again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

PROCESS_FOLDERS = frozenset({"faults", "recovery", "workers"})
PROCESS_FIXTURES = frozenset({"browser", "page", "postgres_server", "postgres_url"})
_TESTS = Path(__file__).parent
_DURATIONS = _TESTS / "durations.json"
_LEAST = 1.0  # seconds; faster files are left out


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", metavar="FILE", help="write the seconds that each test file takes")


class Tiers:
    """The pytest hooks of this module."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: str | None = config.getoption("--durations-file")
        self._is_worker = hasattr(config, "workerinput")
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not ask for
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if needs_processes(item):
                item.add_marker("process")
        if self._is_worker:
            recorded: dict[str, float] = json.loads(_DURATIONS.read_text())
            items.sort(key=lambda item: -recorded.get(_file_of(item.nodeid), 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._file is not None and not self._is_worker:
            slow = {file: round(self._seconds[file], 1) for file in sorted(self._seconds)}
            slow = {file: seconds for file, seconds in slow.items() if seconds >= _LEAST}
            Path(self._file).write_text(json.dumps(slow, indent=0) + "\n")


def needs_processes(item: pytest.Item) -> bool:
    """Return True for a test that starts several processes, Postgres, a browser or an npm package."""
    folder = item.path.relative_to(_TESTS).parts[0] if item.path.is_relative_to(_TESTS) else ""
    if folder in PROCESS_FOLDERS or item.get_closest_marker("node") is not None:
        return True
    if not PROCESS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    # A fixture that has Postgres as one of its parameters asks for the server by `getfixturevalue`.
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(
        isinstance(value, str) and value == "postgres" for value in parameters.params.values()
    )


def _file_of(node_id: str) -> str:
    return node_id.partition("::")[0]
