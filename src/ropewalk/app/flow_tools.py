"""The flows of a project as tools: a flow that calls `answer` finds the definition with this name in the project.

A flow becomes a tool when another one first calls it, and again when its file has changed. So a project with a
thousand flows reads those that are called.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..engine.flow_tool import cycle_message, tool_name
from ..errors import InvalidFlow, RopewalkError
from ..notations.registry import NOTATIONS
from ..source.document import render_problem
from ..tools.source import Source
from ..values import did_you_mean
from .flow_list import FlowFile, read_flow_file
from .flow_references import PREFIX
from .preflight import check_cycles, tools_of
from .python_file import NOT_IMPORTED, python_place

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
        self._definitions, self.flows = definitions, flows
        self._make, self._connect_for = make, connect_for
        definitions.cards.flow_names = self.names_of_flows
        self._offered: dict[str, OfferedFlow] = {}
        self._is_frozen = False
        self._used: dict[tuple[str, str | None, int], frozenset[str]] = {}

    def succeed(self, earlier: FlowTools) -> None:
        """Take over from an earlier version of the project, whose runs keep the flows that it has."""
        self.flows.remember(earlier.flows)
        earlier._is_frozen = True

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Register the flows with these ids, or all, that are not registered, with the tools that they call."""
        cards = self._definitions.cards
        if tool_ids is None:
            self.forget_changed(self._offered)
            tool_ids = self.names_of_flows()
        self.forget_changed(tool_ids)
        missing = {id for id in tool_ids if cards.toolbox.is_missing(id)}
        for id in missing & cards.broken.keys():
            del cards.broken[id]
        found: dict[str, tuple[FlowFile, Prepared | None]] = {}
        for id in missing & cards.flow_files.keys():
            file = read_flow_file(Path(cards.flow_files[id]))
            if file.stamp:
                found[id] = file, await self._prepare(file, {id})
            else:
                cards.broken[id] = self._why_absent(file.path)
        wanted = {id for id in missing if ":" not in id.removeprefix(_ALIAS)}
        for file in self.flows.look().values() if wanted else ():
            ids = wanted & {*_names(file.name), *_names(_ALIAS + file.name)}
            if not ids or not file.stamp:
                continue
            prepared = await self._prepare(file, ids)
            name = None if prepared is None else tool_name(prepared.name)
            if prepared is None or name is None or not ids & _ids_of(prepared):
                continue
            if name in found:
                names = f"{self._shown(found[name][0].path)} and {self._shown(file.path)}"
                why = f"{names} have this name; give one of them another `name`"
                cards.broken.update(dict.fromkeys(ids | {name}, why))
            found[name] = file, prepared
        await self._offer({id: (file, prepared) for id, (file, prepared) in found.items() if prepared is not None})

    def names_of_flows(self) -> list[str]:
        """Return the names of the flows of the project as tools, as far as their files say them."""
        return [file.name for file in self.flows.look().values() if file.stamp]

    def failures(self) -> dict[str, str]:
        """Return why flows of the project cannot be called, by name."""
        broken, named = self._definitions.cards.broken, self.flows.is_named
        # A document of another program, which the default patterns match, names no notation.
        files = [
            file for file in self.flows.look().values() if named or file.kind in NOTATIONS or python_place(file.path)
        ]
        return {file.name: broken[file.name] for file in files if file.name in broken}

    def is_offered(self, id: str) -> bool:
        """Return True if a tool is a flow of the project."""
        return id in self._offered

    def file_of(self, id: str) -> str | None:
        """Return the id of the flow file that a tool runs, which is its path in the project; None for other tools."""
        return self.flows.id_of(str(self._offered[id].file.path)) if id in self._offered else None

    async def _prepare(self, file: FlowFile, ids: Collection[str]) -> Prepared | None:
        """Prepare the flow in a file; if it is wrong, note why there are no tools with these ids."""
        broken = self._definitions.cards.broken
        if cycle := _cycle_through(file):  # programs are read with their tools, so one that calls itself has no end
            broken.update(dict.fromkeys(ids, cycle))
            return None
        try:
            with _inside(file):
                return await self._definitions.find_async(file.path)
        except (RopewalkError, OSError) as error:
            for id in ids:
                broken.setdefault(id, self._why_wrong(file, error))
            return None

    async def _offer(self, found: Mapping[str, tuple[FlowFile, Prepared]]) -> None:
        """Register flows as tools, with the tools that they call; one that is wrong is none."""
        cards = self._definitions.cards
        for id, (file, prepared) in found.items():
            # Reading it may have made it a tool, since other flows that it needs call it.
            if id not in cards.broken and cards.toolbox.is_missing(id):
                cards.toolbox.register(self._made(prepared, id))
                self._offered[id] = OfferedFlow(file, frozenset(tools_of(prepared.flow.body)))
        for id, (file, prepared) in found.items():
            called = tools_of(prepared.flow.body)
            self.forget_changed(called)
            with _inside(file):
                await self._connect_for(prepared.flow)
            # A cycle of tools is a problem of each definition in it, so every check names it.
            if id not in self._offered or check_cycles(prepared.flow, cards.toolbox):
                continue
            # A program in the cycle is not registered yet.
            inner = [self._offered[each].file for each in called if each in self._offered]
            cycle = next(filter(None, (_cycle_through(each, file) for each in inner)), None)
            problems = () if cycle else self._definitions.check(prepared, unknown_tools="problem").problems
            if cycle or problems:
                why = cycle or self._why_wrong(file, InvalidFlow(problems))
                cards.broken.update(dict.fromkeys({id, *_ids_of(prepared)}, why))
                del self._offered[id]
                cards.toolbox.remove(id)

    def _made(self, prepared: Prepared, id: str) -> Tool:
        """Make a tool with an id."""
        prefix, colon, name = id.partition(":")
        if prefix != PREFIX or not colon:
            return self._make(prepared, None)
        tool = replace(self._make(prepared, name), namespace=PREFIX, aliases=())
        handler: Any = tool.handler
        handler.id = id
        return tool

    def _why_wrong(self, file: FlowFile, error: Exception) -> str:
        """Return the first problem of a flow that cannot be a tool because of it."""
        text = render_problem(error.problems[0]) if isinstance(error, InvalidFlow) and error.problems else str(error)
        shown = self._shown(file.path)
        line = text.partition("\n")[0].replace(str(file.path), shown)
        if isinstance(error, InvalidFlow) and any(problem.keyword == NOT_IMPORTED for problem in error.problems):
            return line
        if cycle := re.search(r"\S+ calls itself: .*", line):
            return cycle[0]
        return f"its flow is wrong: {line if line.startswith(shown) else f'{shown}: {line}'}"

    def _why_absent(self, path: Path) -> str:
        """Say that the file that a document names does not exist, with the nearest name of a file next to it."""
        place = python_place(path)
        file = path if place is None else place[0]
        near = did_you_mean(file.stem, [each.stem for each in sorted(file.parent.glob(f"*{file.suffix}"))])
        hint = f"; did you mean {self._shown(file.with_stem(near))}?" if near else ""
        return f"there is no file {self._shown(file)}{hint}"

    def _shown(self, path: Path) -> str:
        """Return the path of a file in its project."""
        base = None if self._definitions.cards.directory is None else self._definitions.cards.directory.resolve()
        return str(path.relative_to(base)) if base is not None and path.is_relative_to(base) else str(path)

    def is_current(self, prepared: Prepared) -> bool:
        """Return True if no file has changed of the flows that a definition calls, also through others."""
        if not self._offered or self._is_frozen:
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
        if self._is_frozen:
            return
        reached = self._reached(ids)
        changed = {id for id in reached if not self._offered[id].file.is_unchanged()}
        # The type of a flow follows from the flows that it calls.
        for id in [id for id in reached if changed & self._reached((id,))] if changed else ():
            del self._offered[id]
            self._definitions.cards.toolbox.remove(id)

    def _reached(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the flows among these tools, with those that they call."""
        result, rest = set[str](), {id.removeprefix(_ALIAS) for id in ids} & self._offered.keys()
        while rest:
            id = rest.pop()
            result.add(id)
            calls = {each.removeprefix(_ALIAS) for each in self._offered[id].calls}
            rest |= (calls & self._offered.keys()) - result
        return frozenset(result)


@contextmanager
def _inside(file: FlowFile) -> Iterator[None]:
    """Read what a flow calls as a part of reading the flow."""
    token = _being_read.set((*_being_read.get(), file))
    try:
        yield
    finally:
        _being_read.reset(token)


def _cycle_through(file: FlowFile, last: FlowFile | None = None) -> str | None:
    """Return the cycle of flows from a file that is being read to the present one, and `last`; None if it is not."""
    outer = _being_read.get()
    if file not in outer:
        return None
    names = [each.name for each in outer[outer.index(file) :]]
    return cycle_message([*names, last.name] if last is not None else names)


def _ids_of(prepared: Prepared) -> set[str]:
    """Return the names by which a flow as a tool is called."""
    name, space = tool_name(prepared.name), prepared.compiled.namespace
    return _names(name) | (_names(f"{space}:{name}") if space else set())


def _names(id: str) -> set[str]:
    """Return the names of a tool: its id, and its name in programs."""
    return {id, re.sub(r"\W", "_", id)}
