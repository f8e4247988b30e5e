"""A run as one JSON object: all that the store holds of it and of its parts. Secrets are in none of it: what is
recorded is their names."""

from __future__ import annotations

from dataclasses import asdict

from ..journal.journal import Store
from ..values import Json
from .pinned import MOST_PARTS, known

VERSION = 1


def export(store: Store, run_id: str) -> dict[str, Json]:
    row = known(store, run_id)
    return {
        "ropewalkRun": VERSION,
        "run": asdict(row),
        "entries": [asdict(entry) for entry in store.history(run_id)],
        "signals": [asdict(signal) for signal in store.signals(run_id)],
        "parts": [export(store, part.id) for part in reversed(store.list_runs(parent=run_id, limit=MOST_PARTS))],
    }
