"""The flows of a project as tools: a flow that calls `answer` finds the definition with this name in the project.

A flow becomes a tool when another one first calls it, and again when its file has changed. So a project with a
thousand flows reads those that are called. A name is looked for among the names of the files first, then among all
definitions.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..engine.flow_tool import cycle_message, tool_name
from ..errors import InvalidFlow, RopewalkError
from ..source.document import render_problem
from ..tools.source import Source
from .preflight import tools_of

if TYPE_CHECKING:
    from ..ir import Flow
    from ..tools.tool import Tool
    from .definitions import Definitions
    from .flow_list import FlowFile, FlowList
    from .prepared import Prepared

_being_read: ContextVar[tuple[FlowFile, ...]] = ContextVar("ropewalk_flows_being_read", default=())
"""The files around the present one that are being read because a flow calls them."""
_MOST_KNOWN = 1_000
_ALIAS = "composable:"
"""The prefix that a composite tool has in its source system; the plain name means the same tool."""


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
        self._offered: dict[str, FlowFile] = {}
        self._called: dict[str, frozenset[str]] = {}  # the tools that these flows call
        self._used: dict[tuple[str, str | None], frozenset[str]] = {}

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
        files = [file for file in self._flows.look().values() if file.stamp is not None]
        stems = set[str]().union(*(_names(id.removeprefix(_ALIAS)) for id in wanted))
        by_stem = [file for file in files if _names(tool_name(file.path.stem)) & stems]
        await self._register(by_stem, wanted)
        if wanted:
            await self._register([file for file in files if file not in by_stem], wanted)

    def is_current(self, prepared: Prepared) -> bool:
        """Return True if no file of a flow that a definition calls has changed since it became a tool."""
        if not self._offered:
            return True
        key = prepared.fingerprint, prepared.root
        used = self._used.get(key)
        if used is None:
            if len(self._used) >= _MOST_KNOWN:
                self._used.clear()
            used = self._used[key] = frozenset(tools_of(prepared.flow.body))
        return self._all_unchanged(used)

    def forget_changed(self, ids: Collection[str]) -> None:
        """Remove those of the tools that are or call a changed flow, so that `connect` reads these again."""
        changed = [id for id in self._reached(ids) if not self._all_unchanged((id,))]
        for id in changed:
            del self._offered[id]
            self._definitions.cards.toolbox.remove(id)

    def _all_unchanged(self, ids: Collection[str]) -> bool:
        return all(self._offered[id].is_unchanged() for id in self._reached(ids))

    def _reached(self, ids: Collection[str]) -> set[str]:
        """Return the flows that these tools are, and those that they call."""
        reached, todo = set[str](), self._offered.keys() & set(ids)
        while todo:
            id = todo.pop()
            reached.add(id)
            todo |= (self._offered.keys() & self._called[id]) - reached
        return reached

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
                # The type of its result follows from theirs.
                self._called[id] = frozenset(tools_of(prepared.flow.body))
                self.forget_changed(self._called[id])
                cards.toolbox.register(self._make(prepared, None if id.startswith(_ALIAS) else id))
                self._offered[id] = file
        for _, prepared in found.values():
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
