"""What the tests of the campaign share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> str | None:
    """Where the scenes of a test keep their runs."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None
