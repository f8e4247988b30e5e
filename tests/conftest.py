"""What every test shares: repeatable property tests, a store and a configuration of its own, children that are
never left behind."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator

import pytest

import authorities
import closing
import fork_server
import second_try
import tiers
from claude import judged
from claude.judged import pytest_sessionfinish, pytest_terminal_summary, pytest_testnodedown
from faults import tally
from faults.tally import counts
from postgres_server import NoPostgres, PostgresServer, fresh
from tiers import scale, seed

__all__ = ["counts", "scale", "seed"]  # of the campaigns
__all__ += ["pytest_sessionfinish", "pytest_terminal_summary", "pytest_testnodedown"]  # of judged requests

# Children inherit it with another pid: files that change the process they are loaded in spare this one.
os.environ["PYTEST_PROCESS"] = str(os.getpid())


def pytest_addoption(parser: pytest.Parser) -> None:
    tally.pytest_addoption(parser)
    tiers.add_options(parser)
    second_try.pytest_addoption(parser)
    closing.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    authorities.share()
    tally.pytest_configure(config)
    tiers.configure(config)
    second_try.pytest_configure(config)
    closing.pytest_configure(config)  # last, so that it writes last


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, and never let it look at them again.

    It would go through the ten thousand tests again and again, which doubles the time that collecting them takes. Later
    it goes rarely through what the tests keep, which takes a seventh of the time of programs and their checks.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(10_000)


@pytest.fixture(scope="module")
def collector_off() -> Iterator[None]:
    """Leave out the garbage collector while the tests of a file parse all sources, which makes them four times faster.

    It would look at the trees, which hold no garbage, again and again.
    """
    gc.disable()
    yield
    gc.enable()


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A test never reads or writes the developer's own store, or lists of tools that another test has cached."""
    monkeypatch.delenv("ROPEWALK_STORE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / f"config{next(_numbers)}"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / f"cache{next(_numbers)}"))
    if (streams := sys.modules.get("sse_starlette.sse")) is not None:  # a server that has ended here ends all streams
        monkeypatch.setattr(streams.AppStatus, "should_exit", False)
    if (remedies := sys.modules.get("ropewalk.doors.remedies")) is not None:  # a process executes one command
        remedies.GIVEN.set(("", ""))


@pytest.fixture(autouse=True)
def _valid_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test asks a model for what the Messages API would refuse."""
    problems = judged.watch(monkeypatch)
    yield
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server of our own, one per test process. On CI it must start."""
    try:
        server = PostgresServer()
    except NoPostgres as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no Postgres: {error}")
    yield server
    server.stop()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty store in Postgres."""
    yield from fresh(os.environ.get("ROPEWALK_TEST_POSTGRES") or request.getfixturevalue("postgres_server").url)


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`child("hold", path, "r")` starts the child.py beside the test with these words."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        process = fork_server.Popen(
            [sys.executable, str(request.path.parent / "child.py"), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
