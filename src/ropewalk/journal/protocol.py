"""The journal: what a store remembers of runs, and the protocols `Store` and `Log` of every store.

A fact is an `Entry`, keyed by (run, path, kind) and never by the order of calls. A store promises two things:
acknowledged facts survive a crash, and only one owner at a time writes to a run. An owner that was replaced writes
nothing more. A remote store may send a batch twice: entries are unique, and the run's epoch fences off old owners.

The package does not know what a flow is, and it never sees secrets: the engine removes them first.

To add a store for one process, subclass `BaseStore` (`base_store.py`). For several processes, implement `Store` and
`Log`. Give the store an address with `register_store`, and test it with `ropewalk.testing.check_store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias

from ..fast_dataclass import dataclass
from ..values import Json
from .run_counts import CountStore
from .tool_usage import UseStore
from .undo import UNDONE, UndoneCalls, UndoStore

ENDS: Final = ("completed", "partial", "failed", "stopped", "timeout", "parked")
STATUSES: Final = ("running", "waiting", *ENDS)
"""A `waiting` run has no owner: it continues when a signal arrives or when it is due. A `parked` run has ended because
it kills its workers or cannot continue; a worker tries again when somebody releases it."""

DECISIONS: Final = frozenset(("call", "timer", "items", "branch", "wait", "signal"))
"""Kinds that are written once: a second, different entry is a JournalConflict. Of any other kind ("call_failed",
"attempt", "node", "skip") the latest replaces the one before. The store itself writes the kind "ending" (`ending`).
An "offer" is a call of the run that this one was forked from, under its idempotency key. An "undo" says how to undo the
call at its path, "undone" which run does. A "row" says what a program was told, in the order in which it was."""

SCHEDULE: Final = "schedule"
"""The kind of run that records why a schedule could not begin one."""
LOG: Final = "log"
"""The kind of entry with what the tool of a step has printed and logged."""
WARNING: Final = "warning"
"""The kind of entry with the warnings about the result of the call at its path."""
BEGUN: Final = "begun"
"""The kind of the entry with the calls in progress of a run that has lost a process before."""
BEGUN_PATH: Final = "#"
ACCEPTED: Final = "accepted"
"""The kind of entry that marks a call whose result a person accepted although it does not fit."""
NO_STEPS: Final = frozenset((ACCEPTED, BEGUN, LOG, "ending", "offer", "row", "undo", UNDONE, WARNING))
"""Kinds that record no step of a run."""

Key: TypeAlias = tuple[str, str]
"""(path, kind)"""


@dataclass(slots=True)
class Entry:
    """One fact of a run, unique by (run, path, kind)."""

    # Never changed once it is appended.
    # `path` names the node instance (`each[3]/fetch@2`), `data` is JSON already checked, `digest` names the arguments
    # of a call; `started` and `ended` are seconds since the epoch. Not frozen only because freezing triples the cost of
    # making one.

    path: str
    kind: str
    node: str = ""
    data: Json = None
    digest: str = ""
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Something sent to a run."""

    # `taken` is the path of the wait that received it, None while it is kept.

    id: str
    name: str
    payload: Json = None
    sent: float = 0.0
    taken: str | None = None


APPROVAL: Final = "approval:"
"""Prefix of the name of an approval's signal; the path of the wait follows."""


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait for a signal `name` that was sent no later than `due`, at `path` of the node `node`."""

    name: str
    path: str
    node: str = ""
    due: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A saved definition, unique by (kind, id)."""

    # `created` is in seconds since the epoch. `run_count` counts the runs ever opened on the definition. The store
    # counts `version` from 1, one for each fingerprint saved under this id; `run_count` of a version counts its own
    # runs.

    kind: str
    id: str
    name: str = ""
    document: Json = None
    fingerprint: str = ""
    created: float = 0.0
    run_count: int = 0
    version: int = field(default=0, compare=False)


KEPT_VERSIONS: Final = 20
"""Number of versions of a definition that are kept even if no run uses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The deleted runs: their number, not counting their parts, and the bytes recorded for them."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to open."""

    # `document` and `fingerprint` pin the definition that it starts with. `started_at` is in seconds since the epoch; 0
    # means now. `parent` is the id of the run that it is a part of. A fork copies entries of the run `forked_from`:
    # `copies` maps the key of each to its key in the new run. `undo_policy` is "on_failure" for a run that is undone
    # without a request when it does not complete. A run that undoes another one names it as `undoes`, the epoch at
    # which its journal was read, and the calls to undo.

    id: str
    kind: str
    name: str = ""
    definition_id: str | None = None
    input: Json = None
    context: Json = None
    document: Json = None
    fingerprint: str = ""
    started_at: float = 0.0
    parent: str | None = None
    forked_from: str | None = None
    copies: Mapping[Key, Key] | None = None
    undo_policy: str | None = None
    undoes: str | None = None
    undoes_epoch: int = 0
    undoes_calls: tuple[UndoneCalls, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as a store knows it."""

    # `owner` names the process that executes the run, or did so last ("host (pid 7)", "" for none). `epoch` counts the
    # owners. `spent` is in seconds of execution. `due` is when a `waiting` run continues without a signal, in seconds
    # since the epoch; None for never. `current_node` and `spent` of a running run may be some seconds old. `undo` is
    # the id of the run that undoes this one, None for none; "" if nothing was to undo.
    #
    # In lists `input`, `context`, `document` and `result` are None, because they may be large; `get_run` has them. In
    # lists `damaged` names the part of the row that cannot be read; `get_run` raises StoreError instead.

    id: str
    kind: str
    definition_id: str | None = None
    name: str = ""
    status: str = "running"
    input: Json = None
    context: Json = None
    document: Json = None
    fingerprint: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    result: Json = None
    error: Json = None
    owner: str = ""
    epoch: int = 1
    spent: float = 0.0
    current_node: str = ""
    result_count: int = 0
    error_count: int = 0
    stop_requested: bool = False
    parent: str | None = None
    due: float | None = None
    forked_from: str | None = None
    undo: str | None = None
    undo_policy: str | None = None
    damaged: str = ""


class Live(Protocol):
    """A run that is being executed, as its log sees it."""

    # The log may call it from any thread.

    def entries(self) -> list[Entry]:
        """Return the run's journal, made from the state of the engine, in the order in which entries ended."""

    def elapsed(self) -> float:
        """Return the seconds of execution so far, including those of earlier owners."""


class Log(Protocol):
    """The journal of one run, held by the process that owns the run."""

    # A log belongs to the event loop that opened it: call its methods only there. Every write checks, in the same
    # transaction, that this log still owns the run. A log whose run was taken over writes nothing more.
    #
    # The engine calls two more methods of a log that has them, as `SqlLog` does: `finish_after`, to commit the last
    # step together with the ending, and `write_early`, when nothing else of the run can be written with an entry.
    # `after_death` of such a log is true if a process has died while it executed the run.

    @property
    def run(self) -> RunRow:
        """The run as it was when the log was opened, with what `pin` has changed since."""

    @property
    def resumed(self) -> bool:
        """True if the run had an owner before this one."""

    @property
    def past(self) -> Mapping[Key, Entry]:
        """The entries that earlier owners recorded, by (path, kind)."""

    @property
    def finished(self) -> RunRow | None:
        """The run with its result if it had already ended when the log was opened, else None."""

        # Such a log owns nothing: there is nothing to execute, and `append` fails.

    on_stop: Callable[[], None] | None
    """Called once, on this log's event loop, when the run is stopped or another process takes it over.

    A callback that is set after that happened is called at once."""

    on_signal: Callable[[], None] | None
    """Called on this log's event loop whenever somebody may have sent a signal to the run."""

    def append(self, entry: Entry, /) -> asyncio.Future[None]:
        """Record an entry, after everything appended before it."""

        # Atomic: the check of the owner, the check for a conflict and the write. The entry must survive a crash of the
        # process before the future is done. Repeating an entry that is already recorded changes nothing.
        #
        # An entry that could not be written is kept and sent again before the next `append`, `forget` or `finish`. When
        # that fails too, the later call fails. So no failure is lost if nobody awaits the future.

    async def forget(self, keys: Iterable[Key], /) -> None:
        """Remove entries, from `past` too, so that their nodes run again."""

        # A key without an entry is ignored.
        # Atomic: all keys are removed or none.

    async def take(self, waits: Sequence[OpenWait], /) -> list[Entry]:
        """Deliver the signals that are kept for the run to its waits."""

        # Signals are delivered in the order of sending. Each goes to the first wait for its name whose `due` was not
        # over when the signal was sent.
        #
        # Atomic: marking a signal as taken and recording its entry. A signal is delivered once, even if the process
        # dies in between or the store has to repeat the call.

    async def park(self, due: float | None, names: Collection[str] = (), /) -> bool:
        """Release the run with the status `waiting`: nobody executes it until a signal arrives or `due` has come."""

        # Atomic: looking for kept signals and releasing the run. No signal may get in between, or the run would miss
        # it.
        #
        # `due`: When the run continues without a signal, in seconds since the epoch; None for never.

    async def pin(self, document: Json, fingerprint: str, /) -> None:
        """Replace the definition that the run continues with, in `run` too."""

        # Atomic: document and fingerprint change together.

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        """End the run, after everything appended."""

        # Atomic: the status, the time, the result and the counts. A run that somebody stopped stays `stopped`; its
        # result, error and counts are recorded all the same.

    async def release(self) -> None:
        """Give the run up without ending it, so that anyone can reopen it at once."""

        # The run keeps its status. Releasing it again, or after it was lost or has ended, does nothing.

    def touch(self, current_node: str, spent: float, /) -> None:
        """Note where the run is; it is written with the next heartbeat, not at once."""

    def attach(self, live: Live, /) -> None:
        """Read the seconds of execution from the run itself from now on, and its entries if the store is not
        `durable`."""


class Store(UseStore, UndoStore, CountStore, Protocol):
    """Where definitions and runs are kept."""

    # Plain methods are short and safe from any thread. Each is atomic: it happens completely or not at all, and other
    # processes see nothing in between. In a store that outlives its process, what a method has changed survives a crash
    # once it has returned. Every method can raise StoreError: the store is closed, damaged, or cannot be reached or
    # written.

    @property
    def durable(self) -> bool:
        """True if entries are worth appending; False if the engine makes the `history`."""

    @property
    def remote(self) -> bool:
        """True if plain methods wait for a server: on an event loop, call them by `run_sync_in_thread`."""

    @property
    def schema(self) -> int | None:
        """Number of the last migration of the store's tables; None for a store without migrations."""

    def put_definition(self, definition: Definition, /) -> None:
        """Save a definition, or replace the one with the same kind and id."""

        # Atomic: the definition and its version. A fingerprint that is saved for the first time under this kind and id
        # gets the next version number, from 1; a known fingerprint keeps its number.

    def get_definition(self, kind: str, id: str, /) -> Definition | None:
        """Load a definition."""

    def list_definitions(self, kind: str | None = None, /) -> list[Definition]:
        """List definitions."""

    def delete_definition(self, kind: str, id: str, /) -> bool:
        """Delete a definition with all its versions."""

        # Its runs stay, because each has its own copy.

    def list_versions(self, kind: str, id: str, /) -> list[Definition]:
        """List the versions of a definition that are kept."""

    def get_run(self, id: str, /, *, so_far: bool = False) -> RunRow | None:
        """Load a run with its large values."""

    def list_runs(
        self,
        *,
        kind: str | None = None,
        definition_id: str | None = None,
        status: str | Sequence[str] | None = None,
        flow: str | None = None,
        text: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: str | None = None,
        parent: str | None = None,
        top: bool = False,
        limit: int = 100,
    ) -> list[RunRow]:
        """Return the runs that pass all filters, newest first, without their large values."""

        # The result counts of a run that has not ended are those so far.
        #
        # `since`: Earliest start, in seconds since the epoch.
        # `until`: Time in seconds since the epoch before which the runs started.

    def history(self, run_id: str, /) -> list[Entry]:
        """Load the journal of a run."""

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        """Return some entries of a run in the order of recording."""

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        """Return the entries of a run at these paths of node instances, in the order of recording."""

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        """Iterate over the journal of a run as it is when the iteration begins."""

        # Each entry comes once.

    def waits(self, *, signalled: bool = False) -> dict[str, tuple[list[Entry], list[Signal]]]:
        """Return what the runs that have not ended wait for, with the signals that no wait has taken."""

        # `signalled`: Only runs with such a signal.

    def request_stop(self, run_id: str, /) -> bool:
        """Stop a run, whichever process executes it."""

        # Atomic: the check of the status and its change to `stopped`. The owner's `Log.on_stop` is called within half a
        # second, also in another process.

    def orphans(self, limit: int = 100, /, *, among: Collection[str] | None = None) -> list[RunRow]:
        """List the runs that somebody should reopen: running ones without a living owner, and waiting ones that are
        due."""

        # `among`: Only runs with these ids.

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        """Send a signal to a run."""

        # It is kept until a wait for its name takes it.
        # Atomic: the check of the run's status, keeping the signal, and waking the run. A waiting run becomes running,
        # without an owner, unless all its recorded waits are for other names. The `Log.on_signal` of a run that is
        # being executed is called, also in another process.
        #
        # `payload`: Any JSON of at most 1,000,000 bytes.

    def signals(self, run_id: str, /) -> list[Signal]:
        """List the signals of a run."""

    def prune(
        self,
        *,
        before: float | None = None,
        keep: int | None = None,
        status: Sequence[str] = (),
        dry: bool = False,
        most: int | None = None,
    ) -> Pruned:
        """Delete ended runs with their parts, entries and large values."""

        # Then versions of definitions go that no run uses, except the newest `KEPT_VERSIONS`. Without `before` and
        # `keep`, no run is deleted.
        #
        # Atomic: each run, not the whole call. A store may use many transactions so that others can write in between;
        # the next call deletes what an interrupted one has left. A run that was set running again is not deleted.
        #
        # `before`: Delete runs that ended before this time, in seconds since the epoch.

    def content(self, hash: str, /) -> bytes | None:
        """Load content."""

        # `hash`: The SHA-256 of the bytes, in hexadecimal.

    def take_turn(self, name: str, every: float, now: float, /) -> bool:
        """Take the turn for a regular job that one process does for all."""

        # Atomic: the check of the last turn and taking this one. Of several processes at most one gets it.
        #
        # `now`: The time, in seconds since the epoch. A last turn that lies in the future, because a clock was set
        # back, does not block the job.

    async def open(self, run: NewRun, /) -> Log:
        """Create a run and own it, or take an existing one over if its owner is gone."""

        # Atomic: the check for the id, the check of the owner, and the claim with its new `epoch`. Of several processes
        # that open one id at once, exactly one gets it; the log of an earlier owner writes nothing more. A claim is
        # released if the caller is cancelled.
        #
        # A run that undoes another one is created only if that run has ended, no call of it is in progress, and its
        # epoch is `undoes_epoch`. In the same step the other run gets its id as `undo` and loses its owner, so nobody
        # continues or retries it, and `undoes_calls` are marked. A run that names it as `forked_from` continues its
        # undo.

    async def reopen(self, run_id: str, /, *, again: bool = False) -> Log:
        """Own an existing run whose owner is gone or that waits."""

        # Atomic: the check of the owner and the claim with its new `epoch`. A claim is released if the caller is
        # cancelled.

    def close(self) -> None:
        """Write what was appended, release the runs that this process owns, and close all connections."""

        # Idempotent.


def ending(epoch: int, status: str, at: float | None, error: Json, results: int, errors: int, spent: float) -> Entry:
    """Return the entry that records how a run ended under its `epoch`-th owner, before the run is set running again."""
    when = at or 0.0
    data = {"status": status, "error": error, "results": results, "errors": errors, "spent": spent}
    return Entry(f"#{epoch}", "ending", "", data, "", when, when)


def statuses(status: str | Sequence[str]) -> list[str]:
    """Return one status or several as a list."""
    return [status] if isinstance(status, str) else list(status)


def contains(text: str, *fields: str | None) -> bool:
    """Return True if any field contains `text`, in upper or lower case."""
    folded = text.casefold()
    return any(field is not None and folded in field.casefold() for field in fields)


def iso(at: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
