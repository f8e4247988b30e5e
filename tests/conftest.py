"""What every test shares: repeatable property tests, a store and a configuration of its own, children that are
never left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

# Derandomised on CI, so that a red run is red again at home; searching further on demand.
_SLOW_MACHINE = [HealthCheck.too_slow]
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=_SLOW_MACHINE)
settings.register_profile("home", deadline=None, suppress_health_check=_SLOW_MACHINE)
settings.register_profile("long", deadline=None, max_examples=2000, suppress_health_check=_SLOW_MACHINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "home"))


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test never reads or writes the developer's own store."""
    monkeypatch.delenv("ROPEWALK_STORE", raising=False)


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`child("hold", path, "r")` starts the child.py beside the test with these words."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
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
