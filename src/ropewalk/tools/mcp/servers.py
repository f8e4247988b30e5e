"""MCP servers as a backend: any server, over stdio or streamable HTTP, of any protocol era.

Every server has one owner task per event loop. Cancelling a call cancels its request and no
other. The error for a dead server names it, with the end of its stderr, and the next call
reconnects. No process is left over. Refused here: choosing tools, checking arguments or results
(the runner does), shells, and trust in what servers say. To add a transport, add a branch in
`Connection._transport` and its keys in config.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ...config.settings import WAIT, SamplingLimits
from ...errors import ConfigError, NotFound
from ...values import Json, did_you_mean
from ..backends.route import normalise_mcp
from ..tool import ProgressEvent, StreamEvent
from .call_client import CLIENT
from .config import ServerConfig, server_config
from .listing import Definition, Judge
from .local_client import LocalClient, OnElicit, OnSample
from .login import Show, log_in, log_out
from .login_errors import LoginRequired, Reason
from .negotiation import MODERN
from .requests import NoAnswer, Request, ServerRefused, SessionQuery, Undelivered
from .server_link import ServerLink, wait_closed

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["Definition", "McpServers", "OnProgress", "ServerRefused"]

log = logging.getLogger("ropewalk.mcp")

OnProgress: TypeAlias = Callable[[ProgressEvent], Any]
"""Plain or async; one that raises does not break the call."""


class McpServers:
    """A set of MCP servers, connected when first used.

    Several event loops can use it, also one after the other: each has its own connections.

    Attributes:
        failures: Why a server is not usable now, by server name.
        lost: The servers that died after a successful start and were not tried since; their tools may differ now.
        judge: Says which tools may not be called, and why; asked at each listing, before any listener.
        on_lost: Called when a server is added to `lost`.
        on_notification: Called with a server, a method and its parameters for what servers announce to clients:
            changed prompts and resources. With it, servers may also ask the client of a call. Set it before connecting.
        on_elicit: Asks the user what a server wants to know; as `local_client.OnElicit`. Set it before connecting.
        on_sample: Asks a model for servers with `sampling`; as `local_client.OnSample`. Set it before connecting.
        answers: Returns what answers questions and requests for a model where the two above are not set.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        self.lost: set[str] = set()
        self.judge: Judge = lambda server, definitions: None
        self.on_lost: Callable[[], None] = lambda: None
        self.on_notification: Callable[[str, str, Mapping[str, Any]], None] | None = None
        self.on_elicit: OnElicit | None = None
        self.on_sample: OnSample | None = None
        self.answers: Callable[[], tuple[OnElicit | None, OnSample | None]] = lambda: (None, None)
        self._samples: Counter[str] = Counter()  # requests to the model, by server
        self._links: dict[str, ServerLink] = {}
        self._listeners: list[Callable[[str, list[Definition]], None]] = []
        self._closed: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def add(self, name: str, config: Mapping[str, Any]) -> None:
        """Configure a server, without starting anything.

        Args:
            name: The server's name, the first part of the ids of its tools.
            config: Its settings, as for `config.ServerConfig`.

        Raises:
            ConfigError: A setting is wrong, or the name has other settings already.
        """
        checked = server_config(name, config)
        if name not in self._links:
            self._links[name] = ServerLink(
                checked,
                self.failures,
                self._publish,
                # Read at each use: the owner of these servers sets `judge` and `on_lost` later.
                lambda server, definitions: self.judge(server, definitions),
                self.lost,
                lambda: self.on_lost(),
                lambda: partial(self.on_notification, name) if self.on_notification is not None else None,
                lambda: self._local_client(checked),
            )
        elif self._links[name].config != checked:
            raise ConfigError(f"MCP server {name!r} is already configured with other settings")

    @property
    def names(self) -> list[str]:
        """The names of the configured servers, in the order they were added."""
        return list(self._links)

    @property
    def connecting(self) -> list[str]:
        """The names of the servers that are being connected and have not answered yet."""
        return [name for name, link in self._links.items() if link.is_connecting]

    def may_wait(self, server_name: str) -> bool:
        """Return True if a durable run may wait for the answer to a question of a server.

        Args:
            server_name: The server.
        """
        link = self._links.get(server_name)
        if link is None or link.config.questions is None:
            return link is not None and link.era == MODERN
        return link.config.questions == WAIT

    def on_tools(self, callback: Callable[[str, list[Definition]], None]) -> None:
        """Call `callback(server_name, definitions)` at each connect and each change of a server's tools."""
        self._listeners.append(callback)

    def tools(self, server_name: str) -> list[Definition]:
        """Return all tools that the server listed last; none before the first connect.

        Raises:
            NotFound: The server does not exist.
        """
        return list(self._link(server_name).definitions)

    def left_out(self, server_name: str) -> dict[str, str]:
        """Return why malformed tools of the server's last list are left out, by tool name.

        Raises:
            NotFound: The server does not exist.
        """
        return dict(self._link(server_name).left_out)

    async def connect(self, name: str | None = None) -> None:
        """Connect one server, or all at once.

        Args:
            name: The server; None connects all, and puts the reasons of those that fail in `failures`.

        Raises:
            ConnectionError: The named server could not be reached, or died.
            TimeoutError: The named server did not finish the handshake in time.
            ConfigError: The settings of the named server cannot be used.
            NotFound: The server does not exist.
        """
        self._closed.discard(asyncio.get_running_loop())
        if name is not None:
            await self._link(name).connect(now=True)
            return
        links = list(self._links.values())
        results = await asyncio.gather(*(link.connect(now=True) for link in links), return_exceptions=True)
        for link, result in zip(links, results, strict=True):
            if isinstance(result, Exception):
                self.failures.setdefault(link.config.name, Reason(str(result), getattr(result, "remedy", None)))

    async def call_tool(
        self,
        server_name: str,
        tool_name: str,
        args: Mapping[str, Json] | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        input_responses: Any = None,
        request_state: str | None = None,
        passes_input: bool = False,
    ) -> CallToolResult:
        """Call a tool and return its result as it is, `isError` included. Cancelling cancels the request.

        With `passes_input` this may be an InputRequiredResult of the SDK, for the client to answer.

        Args:
            server_name: The server.
            tool_name: The tool, as the server names it.
            args: The tool's arguments.
            key: A hash of it is sent as `_meta["ropewalk/idempotencyKey"]`.
            timeout: Seconds for the answer (default: the server's), after at most `connect_timeout` for connecting.
            on_progress: Called with each progress notification.
            input_responses: Answers to the input requests of an earlier result of this call.
            request_state: The state that this earlier result had.
            passes_input: Return a result that asks for input as it is, in place of asking the client.

        Raises:
            ConnectionError: The server could not be reached, or died.
            TimeoutError: The server did not answer in time.
            ServerRefused: The server answered with a protocol error.
            NotFound: The server does not exist.
            ToolNotApproved: `judge` refuses the tool.
            ValidationFailed: The tool has changed, and does not take these arguments any more.
        """
        wants_progress = on_progress is not None
        retry = {"input_responses": input_responses, "request_state": request_state, "passes_input": passes_input}
        call = self._call_events(server_name, tool_name, args, key, timeout, wants_progress, **retry)
        async with contextlib.aclosing(call) as events:
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
        """Call a tool and yield its events. Closing the iterator cancels the request.

        Each progress notification is a `progress` event. The last event is `done`, whose data is
        the normalised result, or `error`, also for a result with `isError`. The arguments are
        those of `call_tool`.
        """
        call = self._call_events(server_name, tool_name, args, key, timeout, True)
        async with contextlib.aclosing(call) as events:
            try:
                async for event in events:
                    if isinstance(event, ProgressEvent):
                        data = {"progress": event.progress, "total": event.total, "message": event.message}
                        yield StreamEvent("progress", data=data)
                    else:
                        yield StreamEvent("done", data=normalise_mcp(event)[0])
            except Exception as error:  # noqa: BLE001 - a stream reports its failure as an event
                yield StreamEvent("error", data={"message": str(error)}, error=error)

    async def read_resource(self, server_name: str, uri: str, *, timeout: float | None = None) -> list[Any]:
        """Return the contents of a resource as the server gives them; raises as `call_tool` does."""
        result = await self.ask(server_name, lambda session: session.read_resource(uri), f"resource {uri!r}", timeout)
        return list(result.contents)

    async def ask(self, server_name: str, ask: SessionQuery, what: str, timeout: float | None = None) -> Any:
        """Return the answer to any other query of the SDK's session with a server; raises as `call_tool` does.

        Args:
            server_name: The server.
            ask: Called with the session; returns the answer.
            what: Names the query in the error of a timeout.
            timeout: Seconds for the answer (default: the server's).
        """
        make_request = partial(Request, "", {}, query=ask)
        async with contextlib.aclosing(self._request_events(server_name, make_request, timeout, what)) as events:
            async for event in events:
                return event
        raise AssertionError("unreachable: a request ends with a result or an error")

    async def log_in(self, server_name: str, show: Show, *, scope: str | None = None) -> bool:
        """Log in at a server, and connect it.

        Args:
            server_name: The server.
            show: Called with an address for the person to open, and with what receives the answer; plain or async.
            scope: Rights to request in addition to those of the login that there is.

        Returns:
            False if the server did not ask for a login.

        Raises:
            ConfigError: The server has no logins, or its authorization server refuses this one.
            ConnectionError: The server could not be reached.
            NotFound: The server does not exist.
        """
        link, challenge = self._link(server_name), ""
        try:
            await self.connect(server_name)
            if scope is None:
                return False
        except LoginRequired as error:
            challenge = error.challenge
        await log_in(link.config, show, scope=scope, challenge=challenge)
        await self.connect(server_name)
        return True

    async def log_out(self, server_name: str) -> bool:
        """Delete the login at a server; return False if there was none.

        Connections that are open keep their token until they end.

        Raises:
            ConfigError: The server has no logins, or its login cannot be deleted.
            NotFound: The server does not exist.
        """
        return await log_out(self._link(server_name).config)

    async def close(self) -> None:
        """Close every connection and end every process.

        Calls in progress fail. Later calls on this loop are refused until `connect`.
        """
        self._closed.add(asyncio.get_running_loop())
        owners = [link.stop() for link in self._links.values()]
        await wait_closed(set().union(*owners))

    async def __aenter__(self) -> McpServers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _call_events(
        self,
        server_name: str,
        tool_name: str,
        args: Mapping[str, Json] | None,
        key: str | None,
        timeout: float | None,
        wants_progress: bool,
        **retry: Any,
    ) -> AsyncGenerator[ProgressEvent | CallToolResult, None]:
        make_request = partial(Request, tool_name, args or {}, key=key, wants_progress=wants_progress, **retry)
        return self._request_events(server_name, make_request, timeout, f"tool {tool_name!r}")

    async def _request_events(
        self, server_name: str, make_request: Callable[[], Request], timeout: float | None, what: str
    ) -> AsyncGenerator[Any, None]:
        """Yield the progress and the outcome of a request; send one that cannot have arrived once more."""
        link = self._link(server_name)
        loop = asyncio.get_running_loop()
        limit = link.config.timeout if timeout is None else timeout
        for is_last_attempt in (False, True):
            if loop in self._closed:
                raise ConnectionError(f"{link.config} was closed; connect() opens it again")
            connection = await link.connect(CLIENT.get())
            request = make_request()
            try:
                async with connection.turn() if request.tool else contextlib.nullcontext():
                    connection.submit(request)
                    # Connecting has a limit of its own: the time of the call starts here.
                    async with contextlib.aclosing(request.events(loop.time() + limit)) as events:
                        async for event in events:
                            yield event
                    return
            except Undelivered:
                if is_last_attempt:
                    raise
            except TimeoutError as error:
                message = f"{link.config}: {what} gave no answer within {limit:g} s and was cancelled"
                raise NoAnswer(message, limit) from error

    def _local_client(self, config: ServerConfig) -> LocalClient | None:
        """Return what answers a server for this program; None if nothing can be answered."""
        on_elicit, on_sample = self.answers()
        on_sample = None if config.sampling is None else self.on_sample or on_sample
        limits = config.sampling or SamplingLimits()
        client = LocalClient(config.name, self.on_elicit or on_elicit, on_sample, config.roots, limits, self._samples)
        return client if client.capabilities else None

    def _link(self, name: str) -> ServerLink:
        if name not in self._links:
            raise NotFound("MCP server", name, suggestion=did_you_mean(name, self._links))
        return self._links[name]

    def _publish(self, name: str, definitions: list[Definition]) -> None:
        for listener in self._listeners:
            listener(name, definitions)


async def _report(on_progress: OnProgress, event: ProgressEvent) -> None:
    try:
        result = on_progress(event)
        if inspect.isawaitable(result):
            await result
    except Exception:
        log.exception("a progress callback failed; the call continues")
