"""Every test of this folder that asks for a `store` runs once on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import STORES

from ropewalk.journal import Store


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    where = request.getfixturevalue("postgres_url") if request.param == "postgres" else tmp_path
    made = STORES[request.param](where)
    yield made
    made.close()
