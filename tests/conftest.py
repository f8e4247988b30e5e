"""What every test shares: repeatable property tests, and a store and a configuration of its own."""

from __future__ import annotations

import os

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
