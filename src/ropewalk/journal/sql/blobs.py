"""Values as bytes: small values are inside their row, each large value is stored once by its hash.

Refused: more than 100 MB of JSON in one value (InvalidValue).
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final, TypeAlias

import orjson

from ...content import hashes_in
from ...errors import Action, InvalidValue, StoreError
from ...fast_dataclass import dataclass
from ...values import MAX_BYTES, Json

CONTENT: Final = 2
"""The codec of content."""
INLINE: Final = 64_000
"""A value with more bytes than this lives in the blob table."""

_HASH_BYTES: Final = 32
_SAMPLE_BYTES: Final = 64_000
_WORTH_COMPRESSING: Final = 0.85


@dataclass(frozen=True, slots=True)
class Blob:
    """A large value."""

    # BLAKE2b of its JSON; SHA-256 of content.
    hash: bytes
    # 0 for JSON, 1 for deflated JSON, CONTENT for content.
    codec: int
    size: int
    # The bytes that are stored.
    data: bytes
    # The hashes of the content that the value refers to.
    contents: tuple[str, ...] = ()

    @property
    def ref(self) -> bytes:
        """The reference that replaces the value in a row."""

        # JSON never begins with its zero byte.
        return b"\0" + self.hash


Packed: TypeAlias = bytes | Blob | None


def dump(value: Json, place: str) -> bytes | None:
    """Return the JSON of a checked value; None for null."""
    return None if value is None else check_size(encode(value, place), place)


def encode(value: Json, place: str) -> bytes:
    """Return the JSON of a checked value, of any size."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:  # The value was not checked. Refuse it rather than lose it.
        raise InvalidValue(place, f"cannot be recorded: {error}") from error


def check_size(raw: bytes, place: str) -> bytes:
    """Return the JSON of one value; raise InvalidValue if it is too large to be recorded."""
    if len(raw) > MAX_BYTES:
        raise InvalidValue(place, f"{len(raw):,} bytes of JSON; at most {MAX_BYTES:,} can be recorded")
    return raw


def hash_of(raw: bytes) -> bytes:
    """Return the hash of the JSON of a value."""
    return hashlib.blake2b(raw, digest_size=_HASH_BYTES).digest()


def pack(raw: bytes | None, inline: int = INLINE) -> Packed:
    """Return `raw` itself if it is small, otherwise a blob."""

    # Compressing is slow: call this off the event loop.
    if raw is None or len(raw) <= inline:
        return raw
    name = hash_of(raw)
    inside = tuple(hashes_in(raw))
    if len(raw) > INLINE and len(zlib.compress(raw[:_SAMPLE_BYTES], 1)) < _SAMPLE_BYTES * _WORTH_COMPRESSING:
        return Blob(name, 1, len(raw), zlib.compress(raw, 1), inside)
    return Blob(name, 0, len(raw), raw, inside)


def is_ref(data: bytes | None) -> bool:
    return data is not None and data[:1] == b"\0"


def unpack(ref: bytes, stored: tuple[int, bytes] | None, place: str) -> bytes:
    """Return the bytes behind a reference."""
    if stored is not None:
        codec, data = stored
        if codec == CONTENT:
            if hashlib.sha256(data).digest() == ref[1:]:
                return bytes(data)
            codec, data = 0, b""
        try:
            raw = zlib.decompress(data) if codec == 1 else data
        except zlib.error:
            raw = b""
        if hash_of(raw) == ref[1:]:
            return raw
    raise StoreError(f"{place}: the large value {ref[1:9].hex()}… is missing or damaged").with_remedy(
        Action.EXAMINE_STORE
    )
