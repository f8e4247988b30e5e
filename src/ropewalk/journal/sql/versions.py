"""Stored definitions and all their versions, in SQL. The transaction is the caller's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from ..protocol import KEPT_VERSIONS, Definition
from .blobs import dump
from .rows import Connection, fetch, load

_UPSERT: Final = """
    INSERT INTO definition (kind, id, name, document, fingerprint, created) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, id) DO UPDATE SET name = excluded.name, document = excluded.document,
        fingerprint = excluded.fingerprint
"""
_VERSION: Final = """
    INSERT INTO version (kind, id, fingerprint, number, name, document, created)
    SELECT ?1, ?2, ?3, 1 + coalesce(max(number), 0), ?4, ?5, ?6 FROM version WHERE kind = ?1 AND id = ?2
    ON CONFLICT (kind, id, fingerprint) DO UPDATE SET name = excluded.name, document = excluded.document
"""
_DEFINITIONS: Final = """
    SELECT definition.kind, definition.id, definition.name, definition.document, definition.fingerprint,
        definition.created, run_count, number
    FROM definition JOIN version ON version.kind = definition.kind AND version.id = definition.id
        AND version.fingerprint = definition.fingerprint
"""
_VERSIONS: Final = """
    SELECT kind, id, name, document, fingerprint, created,
        (SELECT count(*) FROM run WHERE definition_id = version.id AND run.kind = version.kind
            AND run.fingerprint = version.fingerprint),
        number
    FROM version WHERE kind = ? AND id = ? ORDER BY number DESC
"""
_UNUSED: Final = """
    FROM version WHERE number <=
            (SELECT max(number) FROM version AS newer WHERE newer.kind = version.kind AND newer.id = version.id) - ?
        AND NOT EXISTS (SELECT 1 FROM definition WHERE definition.kind = version.kind AND definition.id = version.id
            AND definition.fingerprint = version.fingerprint)
        AND NOT EXISTS (SELECT 1 FROM run WHERE definition_id = version.id AND run.kind = version.kind
            AND run.fingerprint = version.fingerprint)
"""


def put_definition(connection: Connection, definition: Definition) -> None:
    d, now = definition, time.time()
    document = dump(d.document, f"definition {d.id}")
    connection.execute(_UPSERT, (d.kind, d.id, d.name, document, d.fingerprint, d.created or now))
    connection.execute(_VERSION, (d.kind, d.id, d.fingerprint, d.name, document, d.created or now))


def read_definitions(connection: Connection, where: str, values: tuple[str, ...]) -> list[Definition]:
    rows = fetch(connection, f"{_DEFINITIONS} {where} ORDER BY definition.kind, definition.id", values)
    return [_to_definition(connection, row) for row in rows]


def read_versions(connection: Connection, kind: str, id: str) -> list[Definition]:
    return [_to_definition(connection, row) for row in fetch(connection, _VERSIONS, (kind, id))]


def _to_definition(connection: Connection, row: Sequence[Any]) -> Definition:
    kind, id, name, document, fingerprint, created, count, number = row
    return Definition(
        kind=kind,
        id=id,
        name=name,
        document=load(connection, document, f"definition {id} ({kind}), version {number}: its document"),
        fingerprint=fingerprint,
        created=created,
        run_count=count,
        version=number,
    )


def delete_definition(connection: Connection, kind: str, id: str) -> bool:
    connection.execute("DELETE FROM version WHERE kind = ? AND id = ?", (kind, id))
    return bool(fetch(connection, "DELETE FROM definition WHERE kind = ? AND id = ? RETURNING 1", (kind, id)))


def find_unused(connection: Connection) -> list[tuple[str, str, str]]:
    """Old versions that no run was started with, but for the newest KEPT_VERSIONS of each definition."""
    return fetch(connection, f"SELECT kind, id, fingerprint {_UNUSED}", (KEPT_VERSIONS,))


def drop_unused(connection: Connection, keys: Sequence[tuple[str, str, str]]) -> None:
    """Delete those of these versions that are still unused."""
    query = f"DELETE {_UNUSED} AND kind = ? AND id = ? AND fingerprint = ?"
    connection.executemany(query, [(KEPT_VERSIONS, *key) for key in keys])
