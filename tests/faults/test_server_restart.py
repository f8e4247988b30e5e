"""Postgres is restarted under a real run: it goes on, with every call made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.scene import Scene, ended
from postgres_server import PostgresServer, fresh


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """A store on the server of our own: no other is restarted."""
    yield from fresh(postgres_server.url)


def test_a_run_goes_on_when_its_server_is_restarted(tmp_path: Path, url: str, postgres_server: PostgresServer) -> None:
    scene = Scene(tmp_path, store=url)
    process = scene.start("run", "chain.yaml", "--json", "--id", "x")
    for most in (3, 12):
        scene.until(lambda most=most: len(scene.started()) >= most, process)  # type: ignore[misc]
        postgres_server.restart()
    done = ended(process)
    assert (done.code, done.data["status"]) == (0, "completed"), done.err
    assert set(Counter(scene.started()).values()) == {1}
    assert scene.recorded("x") == set(scene.started())
