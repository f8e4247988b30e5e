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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import orjson

from ..errors import StoreError
from ..values import Json, check_json
from .ledger import Exhausted, Limits
from .memory import MemoryLog, MemoryStore, Record
from .protocol import Definition, Entry, Key, NewRun, OpenWait, Pruned, Signal
from .sql.blobs import dump
from .tool_usage import ToolUse
from .undo import UNDONE

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

    # --- definitions, tool usage, turns -------------------------------------------------------

    def put_definition(self, definition: Definition) -> None:
        check_json(definition.document, "document")
        with self._saving():
            super().put_definition(definition)
            self._note_definition(definition.kind, definition.id)

    def delete_definition(self, kind: str, id: str) -> bool:
        with self._saving():
            existed = super().delete_definition(kind, id)
            self._note_definition(kind, id)
            return existed

    def put_uses(self, uses: Sequence[ToolUse]) -> None:
        with self._saving():
            super().put_uses(uses)
            for tool in {use.tool for use in uses}:
                self._note_uses(tool)

    def delete_uses(self, tool: str | None = None) -> int:
        with self._saving():
            tools = list(self._tools) if tool is None else [tool]
            deleted = super().delete_uses(tool)
            for name in tools:
                self._note_uses(name)
            return deleted

    def take_turn(self, name: str, every: float, now: float) -> bool:
        with self._saving():
            is_due = super().take_turn(name, every, now)
            if is_due:
                self._unsaved[_key("turn", name)] = now
            return is_due

    # --- the ledger ---------------------------------------------------------------------------

    def reserve(self, key: str, limits: Limits, calls: int = 1, /) -> Exhausted | None:
        with self._saving():
            exhausted = super().reserve(key, limits, calls)
            if exhausted is None:
                self._note_ledger(key, limits)
            return exhausted

    def settle(self, key: str, amounts: Mapping[str, float], /) -> None:
        with self._saving():
            accounts = self._reservations.get(key, [])
            super().settle(key, amounts)
            self._note_ledger(key, accounts)

    def join(self, run_id: str, accounts: Iterable[str], until: float, /) -> None:
        with self._saving():
            joined = list(accounts)
            super().join(run_id, joined, until)
            for account in joined:
                self._note_account(account)

    def _note_ledger(self, key: str, accounts: Iterable[str]) -> None:
        reserved: Json = list(self._reservations.get(key, ())) if key in self._reservations else None
        self._unsaved[_key("reservation", key)] = reserved
        for account in accounts:
            self._note_account(account)

    def _note_account(self, account: str) -> None:
        kept: Json = {"runs": list(self.members(account)), "until": self._kept_until.get(account, 0.0)}
        self._unsaved[_key("account", account)] = dict(self.used(account))
        self._unsaved[_key("kept", account)] = kept

    def _drop_accounts(self) -> None:
        accounts, reservations = list(self._accounts), list(self._reservations)
        super()._drop_accounts()
        for account in accounts:
            if account in self._accounts:
                self._note_account(account)
            else:
                self._unsaved |= {_key("account", account): None, _key("kept", account): None}
        gone = [key for key in reservations if key not in self._reservations]
        self._unsaved |= {_key("reservation", key): None for key in gone}

    # --- runs ---------------------------------------------------------------------------------

    @property
    def log_class(self) -> type[MemoryLog]:
        """Return the class of the logs of runs."""
        return BaseLog

    def request_stop(self, run_id: str) -> bool:
        with self._saving():
            stopped = super().request_stop(run_id)
            if stopped:
                self.note_run(self._runs[run_id])
            return stopped

    def skip_undo(self, run_id: str, /) -> None:
        with self._saving():
            super().skip_undo(run_id)
            if run_id in self._runs:
                self.note_run(self._runs[run_id])

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        with self._saving():
            is_new = super().send(run_id, name, payload, id=id)
            if is_new:
                self.note_run(self._runs[run_id])
            return is_new

    def prune(
        self,
        *,
        before: float | None = None,
        keep: int | None = None,
        status: Sequence[str] = (),
        dry: bool = False,
        most: int | None = None,
    ) -> Pruned:
        with self._saving():
            records = dict(self._runs)
            pruned = super().prune(before=before, keep=keep, status=status, dry=dry, most=most)
            for run_id, record in records.items():
                if run_id not in self._runs:
                    deleted_keys = dict.fromkeys(self._keys_of(record))
                    self._unsaved |= deleted_keys
                    self._kept_contents -= deleted_keys.keys()
            if pruned.runs or not dry:
                for kind, id in self._versions:
                    self._note_definition(kind, id)
            return pruned

    def close(self) -> None:
        """Write what is left and release the runs held. Idempotent. Extend it to close what `save` writes to."""
        with self._lock:
            if self._closed:
                return
            for record in self._runs.values():
                if record.log is not None:
                    self.note_run(record)
            self.flush()
            super().close()

    def _create(self, run: NewRun) -> Record:
        check_json([run.input, run.context, run.document], "run")
        with self._saving():
            record = super()._create(run)
            self.note_run(record, with_start=True)
            if run.undoes is not None:
                self.note_run(self._runs[run.undoes])
            for maker, path in ((self._runs[calls.run], path) for calls in run.undoes_calls for path in calls.paths):
                self.note_entry(maker, maker.entries[path, UNDONE])
            for entry in record.entries.values():  # those of a fork
                self.note_entry(record, entry)
            if run.definition_id is not None:
                self._note_definition(run.kind, run.definition_id)
            return record

    def _take_over(self, record: Record, *, again: bool) -> MemoryLog:
        self.flush()
        log = super()._take_over(record, again=again)
        if log.finished is not None:
            return log
        self.note_run(record)
        for entry in record.entries.values():
            if entry.kind == "ending":
                self.note_entry(record, entry)
        try:
            self.flush()
        except StoreError:
            record.log = None  # nobody gets the log, so nobody holds the run
            raise
        return log

    # --- saving -------------------------------------------------------------------------------

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Save the changes made inside."""

        # Changes left by an earlier failure are saved first, to keep the order.
        with self._lock:
            self.flush()
            yield
            self.flush()

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

    def note_run(self, record: Record, *, with_start: bool = False) -> None:
        """Note the state of a run, to be saved.

        Args:
            record: The run.
            with_start: Whether also to save the request that started it, which only `Log.pin` changes.
        """
        if with_start:
            new = dataclasses.asdict(dataclasses.replace(record.new, copies=None, undoes_calls=()))
            self._unsaved[_key("new", record.new.id)] = {**new, "number": self._number()}
        row = {name: getattr(record, name) for name in _ROW}
        row["spent"] = record.elapsed()
        row["signals"] = [dataclasses.asdict(signal) for signal in record.signals]
        self._unsaved[_key("run", record.new.id)] = row
        self._note_contents(record)

    def note_entry(self, record: Record, entry: Entry) -> None:
        """Note an entry of a run and the seconds spent so far, to be saved.

        Args:
            record: The run.
            entry: The entry.
        """
        value = {name: getattr(entry, name) for name in ("node", "data", "digest", "started", "ended")}
        key = _key("entry", record.new.id, entry.path, entry.kind)
        self._unsaved[key] = {**value, "number": self._number()}
        self._unsaved[_key("spent", record.new.id)] = record.elapsed()
        self._note_contents(record)

    def forget_entry(self, record: Record, key: Key) -> None:
        """Note that an entry of a run is to be deleted.

        Args:
            record: The run.
            key: Path and kind of the entry.
        """
        self._unsaved[_key("entry", record.new.id, *key)] = None

    def _note_contents(self, record: Record) -> None:
        for hash, data in record.contents.items():
            key = _key("content", record.new.id, hash)
            if key not in self._kept_contents:
                self._kept_contents.add(key)
                self._unsaved[key] = base64.b64encode(data).decode()

    def _note_definition(self, kind: str, id: str) -> None:
        current, versions = self._definitions.get((kind, id)), self._versions.get((kind, id), {})
        count = self._counts.get((kind, id), 0)
        exists = current is not None or versions or count
        value: Json = {
            "current": dataclasses.asdict(current) if current is not None else None,
            "versions": [dataclasses.asdict(version) for version in versions.values()],
            "count": count,
        }
        self._unsaved[_key("definition", kind, id)] = value if exists else None

    def _note_uses(self, tool: str) -> None:
        uses: Json = [dataclasses.asdict(use) for use in self._tools.get(tool, {}).values()]
        self._unsaved[_key("uses", tool)] = uses or None

    def _keys_of(self, record: Record) -> Iterator[str]:
        id = record.new.id
        yield from (_key("new", id), _key("run", id), _key("spent", id))
        yield from (_key("entry", id, *key) for key in record.entries)
        yield from (_key("content", id, hash) for hash in record.contents)

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


class BaseLog(MemoryLog):
    """The log of a run in a BaseStore: what MemoryLog does, saved before it is acknowledged."""

    _store: BaseStore

    def append(self, entry: Entry) -> asyncio.Future[None]:
        # What cannot be saved is refused here: it must not hold up the facts of other runs.
        dump(entry.data, f"{entry.path} ({entry.kind})")
        try:
            orjson.dumps((entry.path, entry.kind, entry.node, entry.digest))
        except orjson.JSONEncodeError as error:
            return self._failed(StoreError(f"an entry of run {self.run.id} cannot be recorded: {error}"))
        with self._store._lock:
            previous = self._record.entries.get((entry.path, entry.kind))
            committed = super().append(entry)
            if committed.exception() is not None:
                return committed
            current = self._record.entries.get((entry.path, entry.kind))
            if current is not previous:
                self._store.note_entry(self._record, entry)
            try:
                self._store.flush()
            except StoreError as error:
                return self._failed(error)
            return committed

    async def forget(self, keys: Iterable[Key]) -> None:
        with self._store._saving():
            removed = list(keys)
            await super().forget(removed)
            for key in removed:
                self._store.forget_entry(self._record, key)

    async def take(self, waits: Sequence[OpenWait]) -> list[Entry]:
        with self._store._saving():
            entries = await super().take(waits)
            for entry in entries:
                self._store.note_entry(self._record, entry)
            if entries:
                self._store.note_run(self._record)
            return entries

    async def park(self, due: float | None, names: Collection[str] = ()) -> bool:
        with self._store._saving():
            parked = await super().park(due, names)
            if parked:
                self._store.note_run(self._record)
            return parked

    async def pin(self, document: Json, fingerprint: str) -> None:
        with self._store._saving():
            await super().pin(document, fingerprint)
            self._store.note_run(self._record, with_start=True)

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        with self._store._saving():
            recorded_status = await super().finish(status, result, error, results=results, errors=errors)
            self._store.note_run(self._record)
            return recorded_status

    async def release(self) -> None:
        if self._record.log is not self:
            return
        with self._store._saving():
            await super().release()
            self._store.note_run(self._record)


def _key(*parts: str) -> str:
    return orjson.dumps(parts).decode()
