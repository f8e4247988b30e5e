"""The catalogue: everything that the MCP server offers, by the names that clients see. It is always current.

A long list of tools fills the context of a model and makes it choose worse. In place of a long list, the model sees
three tools. `find_tools` finds tools for tasks, the best with their schemas; `call_tool` calls one of them;
`read_value` reads a large result (`handles.py`).

The app's selector ranks the tools of the project and learns from their use. It does not know flows, so a second
selector ranks those.

Names work in every client, Claude Code included: `[A-Za-z0-9_-]`, at most 48 characters, unique. Claude Code adds
the prefix `mcp__SERVER__` and has a limit of 64.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...errors import ExecutionFailed, InvalidInput, OutputValidationFailed, StoreError
from ...journal.address import run_sync_in_thread
from ...journal.tool_usage import current_source
from ...schema import compile_schema
from ...select.search import (
    HOW_TO_ASK,
    LIMIT,
    NEAR,
    QUERIES,
    USUAL_LIMIT,
    Results,
    Search,
    first_exact,
    line_of,
    read_search,
)
from ...select.selector import Selector
from ...tools.mcp.requests import ServerRefused
from ...tools.reserved import why_reserved_is_missing
from ...values import Json, did_you_mean
from .handles import READ, ResultHandles
from .results import failed, given, shown_input
from .tool_source import CallContext, ExposedTool, Source

if TYPE_CHECKING:
    from ...app.app import App

log = logging.getLogger("ropewalk.mcp.server")

# Seconds for which an unchanged tool is called without a look at all the others. The server looks every second for
# clients that have a list, so that no call has to.
_MAX_AGE: Final = 2.0
_MOST_FINDS: Final = 200  # tools found by one client whose requests are remembered until they are called


class Finder:
    """Ranks offered tools for a request, and teaches the app's selector."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._flows: tuple[dict[str, str], Selector] | None = None
        self.handles = ResultHandles(app)

    @property
    def connecting(self) -> list[str]:
        """The servers whose tools cannot be found yet."""
        mcp = self._app.toolbox.mcp
        return [] if mcp is None else mcp.connecting

    @property
    def version(self) -> Any:
        """A value that changes with the tools of the toolbox and its servers."""
        return self._app.toolbox.version, self.connecting

    def search(self, tools: Mapping[str, ExposedTool], search: Search) -> Results:
        """Return the names of the tools that fit the queries of a client."""
        names = {name: name for name in tools}
        return search.run(lambda query, limit: first_exact(query, names, self._best(tools, query, limit))[:limit])

    def _best(self, tools: Mapping[str, ExposedTool], query: str, limit: int) -> list[tuple[str, float]]:
        """Return names and scores of the tools that fit a query, the best first."""
        toolbox = self._app.toolbox
        names = {item.id: name for name, item in tools.items() if toolbox.get(item.id) is not None}
        options: dict[str, Any] = {"maxResults": limit, "threshold": NEAR}
        rows: list[dict[str, Any]] = []
        if names:
            rows += self._app.selector.select(query, allowTools=list(names), **options)["results"]
        flows = {name: item.description for name, item in tools.items() if item.id not in names}
        if flows:
            rows += self._of_flows(flows, tools).select(query, **options)["results"]
        scores = [(names.get(str(row["name"]), str(row["name"])), round(float(row["score"]), 2)) for row in rows]
        return sorted(scores, key=lambda score: -score[1])[:limit]

    def _of_flows(self, flows: dict[str, str], tools: Mapping[str, ExposedTool]) -> Selector:
        if self._flows is None or self._flows[0] != flows:
            cards = [
                {"name": name, "description": message, "inputSchema": tools[name].input_schema}
                for name, message in flows.items()
            ]
            self._flows = flows, self._app.context.selection.new(cards)
        return self._flows[1]

    def note(self, asked: CallContext, found_by: Mapping[str, str]) -> None:
        """Remember the queries that a client found some tools by."""
        for id, query in found_by.items():
            asked.found_by.pop(id, None)
            asked.found_by[id] = query
        while len(asked.found_by) > _MOST_FINDS:
            del asked.found_by[next(iter(asked.found_by))]

    async def call(
        self, tool: ExposedTool, args: dict[str, Json], asked: CallContext, request: str | None = None
    ) -> Any:
        """Call a tool."""

        # The selector learns how it did for `request`, or for the request that it was found by.
        request = request or asked.found_by.pop(tool.id, None)
        if tool.checked and (problems := compile_schema(tool.input_schema).problems(args, "")):
            raise InvalidInput(problems)
        try:
            result = await tool.call(args, asked)
        except Exception as error:
            if request is not None and _has_failed(error):
                await self._learn(request, tool.id, False)
            raise
        if request is not None:
            await self._learn(request, tool.id, not result.is_error)
        return result

    async def _learn(self, request: str, id: str, success: bool) -> None:
        if self._app.toolbox.get(id) is None:
            return
        try:
            source = current_source()
            await run_sync_in_thread(self._app.store, lambda: self._app.selector.learn(request, {id: success}, source))
        except StoreError:  # the call is done; only what could be learnt from it is lost
            log.exception("the selector learnt nothing from a call of %s", id)


def _has_failed(error: Exception) -> bool:
    """Return True if the tool itself failed, not the check of its arguments or permission."""
    if isinstance(error, ServerRefused):
        return error.retryable
    return isinstance(error, (ExecutionFailed, OutputValidationFailed, ConnectionError, TimeoutError))


Find: TypeAlias = Callable[[str], Awaitable[ExposedTool | None]]
"""Gives what is called by a name."""

FIND: Final = "find_tools"
CALL: Final = "call_tool"
_ROW: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "inputSchema": {"type": "object"},
        "score": {"type": "number"},
    },
    "required": ["name", "description", "inputSchema", "score"],
}
_NAMES: Final[dict[str, Json]] = {"type": "array", "items": {"type": "string"}}
_OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": _ROW},
        "more": {**_NAMES, "description": "The other results: name(required parameters): what it does."},
        "queries": {"type": "object", "additionalProperties": _NAMES, "description": "Names that each query found."},
        "total": {"type": "integer"},
        "fits": {"type": "boolean"},
        "note": {"type": "string"},
        "connecting": {**_NAMES, "description": "Servers that have not listed their tools yet."},
    },
    "required": ["tools", "total", "fits"],
}


def find_tools(tools: Mapping[str, ExposedTool], finder: Finder, connecting: list[str]) -> ExposedTool:
    """The tool that finds the others, which were listed before the servers in `connecting` had answered."""

    async def call(args: dict[str, Json], asked: CallContext) -> Any:
        try:
            search = read_search(args.get("query"), args.get("queries"), args.get("limit", USUAL_LIMIT))
        except InvalidInput as error:
            return failed(str(error), {"kind": "InvalidInput"})
        results = await asyncio.to_thread(finder.search, tools, search)
        # Remember the queries: the selector learns from how the calls of these tools end.
        finder.note(asked, {tools[name].id: query for name, _, query in results.found})
        full, lines = results.in_two_densities(
            lambda found: _row(tools[found.key], *found[:2]), lambda found: line_of(found.key, tools[found.key])
        )
        message: dict[str, Json] = {"tools": [*full], "total": len(tools), "fits": not results.weak, **results.remarks}
        if lines:
            message["more"] = [*lines]
        if connecting:
            message["connecting"] = [*connecting]
            # A server that is still connecting may have a better tool.
            if results.weak:
                late = f"the tools of {', '.join(connecting)} are not known yet: ask again in a few seconds"
                message["note"] = f"{message['note']}; {late}"
        return given(message, _OUTPUT)

    return ExposedTool(
        id=FIND,
        wanted=FIND,
        checked=True,
        description=f"Finds tools of this server. {HOW_TO_ASK} The best results have an input schema and a score (0 to "
        f"1: how sure it fits), the others are one line each; search for a name to get its schema. Call the tools with "
        f"{CALL}.",
        input_schema={
            "type": "object",
            "properties": {
                "queries": QUERIES,
                "query": {"type": "string", "description": "One task, in place of `queries`."},
                "limit": LIMIT,
            },
        },
        output_schema=_OUTPUT,
        annotations={"readOnlyHint": True},
        call=call,
    )


def _row(tool: ExposedTool, name: str, score: float) -> dict[str, Json]:
    schema = {key: value for key, value in shown_input(tool.input_schema).items() if key != "$schema"}
    return {"name": name, "description": tool.description, "inputSchema": schema, "score": score}


def unknown_tool_hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return what follows the message about an unknown tool: why it is missing, and the name that may be meant."""
    reason = why_reserved_is_missing(name, ())
    near = did_you_mean(name.partition(":")[2] if reason else name, names)
    parts = (reason, f"did you mean {near}?" if near else otherwise)
    return "".join(f"; {part}" for part in parts if part)


def call_tool(find: Find, tools: Mapping[str, ExposedTool], finder: Finder) -> ExposedTool:
    """The tool that calls the others by name."""

    # Its answers are theirs, with handles for large results.

    async def call(args: dict[str, Json], asked: CallContext) -> Any:
        name, arguments, request = args.get("name"), args.get("arguments", {}), args.get("request")
        tool = await find(name) if isinstance(name, str) and name not in (FIND, CALL, READ) else None
        if tool is None:
            hint = unknown_tool_hint(str(name), tools, otherwise=f"ask {FIND}")
            return failed(f"name: there is no tool {name!r}{hint}", {"kind": "NotFound"})
        if request is not None and not request.strip():
            return failed("request: must be the query with which the tool was found", {"kind": "InvalidInput"})
        return await finder.handles.shorten(await finder.call(tool, arguments, asked, request))

    return ExposedTool(
        id=CALL,
        wanted=CALL,
        checked=True,
        description=f"Calls a tool that {FIND} has found. Read a large result with {READ}.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"The name that {FIND} returned."},
                "arguments": {"type": "object", "description": "Arguments that match the tool's input schema."},
                "request": {
                    "type": "string",
                    "description": f"The query that found it in {FIND}. Later searches learn from it.",
                },
            },
            "required": ["name"],
        },
        call=call,
        verbatim=True,
        is_current=lambda: True,  # it finds the tool that it calls when it is called
    )


LONGEST: Final = 48
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MARK: Final = 6


def unique_names(
    wanted: Iterable[tuple[str, str]], taken: Iterable[str] = (), own: Container[str] = ()
) -> dict[str, str]:
    """From (id, wanted name) to {id: name}; the same for the same set, in whatever order."""

    # Where several come to the same name, the one that wanted exactly that keeps it, of several the one whose id is in
    # `own`; the others, and those that are too long, end in a digest of their id. `taken` are names nobody gets.
    requested = dict(wanted)
    safe = {id: safe_name(name).strip("_") or "tool" for id, name in requested.items()}
    exact = Counter(name for id, name in safe.items() if requested[id] == name)
    owned = Counter(name for id, name in safe.items() if requested[id] == name and id in own)
    known = Counter(safe.values())
    blocked = set(taken)
    result: dict[str, str] = {}
    for id, name in safe.items():
        mine = owned[name] == 1 and id in own
        alone = known[name] == 1 or (requested[id] == name and (exact[name] == 1 or mine))
        result[id] = name if alone and len(name) <= LONGEST and name not in blocked else _marked(id, name)
    return result


def safe_name(name: str) -> str:
    """Return a name with the characters that clients do not take replaced."""
    return _OTHER.sub("_", name)


def _marked(id: str, name: str) -> str:
    mark = hashlib.sha256(id.encode()).hexdigest()[:_MARK]
    return f"{name[: LONGEST - _MARK - 1].rstrip('_')}_{mark}"


class Catalogue:
    """The tools of some sources."""

    # Where there are more than `max_listed`, only those of `always` are listed as far as they fit, and `find_tools`,
    # `call_tool` and `read_value` for the rest. Every tool can be called by its name.

    def __init__(
        self, finder: Finder, always: Sequence[Source], others: Sequence[Source] = (), *, max_listed: int = 100
    ) -> None:
        self.finder = finder
        self._always, self._others, self._most = tuple(always), tuple(others), max_listed
        self._version: Any = None
        self._changes = 0  # how often a look has found other tools
        self._looked = -_MAX_AGE  # when the sources were compared last, by the monotonic clock
        self._tools: dict[str, ExposedTool] = {}
        self._listed: dict[str, ExposedTool] = {}
        self._withheld: dict[str, ExposedTool] = {}

    async def connect(self) -> None:
        """Reach what is needed to describe the tools."""
        await asyncio.gather(*(source.connect() for source in (*self._always, *self._others)))

    @property
    def connecting(self) -> list[str]:
        """The servers whose tools are missing, as they have not answered yet."""
        return self.finder.connecting if self._others else []

    @property
    def revision(self) -> Any:
        """A cheap value that changes with the toolbox, and whenever a look has found other tools."""
        return self._changes, self.finder.version

    async def find(self, name: str) -> ExposedTool | None:
        """Return what is called by a name, connecting only servers that it may come from; None where there is none."""

        # Raises ConnectionError when such a server cannot be reached.
        result = self.known(name)
        if result is not None:
            return result
        for source in (*self._always, *self._others):
            await source.reach(name)
        return self.tools.get(name) or self.withheld(name)

    def known(self, name: str) -> ExposedTool | None:
        """Return what is called by a name, without connecting to anything; None if there is no such tool."""

        # A look at all sources costs as much as a short call. So a tool that is itself unchanged is called without it,
        # for two seconds. Only a new tool that claims the same name is noticed that late.
        tool = self._listed.get(name) or self._tools.get(name)
        if tool is not None and tool.is_current() and time.monotonic() < self._looked + _MAX_AGE:
            return tool
        return self.tools.get(name) or self.withheld(name)

    @property
    def tools(self) -> dict[str, ExposedTool]:
        """The tools that can be called, by name; rebuilt when a source has changed."""
        self._refresh()
        return {**self._tools, **self._listed}

    def withheld(self, name: str) -> ExposedTool | None:
        """Return the tool that would have this name if it were offered."""

        # Its call says why it is not.
        self._refresh()
        return self._withheld.get(name)

    @property
    def listed(self) -> dict[str, ExposedTool]:
        """The tools that clients are shown, in this order."""
        self._refresh()
        return self._listed

    def _refresh(self) -> None:
        self._looked = time.monotonic()
        connecting = self.finder.connecting
        version = [connecting, *(source.version() for source in (*self._always, *self._others))]
        if version == self._version:
            return
        always = [item for source in self._always for item in source.offered()]
        all = [item for source in self._others for item in source.offered()]
        others = [item for item in all if not item.withheld]
        offered = (*always, *others)
        own = {item.id for item in offered if item.own}
        # Where programs call the tools, `find_tools` is the operation that gives stubs.
        taken = (CALL, READ) if f"plans/{FIND}" in own else (FIND, CALL, READ)
        names = unique_names(((item.id, item.wanted) for item in offered), taken=taken, own=own)
        tools = {names[item.id]: item for item in offered}
        # Named by themselves: what is refused takes no name from what is not.
        apart = unique_names((item.id, item.wanted) for item in all if item.withheld)
        withheld = {apart[item.id]: item for item in all if item.withheld}
        listed = tools
        if len(tools) > self._most:
            first = always if len(always) <= self._most else []
            listed = {
                FIND: find_tools(tools, self.finder, connecting),
                CALL: call_tool(self.find, tools, self.finder),
                READ: self.finder.handles.read_tool(),
            }
            if FIND in tools:
                listed = {}  # programs call what is not listed
            listed |= {names[item.id]: item for item in first}
        # The version of before the look: what changes meanwhile is seen next time.
        self._changes += 1
        self._tools, self._listed, self._version = tools, listed, version
        self._withheld = withheld
