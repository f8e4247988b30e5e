"""What a JSON pointer names inside a schema."""

from __future__ import annotations

from ..values import Json


def at_pointer(found: Json, pointer: str) -> Json:
    """What a JSON pointer (`/$defs/name`) names in a schema; True (any value) where there is nothing."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return True
    return found
