"""A run and the definition it goes by: that which it was started with, or another one that is to take its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidFlow, NotFound, Problem
from ..journal.journal import RunRow, Store
from ..values import closest

if TYPE_CHECKING:
    from ..app import App
    from ..definitions import Loaded, Source

MOST_PARTS = 100_000
SAME: Final[Any] = object()
"""An input that is not given: that of the run."""
_ALIKE = 200


def known(store: Store, run_id: str) -> RunRow:
    """The run; NotFound, with what was probably meant, where there is none."""
    row = store.get_run(run_id)
    if row is None:
        raise NotFound("run", run_id, suggestion=closest(run_id, [one.id for one in store.list_runs(limit=_ALIKE)]))
    return row


def outermost(store: Store, row: RunRow) -> RunRow:
    """Return the run that people resume and answer: the outermost one that this run is a part of, or itself."""
    while row.parent is not None and (outer := store.get_run(row.parent)) is not None:
        row = outer
    return row


def pinned(app: App, row: RunRow) -> Loaded:
    """The definition that a run was started with, or upgraded to."""
    context = row.context or {}
    loaded = app.definitions.loaded({**row.document, "kind": row.kind}, root=context.get("root"))
    return replace(loaded, origin=context.get("file")) if loaded.file is None else loaded


def other(app: App, row: RunRow, source: Source) -> Loaded:
    """Another definition for a run; InvalidFlow unless it is sound and in the same notation."""
    loaded = app.load(source)
    if loaded.kind != row.kind:
        message = f"this is a {loaded.kind}; run {row.id} is one of a {row.kind}, and goes on with nothing else"
        raise InvalidFlow([Problem(path="kind", message=message)])
    app.ensure(loaded)
    return loaded
