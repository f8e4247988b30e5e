"""Stores that are copies of one: to make the tables of a store and of DBOS takes longer than most tests."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg

from ropewalk.journal.postgres.session import SCHEMA, parse_target
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.workers import dbos_adapter

_numbers = itertools.count()


class Copies:
    """Databases of one or more servers, each a copy of an empty store."""

    def __init__(self) -> None:
        self._originals: dict[str, str] = {}  # the database by the address of its server

    def copy(self, server: str) -> Iterator[str]:
        """The address of an empty store in a database of its own, which is gone afterwards."""
        if server not in self._originals:
            self._originals[server] = self._make_original(server)
        name = _new_name()
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {self._originals[server]}")  # type: ignore[arg-type]
        yield _address(server, name)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]

    def drop_originals(self) -> None:
        for server, name in self._originals.items():
            # A server of our own may have ended before.
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]

    def _make_original(self, server: str) -> str:
        name = _new_name()
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        address = _address(server, name)
        store = PostgresStore(address)
        store.list_runs(limit=1)
        store.close()
        dbos_adapter.prepare(parse_target(address))
        return name


def _new_name() -> str:
    return f"store_{os.getpid()}_{next(_numbers)}"


def _address(server: str, database: str) -> str:
    parts = urlsplit(server)
    query = "&".join(filter(None, [parts.query, f"schema={SCHEMA}"]))
    return parts._replace(path=f"/{database}", query=query).geturl()
