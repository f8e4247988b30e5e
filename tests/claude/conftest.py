"""The stand-in for the Messages API, one per worker; every body that was sent to it is checked when a test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ropewalk.agents import ClaudeClient, Settings

from .judged import check
from .wire import StandIn


@pytest.fixture(scope="session")
def _stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    stand = StandIn(tmp_path_factory.mktemp("aimock"))
    yield stand
    stand.close()


@pytest.fixture
def api(_stand_in: StandIn) -> Iterator[StandIn]:
    _stand_in.reset()
    yield _stand_in
    for body in _stand_in.bodies:
        check(body)


@pytest.fixture
def client(api: StandIn) -> ClaudeClient:
    return ClaudeClient(Settings(base_url=api.url, model="claude-sonnet-5-5"), api_key="no-key")
