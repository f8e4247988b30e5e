"""The server object: both eras of the protocol from one catalogue, whatever the transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncIterator
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from ...tools.result import ProgressEvent
from ...values import closest
from .answers import explained
from .catalogue import Catalogue
from .offer import Asked, Offered
from .passed import Passed
from .schemas import is_object, shown_input, shown_output

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

log = logging.getLogger("ropewalk.mcp.server")

KEY: Final = "ropewalk/idempotencyKey"
CONNECTING: Final = "ropewalk/connecting"
"""In `_meta` of a list: the servers behind that have not answered yet."""
_LOOK: Final = 1.0  # seconds between looks at whether the tools have changed


class McpDoor:
    """A catalogue served, and what is `passed` on beside it. `server` is the SDK's object, run while `open` is."""

    def __init__(
        self,
        catalogue: Catalogue,
        name: str = "ropewalk",
        instructions: str | None = None,
        passed: Passed | None = None,
        patience: float = 1.0,
    ) -> None:
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self.catalogue = catalogue
        self._bus = InMemorySubscriptionBus()
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._connected: asyncio.Task[None] | None = None
        self._patience, self._until = patience, 0.0
        self._is_incomplete = False  # a list went out while servers had not answered
        self._known: list[Any] | None = None  # what clients have been told of the tools
        # The requests by which the client of a connection found tools.
        self._found_by: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
        self.has_one_client = False
        """Whether all requests come from one client, as on standard input; in the era of 2026-07-28 each request is a
        connection of its own, and nothing else says so."""
        self._passed = passed
        if passed is not None:
            passed.ready = self._ready
        self._called = asyncio.Event()  # a tool was: it may have changed which there are
        self.server: Server[Any] = Server(
            name,
            version=version("ropewalk"),
            title="Ropewalk",
            instructions=instructions,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self._bus),
            **({} if passed is None else passed.handlers()),
        )
        self.server.middleware.append(self._note)
        # That the list changes is told in every handshake; the HTTP transport asks for the options itself.
        passes = passed is not None
        changes = NotificationOptions(tools_changed=True, prompts_changed=passes, resources_changed=passes)
        options = partial(self.server.create_initialization_options, changes)
        self.server.create_initialization_options = options  # type: ignore[method-assign]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect what is behind, and tell clients of changes, as long as this is open."""
        self._until = asyncio.get_running_loop().time() + self._patience
        self._connected = asyncio.ensure_future(self.catalogue.connect())
        following = asyncio.ensure_future(self._follow())
        try:
            yield
        finally:
            for task in (self._connected, following):
                task.cancel()
            await asyncio.gather(self._connected, following, return_exceptions=True)

    # --- requests

    async def _list(self, ctx: Any, params: Any) -> Any:
        import mcp_types as types

        await self._ready()
        older = _is_older(ctx)
        tools = [_listed(name, one, older) for name, one in self.catalogue.listed.items()]
        if self._known is None:
            self._known = self._told()
        connecting = self.catalogue.connecting
        if connecting and not self._is_incomplete:
            self._is_incomplete = True
            late = ", ".join(connecting)
            log.warning(
                "the list of tools goes out without those of %s: no answer yet; clients hear of them later", late
            )
        meta: Any = {CONNECTING: connecting} if connecting else None
        return types.ListToolsResult(tools=tools, _meta=meta)

    async def _call(self, ctx: Any, params: Any) -> Any:
        meta = ctx.meta or {}
        key = meta.get(KEY)
        told = _teller(ctx) if meta.get("progress_token") is not None else None
        found_by = self._found_by.setdefault(self if self.has_one_client else ctx.session._connection, {})
        asked = Asked(key=key if isinstance(key, str) else None, on_progress=told, found_by=found_by)
        try:
            tool = await self.catalogue.find(params.name)
        except Exception as error:  # noqa: BLE001 - the server that has the tool cannot be reached
            return explained(params.name, error)
        if tool is None:
            raise self._unknown(params.name)
        try:
            result = await self.catalogue.finder.call(tool, dict(params.arguments or {}), asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer, and none of our texts
            return explained(params.name, error)
        finally:
            self._called.set()
        return _fitted(result) if tool.verbatim and _is_older(ctx) else result

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.catalogue.tools.get(name)
        return None if tool is None else tool.input_schema

    async def _ready(self) -> None:
        """Wait until the servers behind have answered or failed, or until the patience at the start is over.

        Servers that answer later are announced: one that never does must not keep clients from the others."""
        left = self._until - asyncio.get_running_loop().time()
        if self._connected is not None and not self._connected.done() and left > 0:
            await asyncio.wait([self._connected], timeout=left)

    def _unknown(self, name: str) -> Exception:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        near = closest(name, self.catalogue.tools)
        text = f"Unknown tool: {name}" + (f"; did you mean {near}?" if near else "")
        if late := self.catalogue.connecting:
            text += f"; not known yet are the tools of {', '.join(late)}"
        return MCPError(INVALID_PARAMS, text)

    # --- changes

    async def _note(self, ctx: Any, call_next: Any) -> Any:
        """Remember who is connected; the SDK has no list of them."""
        self._connections.add(ctx.session._connection)
        return await call_next(ctx)

    async def _follow(self) -> None:
        from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), _LOOK)
            self._called.clear()
            if self._passed is not None and self._passed.has_changed():
                await self._announce(PromptsListChanged(), "notifications/prompts/list_changed")
                await self._announce(ResourcesListChanged(), "notifications/resources/list_changed")
            if self._known is None:
                continue  # nobody has a list that could be out of date
            try:
                now = self._told()
            except Exception:
                log.exception("the tools could not be listed; the next look tries again")
                continue
            if now != self._known:
                self._known = now
                await self._announce(ToolsListChanged(), "notifications/tools/list_changed")

    async def _announce(self, event: Any, method: str) -> None:
        """Tell every client, of both eras, that a list has changed."""
        await self._bus.publish(event)
        for connection in list(self._connections):
            await connection.notify(method, None)

    def _told(self) -> list[Any]:
        """What clients have been told of the tools, to see whether it still holds."""
        tools = self.catalogue.listed
        return [(name, t.description, t.input_schema, t.output_schema, t.annotations) for name, t in tools.items()]


def _is_older(ctx: Any) -> bool:
    """Whether the client speaks a revision before 2026-07-28: schemas have no choice at their root there, and
    structured content is an object."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS


def _listed(name: str, tool: Offered, older: bool) -> Any:
    import mcp_types as types

    output = tool.output_schema
    if not tool.verbatim or (older and output is not None and not is_object(output)):
        output = shown_output(output)
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema if tool.verbatim else shown_input(tool.input_schema, choices=not older),
        output_schema=output,
        annotations=types.ToolAnnotations.model_validate(tool.annotations) if tool.annotations else None,
    )


def _fitted(result: Any) -> Any:
    """A result of a server behind us, for a client that takes objects only."""
    if result.structured_content is None or isinstance(result.structured_content, dict):
        return result
    return result.model_copy(update={"structured_content": {"result": result.structured_content}})


def _teller(ctx: Any) -> Any:
    async def tell(event: ProgressEvent) -> None:
        await ctx.session.report_progress(event.progress, event.total, event.message)

    return tell
