"""Going on with a run that has ended: from what failed, or from the nodes one names.

What is recorded elsewhere stays and is not called again. Flows that a run called as tools are runs of their own, part
of it: those that failed go on in the same way, those that are done again forget everything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..dialects.records import Outcome, outcome
from ..errors import NotFound, NothingToRetry, PartOfRun, RunBusy, StoreError
from ..events import Event
from ..frozen import dataclass
from ..ir import Flow
from ..journal.journal import Entry, Key, Log, RunRow, Store
from ..journal.offloop import off_loop
from .accept import (
    Accept,
    Accepted,
    accepted,
    name_inside,
    names_inside,
    read_accept,
    repeated,
    split_names,
)
from .cone import Cone, Failure, all_named, failures
from .instances import Attempt, Instances
from .pinned import MOST_PARTS, known, outermost, pinned
from .upgrade import upgraded, upgrading

if TYPE_CHECKING:
    from ..app import App
    from ..definitions import Source
    from ..jobs import Executor

_WELL = ("completed", "partial")
_ASKED = frozenset(("wait", "signal", "attempt"))
"""What the outermost run records of the waits of its parts."""


@dataclass(frozen=True, slots=True)
class Again:
    """What a retry forgets: `keys` of the run itself; `parts` are the runs that are part of it, and whether each
    starts from nothing. `accepted` are results that it records instead of calling a tool again."""

    keys: list[Key]
    parts: list[tuple[RunRow, bool]]
    accepted: tuple[Accepted, ...] = ()
    inside: Mapping[str, Any] = field(default_factory=dict)
    """Accepted results of nodes that must be in runs inside this one."""
    missing: Mapping[str, NotFound] = field(default_factory=dict)
    """For each name in `inside` the error to raise if no run inside this one has it."""
    repeated: tuple[Attempt, ...] = ()
    """Calls that took effect before, and are made again."""


async def retry(
    app: App,
    run_id: str,
    nodes: Sequence[str],
    source: Source | None,
    upgrade: bool,
    executor: Executor | None,
    on_event: Callable[[Event], None] | None,
    park: bool,
    accept: Accept = (),
) -> Outcome:
    """Retry an ended run; `Runs.retry` describes the arguments."""
    store, wanted = app.store, read_accept(accept)
    row = await off_loop(store, lambda: at_rest(store, run_id, nodes))
    to = await off_loop(store, lambda: upgraded(app, row, source, upgrade))
    job = await app.jobs.again(row, executor=executor, on_event=on_event, loaded=None if to is None else to[0])
    job.park = park
    # Before anything changes.
    first = await off_loop(store, lambda: planned(job.flow, row, store.history(run_id), store, nodes, wanted))
    await off_loop(store, lambda: _check_inside(app, row, first))
    log = await store.reopen(run_id, again=True)
    async with upgrading(store, log, to):
        try:
            past = list(log.past.values())
            again = await off_loop(store, lambda: planned(job.flow, row, past, store, nodes, wanted))
            _warn(again, run_id, on_event)
            await _forget(app, log, again)
        except BaseException:
            await log.release()
            raise
        return outcome(await app.engine.drive(job, log), row.kind)


def at_rest(store: Store, run_id: str, nodes: Sequence[str]) -> RunRow:
    """The run, which has ended (or was left by its process, where one says what is to run again) and is part of no
    other; else the error that says what is to be done instead."""
    row = known(store, run_id)
    if row.parent is not None:
        raise PartOfRun(run_id, outermost(store, row).id)
    if row.kind == "schedule":
        raise NothingToRetry(run_id, f"it could not begin; start another one with: ropewalk schedules run {row.name}")
    if not store.durable:
        raise StoreError("a store in memory records no steps; keep runs in a file or in Postgres to go on with them")
    if row.status == "waiting":
        raise NothingToRetry(run_id, "it waits for an event, an approval or a time, and goes on when that has come")
    if row.ended_at is None:
        if any(orphan.id == run_id for orphan in store.orphans()):
            if nodes:
                return row
            raise NothingToRetry(run_id, f"its process is gone before it ended; go on with: ropewalk resume {run_id}")
        raise RunBusy(run_id, row.owner)
    return row


def planned(
    flow: Flow,
    row: RunRow,
    history: Iterable[Entry],
    store: Store,
    nodes: Sequence[str],
    accept: Mapping[str, Any] | None = None,
) -> Again:
    """What is to be forgotten of an ended run, that it goes on; raises NothingToRetry, or NotFound for a node."""
    entries = list(history)
    found = Instances(flow.body, entries)
    parts = {part.id.removeprefix(f"{row.id}/"): part for part in store.list_runs(parent=row.id, limit=MOST_PARTS)}
    mine, inside, missing = split_names(found, flow, accept or {})
    took = accepted(row, found, flow, mine)
    kept = {one.attempt.path for one in took}
    gave_up = [one for one in failures(found) if one.attempt.path not in kept]
    if not nodes and not accept and row.status == "completed":
        raise NothingToRetry(row.id, "it has completed; name the node that it is to be run from (--from NODE)")
    cone = Cone()
    for one in took:
        cone.go_on(one.attempt)
    for instance in all_named(found, flow, nodes):
        cone.again(instance)
    if nodes:
        _all_in(row, cone, [one for one in gave_up if one.fatal])
    else:
        _failed(cone, gave_up, parts)
    if any(cone.holds(path) for path in kept):
        raise NothingToRetry(row.id, "a node cannot be accepted and run again; leave it out of one of the two")
    keys = cone.forgotten(entries)
    again = [one.last for one in found.current() if cone.holds(one.last.path)]
    return Again(
        keys,
        [(part, anew) for path, part in parts.items() if (anew := _anew(path, part, found, cone)) is not None],
        tuple(took),
        inside,
        missing,
        tuple(repeated(again)),
    )


def _check_inside(app: App, row: RunRow, again: Again) -> None:
    """Raise NotFound unless every accepted node that this run does not have is in a run inside it."""
    for error in _not_inside(app, row, again).values():
        raise error


def _not_inside(app: App, row: RunRow, again: Again) -> dict[str, NotFound]:
    """Return the accepted names that no run inside this one has, with the error for each."""
    missing = dict(again.missing)
    for part, anew in again.parts:
        if anew or not missing:
            continue
        path = part.id.removeprefix(f"{row.id}/")
        inner_row = known(app.store, part.id)  # lists have no large values
        flow = pinned(app, inner_row).flow
        history = app.store.history(part.id)
        inner = planned(flow, inner_row, history, app.store, (), names_inside(path, again.inside))
        left = _not_inside(app, inner_row, inner)
        missing = {
            name: _nearest(path, name, error, left[name_inside(path, name)])
            for name, error in missing.items()
            if name_inside(path, name) in left
        }
    return missing


def _nearest(path: str, name: str, outer: NotFound, inner: NotFound) -> NotFound:
    """Return the more helpful of two errors for a name: that of the run, or that of the part at `path`."""
    if name_inside(path, name) == name:
        return inner if inner.suggestion and outer.suggestion is None else outer
    # The name begins with the path of the part, so no other part can have it.
    return NotFound("node", name, suggestion=inner.suggestion and f"{path}/{inner.suggestion}", why=inner.why)


def _warn(again: Again, run_id: str, on_event: Callable[[Event], None] | None) -> None:
    """Report every call that took effect before and is made again."""
    for attempt in again.repeated:
        tool = getattr(attempt.instance.node.op, "tool", "")
        if on_event is not None:
            data = {"tool": tool}
            node = attempt.instance.node.meta.name or attempt.instance.node.id
            on_event(
                Event(run_id=run_id, kind="call.repeated", at=time.time(), path=attempt.path, node=node, data=data)
            )


def _failed(cone: Cone, gave_up: list[Failure], parts: dict[str, RunRow]) -> None:
    """What failed begins anew; what has something inside, or parts of which some failed, goes on with its last attempt,
    where what succeeded stays."""
    for failure in gave_up:
        last = failure.attempt
        part = parts.get(last.path)
        several = any(path.startswith(f"{last.path}/") for path in parts)
        own = "call_failed" not in last.facts and last.inside
        if own or several or (part is not None and part.status not in _WELL):
            cone.go_on(last)
        else:
            cone.again(last.instance)


def _all_in(row: RunRow, cone: Cone, fatal: list[Failure]) -> None:
    left = [one.attempt for one in fatal if not (cone.holds(one.attempt.path) or one.attempt.path in cone.ended)]
    if left:
        names = ", ".join(dict.fromkeys(one.instance.base for one in left[:3]))
        again = " ".join(f"--from {one.instance.node.id}" for one in left[:1])
        raise NothingToRetry(row.id, f"it would fail again at {names}, which does not depend on that; add {again}")


def _anew(path: str, part: RunRow, found: Instances, cone: Cone) -> bool | None:
    """Whether a part starts from nothing (True), goes on (False), or stays as it is (None)."""
    if cone.holds(path):
        return True
    attempt = found.at(path)
    facts = attempt.facts if attempt is not None else {}
    settled = "call" in facts or ("call_failed" in facts and path not in cone.ended)
    return None if settled or part.status in _WELL else False


async def _forget(app: App, log: Log, again: Again) -> list[Key]:
    """Forget it in this run and its parts; returns all of it, with paths of this run."""
    gone = list(again.keys)
    for part, anew in again.parts:
        inside = part.id.removeprefix(f"{log.run.id}/")
        forgotten = await _part_again(app, part, anew, names_inside(inside, again.inside))
        gone += [(f"{inside}/{path}", kind) for path, kind in forgotten if kind in _ASKED]
    # Recorded first: if the process dies here, the run fails as before, and nothing is called again.
    past: Any = log.past  # a dict, which `forget` changes as well
    for one in again.accepted:
        if one.entry is not None:
            await log.append(one.entry)
            past[one.entry.path, one.entry.kind] = one.entry
    await log.forget(gone)
    return gone


async def _part_again(app: App, part: RunRow, anew: bool, accept: Mapping[str, Any]) -> list[Key]:
    """Set a part running, for its run to go on with; with `anew` from nothing. Returns what it has forgotten."""
    store = app.store
    row = await off_loop(store, lambda: store.get_run(part.id))
    if row is None or (row.ended_at is None and not anew):
        return []
    found = await off_loop(store, lambda: store.list_runs(parent=part.id, limit=MOST_PARTS))
    inner = {one.id: one for one in found}
    log = await store.reopen(part.id, again=True)
    try:
        if anew:
            entries = [entry for entry in log.past.values() if entry.kind != "ending"]
            again = Again([(e.path, e.kind) for e in entries], [(one, True) for one in inner.values()])
        else:
            past = list(log.past.values())
            again = await off_loop(store, lambda: planned(pinned(app, row).flow, row, past, store, (), accept))
        return await _forget(app, log, again)
    finally:
        await log.release()
