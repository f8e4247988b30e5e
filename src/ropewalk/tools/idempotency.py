"""The idempotency key of a call as other systems see it."""

from __future__ import annotations

from hashlib import sha256


def hash_key(key: str) -> str:
    """Return the key to send with a call: the same text for the same key, and nothing of the run id it is made of.

    Args:
        key: The key inside Ropewalk. It begins with the run id, which a client may have chosen.

    Returns:
        64 hexadecimal digits, safe in a header.
    """
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
