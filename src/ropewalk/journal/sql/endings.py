"""The results of ended runs, stored as references to what their runs have recorded.

The result of a run repeats the values of its steps. A small result is stored as it is. In a larger one each value that
a step has recorded becomes a reference to that step, and each other large value becomes a blob of its own. So the
values of a run may take any number of bytes together. Only one value has a limit, as everywhere in a store.

The column then has `rows.REFERS` and the JSON of `[skeleton, references]`. The skeleton is the result with null in
place of each reference. A reference is `[path in the skeleton, source]`; the source is the hash of a blob in
hexadecimal, or `[path, kind]` of an entry. JSON that is large itself is a blob.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple, TypeAlias

import orjson

from ...values import Json
from ..protocol import DECISIONS, Entry, Key
from .blobs import INLINE, Blob, Packed, check_size, hash_of, pack
from .rows import REFERS, Connection, fetch, keep

INLINE_RESULT: Final = 4_000
"""Bytes of a result up to which it is stored as it is."""

SHARED: Final = 1_000
"""Bytes of a value from which on a result does not copy it."""

_WRITTEN_ONCE: Final = DECISIONS | {"node"}  # the engine writes a `node` once for each path
_MOST_NOTED: Final = 10_000  # recorded values that one result can refer to
_DEPTH: Final = 8  # levels of a result at which recorded values are looked for
_FEW_BYTES: Final = 200  # a list or object whose items are smaller on average is one value

_Path: TypeAlias = "list[str | int]"
_Source: TypeAlias = "str | Key"

_HELD: Final = "SELECT blob FROM held WHERE run = ?"
_HOLD: Final = "INSERT INTO held (blob, run) VALUES (?, ?) ON CONFLICT DO NOTHING"


class RecordedValues:
    """The values that the entries of one run hold, by size and hash."""

    def __init__(self) -> None:
        self.total = 0
        """Bytes of the noted values."""
        self._noted: dict[Key, tuple[int, bytes]] = {}

    def note(self, entry: Entry, raw: bytes) -> None:
        """Note an entry by its JSON, of at least `SHARED` bytes."""
        self.total += len(raw)
        if entry.kind in _WRITTEN_ONCE and len(self._noted) < _MOST_NOTED:
            # The hash of a blob is computed where it is packed: not on an event loop.
            self._noted[entry.path, entry.kind] = len(raw), b"" if len(raw) > INLINE else hash_of(raw)

    def note_entries(self, entries: Iterable[Entry]) -> None:
        """Note the entries that earlier owners recorded."""
        for entry in entries:
            if (entry.path, entry.kind) not in self._noted and len(raw := orjson.dumps(entry.data)) >= SHARED:
                self.note(entry, raw)

    def forget(self, key: Key) -> None:
        """Forget an entry that was removed or refused."""
        self._noted.pop(key, None)

    def sizes(self) -> set[int]:
        """Return the sizes of the values."""
        return {size for size, _ in self._noted.values()}

    def keys(self) -> dict[bytes, Key]:
        """Return an entry for the hash of each value that is in the row of its entry."""
        return {hash: key for key, (_, hash) in self._noted.items() if hash}


class PackedResult(NamedTuple):
    """A result ready for its row."""

    whole: Packed
    has_references: bool = False
    # New values, and the hashes of those that entries of the run hold.
    blobs: Collection[Blob] = ()
    held: Collection[bytes] = ()

    def keep(self, connection: Connection, run: int) -> bytes | None:
        """Store the values of the result; return the bytes for the row of the run."""
        for blob in self.blobs:
            keep(connection, blob, run)
        if self.held:
            connection.executemany(_HOLD, [(hash, run) for hash in self.held])
        data = keep(connection, self.whole, run)
        return REFERS + data if self.has_references and data is not None else data


def held_by(connection: Connection, run: int) -> set[bytes]:
    """Return the hashes of the large values that a run holds."""
    return {bytes(hash) for (hash,) in fetch(connection, _HELD, (run,))}


def pack_result(result: Json, recorded: RecordedValues, held: Collection[bytes]) -> PackedResult:
    """Return a result with references to recorded values, and to blobs of which the run holds `held` already."""
    splitter, raw = _Splitter(recorded, held), orjson.dumps(result)
    skeleton = splitter.split(result, [], raw)
    if not splitter.references:
        return PackedResult(pack(raw))
    packed = pack(orjson.dumps([skeleton, splitter.references]))
    return PackedResult(packed, True, splitter.blobs.values(), splitter.held)


class _Splitter:
    """Replaces values in one result by references."""

    def __init__(self, recorded: RecordedValues, held: Collection[bytes]) -> None:
        self.references: list[tuple[_Path, _Source]] = []
        self.blobs: dict[bytes, Blob] = {}
        self.held: set[bytes] = set()
        self._sizes, self._keys, self._held_before = recorded.sizes(), recorded.keys(), held

    def split(self, value: Json, path: _Path, raw: bytes) -> Json:
        """Return a value with null in place of each reference."""
        size = len(raw)
        if size < SHARED:
            return value
        divisible = isinstance(value, (dict, list)) and len(path) < _DEPTH and size > _FEW_BYTES * len(value)
        # Whether it was recorded comes first: a recorded list is one reference.
        if path and (size in self._sizes or (size > INLINE and not divisible)):
            source = self._keys.get(hash_of(raw)) if size <= INLINE else self._blob(raw, path)
            if source is not None:
                self.references.append((path, source))
                return None
        if not divisible:
            if not path:
                check_size(raw, "result")
            return value
        if isinstance(value, dict):
            return {key: self._split_item(item, [*path, key]) for key, item in value.items()}
        assert isinstance(value, list)
        return [self._split_item(item, [*path, index]) for index, item in enumerate(value)]

    def _split_item(self, value: Json, path: _Path) -> Json:
        return self.split(value, path, orjson.dumps(value)) if isinstance(value, (dict, list, str)) else value

    def _blob(self, raw: bytes, path: _Path) -> str:
        """Return the source of a large value."""
        hash = hash_of(raw)
        if hash in self._held_before:
            self.held.add(hash)
        elif hash not in self.blobs:
            check_size(raw, ".".join(map(str, ["result", *path])))
            blob = pack(raw)
            assert isinstance(blob, Blob)
            self.blobs[hash] = blob
        return hash.hex()
