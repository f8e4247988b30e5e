"""Read and write the rows of the SQL stores. The caller holds the lock or the transaction.

The shared SQL runs on a connection to SQLite or a session with Postgres. Its statements use `?` or `?1` for values,
`ON CONFLICT` with its columns, and `among` for a list. A statement for only one database belongs in the files of that
database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import orjson

from ...content import contents, hashes_in
from ...errors import Action, Fenced, JournalConflict, StoreError
from ...values import Json, gc_disabled
from ..protocol import DECISIONS, Entry, Key, RunRow
from .blobs import CONTENT, Blob, Packed, is_ref, unpack
from .leases import Owner

AMONG: Final = "IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
"""SQL condition: a number is in the list that `json_list` makes."""


class Rows(Protocol):
    """The result of a query."""

    def fetchall(self) -> list[Any]:
        """Read the result."""
        ...


class Connection(Protocol):
    """A connection to a database, as SQLite's and Postgres's drivers have it."""

    def execute(self, query: str, values: Sequence[Any] = ..., /) -> Rows:
        """Run a statement."""
        ...

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Run a statement for each row."""


def fetch(connection: Connection, query: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows of a query, as tuples."""
    return connection.execute(query, values).fetchall()


def json_list(values: Iterable[int]) -> str:
    """Return a list of numbers as a value for `AMONG`."""
    return orjson.dumps(list(values)).decode()


Row: TypeAlias = tuple[Any, ...]
"""run, path, kind, node, data, digest, started, ended, epoch; and the run whose epoch that is, for facts of a chunk."""
ENTRY_COLUMNS: Final = 9
"""Values in a row of a run's own."""
REFERS: Final = b"\1"
"""The first byte of a result with references; JSON never begins with it."""
CHUNK: Final = "chunk"
"""The kind of a run that plays a range of another one's map."""

UPSERT: Final = f"""
    ON CONFLICT (run, path, kind) DO UPDATE SET node = excluded.node, data = excluded.data, digest = excluded.digest,
        started = excluded.started, ended = excluded.ended
    WHERE entry.kind NOT IN ({", ".join(f"'{kind}'" for kind in sorted(DECISIONS))})
"""
_EXECUTED_UNTIL: Final = (
    "CASE entry.kind WHEN 'timer' THEN entry.started ELSE entry.ended END"  # a timer's end is to come
)
SPENT: Final = f"""lease.spent + coalesce((SELECT max({_EXECUTED_UNTIL}) - lease.beat FROM entry
        WHERE entry.run = lease.run AND {_EXECUTED_UNTIL} BETWEEN lease.beat AND lease.beat + 5), 0)"""
"""What a run that is `running` has spent until the last that is known of it. An owner writes both columns at once: what
it had spent by its beat. What it recorded since then is executed too, but nothing later than an owner who lives is
silent: that was recorded by others, as of chunks, or a clock was set."""
_HOLD_CONTENT: Final = """
    INSERT INTO held (run, blob) SELECT ?, hash FROM blob WHERE hash = ? ON CONFLICT DO NOTHING
"""
_WAS_ABANDONED: Final = "status = 'stopped' AND result IS NULL"
"""Of a run that was stopped while nobody executed it: whoever executes one gives it a result and counts its errors."""
_ERRORS: Final = f"CASE WHEN {_WAS_ABANDONED} AND error_count = 0 THEN 1 ELSE error_count END"
_RUN: Final = f"""
    SELECT seq, run.id, kind, definition_id, name, status, fingerprint, started_at, ended_at, error, {{results}},
        {_ERRORS}, stop_requested, parent, due, forked_from, undo, undo_policy, owner, epoch, lease.node,
        {{spent}}{{more}}
    FROM run JOIN lease ON lease.run = seq
"""
_RESULTS: Final = f"""CASE WHEN status IN ('running', 'waiting') THEN
        (SELECT count(*) FROM entry WHERE entry.run = seq AND entry.kind IN ('call', 'node')
            AND entry.path NOT LIKE '%/%')
    WHEN {_WAS_ABANDONED} THEN
        (SELECT count(DISTINCT entry.node) FROM entry WHERE entry.run = seq
            AND entry.kind IN ('call', 'node', 'skip', 'attempt') AND entry.path NOT LIKE '%/%')
    ELSE result_count END"""
_LARGE_COLUMNS: Final = ("input", "context", "document", "result")
_LARGE: Final = f", {', '.join(_LARGE_COLUMNS)}"
_SPENT: Final = f"CASE status WHEN 'running' THEN {SPENT} ELSE spent END"
RUN: Final = _RUN.format(results="result_count", spent="spent", more=_LARGE)
RUN_SO_FAR: Final = _RUN.format(results=_RESULTS, spent=_SPENT, more=_LARGE)  # goes through a running run's entries
RUN_LIGHT: Final = _RUN.format(results=_RESULTS, spent="spent", more="")
_ENTRIES: Final = "SELECT path, kind, node, data, digest, started, ended FROM entry WHERE run = ? ORDER BY rowid"
_STEPS: Final = "SELECT path, kind, data FROM entry WHERE run = ? AND path IN (SELECT value FROM json_each(?))"
_WAITS: Final = """
    SELECT run.id, path, entry.kind, entry.node, CASE WHEN entry.kind = 'wait' THEN data END, started, ended
    FROM entry JOIN run ON run.seq = entry.run
    WHERE entry.kind IN ('wait', 'signal', 'attempt', 'node', 'skip') AND entry.run {among}
    ORDER BY run.id, entry.rowid
"""
_HAVE_WAITED: Final = """IN (
    SELECT seq FROM (
        SELECT seq FROM run WHERE status = 'running' UNION ALL SELECT seq FROM run WHERE status = 'waiting'
    ) AS live WHERE EXISTS (SELECT 1 FROM entry AS wait WHERE wait.run = live.seq AND wait.kind = 'wait'))
"""


def why_not_written(connection: Connection, row: Row) -> Exception | None:
    """Return why an entry was not written; None if it already exists."""
    run, path, kind, _, data, digest, _, _, epoch, *fence = row
    fence_run = fence[0] if fence else run
    owners = fetch(connection, "SELECT id, epoch FROM run JOIN lease ON run = seq WHERE seq = ?", (fence_run,))
    id, current_epoch = owners[0] if owners else (f"#{run}, deleted since,", 0)
    if current_epoch != epoch:
        return Fenced(id)
    if kind in DECISIONS:
        recorded = fetch(
            connection, "SELECT data, digest FROM entry WHERE run = ? AND path = ? AND kind = ?", (run, path, kind)
        )
        if recorded != [(data, digest)]:
            return JournalConflict(id, path, f"another {kind} is recorded here")
    return None  # It already exists: the entry was sent again after an answer was lost.


def forget_chunks(connection: Connection, run_id: str) -> None:
    """Delete the chunks of a run, because their results depend on forgotten entries."""

    # Their calls stay recorded.
    chunks = fetch(connection, "DELETE FROM run WHERE parent = ? AND kind = ? RETURNING seq", (run_id, CHUNK))
    for table in ("lease", "held"):
        connection.executemany(f"DELETE FROM {table} WHERE run = ?", chunks)


def keep_blob(connection: Connection, blob: Blob, run: int) -> None:
    """Store a large value unless it exists, and note that the run holds it."""
    connection.execute(
        "INSERT INTO blob (hash, codec, size, data) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (blob.hash, blob.codec, blob.size, blob.data),
    )
    connection.execute("INSERT INTO held (blob, run) VALUES (?, ?) ON CONFLICT DO NOTHING", (blob.hash, run))


def keep_contents(connection: Connection, items: Iterable[tuple[str, bytes | None]], run: int) -> None:
    """Store content unless it exists, and note that the run holds it."""

    # `items`: SHA-256 and bytes of each content; None for content that this process has no bytes of.
    for name, data in items:
        hash = bytes.fromhex(name)
        if data is not None:
            keep_blob(connection, Blob(hash, CONTENT, len(data), data), run)
        else:
            connection.execute(_HOLD_CONTENT, (run, hash))


def contents_in(hashes: Iterable[str]) -> list[tuple[str, bytes | None]]:
    """Return each hash with the bytes that this process has of it, for `keep_contents`."""
    return [(hash, contents.in_memory(hash)) for hash in hashes]


def load_content(connection: Connection, hash: str) -> bytes | None:
    """Return content by its SHA-256; None if the store has none."""
    name = bytes.fromhex(hash)
    rows = fetch(connection, "SELECT codec, data FROM blob WHERE hash = ? AND codec = ?", (name, CONTENT))
    return unpack(b"\0" + name, rows[0], "content") if rows else None


def keep(connection: Connection, value: Packed, run: int) -> bytes | None:
    """Store the large value and the content of a value; return the bytes for the row of the run."""
    inside = value.contents if isinstance(value, Blob) else hashes_in(value)
    if inside:
        keep_contents(connection, contents_in(inside), run)
    if not isinstance(value, Blob):
        return value
    keep_blob(connection, value, run)
    return value.ref


def load(connection: Connection, data: bytes | None, place: str = "a value of the store") -> Json:
    """Return the value of a column."""

    # `data`: The bytes of the column.
    if data is None:
        return None
    if is_ref(data):
        rows = fetch(connection, "SELECT codec, data FROM blob WHERE hash = ?", (data[1:],))
        data = unpack(data, rows[0] if rows else None, place)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        damage = StoreError(f"{place} is damaged, it is not JSON ({error})")
        raise damage.with_remedy(Action.EXAMINE_STORE) from error


class StepMissing(StoreError):
    """A step that a result refers to is not there: its run was changed during the read, or is damaged."""


def load_result(connection: Connection, seq: int, data: bytes | None, place: str) -> Json:
    """Return the result in a column of a run, put together from the values that it refers to."""

    # `endings.py` describes the references.
    if data is None or data[:1] != REFERS:
        return load(connection, data, place)
    content: Any = load(connection, data[1:], place)
    result, references = content
    paths = {source[0] for _, source in references if isinstance(source, list)}
    rows = fetch(connection, _STEPS, (seq, orjson.dumps(sorted(paths)).decode())) if paths else []
    values: dict[Any, Json] = {(path, kind): load(connection, data, place) for path, kind, data in rows}
    for path, source in references:
        key = source if isinstance(source, str) else tuple(source)
        if key not in values:
            if not isinstance(source, str):
                missing = StepMissing(f"{place} refers to the step {source[0]} ({source[1]}), which is missing")
                raise missing.with_remedy(Action.EXAMINE_STORE)
            values[key] = load(connection, b"\0" + bytes.fromhex(source), place)
        owner = result
        for step in path[:-1]:
            owner = owner[step]
        owner[path[-1]] = values[key]
    return result


def entries(connection: Connection, seq: int) -> list[Entry]:
    """Return all entries of a run, in order."""
    return entries_of(connection, seq, fetch(connection, _ENTRIES, (seq,)))


@gc_disabled
def entries_of(connection: Connection, seq: int, rows: list[Any]) -> list[Entry]:
    """Return the entries in rows of a run."""
    loads = orjson.loads
    try:
        return [
            Entry(
                path,
                kind,
                node,
                None if data is None else load(connection, data) if data[:1] == b"\0" else loads(data),
                digest,
                started,
                ended,
            )
            for path, kind, node, data, digest, started, ended in rows
        ]
    except (orjson.JSONDecodeError, StoreError):
        [(id,)] = fetch(connection, "SELECT id FROM run WHERE seq = ?", (seq,)) or [(f"#{seq}",)]
        for path, kind, _, data, *_ in rows:
            load(connection, data, f"run {id}, {path} ({kind})")  # raises for the first damaged entry, with its place
        raise


def waits(connection: Connection, among: Iterable[int] | None = None) -> dict[str, list[Entry]]:
    """Return the entries of live runs that have reached a wait, by run id; without the results of other nodes."""

    # `among`: The numbers of the runs. Default: all live ones that have reached a wait.
    query = _WAITS.format(among=_HAVE_WAITED if among is None else AMONG)
    values = () if among is None else (json_list(among),)
    waiting: dict[str, list[Entry]] = {}
    for id, path, kind, node, data, started, ended in fetch(connection, query, values):
        waiting.setdefault(id, []).append(
            Entry(path, kind, node, load(connection, data, f"run {id}, {path} ({kind})"), "", started, ended)
        )
    return {id: found for id, found in waiting.items() if among is None or any(e.kind == "wait" for e in found)}


def runs(connection: Connection, rows: Iterable[tuple[Any, ...]]) -> list[tuple[int, RunRow]]:
    """Convert rows of RUN or RUN_LIGHT; return the number in the store and the RunRow of each."""
    return [(row[0], _run(connection, row)) for row in rows]


def _run(connection: Connection, row: Sequence[Any]) -> RunRow:
    (
        seq, id, kind, definition_id, name, status, fingerprint, started_at, ended_at, error, result_count, error_count,
        stop_requested, parent, due, forked_from, undo, undo_policy, owner, epoch, node, spent, *large,
    ) = row  # fmt: skip
    # RUN_LIGHT has no large columns.
    input, context, document, result = _load_large(connection, seq, id, large) if large else (None,) * 4
    failure, process, damaged = _load_error_and_owner(connection, id, error, owner, light=not large)
    return RunRow(
        id=id,
        kind=kind,
        definition_id=definition_id,
        name=name,
        status=status,
        input=input,
        context=context,
        document=document,
        fingerprint=fingerprint,
        started_at=started_at,
        ended_at=ended_at,
        result=result,
        error=failure,
        owner=process,
        epoch=epoch,
        spent=spent,
        current_node=node,
        result_count=result_count,
        error_count=error_count,
        stop_requested=bool(stop_requested),
        parent=parent,
        due=due,
        forked_from=forked_from,
        undo=undo,
        undo_policy=undo_policy,
        damaged=damaged,
    )


def _load_large(connection: Connection, seq: int, id: str, large: Sequence[bytes | None]) -> list[Json]:
    """Return the large values of a run in the order of its columns."""
    *others, result = zip(_LARGE_COLUMNS, large, strict=True)
    values = [load(connection, value, f"run {id}: its {column}") for column, value in others]
    return [*values, load_result(connection, seq, result[1], f"run {id}: its result")]


def _load_error_and_owner(
    connection: Connection, id: str, error: bytes | None, owner: str | None, *, light: bool
) -> tuple[Json, str, str]:
    """Return a run's error, its owner's name, and the damage of these."""

    # Damage raises a StoreError, except in lists (`light`), so that one damaged row does not fail a whole list.
    try:
        failure = load(connection, error, f"run {id}: its error")
        return failure, str(Owner.load(owner, f"run {id}")) if owner else "", ""
    except StoreError as bad:
        if not light:
            raise
        return {"type": "StoreError", "message": str(bad)}, "", str(bad)


@gc_disabled
def by_key(entries: list[Entry]) -> dict[Key, Entry]:
    return {(entry.path, entry.kind): entry for entry in entries}
