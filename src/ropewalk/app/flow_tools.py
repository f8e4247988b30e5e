"""The flows of a project as tools: a flow that calls `answer` finds the definition with this name in the project.

A flow becomes a tool when another one first calls it, and again when its file has changed. So a project with a
thousand flows reads those that are called.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..engine.flow_tool import cycle_message, tool_name
from ..errors import InvalidFlow, RopewalkError
from ..source.document import render_problem
from ..tools.source import Source
from .flow_list import FlowFile, read_flow_file
from .preflight import tools_of

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

    names = ("", _ALIAS.rstrip(":"))

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
        toolbox = self._definitions.cards.toolbox
        wanted = {id for id in tool_ids or () if ":" not in id.removeprefix(_ALIAS) and toolbox.is_missing(id)}
        if not wanted:
            return
        broken = self._definitions.cards.broken
        for id in wanted & broken.keys():
            del broken[id]
        files = {file.path: file for file in (*self._named_files(wanted), *self._flows.look().values()) if file.stamp}
        await self._register([*files.values()], wanted)

    def _named_files(self, wanted: set[str]) -> Iterator[FlowFile]:
        """Yield the files with these names that documents name as files."""
        for name in wanted & self._definitions.cards.flow_files.keys():
            for path in map(Path, sorted(self._definitions.cards.flow_files[name])):
                yield read_flow_file(path)

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

    async def _register(self, files: list[FlowFile], wanted: set[str]) -> None:
        """Register the flows in files that have a wanted id, and remove these ids from `wanted`."""
        cards, outer = self._definitions.cards, _being_read.get()
        broken = cards.broken
        found: dict[str, tuple[FlowFile, Prepared]] = {}
        for file in files:
            named = wanted & {*_names(file.name), f"{_ALIAS}{file.name}"}
            if not named:
                continue
            if file in outer:  # programs are read with their tools, so one that calls itself has no end
                cycle = cycle_message([each.name for each in outer[outer.index(file) :]])
                broken.update(dict.fromkeys(named, cycle))
                continue
            token = _being_read.set((*outer, file))
            try:
                prepared = await self._definitions.find_async(file.path)
            except (RopewalkError, OSError) as error:
                why = f"the flow {file.path.name} has this name, and is wrong: {_first_line(error)}"
                for id in named:
                    broken.setdefault(id, why)
                continue
            finally:
                _being_read.reset(token)
            for id in _ids_of(prepared, wanted):
                if id in found:
                    names = f"{found[id][0].path.name} and {file.path.name}"
                    broken[id] = f"{names} have this name; give one of them another `name`"
                found[id] = file, prepared
        for id, (file, prepared) in found.items():
            wanted -= _names(id)
            if id not in broken:
                cards.toolbox.register(self._make(prepared, None if id.startswith(_ALIAS) else id))
                self._offered[id] = OfferedFlow(file, frozenset(tools_of(prepared.flow.body)))
        for _, prepared in found.values():
            self.forget_changed(tools_of(prepared.flow.body))
            await self._connect_for(prepared.flow)


def _ids_of(prepared: Prepared, wanted: set[str]) -> list[str]:
    """Return the ids of a flow as a tool by which it is wanted."""
    name, space = tool_name(prepared.name), prepared.compiled.namespace
    return [id for id in dict.fromkeys((name, f"{space}:{name}" if space else name)) if _names(id) & wanted]


def _names(id: str) -> set[str]:
    """Return the names of a tool: its id, and its name in programs."""
    return {id, re.sub(r"\W", "_", id)}


def _first_line(error: Exception) -> str:
    text = render_problem(error.problems[0]) if isinstance(error, InvalidFlow) and error.problems else str(error)
    return text.partition("\n")[0]
