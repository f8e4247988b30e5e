"""Saved plans: definitions of kind `plan` in the store, each a tool `plans:NAME`, and values that runs recorded."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidFlow, NotFound
from ..ir import nodes_of
from ..journal.address import run_sync_in_thread
from ..journal.protocol import Definition, Entry, RunRow
from ..notations.plan.readers import with_origin
from ..notations.registry import value_in
from ..ops import Call
from ..tools.reserved import OWN, PLANS, VALUE
from ..tools.tool import Tool
from ..values import Json

if TYPE_CHECKING:
    from .context import Context
    from .jobs import Jobs
    from .prepared import Prepared

KIND: Final = "plan"
RESULT: Final = "result"
"""What a handle calls the result of a run: `RUN/result`."""
log = logging.getLogger("ropewalk.plans")


async def register_saved_plans(jobs: Jobs) -> None:
    """Register each saved plan as a tool, and each that has changed since again."""
    context = jobs.context
    definitions = await run_sync_in_thread(context.store, lambda: context.store.list_definitions(KIND))
    for definition in definitions:
        tool = context.toolbox.get(f"{PLANS}:{definition.id}")
        handler: Any = tool.handler if tool is not None else None
        if getattr(handler, "fingerprint", None) == definition.fingerprint:
            continue
        try:
            await context.definitions.read_ahead(with_origin({**definition.document, "kind": KIND}))
            loaded = context.definitions.get(definition)
            if getattr(handler, "fingerprint", None) != loaded.fingerprint:
                register_saved_plan(jobs, loaded)
        except InvalidFlow as error:  # its tools have changed since
            log.warning("the plan %s is not offered: %s", definition.id, error)


def register_saved_plan(jobs: Jobs, loaded: Prepared) -> Tool:
    """Register a plan as the tool `plans:NAME`, in place of an earlier version."""
    toolbox = jobs.context.toolbox
    unnamed = jobs.make_tool(loaded, str(loaded.document["name"]), None)
    tool = replace(unnamed, namespace=PLANS)
    handler: Any = tool.handler
    handler.id = tool.id
    if toolbox.get(tool.id) is not None:
        toolbox.remove(tool.id)
    return toolbox.register(tool)


def store_plan(context: Context, loaded: Prepared) -> int:
    """Store a plan under its name and return its version, counted from 1."""
    name = str(loaded.document["name"])
    definition = Definition(
        kind=KIND,
        id=name,
        name=name,
        document=loaded.document,
        fingerprint=loaded.fingerprint,
        created=time.time(),
    )
    context.store.put_definition(definition)
    return max((version.version for version in context.store.list_versions(KIND, name)), default=1)


def value_tool(context: Context) -> Tool:
    """Return the tool `ropewalk:value`, which reads a value that a run recorded."""

    async def read(place: str) -> Json:
        return await run_sync_in_thread(context.store, lambda: recorded_value(context, place))

    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    }
    text = "The value of a node of another run, by the text of its handle: RUN/NODE, or RUN/result."
    return Tool(VALUE, text, schema, namespace=OWN, handler=read)


def recorded_value(context: Context, place: str) -> Json:
    """Return the value at `RUN/NODE`, or the result of a run at `RUN/result`."""
    row, entry = _find_recorded(context, place)
    return value_in(row.result, row.kind) if entry is None else entry.data


def recorded_schema(context: Context, place: str) -> dict[str, Json] | None:
    """Return the JSON Schema of the value at `RUN/NODE`; None if nothing is known of it, or if there is no such
    value."""

    # The schema is that of the tool that was called, or of the result of the definition.
    try:
        row, entry = _find_recorded(context, place)
        loaded = context.definitions.get(row)
    except (NotFound, InvalidFlow):
        return None
    if entry is None:
        return context.definitions.cards.output_of(loaded)
    node = next((node for node in nodes_of(loaded.flow.body) if node.id == entry.node), None)
    card = context.definitions.cards(node.op.tool) if node is not None and isinstance(node.op, Call) else None
    schema = card.output_schema if card is not None else None
    return schema if isinstance(schema, dict) else None


def _find_recorded(context: Context, place: str) -> tuple[RunRow, Entry | None]:
    """Return the run of `RUN/NODE` and the entry of the node; None for the result of the run."""
    run_id, node = place, ""
    while "/" in run_id:  # ids of runs and paths of nodes may contain slashes
        run_id, _, last = run_id.rpartition("/")
        node = f"{last}/{node}" if node else last
        row = context.store.get_run(run_id)
        if row is None:
            continue
        if node == RESULT and isinstance(row.result, dict):
            return row, None
        for entry in context.history(run_id):
            if entry.path == node and entry.kind in ("call", "node", "signal"):
                return row, entry
    raise NotFound("value", place)
