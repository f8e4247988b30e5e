"""The flows of a project as tools: a flow that calls `answer` finds the definition with this name in the project.

A flow becomes a tool when another one first calls it, and again when its file has changed. So a project with a
thousand flows reads those that are called.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.flow_tool import cycle_message, tool_name
from ..errors import InvalidFlow, RopewalkError
from ..source.document import render_problem
from ..tools.source import Source
from .flow_list import FlowFile, read_flow_file
from .flow_references import PREFIX
from .preflight import check_cycles, tools_of

if TYPE_CHECKING:
    from ..ir import Flow
    from ..tools.tool import Tool
    from .definitions import Definitions
    from .flow_list import FlowList
    from .prepared import Prepared

_being_read: ContextVar[tuple[FlowFile, ...]] = ContextVar("ropewalk_flows_being_read", default=())
"""The files around the present one that are being read because a flow calls them."""
_MOST_KNOWN = 1_000
_ALIAS = "composable:"
"""The prefix that a composite tool has in its source system; the plain name means the same tool."""


class OfferedFlow(NamedTuple):
    """The file of a flow that is a tool, and the tools that the flow calls."""

    file: FlowFile
    calls: frozenset[str]


class FlowTools(Source):
    """Registers the flows of a project as tools of its toolbox."""

    names = ("", _ALIAS.rstrip(":"), PREFIX)

    # `make` makes a tool of a definition; `connect_for` makes the tools known that a flow calls.

    def __init__(
        self,
        definitions: Definitions,
        flows: FlowList,
        make: Callable[[Prepared, str | None], Tool],
        connect_for: Callable[[Flow], Awaitable[None]],
    ) -> None:
        self._definitions, self._flows = definitions, flows
        self._make, self._connect_for = make, connect_for
        self._offered: dict[str, OfferedFlow] = {}
        self._used: dict[tuple[str, str | None, int], frozenset[str]] = {}

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Register the flows that have these ids and are not registered, with the tools that they call themselves."""
        self.forget_changed(tool_ids or ())
        cards = self._definitions.cards
        missing = {id for id in tool_ids or () if cards.toolbox.is_missing(id)}
        for id in missing & cards.broken.keys():
            del cards.broken[id]
        named = {id: read_flow_file(Path(cards.flow_files[id])) for id in missing & cards.flow_files.keys()}
        found = {id: (file, await self._prepare(file, {id})) for id, file in named.items() if file.stamp}
        wanted = {id for id in missing if ":" not in id.removeprefix(_ALIAS)}
        files = self._flows.look().values() if wanted else ()
        for file in files:
            ids = wanted & {*_names(file.name), f"{_ALIAS}{file.name}"}
            if not ids or not file.stamp:
                continue
            prepared = await self._prepare(file, ids)
            for id in () if prepared is None else _ids_of(prepared, wanted):
                if id in found:
                    names = f"{self._shown(found[id][0])} and {self._shown(file)}"
                    cards.broken[id] = f"{names} have this name; give one of them another `name`"
                found[id] = file, prepared
        await self._offer({id: (file, prepared) for id, (file, prepared) in found.items() if prepared is not None})

    async def _prepare(self, file: FlowFile, ids: Collection[str]) -> Prepared | None:
        """Prepare the flow in a file; if it is wrong, note why there are no tools with these ids."""
        broken, outer = self._definitions.cards.broken, _being_read.get()
        if file in outer:  # programs are read with their tools, so one that calls itself has no end
            cycle = cycle_message([each.name for each in outer[outer.index(file) :]])
            broken.update(dict.fromkeys(ids, cycle))
            return None
        token = _being_read.set((*outer, file))
        try:
            return await self._definitions.find_async(file.path)
        except (RopewalkError, OSError) as error:
            for id in ids:
                broken.setdefault(id, self._why_wrong(file, error))
            return None
        finally:
            _being_read.reset(token)

    async def _offer(self, found: Mapping[str, tuple[FlowFile, Prepared]]) -> None:
        """Register flows as tools, with the tools that they call; one that is wrong is none."""
        cards = self._definitions.cards
        for id, (file, prepared) in found.items():
            if id not in cards.broken:
                cards.toolbox.register(self._made(prepared, id))
                self._offered[id] = OfferedFlow(file, frozenset(tools_of(prepared.flow.body)))
        for id, (file, prepared) in found.items():
            self.forget_changed(tools_of(prepared.flow.body))
            await self._connect_for(prepared.flow)
            # A cycle is a problem of each definition in it, so every check names it.
            if id not in self._offered or check_cycles(prepared.flow, cards.toolbox):
                continue
            if problems := self._definitions.check(prepared, unknown_tools="problem").problems:
                cards.broken[id] = self._why_wrong(file, InvalidFlow(problems))
                del self._offered[id]
                cards.toolbox.remove(id)

    def _made(self, prepared: Prepared, id: str) -> Tool:
        """Make a tool with an id."""
        prefix, colon, name = id.partition(":")
        if prefix != PREFIX or not colon:
            return self._make(prepared, None if id.startswith(_ALIAS) else id)
        tool = replace(self._make(prepared, name), namespace=PREFIX)
        handler: Any = tool.handler
        handler.id = id
        return tool

    def _why_wrong(self, file: FlowFile, error: Exception) -> str:
        """Return the first problem of a flow that cannot be a tool because of it."""
        text = render_problem(error.problems[0]) if isinstance(error, InvalidFlow) and error.problems else str(error)
        shown = self._shown(file)
        line = text.partition("\n")[0].replace(str(file.path), shown)
        return f"its flow is wrong: {line if line.startswith(shown) else f'{shown}: {line}'}"

    def _shown(self, file: FlowFile) -> str:
        """Return the path of a file in its project."""
        base = self._definitions.cards.directory
        inside = base is not None and file.path.is_relative_to(base)
        return str(file.path.relative_to(base)) if base is not None and inside else str(file.path)

    def is_current(self, prepared: Prepared) -> bool:
        """Return True if no file has changed of the flows that a definition calls, also through others."""
        if not self._offered:
            return True
        key = prepared.fingerprint, prepared.root, self._definitions.cards.toolbox.version
        used = self._used.get(key)
        if used is None:
            if len(self._used) >= _MOST_KNOWN:
                self._used.clear()
            used = self._used[key] = self._reached(tools_of(prepared.flow.body))
        return all(self._offered[id].file.is_unchanged() for id in used)

    def forget_changed(self, ids: Collection[str]) -> None:
        """Remove those of the tools whose files have changed, and those that call them; `connect` reads them again."""
        reached = self._reached(ids)
        changed = {id for id in reached if not self._offered[id].file.is_unchanged()}
        # The type of a flow follows from the flows that it calls.
        for id in [id for id in reached if changed & self._reached((id,))] if changed else ():
            del self._offered[id]
            self._definitions.cards.toolbox.remove(id)

    def _reached(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the flows among these tools, with those that they call."""
        result, rest = set[str](), {*ids} & self._offered.keys()
        while rest:
            id = rest.pop()
            result.add(id)
            rest |= (self._offered[id].calls & self._offered.keys()) - result
        return frozenset(result)


def _ids_of(prepared: Prepared, wanted: set[str]) -> list[str]:
    """Return the ids of a flow as a tool by which it is wanted."""
    name, space = tool_name(prepared.name), prepared.compiled.namespace
    return [id for id in dict.fromkeys((name, f"{space}:{name}" if space else name)) if _names(id) & wanted]


def _names(id: str) -> set[str]:
    """Return the names of a tool: its id, and its name in programs."""
    return {id, re.sub(r"\W", "_", id)}
