"""MCP servers as a backend: any server, over stdio or streamable HTTP, of any protocol era.

Every server has one owner task per event loop; a call that is cancelled cancels its request and
no other; a dead server is named, with the end of its stderr, and the next call reconnects; no
process is left over. Refused here: choosing tools, checking arguments or results (the runner
does), shells, and trust in what servers say. To add a transport, add a branch in
`Connection._transport` and its keys in mcp_config.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ConfigError, NotFound
from ..values import Json, closest
from .mcp_config import server_config
from .mcp_definition import Definition
from .mcp_link import Link, leave
from .mcp_listing import Judge
from .mcp_request import Ask, NoAnswer, Request, ServerRefused, Undelivered
from .normalise import normalise_mcp
from .result import ProgressEvent, StreamEvent

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["Definition", "McpServers", "OnProgress", "ServerRefused"]

log = logging.getLogger("ropewalk.mcp")

OnProgress: TypeAlias = Callable[[ProgressEvent], Any]
"""Plain or async; one that raises does not break the call."""


class McpServers:
    """A set of MCP servers, connected when first used.

    `failures` tells, by server name, why a server is not usable now. Safe to use from several
    event loops, also one after the other: each has its own connections.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self.lost: set[str] = set()
        """The servers that died in mid-life and were not tried again since: their tools may be others."""
        self.judge: Judge = lambda server, definitions: None
        """Says which tools may not be called, and why: asked at each listing, before anybody hears of it."""
        self.on_lost: Callable[[], None] = lambda: None
        self._links: dict[str, Link] = {}
        self._listeners: list[Callable[[str, list[Definition]], None]] = []
        self._closed: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def add(self, name: str, config: Mapping[str, Any]) -> None:
        """Configure a server; nothing is started. ConfigError says what is wrong with `config`."""
        checked = server_config(name, config)
        if name in self._links and self._links[name].config != checked:
            raise ConfigError(f"MCP server {name!r} is already configured, and differently")
        self._links.setdefault(
            name, Link(checked, self.failures, self._publish, self._judged, self.lost, self._told_lost)
        )

    @property
    def names(self) -> list[str]:
        """The configured servers, in the order they were added."""
        return list(self._links)

    @property
    def connecting(self) -> list[str]:
        """The servers that are being connected and have not answered yet."""
        return [name for name, link in self._links.items() if link.is_connecting]

    def on_tools(self, callback: Callable[[str, list[Definition]], None]) -> None:
        """Have `callback(server_name, definitions)` called at each connect and each change of the list."""
        self._listeners.append(callback)

    def tools(self, server_name: str) -> list[Definition]:
        """All tools the server listed last, every page; empty before the first connect."""
        return list(self._link(server_name).definitions)

    def left_out(self, server_name: str) -> dict[str, str]:
        """Return why tools that the server listed last are left out, by their names: they are malformed."""
        return dict(self._link(server_name).left_out)

    async def connect(self, name: str | None = None) -> None:
        """Connect one server, or all at once.

        One server: raises ConnectionError, TimeoutError or ConfigError that says why not. All:
        never raises for a broken one; its reason is in `failures`.
        """
        self._closed.discard(asyncio.get_running_loop())
        if name is not None:
            await self._link(name).live(now=True)
            return
        links = list(self._links.values())
        found = await asyncio.gather(*(link.live(now=True) for link in links), return_exceptions=True)
        for link, result in zip(links, found, strict=True):
            if isinstance(result, Exception):
                self.failures.setdefault(link.config.name, str(result))

    async def call_tool(
        self,
        server_name: str,
        tool_name: str,
        args: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> CallToolResult:
        """Call a tool and give its result as it is, `isError` included.

        It answers within `timeout` seconds (default: the server's) after at most
        `connect_timeout` for connecting. A hash of `key` is sent as `_meta["ropewalk/idempotencyKey"]`.
        Raises ConnectionError (not reached, or died), TimeoutError, ServerRefused (a protocol
        error), NotFound (no such server), each naming the server; ToolNotApproved (see `judge`), ValidationFailed
        (it takes something else now). Cancelling cancels the request.
        """
        watched = on_progress is not None
        async with contextlib.aclosing(self._events(server_name, tool_name, args, key, timeout, watched)) as events:
            async for event in events:
                if not isinstance(event, ProgressEvent):
                    return event
                if on_progress is not None:
                    await _report(on_progress, event)
        raise AssertionError("unreachable: a request ends with a result or an error")

    async def call_tool_stream(
        self,
        server_name: str,
        tool_name: str,
        args: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """The server's progress notifications as `progress` events, then one `done` whose data is
        the normalised result, or one `error` (also for a result that says `isError`). Closing the
        iterator cancels the request."""
        async with contextlib.aclosing(self._events(server_name, tool_name, args, key, timeout, True)) as events:
            try:
                async for event in events:
                    if isinstance(event, ProgressEvent):
                        data = {"progress": event.progress, "total": event.total, "message": event.message}
                        yield StreamEvent("progress", data=data)
                    else:
                        yield StreamEvent("done", data=normalise_mcp(event)[0])
            except Exception as error:  # noqa: BLE001 - a stream tells its failure as an event
                yield StreamEvent("error", data={"message": str(error)}, error=error)

    async def read_resource(self, server_name: str, uri: str, *, timeout: float | None = None) -> list[Any]:
        """The contents of a resource as the server gives them; raises as `call_tool` does."""
        found = await self.ask(server_name, lambda session: session.read_resource(uri), f"resource {uri!r}", timeout)
        return list(found.contents)

    async def ask(self, server_name: str, ask: Ask, what: str, timeout: float | None = None) -> Any:
        """The answer to whatever else `ask` asks of the SDK's session with this server; raises as `call_tool` does."""
        request = partial(Request, "", {}, ask=ask)
        async with contextlib.aclosing(self._asked(server_name, request, timeout, what)) as events:
            async for event in events:
                return event
        raise AssertionError("unreachable: a request ends with a result or an error")

    async def close(self) -> None:
        """Close every connection and end every process; calls under way fail, later ones on this
        loop are refused until `connect`."""
        self._closed.add(asyncio.get_running_loop())
        owners = [link.stop() for link in self._links.values()]
        await leave(set().union(*owners))

    async def __aenter__(self) -> McpServers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _events(
        self,
        server_name: str,
        tool_name: str,
        args: Mapping[str, Json] | None,
        key: str | None,
        timeout: float | None,
        watched: bool,
    ) -> AsyncGenerator[ProgressEvent | CallToolResult, None]:
        request = partial(Request, tool_name, args or {}, key=key, watched=watched)
        return self._asked(server_name, request, timeout, f"tool {tool_name!r}")

    async def _asked(
        self, server_name: str, make: Callable[[], Request], timeout: float | None, what: str
    ) -> AsyncGenerator[Any, None]:
        """Progress and the outcome of a request; one that cannot have arrived is sent once more."""
        link = self._link(server_name)
        loop = asyncio.get_running_loop()
        limit = link.config.timeout if timeout is None else timeout
        for last in (False, True):
            if loop in self._closed:
                raise ConnectionError(f"{link.config} was closed; connect() opens it again")
            line = await link.live()
            request = make()
            line.submit(request)
            try:
                async with contextlib.aclosing(request.events(loop.time() + limit)) as events:
                    async for event in events:
                        yield event
                return
            except Undelivered:
                if last:
                    raise
            except TimeoutError as error:
                said = f"{link.config}: {what} gave no answer within {limit:g} s and was cancelled"
                raise NoAnswer(said, limit) from error

    def _judged(self, name: str, definitions: list[Definition]) -> Mapping[str, str] | None:
        return self.judge(name, definitions)

    def _told_lost(self) -> None:
        self.on_lost()

    def _link(self, name: str) -> Link:
        if name not in self._links:
            raise NotFound("MCP server", name, suggestion=closest(name, self._links))
        return self._links[name]

    def _publish(self, name: str, definitions: list[Definition]) -> None:
        for listener in self._listeners:
            listener(name, definitions)


async def _report(on_progress: OnProgress, event: ProgressEvent) -> None:
    try:
        waiting = on_progress(event)
        if inspect.isawaitable(waiting):
            await waiting
    except Exception:
        log.exception("a progress callback failed; the call goes on")
