"""The journal: what a store remembers of a run, and the two protocols every store keeps.

A fact is keyed by (run, path, kind), never by the order of calls. A store promises: what was acknowledged is there
after a crash; one owner at a time writes to a run, and an owner that was replaced writes nothing more.

Refused here: knowing what a flow is, and secrets (the engine removes them first).
To add a store, implement `Store` and `Log` in a file beside it, name it in `address.py`, and add it to the list in
`tests/conformance/stores.py`. A store whose writes travel may send a batch twice: entries are unique, and the run's
epoch fences off a replaced owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol, TypeAlias

from ..frozen import dataclass
from ..values import Json
from .use import UseStore

ENDS: Final = ("completed", "partial", "failed", "stopped", "timeout", "parked")
STATUSES: Final = ("running", "waiting", *ENDS)
"""A run that is `waiting` has no owner: it goes on when a signal comes, or when its time is due. One that is
`parked` has ended as what kills its workers, or cannot go on; a worker tries again when somebody releases it."""

DECISIONS: Final = frozenset(("call", "timer", "items", "branch", "wait", "signal"))
"""Kinds that are written once and stand: a second, different one is a JournalConflict. Of any
other kind ("call_failed", "attempt", "node", "skip") the latest stands. The store itself writes one more:
"ending" (see `ending`); an "offer" is a call of the run that this one was forked from, under its idempotency key."""

Key: TypeAlias = tuple[str, str]
"""(path, kind)"""


@dataclass(slots=True)
class Entry:
    """One fact of a run, unique by (run, path, kind). Never changed once it is appended.

    `path` names the node instance (`each[3]/fetch@2`), `data` is JSON already checked, `digest`
    names the arguments of a call; `started` and `ended` are seconds since the epoch.
    Not frozen only because freezing triples the cost of making one.
    """

    path: str
    kind: str
    node: str = ""
    data: Json = None
    digest: str = ""
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Something sent to a run. `taken` is the path of the wait that has it, None while it is kept."""

    id: str
    name: str
    payload: Json = None
    sent: float = 0.0
    taken: str | None = None


APPROVAL: Final = "approval:"
"""What the name of an approval's signal begins with; the path of the wait follows."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wait for a signal `name` that was sent no later than `due`, at `path` of the node `node`."""

    name: str
    path: str
    node: str = ""
    due: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A saved definition: unique by (kind, id). `run_count` counts the runs ever opened on it; `version` is counted
    by the store, from 1: one for each fingerprint saved under this id, with the runs that were started with it."""

    kind: str
    id: str
    name: str = ""
    document: Json = None
    fingerprint: str = ""
    created: float = 0.0
    run_count: int = 0
    version: int = field(default=0, compare=False)


KEPT_VERSIONS: Final = 20
"""So many versions of a definition are kept though no run uses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was deleted: runs (their parts are not counted), and the bytes of what was recorded of them."""

    runs: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to open. `document` and `fingerprint` pin the definition it starts with;
    `started_at` 0 means now; `parent` is the id of the run it is a part of, None for most. A fork has
    the `copies` of facts of the run that it is `forked_from`: under which key each is its own."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What a store knows about a run.

    `owner` names the process that runs it, or ran it last ("host (pid 7)", "" for none);
    `epoch` counts the owners; `spent` is seconds of execution; `due` is when a `waiting` run goes on
    even if nothing comes, None for never. `current_node` and `spent` of a
    live run may be some seconds old. In lists `input`, `context`, `document` and `result` are
    left out (None): they may be large, and `get_run` has them. There `damaged` says what of the row cannot be read;
    `get_run` raises it.
    """

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
    damaged: str = ""


class Live(Protocol):
    """A run that is being executed, as its log sees it; asked from any thread."""

    def entries(self) -> list[Entry]:
        """Its journal, made from what the engine knows."""
        ...

    def elapsed(self) -> float:
        """Seconds of execution so far, those of earlier owners included."""
        ...


class Log(Protocol):
    """The journal of one run, held by its owner. Used on the event loop that opened it."""

    @property
    def run(self) -> RunRow:
        """The run as it was when it was opened."""
        ...

    @property
    def resumed(self) -> bool:
        """Whether the run had an owner before this one."""
        ...

    @property
    def past(self) -> Mapping[Key, Entry]:
        """What earlier owners recorded."""
        ...

    @property
    def finished(self) -> RunRow | None:
        """Set when the run had ended already: nothing is to be run, nothing can be appended."""
        ...

    on_stop: Callable[[], None] | None
    """Called once, on this loop, when the run is stopped or taken over by another process; at
    once when that has happened before it is set."""

    on_signal: Callable[[], None] | None
    """Called on this loop whenever something may have been sent to the run."""

    def append(self, entry: Entry, /) -> asyncio.Future[None]:
        """Record a fact; the future is done when it is committed. Facts are kept in order.

        Raises InvalidValue past 100 MB. The future fails with StoreError (Fenced when the run
        was taken over, JournalConflict when another fact stands there). What could not be
        written stays in line and is sent again before the next append, forget or finish, whose
        future fails when that fails too: not awaiting loses no failure, awaiting again resends.
        """
        ...

    async def forget(self, keys: Iterable[Key], /) -> None:
        """Remove facts, from `past` too, so that their nodes run again (`retry --from`)."""
        ...

    async def take(self, waits: Sequence[Wanted], /) -> list[Entry]:
        """Give the signals that are kept to the waits for their names: in order of sending, to the
        first that waits. What a wait gets is recorded as a `signal` at its path and returned, its
        data `{value, sent}`; a signal is taken once, whatever happens.
        """
        ...

    async def park(self, due: float | None, names: Collection[str] = (), /) -> bool:
        """Release the run as `waiting`: nobody runs it until something is sent, or until `due`.

        False, and nothing is changed, when a signal with one of these names is kept already, or when
        the run was stopped: then there is something to do.
        """
        ...

    async def pin(self, document: Json, fingerprint: str, /) -> None:
        """Have the run go on under another definition, in `run` too."""
        ...

    async def finish(self, status: str, result: Json, error: Json = None, *, results: int = 0, errors: int = 0) -> str:
        """End the run, after everything appended; returns the status that stands.

        A run that somebody stopped stays `stopped`; what it had reached is recorded all the same.
        """
        ...

    async def release(self) -> None:
        """Give up a run without ending it: anyone may reopen it at once. Idempotent."""
        ...

    def touch(self, current_node: str, spent: float, /) -> None:
        """Say where the run is, and what it has spent where no run is attached; written with the next heartbeat."""
        ...

    def attach(self, live: Live, /) -> None:
        """Ask the run itself from now on for what it has spent, where the store keeps no entries also for those."""
        ...


class Store(UseStore, Protocol):
    """Where definitions and runs are kept. Sync methods are short and safe from any thread."""

    @property
    def durable(self) -> bool:
        """Whether entries are worth appending: False when `history` comes from the engine."""
        ...

    @property
    def remote(self) -> bool:
        """Whether plain methods wait for a server: on an event loop, call them by `off_loop`."""
        ...

    @property
    def schema(self) -> int | None:
        """The number of the last migration of its tables; None for a store that has none."""
        ...

    def put_definition(self, definition: Definition, /) -> None:
        """Save, or replace the one with the same kind and id (its `created` and count stay)."""
        ...

    def get_definition(self, kind: str, id: str, /) -> Definition | None: ...

    def list_definitions(self, kind: str | None = None, /) -> list[Definition]:
        """Of one kind or of all, by kind, then by id."""
        ...

    def delete_definition(self, kind: str, id: str, /) -> bool:
        """True when there was one. Its versions go, its runs stay: each holds its own snapshot."""
        ...

    def list_versions(self, kind: str, id: str, /) -> list[Definition]:
        """Every version of a definition that is kept, newest first."""
        ...

    def get_run(self, id: str, /, *, so_far: bool = False) -> RunRow | None: ...  # with the results of one that goes on

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
        """Newest first, without their large values, a running one with the results it has so far.

        `status` may be several; `flow` is a definition's id or name; `text` is looked for, in any case, in id,
        name, definition id and error; `since` and `until` are seconds since the epoch, of when runs were started.
        `after` is the id of a run: the list goes on behind it. `parent` gives the parts of one run, `top` only runs
        that are part of no other.
        """
        ...

    def history(self, run_id: str, /) -> list[Entry]:
        """Everything recorded, in order; empty for an unknown run."""
        ...

    def history_page(self, run_id: str, /, after: int = 0, limit: int = 1000) -> tuple[list[Entry], int | None]:
        """At most `limit` entries in order, those behind the place `after` (0: from the first), and the place to read
        on behind; None when these are the last. A place is a number that only the store understands."""
        ...

    def history_at(self, run_id: str, paths: Sequence[str], /) -> list[Entry]:
        """Everything recorded at these paths, in order."""
        ...

    def read_history(self, run_id: str, /) -> Iterator[list[Entry]]:
        """Everything recorded when reading begins, in order, in lists of bounded length; nothing for an unknown run."""
        ...

    def waits(self) -> dict[str, tuple[list[Entry], list[Signal]]]:
        """Of the runs that go on and have come to a wait, by id: what `open_waits` is read from; the signals kept."""
        ...

    def request_stop(self, run_id: str, /) -> bool:
        """Stop a run, whoever runs it; True when it was running or waiting. Its status is
        `stopped` from now on, and its owner hears of it within half a second."""
        ...

    def orphans(self, limit: int = 100, /) -> list[RunRow]:
        """Runs that should be running and whose owner is gone, and waiting runs whose time is due,
        oldest first: reopen them, but for those with a `parent`, which go on through it."""
        ...

    def send(self, run_id: str, name: str, payload: Json = None, /, *, id: str | None = None) -> bool:
        """Send a signal, kept until a wait for its name takes it. A waiting run is running from now
        on, without an owner, unless all its waits are for others; the owner of a live one hears of it.

        The same `id` is sent once: False when it was there already. Raises NotFound for an unknown
        run, RunEnded for one that has ended, InvalidValue for what cannot be sent.
        """
        ...

    def signals(self, run_id: str, /) -> list[Signal]:
        """Everything that was sent to a run, in order."""
        ...

    def prune(
        self,
        *,
        before: float | None = None,
        keep: int | None = None,
        status: Sequence[str] = (),
        dry: bool = False,
        most: int | None = None,
    ) -> Pruned:
        """Delete ended runs that ended `before` (seconds since the epoch) or are not among the newest `keep`, with
        their parts, entries and blobs; then old versions of definitions that no run uses, but for KEPT_VERSIONS.
        Only runs with one of these statuses, if any are given; at most so many. With `dry` nothing is deleted.
        """
        ...

    def content(self, hash: str, /) -> bytes | None:
        """The bytes of content by their SHA-256 (hexadecimal); None where no run here holds them."""
        ...

    def take_turn(self, name: str, every: float, now: float, /) -> bool:
        """Whether nobody, in any process, has taken the turn of this name within `every` seconds; then it is taken."""
        ...

    async def open(self, run: NewRun, /) -> Log:
        """Create the run, or take it over when its owner is gone. One that has ended comes back
        with `Log.finished` set. Raises RunBusy when it is being run. Of several processes opening
        one id at once, exactly one gets it."""
        ...

    async def reopen(self, run_id: str, /, *, again: bool = False) -> Log:
        """As `open`, for a run that exists (NotFound otherwise); with `again` an ended run is
        set running once more, as if no time were spent yet; how it had ended is kept among its facts."""
        ...

    def close(self) -> None:
        """Write what was appended, release the runs held, let go of everything. Idempotent."""
        ...


def ending(epoch: int, status: str, at: float | None, error: Json, results: int, errors: int, spent: float) -> Entry:
    """The fact that a run, which is set running again, had ended in the hands of its `epoch`-th owner."""
    when = at or 0.0
    data = {"status": status, "error": error, "results": results, "errors": errors, "spent": spent}
    return Entry(f"#{epoch}", "ending", "", data, "", when, when)
