"""A new run from a run of before, with other input or another definition; what may have changed is done anew.

What nothing of the change reaches is copied as it is recorded. A recorded call that it may reach is *offered*: taken
where it would be made with the same arguments, else left. The run that is forked stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..dialects.records import Outcome, outcome
from ..engine.engine import check_run_id, new_run_id
from ..errors import RunExists, StoreError
from ..events import Event
from ..ir import Flow
from ..journal.journal import Entry, Key, RunRow
from ..journal.offloop import off_loop
from ..ops import Call
from ..values import Json
from .changes import Change, Reach, changes, place_of
from .cone import ENDED, Cone, all_named, failures
from .instances import Instances, without_attempts
from .pinned import SAME, known, other, pinned

if TYPE_CHECKING:
    from ..app import App
    from ..definitions import Loaded, Source
    from ..jobs import Executor


async def fork(
    app: App,
    run_id: str,
    input: Json,
    definition: Source | None,
    at: Sequence[str],
    new_id: str | None,
    executor: Executor | None,
    on_event: Callable[[Event], None] | None,
    park: bool,
) -> Outcome:
    """See `Runs.fork`."""
    store = app.store
    row = await off_loop(store, lambda: known(store, run_id))
    if not store.durable:
        raise StoreError("a store in memory records no steps; keep runs in a file or in Postgres to fork them")
    check_run_id(new_id)
    if new_id is not None and await off_loop(store, lambda: store.get_run(new_id)) is not None:
        raise RunExists(new_id)
    old = pinned(app, row)
    new = old if definition is None else other(app, row, definition)
    given = row.input if input is SAME else input
    context = row.context or {}
    job = await app.jobs.new(
        new,
        definition_id=row.definition_id if new is old else await off_loop(store, lambda: _id_of(app, row, old, new)),
        run_id=new_id or new_run_id(),
        input=given,
        variables=context.get("variables"),
        executor=app.jobs.executor_for(row, executor),
        on_event=on_event,
    )
    made = [] if new is old else changes(old.flow, new.flow)
    history = await off_loop(store, lambda: store.history(run_id))
    copies = kept(new.flow, history, made, job.input != row.input, at)
    job.park = park
    stays = ("queue", "priority", "file") if new is old else ("queue", "priority")
    taken = {name: context[name] for name in stays if name in context}
    job.new = replace(job.new, forked_from=run_id, copies=copies, context={**(job.new.context or {}), **taken})
    return outcome(await app.engine.run(job), new.kind)


def _id_of(app: App, row: RunRow, old: Loaded, new: Loaded) -> str | None:
    """Which definition a fork is one of, that goes by another than the run had: the same one, changed; or one that is
    stored as it is."""
    id = new.compiled.id
    if id in (row.definition_id, old.compiled.id):
        return row.definition_id
    stored = None if id is None else app.store.get_definition(new.kind, id)
    same = stored is not None and app.definitions.stored(stored).fingerprint == new.fingerprint
    return id if same else new.root


def kept(
    flow: Flow, history: Iterable[Entry], made: list[Change], new_input: bool, at: Sequence[str]
) -> Mapping[Key, Key]:
    """Which facts a fork begins with: of each the key that it had, and the one that it gets."""
    entries = [entry for entry in history if entry.kind != "ending"]
    found = Instances(flow.body, entries)
    reach = Reach(flow)
    reach.change(made)
    if new_input:
        reach.input()
    failed, anew = Cone(), Cone()
    for failure in failures(found):
        failed.again(failure.attempt.instance)
    for instance in all_named(found, flow, at):
        anew.again(instance)
    takes: dict[Key, Key] = {}
    for entry in entries:
        attempt = found.at(entry.path)
        if attempt is None or anew.holds(entry.path) or entry.kind == "scope":  # what is large is cut anew
            continue
        place = place_of(attempt.instance)
        if reach.cone.holds(place) or failed.holds(entry.path):
            op = attempt.instance.node.op
            if entry.kind == "call" and isinstance(op, Call) and op.also is None:
                takes[without_attempts(entry.path), "offer"] = (entry.path, entry.kind)  # the last one stands
        elif entry.kind not in ENDED or not (
            place in reach.cone.ended or entry.path in failed.ended or entry.path in anew.ended
        ):
            takes[entry.path, entry.kind] = (entry.path, entry.kind)
    return {of: to for to, of in takes.items()}
