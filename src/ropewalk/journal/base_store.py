"""The base class for stores of your own: two methods to write, everything else is here.

A BaseStore holds what it knows in memory, as MemoryStore does, and hands every change to `save` before anything may
depend on it. A change is a list of pairs of a key and a JSON value; `load` returns these pairs when the store is opened
again. So one process at a time may have such a store open, and all of it must fit in memory. A store for several
processes implements the protocols `Store` and `Log` of `protocol.py` instead.

Both kinds are held to the same tests: `ropewalk.testing.check_store`.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from ..errors import StoreError
from ..values import Json, check_json
from .memory import MemoryLog, MemoryStore, Record
from .protocol import Definition, Entry, NewRun, Signal
from .sql.blobs import dump
from .tool_usage import ToolUse

_EVERY_RUN: Final = 2**62  # what is deleted is for `prune` to say, not for a limit of memory
_ROW: Final = (
    "status", "started_at", "ended_at", "result", "error", "result_count", "error_count", "epoch", "stop_requested",
    "current_node", "spent", "due", "undo",
)  # fmt: skip


class BaseStore(MemoryStore, ABC):
    """A store over any place that keeps pairs of a key and a JSON value.

    A subclass writes `load` and `save`, calls `super().__init__()` when both can be used, and may extend `close`.
    """

    def __init__(self) -> None:
        super().__init__(durable=True, keep=_EVERY_RUN)
        self._changing = _Saving(self)
        self._unsaved: dict[str, Json] = {}
        self._numbers = 0
        self._kept_contents: set[str] = set()
        self._restore(dict(self.load()))

    # --- what a subclass writes ---------------------------------------------------------------

    @abstractmethod
    def load(self) -> Iterable[tuple[str, Json]]:
        """Return everything that was saved and not deleted since; called once, when the store is opened.

        Returns:
            Pairs of a key and its value, in any order.

        Raises:
            StoreError: What is there cannot be read, or another process has it open.
        """

    @abstractmethod
    def save(self, changes: Mapping[str, Json], /) -> None:
        """Keep these changes, all of them or none.

        They must survive the death of the process once this returns. The same changes can come twice. Calls come
        one at a time, from any thread, and block the event loop: a few milliseconds are fine.

        Args:
            changes: New values by key; None deletes the key. A key is printable text of any length; a value is JSON.

        Raises:
            OSError, StoreError: Nothing was kept. The changes come again, with the next ones.
        """

    def put_definition(self, definition: Definition) -> None:
        check_json(definition.document, "document")
        super().put_definition(definition)

    @property
    def log_class(self) -> type[MemoryLog]:
        """Return the class of the logs of runs."""
        return BaseLog

    def close(self) -> None:
        """Write what is left and release the runs held. Idempotent. Extend it to close what `save` writes to."""
        with self._lock:
            if self._closed:
                return
            for record in self._runs.values():
                if record.log is not None:
                    self._changed("run", record.new.id)
            self.flush()
            super().close()

    def _create(self, run: NewRun) -> Record:
        check_json([run.input, run.context, run.document], "run")
        return super()._create(run)

    def _delete(self, record: Record) -> None:
        super()._delete(record)
        id = record.new.id
        keys = {_key("new", id), _key("run", id), _key("spent", id)}
        keys |= {_key("entry", id, *key) for key in record.entries}
        keys |= {_key("content", id, hash) for hash in record.contents}
        self._unsaved |= dict.fromkeys(keys)
        self._kept_contents -= keys

    # --- saving -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Save what is noted.

        Raises:
            StoreError: It could not be saved; it stays noted.
        """
        with self._lock:
            if not self._unsaved:
                return
            self._check_open()  # what `save` writes to may be closed
            try:
                self.save(self._unsaved)
            except OSError as error:
                raise StoreError(f"the store cannot be written: {error}") from error
            self._unsaved = {}

    def _changed(self, kind: str, *names: str) -> None:
        """Note the value that a part of the store has now, to be saved; None if it was deleted."""
        self._unsaved[_key(kind, *names)] = getattr(self, f"_{kind}_value")(*names)
        if kind == "new":
            self._changed("run", *names)
        elif kind == "account":
            kept: Json = {"runs": list(self.members(*names)), "until": self._kept_until.get(names[0], 0.0)}
            self._unsaved[_key("kept", *names)] = kept if names[0] in self._accounts else None
        elif kind in ("run", "entry") and (record := self._runs.get(names[0])) is not None:
            if kind == "entry":
                self._unsaved[_key("spent", names[0])] = record.elapsed()
            self._note_contents(record)

    def _new_value(self, id: str) -> Json:
        new = dataclasses.asdict(dataclasses.replace(self._runs[id].new, copies=None, undoes_calls=()))
        return {**new, "number": self._number()}

    def _run_value(self, id: str) -> Json:
        record = self._runs[id]
        row = {name: getattr(record, name) for name in _ROW}
        return row | {"spent": record.elapsed(), "signals": [dataclasses.asdict(signal) for signal in record.signals]}

    def _entry_value(self, id: str, path: str, kind: str) -> Json:
        entry = self._runs[id].entries.get((path, kind))
        if entry is None:
            return None
        value = {name: getattr(entry, name) for name in ("node", "data", "digest", "started", "ended")}
        return {**value, "number": self._number()}

    def _definition_value(self, kind: str, id: str) -> Json:
        current, versions = self._definitions.get((kind, id)), self._versions.get((kind, id), {})
        count = self._counts.get((kind, id), 0)
        if not (current is not None or versions or count):
            return None
        return {
            "current": dataclasses.asdict(current) if current is not None else None,
            "versions": [dataclasses.asdict(version) for version in versions.values()],
            "count": count,
        }

    def _uses_value(self, tool: str) -> Json:
        return [dataclasses.asdict(use) for use in self._tools.get(tool, {}).values()] or None

    def _turn_value(self, name: str) -> Json:
        return self._turns[name]

    def _account_value(self, account: str) -> Json:
        return dict(self._accounts[account]) if account in self._accounts else None

    def _reservation_value(self, key: str) -> Json:
        return list(self._reservations[key]) if key in self._reservations else None

    def _note_contents(self, record: Record) -> None:
        for hash, data in record.contents.items():
            key = _key("content", record.new.id, hash)
            if key not in self._kept_contents:
                self._kept_contents.add(key)
                self._unsaved[key] = base64.b64encode(data).decode()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- loading ------------------------------------------------------------------------------

    def _restore(self, saved: Mapping[str, Any]) -> None:
        """Make what `load` gave the state of this store."""

        # Nobody holds a run, so running ones are orphans.
        parts: dict[str, list[tuple[list[str], Any]]] = {}
        for key, value in saved.items():
            kind, *names = orjson.loads(key)
            parts.setdefault(kind, []).append((names, value))
        for (run_id,), value in sorted(parts.get("new", []), key=lambda part: int(part[1]["number"])):
            self._runs[run_id] = Record(NewRun(**{name: part for name, part in value.items() if name != "number"}))
            self._numbers = max(self._numbers, value["number"])
        # Runs exist now; the other parts fill them in.
        for (run_id,), value in parts.get("run", []):
            record = self._runs[run_id]
            for name in _ROW:
                setattr(record, name, value.get(name))
            record.signals = [Signal(**signal) for signal in value["signals"]]
        for (run_id, path, kind), value in sorted(parts.get("entry", []), key=lambda part: int(part[1]["number"])):
            self._numbers = max(self._numbers, value["number"])
            rest = {name: part for name, part in value.items() if name != "number"}
            self._runs[run_id].entries[path, kind] = Entry(path, kind, **rest)
        for (run_id,), seconds in parts.get("spent", []):
            self._runs[run_id].spent = max(self._runs[run_id].spent, seconds)
        for (run_id, hash), data in parts.get("content", []):
            self._kept_contents.add(_key("content", run_id, hash))
            record = self._runs[run_id]
            record.contents = {**record.contents, hash: base64.b64decode(data)}
        for (kind, id), value in parts.get("definition", []):
            if value["current"] is not None:
                self._definitions[kind, id] = Definition(**value["current"])
            self._versions[kind, id] = {version["fingerprint"]: Definition(**version) for version in value["versions"]}
            self._counts[kind, id] = value["count"]
        for (tool,), value in parts.get("uses", []):
            self._tools[tool] = {use["request"]: ToolUse(**use) for use in value}
        self._turns = {name: now for (name,), now in parts.get("turn", [])}
        self._accounts = {account: value for (account,), value in parts.get("account", [])}
        self._reservations = {key: value for (key,), value in parts.get("reservation", [])}
        self._members = {account: value["runs"] for (account,), value in parts.get("kept", [])}
        self._kept_until = {account: value["until"] for (account,), value in parts.get("kept", [])}


class _Saving:
    """The lock of a store, which saves the changes that were made under it when it is released."""

    # Changes left by an earlier failure are saved first, to keep the order.

    def __init__(self, store: BaseStore) -> None:
        self._store, self._depth = store, 0

    def __enter__(self) -> None:
        self._store._lock.acquire()
        try:
            if not self._depth:
                self._store.flush()
        except BaseException:
            self._store._lock.release()
            raise
        self._depth += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._depth -= 1
        try:
            if kind is None and not self._depth:
                self._store.flush()
        finally:
            self._store._lock.release()


class BaseLog(MemoryLog):
    """The log of a run in a BaseStore: what MemoryLog does, saved before it is acknowledged."""

    _store: BaseStore

    def append(self, entry: Entry) -> asyncio.Future[None]:
        # What cannot be saved is refused here: it must not hold up the facts of other runs.
        dump(entry.data, f"{entry.path} ({entry.kind})")
        try:
            orjson.dumps((entry.path, entry.kind, entry.node, entry.digest))
            with self._store._lock:
                committed = super().append(entry)
                self._store.flush()
        except orjson.JSONEncodeError as error:
            return self._failed(StoreError(f"an entry of run {self.run.id} cannot be recorded: {error}"))
        except StoreError as error:
            return self._failed(error)
        return committed


def _key(*parts: str) -> str:
    return orjson.dumps(parts).decode()
