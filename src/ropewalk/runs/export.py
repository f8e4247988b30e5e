"""A run as one JSON object: all that the store holds of it and of its parts. Secrets are in none of it: what is
recorded is their names."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from ..content import contents, hashes_of
from ..journal.journal import Store
from ..values import Json
from .pinned import MOST_PARTS, known

VERSION = 1


def export(store: Store, run_id: str) -> dict[str, Json]:
    """Everything recorded of a run. `contents` has the bytes of its content in base64, by their SHA-256."""
    found: dict[str, Any] = _run(store, run_id)
    kept = {hash: base64.b64encode(data).decode() for hash, data in _contents(found)}
    return {**found, "contents": kept} if kept else found


def _run(store: Store, run_id: str) -> dict[str, Json]:
    row = known(store, run_id)
    return {
        "ropewalkRun": VERSION,
        "run": asdict(row),
        "entries": [asdict(entry) for entry in store.history(run_id)],
        "signals": [asdict(signal) for signal in store.signals(run_id)],
        "parts": [_run(store, part.id) for part in reversed(store.list_runs(parent=run_id, limit=MOST_PARTS))],
    }


def _contents(exported: dict[str, Json]) -> Iterable[tuple[str, bytes]]:
    for hash in dict.fromkeys(hashes_of(exported)):
        data = contents.find(hash)
        if data is not None:
            yield hash, data
