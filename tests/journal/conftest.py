"""Where a test of a store keeps it: a file, or a server of our own that a test may restart or cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from faults.wire import Wire
from postgres_server import PostgresServer, fresh
from ropewalk.journal.postgres.store import PostgresStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """A store on the server of our own, which a test may restart."""
    yield from fresh(postgres_server.url)


@pytest.fixture
def wire(url: str) -> Iterator[Wire]:
    made = Wire(parse_qs(urlsplit(url).query)["host"][0] + "/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.fixture
def store(url: str, wire: Wire) -> Iterator[PostgresStore]:
    """Connected through the wire."""
    schema = parse_qs(urlsplit(url).query)["schema"][0]
    made = PostgresStore(f"postgresql://postgres@127.0.0.1:{wire.port}/postgres?schema={schema}", poll=60)
    yield made
    made.close()
