"""Three kinds of checks, and the order of a run.

- Quick, `./test.sh`: the tests without the markers `process` and `campaign`. A test gets the marker `process` by itself
  from its folder, from a fixture that starts Postgres or a browser, or from the marker `node`; other tests carry it
  where they are written.
- All, `./test.sh --all`: every test, and a short slice of each campaign.
- Campaigns, `./test.sh --campaigns [NAME] [--seconds N]`: the tests with the marker `campaign`, with full counts.

A test says its campaign by `@pytest.mark.campaign("faults")`. Its fixture `scale(short, full)` gives the first value in
a slice and the second in the campaign; `seed` is another number in each repetition of a campaign. `sampled("pages",
cases, 3)` leaves most cases of a parameter to the campaign, and `campaign("sizes", only=True)` a test as a whole. Tests
with `@given` belong to the campaign "properties" by themselves; `examples(300)` is their number of examples.

Several workers run the slowest files first, so that none of them works alone at the end. `durations.json` holds the
seconds of each file; `./test.sh --all --durations-file tests/durations.json` writes it again.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

CAMPAIGNS = {
    "claims": "claims of runs whose caller is cancelled, at random instants",
    "conformance": "requests and answers of MCP against the schemas of every revision",
    "cost": "calls that every operation makes at two sizes",
    "faults": "broken processes, files, connections and servers at every position of a run",
    "fuzz": "expressions, documents and values at random",
    "models": "doors to the models of every maker",
    "pages": "views of the web UI in a browser",
    "plans": "programs from Python's grammar, against Python",
    "properties": "flows at random, against a reference",
    "recovery": "kills at every position of a run, in every notation",
    "reliability": "workers through outages, pauses and kills",
    "site": "pages of the documentation site in a browser",
    "sizes": "definitions with 10,000 nodes and other large values",
    "types": "values of generated flows against the output schemas that they announce",
}
PROCESS_FOLDERS = frozenset({"faults", "recovery", "workers"})
PROCESS_FIXTURES = frozenset({"browser", "page", "postgres_server", "postgres_url"})
T = TypeVar("T")
_TESTS = Path(__file__).parent
_DURATIONS = _TESTS / "durations.json"
_LEAST = 1.0  # seconds; faster files are left out
_SHORT_EXAMPLES, _FULL_EXAMPLES = 15, 2000
_SETTINGS: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--durations-file", metavar="FILE", help="write the seconds that each test file takes")
    parser.addoption("--campaign", metavar="NAME", help=f"a campaign with full counts: all, {', '.join(CAMPAIGNS)}")
    parser.addoption("--seed", type=int, default=1, metavar="N", help="what a campaign's random choices begin with")
    parser.addoption("--seconds", type=float, metavar="N", help="begin no test of a campaign after N seconds")


def configure(config: pytest.Config) -> None:
    """Register the hooks of this module, and the number of Hypothesis examples.

    Slices are derandomised, so that a failure is repeated by the same command.
    """
    name = config.getoption("--campaign")
    if name not in (None, "all", *CAMPAIGNS):
        raise pytest.UsageError(f"unknown campaign {name!r}; choose one of: all, {', '.join(CAMPAIGNS)}")
    settings.register_profile("slice", derandomize=True, max_examples=_SHORT_EXAMPLES, **_SETTINGS)
    settings.register_profile("campaign", max_examples=_FULL_EXAMPLES, **_SETTINGS)
    settings.load_profile("campaign" if name else "slice")
    config.pluginmanager.register(Tiers(config), "tiers")


def examples(count: int) -> settings:
    """Return settings for `count` examples where the default is 100; a slice has fewer and a campaign has more."""
    return settings(max_examples=max(1, count * settings().max_examples // 100))


def sampled(campaign: str, cases: Iterable[Any], count: int) -> list[Any]:
    """Return parameters of which `count`, spread evenly, are in every run, and the others only in the campaign."""
    cases = list(cases)
    kept = {len(cases) * turn // count for turn in range(count)}
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.campaign(campaign, only=at not in kept)
        )
        for at, case in enumerate(cases)
    ]


def on_one_store(campaign: str, store: str, fixture: str = "store") -> pytest.MarkDecorator:
    """Run a test on this store, "sqlite" or "postgres", and only in the campaign on the other one."""
    stores = sorted(("sqlite", "postgres"), key=lambda name: name != store)
    return pytest.mark.parametrize(fixture, sampled(campaign, stores, 1), indirect=True)


def on_each_store(campaign: str, names: str, cases: Iterable[Any], count: int) -> pytest.MarkDecorator:
    """Run all cases in memory and on SQLite, and on Postgres `count` of them, the others only in the campaign."""
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    local = [pytest.param(store, *case) for store in ("memory", "sqlite") for case in cases]
    distant = sampled(campaign, [("postgres", *case) for case in cases], count)
    return pytest.mark.parametrize(("store", *names.split()), [*local, *distant], indirect=["store"])


class Scale(Protocol):
    """Chooses between the value of a slice and the value of its campaign."""

    def __call__(self, short: T, full: T) -> T: ...


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    """`scale(short, full)` is the first value in a slice of a campaign, and the second in the campaign itself."""
    return _full if request.config.getoption("--campaign") else _short


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What the random choices of a test begin with."""
    return int(request.config.getoption("--seed"))


def _short(short: T, full: T) -> T:
    return short


def _full(short: T, full: T) -> T:
    return full


class Tiers:
    """The pytest hooks of this module."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: str | None = config.getoption("--durations-file")
        self._campaign: str | None = config.getoption("--campaign")
        seconds = config.getoption("--seconds")
        self._end = None if seconds is None else time.monotonic() + seconds
        self._is_worker = hasattr(config, "workerinput")
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not ask for
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            if needs_processes(item):
                item.add_marker("process")
            if is_hypothesis_test(getattr(item, "obj", None)) and item.get_closest_marker("campaign") is None:
                item.add_marker(pytest.mark.campaign("properties"))
        left_out = [item for item in items if not is_of_run(item, self._campaign)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            ids = set(map(id, left_out))
            items[:] = [item for item in items if id(item) not in ids]
        if self._is_worker:
            recorded: dict[str, float] = json.loads(_DURATIONS.read_text())
            items.sort(key=lambda item: -recorded.get(_file_of(item.nodeid), 0.0))

    def pytest_runtest_setup(self) -> None:
        if self._end is not None and time.monotonic() > self._end:
            pytest.skip("the campaign's time is over")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        if self._file is not None and not self._is_worker:
            slow = {file: round(self._seconds[file], 1) for file in sorted(self._seconds)}
            slow = {file: seconds for file, seconds in slow.items() if seconds >= _LEAST}
            Path(self._file).write_text(json.dumps(slow, indent=0) + "\n")


def is_of_run(item: pytest.Item, campaign: str | None) -> bool:
    """Return True if a test belongs to a campaign, or without one to the run of all tests."""
    marks = list(item.iter_markers("campaign"))
    names = {mark.args[0] for mark in marks}
    if unknown := names - CAMPAIGNS.keys():
        raise pytest.UsageError(f"{item.nodeid}: unknown campaign {min(unknown)!r}; add it to tests/tiers.py")
    if not names and _has_two_scales(item):
        raise pytest.UsageError(f"{item.nodeid}: only a test with the marker campaign has two scales")
    if campaign is None:
        return not any(mark.kwargs.get("only") for mark in marks)
    return bool(names) if campaign == "all" else campaign in names


def _has_two_scales(item: pytest.Item) -> bool:
    """Return True if a test asks for the fixture of this module; others may have one of that name."""
    known = getattr(item, "_fixtureinfo", None)
    definitions = () if known is None else known.name2fixturedefs.get("scale", ())
    return bool(definitions) and definitions[-1].func.__module__ == __name__


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
