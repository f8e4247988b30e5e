"""Where the tests of several processes keep their store: an address that fits into an argument."""

from __future__ import annotations

from typing import Any

from ropewalk.journal.address import is_postgres
from ropewalk.journal.postgres import store as postgres
from ropewalk.journal.postgres.store import PostgresStore
from ropewalk.journal.sql.store import SqlStore
from ropewalk.journal.sqlite import doctor
from ropewalk.journal.sqlite.store import SqliteStore

_FULL = "full:"


def opened(place: str, **more: Any) -> SqlStore:
    """The store there; "full:" before a path is one that survives a power cut."""
    if is_postgres(place):
        return PostgresStore(place, **more)
    return SqliteStore(place.removeprefix(_FULL), sync="full" if place.startswith(_FULL) else "normal", **more)


def faults(place: str) -> list[str]:
    """What is wrong with the store there."""
    return postgres.examine(place)[1] if is_postgres(place) else doctor.examine(place.removeprefix(_FULL))
