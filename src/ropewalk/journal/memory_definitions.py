"""Stored definitions and their versions, and whose turn it was when, in memory."""

from __future__ import annotations

import dataclasses
import threading
import time

from .journal import KEPT_VERSIONS, Definition


class MemoryDefinitions:
    """The part of a MemoryStore that knows of no runs."""

    schema = None

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._versions: dict[tuple[str, str], dict[str, Definition]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._turns: dict[str, float] = {}

    def put_definition(self, definition: Definition) -> None:
        key = (definition.kind, definition.id)
        with self._lock:
            old = self._definitions.get(key)
            now = definition.created or time.time()
            known = self._versions.setdefault(key, {})
            same = known.get(definition.fingerprint)
            number = same.version if same else 1 + max((d.version for d in known.values()), default=0)
            new = dataclasses.replace(definition, created=same.created if same else now, run_count=0, version=number)
            known[definition.fingerprint] = new
            self._definitions[key] = dataclasses.replace(new, created=old.created if old else now)
            if old is None:
                self._counts.pop(key, None)

    def get_definition(self, kind: str, id: str) -> Definition | None:
        found = self._definitions.get((kind, id))
        return None if found is None else self._counted(found)

    def list_definitions(self, kind: str | None = None) -> list[Definition]:
        with self._lock:
            return [self._counted(d) for key, d in sorted(self._definitions.items()) if kind in (None, key[0])]

    def delete_definition(self, kind: str, id: str) -> bool:
        with self._lock:
            self._versions.pop((kind, id), None)
            return self._definitions.pop((kind, id), None) is not None

    def take_turn(self, name: str, every: float, now: float) -> bool:
        with self._lock:
            last = self._turns.get(name)
            if last is not None and last <= now < last + every:
                return False
            self._turns[name] = now
            return True

    def _drop_unused(self, started: set[tuple[str, str | None, str]]) -> None:
        """Old versions that no run was started with."""
        used = started | {(d.kind, d.id, d.fingerprint) for d in self._definitions.values()}
        for key, known in self._versions.items():
            newest = max(d.version for d in known.values())
            for fingerprint, d in list(known.items()):
                if d.version <= newest - KEPT_VERSIONS and (*key, fingerprint) not in used:
                    del known[fingerprint]

    def _counted(self, definition: Definition) -> Definition:
        count = self._counts.get((definition.kind, definition.id), 0)
        if not count:
            return definition
        d = definition  # spelled out: `replace` takes three times as long, and every run comes by
        return Definition(
            kind=d.kind,
            id=d.id,
            name=d.name,
            document=d.document,
            fingerprint=d.fingerprint,
            created=d.created,
            run_count=count,
            version=d.version,
        )
