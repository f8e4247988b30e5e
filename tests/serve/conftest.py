from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import Served, serve


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that leave it as it was."""
    yield from serve(tmp_path_factory.mktemp("served"))
