"""Names that every client takes, Claude Code's included: `[A-Za-z0-9_-]`, at most 48 characters (it puts
`mcp__SERVER__` before them, and 64 is its limit), each of one tool only."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

LONGEST: Final = 48
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MARK: Final = 6


def unique_names(
    wanted: Iterable[tuple[str, str]], taken: Iterable[str] = (), own: Container[str] = ()
) -> dict[str, str]:
    """From (id, wanted name) to {id: name}; the same for the same set, in whatever order.

    Where several come to the same name, the one that wanted exactly that keeps it, of several the one whose id is in
    `own`; the others, and those that are too long, end in a digest of their id. `taken` are names nobody gets.
    """
    asked = dict(wanted)
    safe = {id: safe_name(name).strip("_") or "tool" for id, name in asked.items()}
    exact = Counter(name for id, name in safe.items() if asked[id] == name)
    owned = Counter(name for id, name in safe.items() if asked[id] == name and id in own)
    known = Counter(safe.values())
    blocked = set(taken)
    found: dict[str, str] = {}
    for id, name in safe.items():
        mine = owned[name] == 1 and id in own
        alone = known[name] == 1 or (asked[id] == name and (exact[name] == 1 or mine))
        found[id] = name if alone and len(name) <= LONGEST and name not in blocked else _marked(id, name)
    return found


def safe_name(name: str) -> str:
    """Return a name with the characters that clients do not take replaced."""
    return _OTHER.sub("_", name)


def _marked(id: str, name: str) -> str:
    mark = hashlib.sha256(id.encode()).hexdigest()[:_MARK]
    return f"{name[: LONGEST - _MARK - 1].rstrip('_')}_{mark}"
