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
import importlib.util
import inspect
import logging
import time
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from ...config.secrets import Secrets
from ...config.settings import WAIT, SamplingLimits
from ...errors import ConfigError, NotFound, install_command
from ...values import Json, did_you_mean
from ..backends.route import normalise_mcp
from ..child_process import without_control_characters
from ..definition import Definition
from ..source import Failures
from ..tool import ProgressEvent, StreamEvent
from .call_client import CLIENT, CallClient, announced_capabilities
from .config import SWITCHED_OFF, ServerConfig, server_config
from .connection import Connection, copy_error
from .listing import Judge
from .local_client import LocalClient, OnElicit, OnSample
from .login import Show, log_in, log_out, require_address
from .login_errors import LoginRequired
from .negotiation import LEGACY
from .questions import CAPABILITY
from .requests import NoAnswer, OnNotification, Request, ServerRefused, SessionQuery, Undelivered

if TYPE_CHECKING:
    from mcp_types import CallToolResult

__all__ = ["Definition", "McpServers", "OnProgress", "ServerRefused"]

log = logging.getLogger("ropewalk.mcp")

_MAX_NAMED_TOOLS: Final = 5  # malformed tools in a line of the log
_FIRST_PAUSE: Final = 0.1  # seconds, doubled at each failed attempt
_MAX_PAUSE: Final = 5.0
_CLOSE_TIMEOUT: Final = 15.0  # seconds an owner may take to end before it is cancelled

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
        self.failures = Failures()
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

    def add(self, name: str, config: Mapping[str, Any] | ServerConfig) -> None:
        """Configure a server, without starting anything.

        Args:
            name: The server's name, the first part of the ids of its tools.
            config: Its settings, as for `config.ServerConfig`.

        Raises:
            ConfigError: A setting is wrong, or the name has other settings already.
        """
        checked = config if isinstance(config, ServerConfig) else server_config(name, config)
        if name not in self._links:
            self._links[name] = ServerLink(checked, self)
        elif self._links[name].config != checked:
            raise ConfigError(f"MCP server {name!r} is already configured with other settings")

    def share(self, name: str, other: McpServers) -> None:
        """Use the connections that another set has to a server with the same settings; the last user closes them."""
        link = self._links[name] = other._link(name)
        link.join(self)

    @property
    def names(self) -> list[str]:
        """The names of the configured servers, in the order they were added."""
        return list(self._links)

    @property
    def connecting(self) -> list[str]:
        """The names of the servers that are being connected and have not answered yet."""
        return [name for name, link in self._links.items() if link.is_connecting]

    def last_output(self, server_name: str) -> str:
        """Return the end of what a server has printed to stderr, without secrets; "" for a server without a process.

        Args:
            server_name: The server.
        """
        link = self._links.get(server_name)
        return "" if link is None else link.last_output()

    def may_wait(self, server_name: str) -> bool:
        """Return True if a durable run may wait for the answer to a question of a server.

        By default this depends on the protocol era, so it is also True for a server that has not answered yet.

        Args:
            server_name: The server.
        """
        link = self._links.get(server_name)
        if link is None or link.config.questions is None:
            return link is not None and link.era != LEGACY
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

    def offers(self, server_name: str, tool_name: str, client: CallClient) -> bool:
        """Return False for a tool of `tools` that the server does not list to this client, but to others."""
        return self._link(server_name).offers(tool_name, client)

    def left_out(self, server_name: str) -> dict[str, str]:
        """Return why tools of the server's last list are left out, by tool name: malformed, or switched off.

        Raises:
            NotFound: The server does not exist.
        """
        return dict(self._link(server_name).left_out)

    def shows_secrets(self, name: str, definitions: Iterable[Definition], left_out: Mapping[str, str]) -> bool:
        """Return True if what a server lists holds a secret that it was given."""
        data: list[Any] = [[item.name, item.to_dict(), item.icons, item.meta] for item in definitions]
        data.append(dict(left_out))
        return any(Secrets(named=secrets).redact_value(data) != data for secrets in self._link(name).secrets())

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
            await self._link(name).connect(CLIENT.get(), now=True)
            return
        links = list(self._links.values())
        results = await asyncio.gather(
            *(link.connect(CLIENT.get(), now=True) for link in links), return_exceptions=True
        )
        for link, result in zip(links, results, strict=True):
            if isinstance(result, Exception) and link.config.name not in self.failures:
                self.failures.record(link.config.name, result, link.config.transport)

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
        make_request = partial(
            Request,
            tool_name,
            args or {},
            key=key,
            wants_progress=on_progress is not None,
            input_responses=input_responses,
            request_state=request_state,
            passes_input=passes_input,
        )
        what = f"tool {tool_name!r}"
        result: CallToolResult = await self._answer(server_name, make_request, timeout, what, on_progress)
        return result

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
        make_request = partial(Request, tool_name, args or {}, key=key, wants_progress=True)
        call = self._request_events(server_name, make_request, timeout, f"tool {tool_name!r}")
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
        return await self._answer(server_name, partial(Request, "", {}, query=ask), timeout, what)

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
        require_address(link.config)
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
        """Close every connection that no other set shares, and end its process.

        Calls in progress fail. Later calls on this loop are refused until `connect`.
        """
        self._closed.add(asyncio.get_running_loop())
        owners = [link.leave(self) for link in self._links.values()]
        await _wait_closed(set().union(*owners))

    async def __aenter__(self) -> McpServers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _answer(
        self,
        server_name: str,
        make_request: Callable[[], Request],
        timeout: float | None,
        what: str,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Return the result of a request; report its progress meanwhile."""
        async with contextlib.aclosing(self._request_events(server_name, make_request, timeout, what)) as events:
            async for event in events:
                if not isinstance(event, ProgressEvent):
                    return event
                if on_progress is not None:
                    await _report(on_progress, event)
        raise AssertionError("unreachable: a request ends with a result or an error")

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
            try:
                connection = await link.connect(CLIENT.get())
            except asyncio.CancelledError as error:
                error.add_note(f"{link.config} was still starting")  # for the error of the timeout of the call
                raise
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

    def _link(self, name: str) -> ServerLink:
        if name not in self._links:
            raise NotFound("MCP server", name, suggestion=did_you_mean(name, self._links))
        return self._links[name]

    # --- for the links

    def publish(self, name: str, definitions: list[Definition]) -> None:
        """Hand the tools of a server to the listeners."""
        for listener in self._listeners:
            listener(name, definitions)

    def relay(self, name: str) -> OnNotification | None:
        """Return what gets the notifications of a server for clients, or None."""
        return None if self.on_notification is None else partial(self.on_notification, name)

    def local_client(self, config: ServerConfig) -> LocalClient | None:
        """Return what answers a server for this program; None if nothing can be answered."""
        on_elicit, on_sample = self.answers()
        on_sample = None if config.sampling is None else self.on_sample or on_sample
        limits = config.sampling or SamplingLimits()
        client = LocalClient(config.name, self.on_elicit or on_elicit, on_sample, config.roots, limits, self._samples)
        return client if client.capabilities else None


async def _report(on_progress: OnProgress, event: ProgressEvent) -> None:
    try:
        result = on_progress(event)
        if inspect.isawaitable(result):
            await result
    except Exception:
        log.exception("a progress callback failed; the call continues")


_Place: TypeAlias = tuple[asyncio.AbstractEventLoop, bytes]
"""The event loop of a connection, and the capabilities that it announced, as JSON."""


class ServerLink:
    """One configured server and its connections: one per event loop."""

    # In a gateway, a server of an older revision gets one for each set of capabilities that clients have, because it
    # learns them in the handshake only. The first one, which announced nothing, is closed when another takes over. A
    # dead connection is never opened again: the link makes a new one.
    #
    # `definitions`: The tools that the server listed last.
    # `left_out`: Why a tool that the server lists is not one of `definitions`, by tool name.
    # `era`: The protocol era that the server speaks, or None while it is unknown.

    def __init__(self, config: ServerConfig, servers: McpServers) -> None:
        self.config = config
        self._users = [servers]  # the sets of servers that share it; the last one answers what the server asks
        self.definitions: tuple[Definition, ...] = ()
        self.left_out: dict[str, str] = {}
        self.era: str | None = None
        # What an older server can ask even if no client is there: the run of a call waits for the answer.
        self._unattended: dict[str, Json] = {"elicitation": dict(CAPABILITY)} if config.questions == WAIT else {}
        self._first_schemas: dict[str, Json] = {}
        # What the newest connection with some announced capabilities has listed, and the names of these tools.
        self._listed: dict[bytes, tuple[Connection, tuple[Definition, ...], frozenset[str]]] = {}
        self._connections: dict[_Place, Connection] = {}
        # Replaced connections, which may still wait for answers; with the loop of each.
        self._replaced: weakref.WeakKeyDictionary[Connection, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()
        self._main: dict[asyncio.AbstractEventLoop, bytes] = {}  # the key of requests without a client, by loop
        self._owners: dict[asyncio.AbstractEventLoop, set[asyncio.Task[None]]] = {}
        self._failed_attempts = 0
        self._not_before = 0.0  # on the monotonic clock

    @property
    def _servers(self) -> McpServers:
        return self._users[-1]

    def join(self, servers: McpServers) -> None:
        """Let another set of servers use the connections, and answer what the server asks."""
        self._users.append(servers)
        for connection in (*self._connections.values(), *self._replaced):
            connection.local = servers.local_client(self.config)

    def leave(self, servers: McpServers) -> set[asyncio.Task[None]]:
        """Begin to close every connection unless another set uses them; return the owner tasks on the running loop."""
        if self._users == [servers]:
            return self.stop()
        self._users = [user for user in self._users if user is not servers]
        return set()

    @property
    def is_connecting(self) -> bool:
        """True while an attempt has neither succeeded nor failed."""
        return any(not connection.opened.is_set() for connection in self._connections.values())

    def secrets(self) -> list[frozenset[str]]:
        """Return the secrets of each connection."""
        return [connection.secrets.read | connection.secrets.named for connection in self._connections.values()]

    def last_output(self) -> str:
        """Return the end of the stderr of the main connection of the running loop."""
        loop = asyncio.get_running_loop()
        connection = self._connections.get((loop, self._main.get(loop, b"")))
        return "" if connection is None else connection.last_output()

    async def connect(self, client: CallClient | None = None, *, now: bool = False) -> Connection:
        """Return a usable connection of the running loop; concurrent callers share one attempt."""

        # After a failed attempt the next one waits: 0.2 s, doubling, at most 5 s.
        loop = asyncio.get_running_loop()
        local = self._servers.local_client(self.config)
        key = self._key_for(local if client is None else client)
        if client is not None:
            if self.era is None and loop in self._main:
                await self.connect(now=now)
            if self.era not in (None, LEGACY) or self._servers.relay(self.config.name) is None:
                client = None
        main = self._main.setdefault(loop, key)
        key = main if client is None else key
        connection = self._connections.get((loop, key))
        if connection is None or connection.error is not None:
            self._forget_closed_loops()
            pause = 0.0 if now else max(0.0, self._not_before - time.monotonic())
            connection = self._open(loop, pause, key)
        if not connection.is_ready:
            await connection.opened.wait()
        if connection.error is not None:
            raise copy_error(connection.error)
        # The connection of a client replaces the first one, if that is idle: a server should not run twice.
        first = _key(self._unattended)
        replaced = self._connections.get((loop, first))
        if local is None and key != self._main[loop] == first and replaced is not None and replaced.is_idle:
            self._main[loop] = key
            del self._connections[loop, first]
            replaced.stop()
        return connection

    def offers(self, tool_name: str, client: CallClient) -> bool:
        """Return False for a tool that the server lists to other clients only."""
        listed = self._listed.get(self._key_for(client))
        return listed is None or tool_name in listed[2]

    def _key_for(self, client: CallClient | None) -> bytes:
        return _key({**self._unattended, **announced_capabilities(client)})

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin to close every connection, and return the owner tasks on the running loop."""
        running_loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        current = [(connection, loop) for (loop, _), connection in self._connections.items()]
        self._connections = {place: item for place, item in self._connections.items() if place[0] is not running_loop}
        for connection, loop in [*current, *self._replaced.items()]:
            if loop is running_loop:
                connection.stop()
            else:
                with contextlib.suppress(RuntimeError):  # that loop closes at this very moment
                    loop.call_soon_threadsafe(connection.stop)
        return set(self._owners.get(running_loop, ()))

    def _open(self, loop: asyncio.AbstractEventLoop, delay: float, key: bytes) -> Connection:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"{self.config} needs the mcp package: {install_command('mcp')}")
        connection = Connection(
            self.config,
            self.era,
            lambda server, definitions: self._servers.judge(server, definitions),  # its owner sets it later
            self._first_schemas,
            self._take_tools,
            self._take_failure,
            self._servers.relay(self.config.name),
            self._servers.local_client(self.config),
            orjson.loads(key),
        )
        if (loop, key) in self._connections:
            self._replaced[self._connections[loop, key]] = loop
        self._connections[loop, key] = connection
        for user in self._users:
            user.lost.discard(self.config.name)
        owners = self._owners.setdefault(loop, set())
        # Its own requests, such as those for lists, are made for no client.
        context = copy_context()
        context.run(CLIENT.set, None)
        task = context.run(connection.start, delay)
        owners.add(task)
        task.add_done_callback(owners.discard)
        return connection

    def _take_tools(self, connection: Connection, definitions: tuple[Definition, ...]) -> None:
        # A server may list more tools to a client that it can ask something. The others see those, too; `offers` tells.
        key = _key(connection.announced)
        alive = {other: listed for other, listed in self._listed.items() if listed[0].error is None and other != key}
        self._listed = {**alive, key: (connection, definitions, frozenset(item.name for item in definitions))}
        merged = {item.name: item for _, listed, _ in alive.values() for item in listed}
        names = self._listed[key][2]
        self.definitions = (*definitions, *(item for name, item in merged.items() if name not in names))
        self.era = connection.era
        self._failed_attempts = 0
        malformed = connection.malformed.take()
        if malformed and not malformed.items() <= self.left_out.items():
            log.warning("%s lists malformed tools, which are left out: %s", self.config, _list_reasons(malformed))
        self.left_out = {**malformed, **dict.fromkeys(connection.switched_off, SWITCHED_OFF)}
        for user in self._users:
            user.failures.pop(self.config.name, None)
            user.publish(self.config.name, list(self.definitions))

    def _take_failure(self, connection: Connection, error: Exception) -> None:
        if connection.is_leaving:
            return
        for user in self._users:
            user.failures.record(self.config.name, error, self.config.transport)
            if connection.is_ready:
                user.lost.add(self.config.name)
                user.on_lost()
        if connection.is_ready:
            return
        # It never worked: forget the era, and wait longer before each further attempt.
        self.era = None
        self._failed_attempts += 1
        pause = min(_MAX_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failed_attempts, 10))
        self._not_before = time.monotonic() + pause

    def _forget_closed_loops(self) -> None:
        for loop, key in [place for place in self._connections if place[0].is_closed()]:
            self._connections.pop((loop, key)).abandon()
            self._owners.pop(loop, None)
            self._main.pop(loop, None)


def _key(announced: Mapping[str, Json]) -> bytes:
    return orjson.dumps(announced, option=orjson.OPT_SORT_KEYS)


def _list_reasons(left_out: dict[str, str]) -> str:
    reasons = [f"{name} ({why})" for name, why in islice(left_out.items(), _MAX_NAMED_TOOLS)]
    text = "; ".join(reasons)
    if len(left_out) > len(reasons):
        text += f"; and {len(left_out) - len(reasons)} more"
    return without_control_characters(text)


async def _wait_closed(owners: set[asyncio.Task[None]]) -> None:
    """Wait until the given owner tasks have ended; cancel those that take longer than 15 s."""
    if not owners:
        return
    _, late = await asyncio.wait(owners, timeout=_CLOSE_TIMEOUT)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_CLOSE_TIMEOUT)
