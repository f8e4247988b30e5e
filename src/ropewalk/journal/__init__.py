"""Where runs and definitions are kept. See `journal.py` for the protocols."""

from .address import named_store, open_store
from .journal import (
    DECISIONS,
    ENDS,
    STATUSES,
    Definition,
    Entry,
    Key,
    Log,
    NewRun,
    Pruned,
    RunRow,
    Signal,
    Store,
    Wanted,
)
from .memory import MemoryStore
from .use import ToolUse, UseStore

__all__ = [
    "DECISIONS",
    "ENDS",
    "STATUSES",
    "Definition",
    "Entry",
    "Key",
    "Log",
    "MemoryStore",
    "NewRun",
    "Pruned",
    "RunRow",
    "Signal",
    "Store",
    "ToolUse",
    "UseStore",
    "Wanted",
    "named_store",
    "open_store",
]
