"""The flows of a project as tools: a flow that calls `answer` finds the definition with this name in the project.

A flow becomes a tool when another one first calls it, and again when its file has changed. So a project with a
thousand flows reads those that are called. A name is looked for among the names of the files first, then among all
definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..engine.flow_tool import tool_name
from ..errors import InvalidFlow, RopewalkError
from ..source.document import render_problem
from .preflight import tools_of

if TYPE_CHECKING:
    from .flow_list import FlowFile, FlowList
    from .jobs import Jobs
    from .prepared import Prepared

_MOST_KNOWN = 1_000
_ALIAS = "composable:"
"""The prefix that a composite tool has in its source system; the plain name means the same tool."""


class FlowTools:
    """Registers the flows of a project as tools of its toolbox."""

    def __init__(self, jobs: Jobs, flows: FlowList) -> None:
        self._jobs, self._flows = jobs, flows
        self._offered: dict[str, FlowFile] = {}
        self._used: dict[tuple[str, str | None], frozenset[str]] = {}

    async def connect(self, tool_ids: Collection[str]) -> None:
        """Register the flows that have these ids, with the tools that they call themselves."""
        wanted = {id for id in tool_ids if ":" not in id.removeprefix(_ALIAS)}
        if not wanted:
            return
        broken = self._jobs.context.definitions.cards.broken
        for id in wanted & broken.keys():
            del broken[id]
        files = {id: file for id, file in self._flows.look().items() if file.stamp is not None}
        stems = set[str]().union(*(_names(id.removeprefix(_ALIAS)) for id in wanted))
        by_stem = [file for id, file in files.items() if _names(tool_name(PurePath(id).stem)) & stems]
        await self._register(by_stem, wanted)
        if wanted:
            await self._register([file for file in files.values() if file not in by_stem], wanted)

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
        return all(self._offered[id].is_unchanged() for id in used & self._offered.keys())

    def forget_changed(self, ids: Collection[str]) -> None:
        """Remove those of the tools whose files have changed, so that `connect` reads these again."""
        for id in [id for id in ids if id in self._offered and not self._offered[id].is_unchanged()]:
            del self._offered[id]
            self._jobs.context.toolbox.remove(id)

    async def _register(self, files: list[FlowFile], wanted: set[str]) -> None:
        """Register the flows in files that have a wanted id, and remove these ids from `wanted`."""
        context = self._jobs.context
        found: dict[str, tuple[FlowFile, Prepared]] = {}
        broken = context.definitions.cards.broken
        for file in files:
            try:
                prepared = await context.definitions.find_async(file.path)
            except (RopewalkError, OSError) as error:
                for id in {_name_of(file, error)} & wanted:
                    broken[id] = f"the flow {file.path.name} has this name, and is wrong: {_first_line(error)}"
                continue
            for id in _ids_of(prepared, wanted):
                if id in found:
                    names = f"{found[id][0].path.name} and {file.path.name}"
                    broken[id] = f"{names} have this name; give one of them another `name`"
                found[id] = file, prepared
        for id, (file, prepared) in found.items():
            wanted -= _names(id)
            if id not in broken:
                context.toolbox.register(self._jobs.make_tool(prepared, None if id.startswith(_ALIAS) else id))
                self._offered[id] = file
        for _, prepared in found.values():
            await self._jobs.connect_for(prepared.flow)


def _names(id: str) -> set[str]:
    """Return the names of a tool: its id, and its name in programs."""
    return {id, re.sub(r"\W", "_", id)}


def _ids_of(prepared: Prepared, wanted: set[str]) -> set[str]:
    """Return the wanted ids that mean a flow; programs name it as Python does."""
    name = tool_name(prepared.name)
    own = {name} if prepared.compiled.namespace is None else {name, f"{prepared.compiled.namespace}:{name}"}
    return {id for id in own if _names(id) & wanted}


def _name_of(file: FlowFile, error: Exception) -> str:
    """Return the name that a flow would have which cannot be read."""
    data: Any = getattr(getattr(error, "file", None), "data", None)
    name = data.get("name") if isinstance(data, dict) else None
    return tool_name(name if isinstance(name, str) else PurePath(file.path).stem)


def _first_line(error: Exception) -> str:
    text = render_problem(error.problems[0]) if isinstance(error, InvalidFlow) and error.problems else str(error)
    return text.partition("\n")[0]
