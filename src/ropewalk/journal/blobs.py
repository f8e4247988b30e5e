"""Values as bytes: small ones where they belong, big ones once each by their hash.

Refused: more than 100 MB of JSON in one value (InvalidValue).
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final, TypeAlias

import orjson

from ..content import hashes_in
from ..errors import InvalidValue, StoreError
from ..frozen import dataclass
from ..values import MAX_BYTES, Json

CONTENT: Final = 2
"""The codec of content."""
INLINE: Final = 64_000
"""A value with more bytes than this lives in the blob table."""

ASK: Final = "; run `ropewalk doctor`, which says what else is damaged and what comes next"
"""What is said of damage wherever it is met, but by the doctor itself."""

_HASH_BYTES: Final = 32
_SAMPLE: Final = 64_000
_PAYS: Final = 0.85


@dataclass(frozen=True, slots=True)
class Blob:
    """A big value: its hash, and its JSON in `data`, deflated when `codec` is 1. With the codec CONTENT it is content:
    bytes, by their SHA-256. `contents` are the hashes of the content in a value."""

    hash: bytes
    codec: int
    size: int
    data: bytes
    contents: tuple[str, ...] = ()

    @property
    def ref(self) -> bytes:
        """What stands in its place: JSON never begins with a zero byte."""
        return b"\0" + self.hash


Packed: TypeAlias = bytes | Blob | None


def dump(value: Json, place: str) -> bytes | None:
    """JSON of a checked value, None for null. Raises InvalidValue past 100 MB."""
    if value is None:
        return None
    try:
        raw = orjson.dumps(value)
    except orjson.JSONEncodeError as error:  # Unchecked after all; better refused here than lost.
        raise InvalidValue(place, f"cannot be recorded: {error}") from error
    if len(raw) > MAX_BYTES:
        raise InvalidValue(place, f"{len(raw):,} bytes of JSON; at most {MAX_BYTES:,} can be recorded")
    return raw


def pack(raw: bytes | None, inline: int = INLINE) -> Packed:
    """`raw` itself when it is small, otherwise the blob made of it. Slow: keep it off the loop."""
    if raw is None or len(raw) <= inline:
        return raw
    name = hashlib.blake2b(raw, digest_size=_HASH_BYTES).digest()
    inside = tuple(hashes_in(raw))
    if len(raw) > INLINE and len(zlib.compress(raw[:_SAMPLE], 1)) < _SAMPLE * _PAYS:
        return Blob(name, 1, len(raw), zlib.compress(raw, 1), inside)
    return Blob(name, 0, len(raw), raw, inside)


def is_ref(data: bytes | None) -> bool:
    return data is not None and data[:1] == b"\0"


def unpack(ref: bytes, found: tuple[int, bytes] | None, place: str) -> bytes:
    """The JSON behind a reference that stands at `place`, given (codec, data) of its row. Raises StoreError unless
    it is exactly what was stored."""
    if found is not None:
        codec, data = found
        if codec == CONTENT:
            if hashlib.sha256(data).digest() == ref[1:]:
                return bytes(data)
            codec, data = 0, b""
        try:
            raw = zlib.decompress(data) if codec == 1 else data
        except zlib.error:
            raw = b""
        if hashlib.blake2b(raw, digest_size=_HASH_BYTES).digest() == ref[1:]:
            return raw
    raise StoreError(f"{place}: the big value {ref[1:9].hex()}… is missing or damaged{ASK}")
