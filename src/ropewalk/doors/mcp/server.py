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
_LOOK: Final = 1.0  # seconds between looks at whether the tools have changed
_CONNECT: Final = 15.0  # seconds a list waits for servers behind us; those that come later are announced


class McpDoor:
    """A catalogue served, and what is `passed` on beside it. `server` is the SDK's object, run while `open` is."""

    def __init__(
        self,
        catalogue: Catalogue,
        name: str = "ropewalk",
        instructions: str | None = None,
        passed: Passed | None = None,
    ) -> None:
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self.catalogue = catalogue
        self._bus = InMemorySubscriptionBus()
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._connected: asyncio.Task[None] | None = None
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
        options = partial(self.server.create_initialization_options, NotificationOptions(tools_changed=True))
        self.server.create_initialization_options = options  # type: ignore[method-assign]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect what is behind, and tell clients of changes, as long as this is open."""
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
        return types.ListToolsResult(tools=[_listed(name, one, older) for name, one in self.catalogue.listed.items()])

    async def _call(self, ctx: Any, params: Any) -> Any:
        await self._ready()
        tool = self.catalogue.tools.get(params.name) or self.catalogue.withheld(params.name)
        if tool is None:
            raise _unknown(params.name, self.catalogue.tools)
        meta = ctx.meta or {}
        key = meta.get(KEY)
        told = _teller(ctx) if meta.get("progress_token") is not None else None
        asked = Asked(key=key if isinstance(key, str) else None, on_progress=told)
        try:
            result = await tool.call(dict(params.arguments or {}), asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer, and none of our texts
            return explained(params.name, error)
        finally:
            self._called.set()
        return _fitted(result) if tool.verbatim and _is_older(ctx) else result

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.catalogue.tools.get(name)
        return None if tool is None else tool.input_schema

    async def _ready(self) -> None:
        """Wait until the servers behind have been tried, but not for long: those that come later are announced."""
        if self._connected is not None and not self._connected.done():
            await asyncio.wait([self._connected], timeout=_CONNECT)

    # --- changes

    async def _note(self, ctx: Any, call_next: Any) -> Any:
        """Remember who is connected; the SDK has no list of them."""
        self._connections.add(ctx.session._connection)
        return await call_next(ctx)

    async def _follow(self) -> None:
        from mcp.shared.subscriptions import ToolsListChanged

        await self._ready()
        before = self._told()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), _LOOK)
            self._called.clear()
            try:
                now = self._told()
            except Exception:
                log.exception("the tools could not be listed; the next look tries again")
                continue
            if now == before:
                continue
            before = now
            await self._bus.publish(ToolsListChanged())  # the era of 2026-07-28
            for connection in list(self._connections):  # the older ones
                await connection.notify("notifications/tools/list_changed", None)

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


def _unknown(name: str, known: dict[str, Offered]) -> Exception:
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    near = closest(name, known)
    return MCPError(INVALID_PARAMS, f"Unknown tool: {name}" + (f"; did you mean {near}?" if near else ""))
