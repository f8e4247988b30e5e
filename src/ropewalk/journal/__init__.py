"""Where runs and definitions are kept. See `journal.py` for the protocols."""

from .address import open_store
from .journal import DECISIONS, STATUSES, Definition, Entry, Key, Log, NewRun, RunRow, Store
from .memory import MemoryStore

__all__ = [
    "DECISIONS",
    "STATUSES",
    "Definition",
    "Entry",
    "Key",
    "Log",
    "MemoryStore",
    "NewRun",
    "RunRow",
    "Store",
    "open_store",
]
