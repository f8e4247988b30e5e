"""A crew of workers for each test, gone afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from postgres_server import PostgresServer

from .copies import Copies
from .crew import STEPS, Crew, kill


@pytest.fixture(scope="session")
def copies() -> Iterator[Copies]:
    made = Copies()
    yield made
    made.drop_originals()


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, copies: Copies) -> Iterator[str]:
    """The address of an empty store in Postgres, with all its tables."""
    yield from copies.copy(os.environ.get("ROPEWALK_TEST_POSTGRES") or request.getfixturevalue("postgres_server").url)


@pytest.fixture
def own_url(copies: Copies, postgres_server: PostgresServer) -> Iterator[str]:
    """The same on the server of our own, which can go away."""
    yield from copies.copy(postgres_server.url)


@pytest.fixture
def crew(tmp_path: Path, postgres_url: str) -> Iterator[Callable[..., Crew]]:
    made: list[Crew] = []

    def start(chain: str = STEPS, settings: str = "") -> Crew:
        made.append(Crew(tmp_path / f"project{len(made)}", postgres_url, chain, settings))
        return made[-1]

    yield start
    for one in made:
        one.dismiss()


@pytest.fixture
def serve() -> Iterator[Callable[[Crew], httpx2.Client]]:
    """`ropewalk serve` over a crew's project, by a client of it."""
    begun: list[subprocess.Popen[str]] = []
    clients: list[httpx2.Client] = []

    def start(scene: Crew) -> httpx2.Client:
        process = scene.start("serve", "--port", "0")
        begun.append(process)
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("/?token=")
        clients.append(httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    for process in begun:
        kill(process)
