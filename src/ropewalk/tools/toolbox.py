"""The Toolbox: an index of tools with their local handlers and the sources of other tools.

A Runner needs only a Toolbox. MCP servers, providers and backends are declared here and connected on demand. The prefix
of a tool's id says which source has the tool (`source.py`). A source that cannot be reached is listed in `failures` and
does not stop the others. Two sources under one name are refused.

A ToolProxy makes a tool usable in another toolbox: each call goes through the pipeline of the toolbox that
owns the tool, with its current connections, handlers and pins.

To connect tools of another kind, register the kind (`backends/kinds.py`); `add_source` opens its sources.
"""

from __future__ import annotations

import asyncio
import re
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final, cast

from ..argument_checks import require_type, wrong_type
from ..errors import ConfigError, InvalidTool, NotFound, ToolNotApproved
from ..values import Json, did_you_mean
from .backends.route import Args, EngineGetter, OnProgress, Route, Routed
from .index import Index, log
from .mcp.login_errors import Reason
from .reserved import why_no_server, why_reserved_is_missing
from .source import Failures, Source, connect_sources, prefix_of
from .tool import OWNER, Handler, RunResult, Tool, ToolBackend, check_backend, strict_patterns, tool_from

if TYPE_CHECKING:
    from ..config.network import AddressPolicy
    from .backends.provider_registry import Providers
    from .backends.sources import Sources
    from .definition import Definition
    from .mcp.local_client import OnElicit, OnSample
    from .mcp.server_tools import ServerTools
    from .pins import Pins
    from .undo import Undo

_MAX_TOOLS_SHOWN: Final = 10  # of a server, in an error
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Handlers:
    """Local handlers by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}

    def get(self, name: str, /) -> Handler | None:
        """Return the handler with this name, or None."""
        return self._by_name.get(name)

    def put(self, name: str, handler: Handler) -> None:
        """Register or replace a handler."""
        self._by_name[name] = handler

    def drop(self, name: str) -> None:
        """Remove a handler if it exists."""
        self._by_name.pop(name, None)


class Toolbox(Index):
    """Tools and everything needed to run them; safe for concurrent use.

    Args:
        tools: `@tool` functions, plain callables and Tools.
        mcp: The configuration of each MCP server by name (`command`, `args`, `env` or `url`, ...).
        providers: By id, the configuration of each provider (`url`, `headers`, `timeout`, `tools`, `openapi`,
            `read_only`) or its executor.
        allow_hosts: Hosts, addresses and ranges that are not public, but that URLs in documents and arguments may name.
        on_elicit: Answers questions of MCP servers, as `local_client.OnElicit`. Without it, nobody answers.
        strict_output: True, or patterns of ids (`github:*`): a result of these tools that does not fit the tool's own
            output schema is an error. Otherwise it is used, and the run has a warning.

    Nothing is connected before `connect`. `failures` says why a server cannot be reached, or why a tool is left out.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Handler] = (),
        *,
        mcp: Mapping[str, dict[str, Json]] | None = None,
        providers: Mapping[str, Any] | None = None,
        allow_hosts: Sequence[str] = (),
        on_elicit: OnElicit | None = None,
        strict_output: bool | Sequence[str] = False,
    ) -> None:
        super().__init__()
        self.strict_output = strict_patterns(strict_output)
        """The patterns of the ids of tools whose results must fit their output schemas."""
        if on_elicit is not None and not callable(on_elicit):
            raise wrong_type("on_elicit", "a function of an Elicitation", on_elicit)
        self.on_elicit, self.on_sample = on_elicit, cast("OnSample | None", None)
        if not isinstance(allow_hosts, (list, tuple)) or not all(isinstance(host, str) for host in allow_hosts):
            raise wrong_type("allow_hosts", "a list of hosts, addresses and ranges", allow_hosts)
        self._network: AddressPolicy | None = None
        self._allow_hosts = tuple(allow_hosts)
        if allow_hosts:
            _ = self.network  # reports an invalid entry now instead of at the first call
        self.local = Handlers()
        self.servers: ServerTools | None = None
        """The MCP servers as a source of tools; None without servers."""
        self._providers: Providers | None = None
        self._backends: Sources | None = None
        self._sources: tuple[Source, ...] = ()  # those of the three that there are
        self.failures = Failures()
        self.broken: dict[str, str] = {}
        """Why a flow of the project is not the tool that its name means, by id."""
        self.left_out: dict[str, str] = {}
        """Tools that settings or OpenAPI documents leave out, by id, each with the reason."""
        self.shortened: dict[str, str] = {}
        """The operations whose answer is checked in part, by id, each with what is not checked."""
        self.refused: dict[str, str] = {}
        """The part of `failures` with tools whose definition differs from the approved one, by id."""
        self.pins: Pins | None = None
        """The approved tools of MCP servers and OpenAPI documents; None accepts all."""
        self._listed_ids: dict[str, set[str]] = {}  # of `replace_tools`
        self.undos: dict[str, Undo] = {}
        """The configured undos by tool id, which replace those of the tools."""
        self._open_lock = threading.Lock()
        self._connecting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]
        self._connecting = weakref.WeakKeyDictionary()
        self.register_all(tools)
        for name, config in _require_table(mcp, "mcp").items():
            self.add_mcp(name, config)
        for name, config in _require_table(providers, "providers").items():
            self.add_provider(name, config)

    @property
    def mcp(self) -> Any:
        """The client of the MCP servers, a `McpServers`; None without servers."""
        return None if self.servers is None else self.servers.client

    def _server_tools(self) -> ServerTools:
        """Return the source of MCP servers, whose module is imported with the first one."""
        with self._open_lock:
            if self.servers is None:
                from .mcp.server_tools import ServerTools

                self.servers = ServerTools(self, lambda: (self.on_elicit, self.on_sample))
                self._sources = (*self._sources, self.servers)
            return self.servers

    @property
    def provider(self) -> Providers:
        """The providers by id. Most toolboxes have none, so HTTP and OpenAPI are imported on first use."""
        with self._open_lock:
            if self._providers is None:
                from .backends.provider_registry import Providers

                self._providers = Providers(self)
                self._sources = (*self._sources, self._providers)
            return self._providers

    def _backend_sources(self) -> Sources:
        """Return the opened sources of registered kinds (`[backends.NAME]` tables)."""
        with self._open_lock:
            if self._backends is None:
                from .backends.sources import Sources

                self._backends = Sources(self)
                self._sources = (*self._sources, self._backends)
            return self._backends

    def executor(self, backend: ToolBackend) -> Any:
        """Return the object whose `call_tool` calls the tools of a backend that is not local; None if there is none."""
        if backend.kind == "provider":
            return self.provider.executor(backend)
        source = self.servers if backend.kind == "mcp" else self._backends
        return None if source is None else source.executor(backend)

    @property
    def network(self) -> AddressPolicy:
        """The policy for addresses that come from data, created on first use."""
        if self._network is None:
            from ..config.network import AddressPolicy

            self._network = AddressPolicy(self._allow_hosts)
        return self._network

    def trusts_hints(self, server: str) -> bool:
        """Return True if the hints of an MCP server count, such as `readOnlyHint` (`trust = "hints"`).

        Args:
            server: The name of the server.

        Returns:
            True if the project trusts the server's hints.
        """
        require_type(str, server=server)
        return self.servers is not None and self.servers.trusts_hints(server)

    def is_missing(self, tool_id: str) -> bool:
        """Return True if a server must be connected before the tool can be looked up.

        Either the tool is unknown, or its server died and may return with another definition.

        Args:
            tool_id: The id of the tool.

        Returns:
            True if the tool must not be looked up yet.
        """
        return self.get(tool_id) is None or prefix_of(tool_id) in self.lost

    @property
    def lost(self) -> Collection[str]:
        """The MCP servers to connect before a call, because their tools may differ from those in the index."""
        return () if self.servers is None else self.servers.lost

    def _why_unusable(self, space: str) -> str | None:
        """Return why the tools of a namespace cannot be used; None if its source has not failed."""
        reason = self.failures.get(space)
        return reason and Reason(f"{space} cannot be used: {reason}", getattr(reason, "remedy", None))

    def why_missing(self, tool_id: str) -> str | None:
        """Explain why a tool is missing, if its prefix says so: no server has it, or it is one of Ropewalk's own.

        Args:
            tool_id: The id of the tool.

        Returns:
            The message; None if the server exists, local tools use the namespace, or another tool has a similar id.
        """
        require_type(str, tool_id=tool_id)
        space, colon, _ = tool_id.partition(":")
        ids = self.ids()
        if not colon and space in self.spaces:
            tools = sorted(id for id in ids if prefix_of(id) == space)
            shown = [*tools[:_MAX_TOOLS_SHOWN], *(["…"] if len(tools) > _MAX_TOOLS_SHOWN else [])]
            return f"this is a server; its tools are {', '.join(shown) or f'{space}:NAME'}"
        if not colon or space in self.spaces:
            return None
        reason = why_reserved_is_missing(tool_id, ids)
        if reason or did_you_mean(tool_id, ids) or any(known_id.startswith(f"{space}:") for known_id in ids):
            return reason
        return why_no_server(space, self.spaces)

    def is_listed(self, space: str) -> bool:
        """Return True if a server or provider has listed its tools and has not failed since.

        Args:
            space: The name of the server or provider.

        Returns:
            True if its tools in the index are current.
        """
        require_type(str, space=space)
        return any(source.is_listed(space) for source in self._sources if space in source.names)

    def has_listed(self, server: str) -> bool:
        """Return True if an MCP server has listed its tools, now or before it was lost.

        Args:
            server: The name of the server.

        Returns:
            True after its first list of tools.
        """
        if not isinstance(server, str):
            raise wrong_type("server", "a string", server)
        return self.servers is not None and self.servers.has_listed(server)

    def definitions(self, name: str) -> Sequence[Definition]:
        """Return what a server or the document of a provider says about its tools; none before it is connected."""
        require_type(str, name=name)
        return next((source.definitions(name) for source in self._sources if name in source.names), ())

    @property
    def spaces(self) -> set[str]:
        """The names of servers, providers and other sources, connected or not."""
        names = (name for source in self._sources for name in source.names)
        return {*names, *(name for name in self.failures if ":" not in name)}

    # --- registering ------------------------------------------------------------------------

    def register_all(self, tools: Iterable[Tool | Handler]) -> None:
        """Register each tool of a list.

        Args:
            tools: `@tool` functions, plain callables and Tools.

        Raises:
            InvalidInput: `tools` is not a list.
            InvalidTool: A tool is invalid.
        """
        if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
            raise wrong_type("tools", "a list of functions and Tools", tools)
        for tool in tools:
            self.register(tool)

    def register(
        self, tool: Tool | Handler, handler: Handler | None = None, *, backend: ToolBackend | None = None
    ) -> Tool:
        """Add a tool with a handler or a backend.

        The same definition again adds or replaces the backend. If a function replaces another one, a
        warning is logged. A tool with neither is listed, and a call of it raises NoBackends.

        Args:
            tool: A Tool, or a function that becomes one.
            handler: The function that runs the tool.
            backend: Where the tool runs. Without both, the tool's own handler and backend are used.

        Returns:
            The Tool.

        Raises:
            InvalidTool: The tool is invalid, its id has another definition, or the backend cannot have a handler.
        """
        definition = tool if isinstance(tool, Tool) else tool_from(tool)
        label = f"tool {definition.id!r}"
        if backend is not None:
            check_backend(backend, label)
        if handler is not None and backend is not None and backend.kind != "local":
            raise InvalidTool(f"{label}: a handler needs a local backend, not a {backend.kind} one")
        if handler is None and backend is None:
            handler, backend = definition.handler, definition.backend
        if handler is not None:
            if not callable(handler):
                raise InvalidTool(f"{label}: its handler is {type(handler).__qualname__}, not callable")
            backend = backend or ToolBackend.local(definition.id)
        # Tool and handler change together, so that no call sees one without the other.
        with self._lock:
            self._put(definition, backend)
            object.__setattr__(definition, OWNER, weakref.ref(self))
            if handler is not None and backend is not None:
                name = backend.name or definition.id
                _log_replaced_handler(definition.id, self.local.get(name), handler)
                self.local.put(name, handler)
        self._publish()
        return definition

    async def call(self, tool_id: str, args: Args) -> Json:
        """Call a tool and return its result."""
        from .runner import Runner

        return (await Runner(self).run(tool_id, args)).structured

    def lend(self, tool_id: str) -> Tool:
        """Return a tool for use in another toolbox or a conversation; this toolbox runs it.

        Args:
            tool_id: The id of the tool.

        Returns:
            A Tool with a handler that calls this toolbox.

        Raises:
            NotFound: The tool is unknown.
            InvalidTool: The tool has neither a handler nor a backend.
        """
        return proxied(self, self._entry(tool_id)[0])

    def remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        """Remove one backend of a tool, and the tool with its last backend.

        Args:
            tool_id: The id of the tool.
            backend: The backend.

        Raises:
            NotFound: The tool is unknown, or does not have this backend.
        """
        with self._lock:
            self._remove_backend(tool_id, backend)
            self._forget_handlers([backend])
        self._publish()

    def remove(self, tool_id: str) -> None:
        """Remove a tool with all its backends.

        Args:
            tool_id: The id of the tool.

        Raises:
            NotFound: The tool is unknown.
        """
        with self._lock:
            backends = self.backends(tool_id)
            self._remove(tool_id)
            self._forget_handlers(backends)
        self._publish()

    def _forget_handlers(self, removed: Iterable[ToolBackend]) -> None:
        """Drop the handlers that only the removed backends used."""
        for backend in removed:
            if backend.kind == "local" and backend.name is not None and backend.name not in self._handler_counts:
                self.local.drop(backend.name)

    # --- connections ------------------------------------------------------------------------

    def add_mcp(self, name: str, config: dict[str, Json]) -> None:
        """Add an MCP server; its tools become `name:tool` when it is connected.

        Args:
            name: 1 to 128 characters of `[A-Za-z0-9_.-]`.
            config: `command`, `args` and `env`, or `url`; and optionally `timeout` in seconds and `trust`.

        Raises:
            ConfigError: The name or the configuration is invalid.
        """
        self._check_name("MCP server", name)
        self._server_tools().add(name, config)
        self.touch()

    def add_provider(self, name: str, config: Any) -> None:
        """Add a provider and register its tools, or those of its `openapi` document, as `name:tool`.

        Args:
            name: 1 to 128 characters of `[A-Za-z0-9_.-]`.
            config: The configuration, or an executor.

        Raises:
            ConfigError: The name or the configuration is invalid.
        """
        self._check_name("provider", name)
        self.provider.add(name, config)
        self.touch()

    def add_source(self, kind: str, name: str, settings: Mapping[str, Json] | None = None) -> None:
        """Open a source of tools of a kind added with `register_backend`; its tools become `name:tool`.

        Args:
            kind: The kind's name.
            name: The name of the source; no server or provider may have it.
            settings: The settings that the kind's `open` gets, as in a `[backends.NAME]` table.

        Raises:
            ConfigError: The name is taken, the kind is unknown, or its `open` refuses the settings.
            InvalidTool: A tool of the source is invalid; none of its tools are registered.
        """
        self._check_name("backend", name)
        if name in self.spaces:
            raise ConfigError(
                f"backend {name!r}: a server, provider or backend has this name already; choose another name"
            )
        self._backend_sources().add(kind, name, _require_table(settings, "settings"))
        self.touch()

    def share_servers(self, other: Toolbox) -> None:
        """Use the connections that another toolbox has to MCP servers with the same settings.

        Args:
            other: The other toolbox. The one that is closed last closes the connections.
        """
        require_type(Toolbox, other=other)
        if self.servers is not None and other.servers is not None:
            self.servers.share(other.servers)

    async def connect(self, name: str | None = None) -> None:
        """Connect MCP servers and register their tools.

        Args:
            name: The only server to connect. None connects every server at once and fetches remote OpenAPI
                documents; `failures` then lists those that cannot be reached.

        Raises:
            NotFound: The server is unknown.
            ConnectionError, TimeoutError, ConfigError: The named server cannot be reached.
        """
        if name is not None:
            if not isinstance(name, str):
                raise wrong_type("name", "a string", name)
            if self.mcp is None:
                raise NotFound("MCP server", name)
            await self.mcp.connect(name)
            return
        await asyncio.gather(*(source.connect() for source in self._sources))

    async def connect_within(self, seconds: float | None) -> list[str]:
        """Connect everything, but wait at most `seconds`. Simultaneous calls share one attempt.

        Args:
            seconds: The limit, from 0; None waits without limit.

        Returns:
            The MCP servers that have not answered by then. They continue to connect, and their tools are registered
            when they answer.

        Raises:
            InvalidInput: `seconds` is neither a number from 0 nor None.
        """
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0):
            raise wrong_type("seconds", "a number from 0, or None for no limit", seconds)
        # One task per event loop; `asyncio.wait` leaves it running when the time is over.
        loop = asyncio.get_running_loop()
        task = self._connecting.get(loop)
        if task is None or task.done():
            task = self._connecting[loop] = loop.create_task(self.connect())
        done, _ = await asyncio.wait([task], timeout=seconds)
        if done:
            task.result()
        if done or self.servers is None:
            return []
        return [name for name in self.servers.names if not self.is_listed(name) and name not in self.failures]

    async def find(self, tool_id: str) -> Tool:
        """Return a tool, and connect its server first if needed.

        Args:
            tool_id: The id of the tool.

        Returns:
            The Tool.

        Raises:
            ToolNotApproved: The tool's definition differs from the approved one.
            NotFound: The tool is unknown; the error has the reason, or the most similar id.
        """
        if not isinstance(tool_id, str):
            raise wrong_type("tool_id", "a string", tool_id)
        if self.is_missing(tool_id):
            await self.connect_for([f"{tool_id}:" if tool_id in self.spaces else tool_id])
        tool = self.get(tool_id)
        if tool is not None:
            return tool
        if tool_id in self.refused:
            raise ToolNotApproved(tool_id, "resolve", self.refused[tool_id])
        space = prefix_of(tool_id)
        reason = (
            self.failures.get(tool_id)
            or self.broken.get(tool_id)
            or self.left_out.get(tool_id)
            or self._why_unusable(space)
            or self.why_missing(tool_id)
        )
        error = NotFound("tool", tool_id, suggestion=None if reason else did_you_mean(tool_id, self.ids()), why=reason)
        error.remedy = getattr(reason, "remedy", None)
        raise error

    async def connect_for(self, tool_ids: Iterable[str]) -> None:
        """Connect only the sources with the prefixes of the given tools; `failures` lists those that fail.

        Args:
            tool_ids: The ids of the tools.
        """
        await connect_sources(self._sources, tool_ids)

    async def close(self) -> None:
        """Close every connection. The tools stay registered."""
        task = self._connecting.pop(asyncio.get_running_loop(), None)
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        results = await asyncio.gather(*(source.close() for source in self._sources), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def __aenter__(self) -> Toolbox:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_name(self, noun: str, name: str) -> None:
        if not isinstance(name, str) or not _NAME_PATTERN.fullmatch(name):
            raise ConfigError(f"{noun} {name!r}: a name is 1 to 128 characters of [A-Za-z0-9_.-]")

    def take_tools(self, server: str, definitions: Iterable[Any]) -> None:
        """Make the index contain exactly the tools that an MCP server lists now.

        Args:
            server: The name of the server.
            definitions: Its tool definitions, as objects of the SDK or as dicts. An invalid one is listed in
                `failures`.
        """
        self._server_tools().take(server, definitions)

    def replace_tools(self, server: str, tools: Mapping[str, tuple[Tool, ToolBackend | None]]) -> dict[str, str]:
        """Make the index contain exactly these tools of a server, and return why one cannot be; both by label."""
        current, failures = set[str](), dict[str, str]()
        for label, (tool, backend) in tools.items():
            try:
                self._store_listed(server, tool, backend)
                current.add(tool.id)
            except InvalidTool as error:
                failures[label] = str(error)
        with self._lock:
            removed = self._listed_ids.get(server, set()) - current
            self._listed_ids[server] = current
        # A tool may also have backends of the user's own; only this server's goes.
        for tool_id in removed:
            if not self.backends(tool_id):
                self.remove(tool_id)  # it was known from a list only
                continue
            for backend in self.backends(tool_id):
                if backend.kind == "mcp" and backend.server_name == server:
                    self._remove_listed(tool_id, backend)
        return failures

    def _store_listed(self, server: str, tool: Tool, backend: ToolBackend | None) -> None:
        with self._lock:
            known, backends = self.get(tool.id), self.backends(tool.id)
            if known == tool and (backend is None or backend in backends):
                return  # a refresh without changes must not notify the listeners
            is_own = backends == [backend] or (not backends and tool.id in self._listed_ids.get(server, ()))
            if known is not None and known != tool and backend is not None and is_own:
                self._replace(tool, backend)
            else:
                self._put(tool, backend)
        self._publish()

    def _remove_listed(self, tool_id: str, backend: ToolBackend) -> None:
        try:
            self.remove_backend(tool_id, backend)
        except NotFound:
            return  # another thread has removed it already


def _require_table(table: Mapping[str, Any] | None, path: str) -> Mapping[str, Any]:
    if table is not None and not isinstance(table, Mapping):
        raise wrong_type(path, "an object of configurations by name", table)
    return table or {}


def _log_replaced_handler(tool_id: str, old: Handler | None, new: Handler) -> None:
    """Log that a function replaces another one: two modules may use one id for different tools by accident."""
    old_name, new_name = _origin(old), _origin(new)
    if None not in (old_name, new_name) and old_name != new_name:
        log.warning("tool %r: %s takes the place of %s, which has the same definition", tool_id, new_name, old_name)


def _origin(handler: Handler | None) -> str | None:
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    return f"{module}.{name}" if module and name else None


class ToolProxy(Routed):
    """A handler that calls one tool through the pipeline of the toolbox that owns it."""

    def __init__(self, owner: Toolbox, tool_id: str) -> None:
        self._owner, self._id = owner, tool_id

    async def __call__(self, **args: Json) -> Json:
        """Call the tool outside of a Runner."""
        return await self._owner.call(self._id, args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolProxy) and (self._owner, self._id) == (other._owner, other._id)

    def __hash__(self) -> int:
        return hash((id(self._owner), self._id))

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        """Return the route of a Runner with this `get_engine` to the owner's tool."""
        from .runner import Runner

        owner, tool_id, runner = self._owner, self._id, Runner(self._owner, get_engine=get_engine)

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> RunResult:
            if owner.is_missing(tool_id):
                await owner.connect_for([tool_id])  # its server died and may have returned
            return await runner.bind(tool_id).execute(args, key, timeout, on_progress)

        bound = runner.bind(tool_id)
        timeout = bound.timeout if bound.per_attempt else None  # a flow brings its own timeout
        return Route(
            send=send,
            normalise=lambda result: (result.structured, result.mcp_result),
            keeps_time=True,
            strict=True,
            timeout=timeout,
            per_attempt=bound.per_attempt,
            repeatable=bound.repeatable,
            waits=bound.waits,
        )


def proxied(owner: Toolbox, tool: Tool) -> Tool:
    """Return a copy of a tool whose calls go through its owner."""
    if not owner.backends(tool.id):
        why = "it cannot be called, because it was registered without a handler and without a backend"
        raise InvalidTool(f"tool {tool.id!r}: {why}")
    proxy = copy(tool)
    for field, value in (("handler", ToolProxy(owner, tool.id)), ("backend", None)):
        object.__setattr__(proxy, field, value)
    return proxy
