"""What a definition may be at most, and a call may take. To add a limit, add a field here and its
key to `table.py`."""

from __future__ import annotations

from ..frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds per tool call; and what a definition may be at most: `nodes`, `nesting` (of regions, and
    of collections in its text), and of its file the size in bytes and the number of YAML `aliases`."""

    tool_timeout: float = 60.0
    nodes: int = 10_000
    nesting: int = 64
    file_size: int = 10_000_000
    aliases: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended runs are kept, in `days`, and how many of them; None: no matter how long, how many."""

    days: float | None = 30.0
    runs: int | None = 10_000
