"""What a document may be at most. To add a limit, add a field here and check it where the text is read."""

from __future__ import annotations

from ..frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a document may be at most: `size` in bytes (aliases written out included), `nesting`
    of collections, number of YAML `aliases`. With `repeats` a key may stand twice in an object of JSON: the last one
    holds, as other readers have it, and `Document.repeated` has all of them."""

    size: int = 10_000_000
    nesting: int = 64
    aliases: int = 1_000
    repeats: bool = False
