"""The Toolbox: the index of tools, their local handlers, and the connections to the others.

A Toolbox alone is enough for a Runner. MCP servers and providers are named here and reached only when
needed; one that cannot be reached is noted in `failures` and stops no other. Refused: two things under
one name. To connect tools of another kind, see `route.py`.
"""

from __future__ import annotations

import asyncio
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..config.trust import TRUST_HINTS
from ..errors import ConfigError, InvalidTool, NotFound, ToolNotApproved
from ..errors.given import must_be, wants
from ..values import Json, closest, fresh
from .index import Change, Index, Page, log
from .tool import Handler, Tool, ToolBackend, check_backend, tool_from
from .trust import counted_annotations

if TYPE_CHECKING:
    from ..config.network import AddressPolicy
    from .pins import Pins
    from .providers import Providers

__all__ = ["Change", "Handlers", "Page", "Toolbox"]

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_OTHER: Final = r"[^A-Za-z0-9_.-]"


class Handlers:
    """Local handlers by name."""

    def __init__(self) -> None:
        self._known: dict[str, Handler] = {}

    def get(self, name: str, /) -> Handler | None:
        """The handler of this name, or None."""
        return self._known.get(name)

    def put(self, name: str, handler: Handler) -> None:
        """Register or replace a handler."""
        self._known[name] = handler

    def drop(self, name: str) -> None:
        """Forget a handler; nothing happens when there is none."""
        self._known.pop(name, None)


class Toolbox(Index):
    """Tools and everything needed to run them; safe for concurrent use.

    `tools` are `@tool` functions, plain callables and Tools. `mcp` maps server names to their
    configuration (`command`, `args`, `env` or `url`, ...), `providers` maps provider ids to theirs (`url`,
    `headers`, `timeout`, `tools`, `openapi`, `read_only`) or to an executor. Nothing is connected before `connect`.
    `allow_hosts` are the hosts, addresses and ranges that a URL out of a document or an argument may lead to although
    they are not public.
    `failures` says why a server cannot be reached now, or why a tool of one (`server:tool`) was not taken.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Handler] = (),
        *,
        mcp: Mapping[str, dict[str, Json]] | None = None,
        providers: Mapping[str, Any] | None = None,
        allow_hosts: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if not isinstance(allow_hosts, (list, tuple)) or not all(isinstance(host, str) for host in allow_hosts):
            raise wants("allow_hosts", "a list of hosts, addresses and ranges", allow_hosts)
        self._network: AddressPolicy | None = None
        self._allow_hosts = tuple(allow_hosts)
        if allow_hosts:
            _ = self.network  # says at once what is wrong with them
        self.local = Handlers()
        self.mcp: Any = None
        self._providers: Providers | None = None
        self.failures: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        """Of `failures` those of tools that are not what was approved, by id."""
        self.pins: Pins | None = None
        """Which tools of MCP servers and OpenAPI documents have been approved; None: all are taken."""
        self._served: dict[str, set[str]] = {}
        self._seconds: dict[str, Json] = {}
        self._trusted: set[str] = set()
        self._opening = threading.Lock()
        self._connecting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]
        self._connecting = weakref.WeakKeyDictionary()
        self.register_all(tools)
        for name, config in _table(mcp, "mcp").items():
            self.add_mcp(name, config)
        for name, config in _table(providers, "providers").items():
            self.add_provider(name, config)

    @property
    def provider(self) -> Providers:
        """The providers by id. Most toolboxes have none, so HTTP and OpenAPI are read when one is asked for."""
        with self._opening:
            if self._providers is None:
                from .providers import Providers

                self._providers = Providers(self.network)
            return self._providers

    @property
    def network(self) -> AddressPolicy:
        """Which addresses that come from data may be connected to. Few toolboxes need it, so it is made on demand."""
        if self._network is None:
            from ..config.network import AddressPolicy

            self._network = AddressPolicy(self._allow_hosts)
        return self._network

    def trusts_hints(self, server: str) -> bool:
        """Return True if the hints of an MCP server count, such as `readOnlyHint` (`trust = "hints"`)."""
        must_be(str, server=server)
        return server in self._trusted

    def lacks(self, tool_id: str) -> bool:
        """Whether a server must be asked before anything can be said of a tool: it is not known, or its server
        died and may come back with another one."""
        return self.get(tool_id) is None or (self.mcp is not None and tool_id.partition(":")[0] in self.mcp.lost)

    def nowhere(self, tool_id: str) -> str | None:
        """What is said of a tool of a server that there is not, where none of another one is like it."""
        must_be(str, tool_id=tool_id)
        space, colon, _ = tool_id.partition(":")
        ids = [one.id for one in self.list()] if colon and space not in self.spaces else []
        if not colon or space in self.spaces or closest(tool_id, ids) or any(i.startswith(f"{space}:") for i in ids):
            return None
        near = closest(space, self.spaces)
        return f"no server {space!r} in ropewalk.toml or .mcp.json" + (f"; did you mean {near!r}?" if near else "")

    def told(self, space: str) -> bool:
        """Whether a server or provider has said which tools it has."""
        if self.mcp is not None and space in self.mcp.names:
            return space in self._served and space not in self.failures
        return self._providers is not None and space in self._providers.listed

    def has_listed(self, server: str) -> bool:
        """Return True if an MCP server has listed its tools, now or before it was lost."""
        if not isinstance(server, str):
            raise wants("server", "a string", server)
        return server in self._served

    @property
    def spaces(self) -> set[str]:
        """The names of servers and providers, connected or not."""
        servers = self.mcp.names if self.mcp is not None else ()
        providers = self._providers.names if self._providers is not None else ()
        return {*servers, *providers, *(name for name in self.failures if ":" not in name)}

    # --- registering ------------------------------------------------------------------------

    def register_all(self, tools: Iterable[Tool | Handler]) -> None:
        """`register` each; InvalidInput for what is no list of them."""
        if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
            raise wants("tools", "a list of functions and Tools", tools)
        for one in tools:
            self.register(one)

    def register(
        self, tool: Tool | Handler, handler: Handler | None = None, *, backend: ToolBackend | None = None
    ) -> Tool:
        """Add a tool with a handler or a backend (else its own, if it brings one); gives the Tool back.

        The same definition again adds or replaces the backend; another one under the same id
        raises InvalidTool. That a function takes the place of another is told in the log. A tool with neither is
        listed, and calling it is NoBackends.
        """
        made = tool if isinstance(tool, Tool) else tool_from(tool)
        if backend is not None:
            check_backend(backend, f"tool {made.id!r}")
        if handler is not None and backend is not None and backend.kind != "local":
            raise InvalidTool(f"tool {made.id!r}: a handler goes with a local backend, not with a {backend.kind} one")
        if handler is None and backend is None:
            handler, backend = made.handler, made.backend
        if handler is not None:
            if not callable(handler):
                raise InvalidTool(f"tool {made.id!r}: its handler is {type(handler).__qualname__}, not callable")
            backend = backend or ToolBackend.local(made.id)
        with self._lock:
            self._put(made, backend)
            if handler is not None and backend is not None:
                name = backend.name or made.id
                _tell_replaced(made.id, self.local.get(name), handler)
                self.local.put(name, handler)
        self._tell()
        return made

    def lend(self, tool_id: str) -> Tool:
        """The tool so that another toolbox or a conversation can have it: this one runs it, with its connections.
        NotFound if absent, InvalidTool where nothing runs it."""
        from .lent import lent

        return lent(self, self._entry(tool_id)[0])

    def remove_backend(self, tool_id: str, backend: ToolBackend) -> None:
        """Take one backend off a tool; without its last backend the tool goes too. NotFound if absent."""
        with self._lock:
            self._remove_backend(tool_id, backend)
            self._forget_handlers([backend])
        self._tell()

    def remove(self, tool_id: str) -> None:
        """Take a tool off with all its backends. NotFound if absent."""
        with self._lock:
            gone = self.backends(tool_id)
            self._remove(tool_id)
            self._forget_handlers(gone)
        self._tell()

    def _forget_handlers(self, gone: Iterable[ToolBackend]) -> None:
        for backend in gone:
            if backend.kind == "local" and backend.name is not None and backend.name not in self._handlers:
                self.local.drop(backend.name)

    # --- connections ------------------------------------------------------------------------

    def add_mcp(self, name: str, config: dict[str, Json]) -> None:
        """Name an MCP server; its tools become `name:tool` when it is connected."""
        self._check_name("MCP server", name)
        with self._opening:
            if self.mcp is None:
                from .mcp import McpServers

                self.mcp = McpServers()
                self.mcp.failures = self.failures
                self.mcp.judge = self._judged
                self.mcp.on_lost = self.touch  # what was found out about its tools may not hold
                self.mcp.on_tools(self.take_tools)
        self.mcp.add(name, config)
        self._seconds[name] = config.get("timeout")
        if config.get("trust") == TRUST_HINTS:
            self._trusted.add(name)
        self.touch()

    def add_provider(self, name: str, config: Any) -> None:
        """Name a provider: its configuration, or an executor of one's own. Its `tools` (or those of its
        `openapi` document) are registered as `name:tool`."""
        self._check_name("provider", name)
        self._take_provider(name, self.provider.add(name, config))
        self.failures.update(self.provider.skipped)
        self.touch()

    async def connect(self, name: str | None = None) -> None:
        """Connect every MCP server at once (or the one named) and register its tools; fetch the OpenAPI
        documents that are elsewhere. One that fails stops no other: see `failures`. With a name, a
        server that cannot be reached raises ConnectionError, TimeoutError or ConfigError."""
        if name is not None:
            if not isinstance(name, str):
                raise wants("name", "a string", name)
            if self.mcp is None:
                raise NotFound("MCP server", name)
            await self.mcp.connect(name)
            return
        servers = self.mcp.connect() if self.mcp is not None else asyncio.sleep(0)
        await asyncio.gather(servers, self._fetch())

    async def connect_within(self, seconds: float | None) -> list[str]:
        """Connect as `connect` does, but wait no longer than `seconds`. Calls at the same time share one attempt.

        Returns:
            The MCP servers that have not answered by then. They go on connecting, and their tools come when they
            answer.

        Raises:
            InvalidInput: `seconds` is not a number from 0, nor None for no limit.
        """
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0):
            raise wants("seconds", "a number from 0, or None for no limit", seconds)
        loop = asyncio.get_running_loop()
        task = self._connecting.get(loop)
        if task is None or task.done():
            task = self._connecting[loop] = loop.create_task(self.connect())
        done, _ = await asyncio.wait([task], timeout=seconds)
        if done:
            task.result()
        if done or self.mcp is None:
            return []
        return [name for name in self.mcp.names if not self.told(name) and name not in self.failures]

    async def find(self, tool_id: str) -> Tool:
        """The tool, its server connected for it where need be; NotFound says why there is none, or which was meant."""
        if not isinstance(tool_id, str):
            raise wants("tool_id", "a string", tool_id)
        if self.lacks(tool_id):
            await self.connect_for([tool_id])
        tool = self.get(tool_id)
        if tool is None and tool_id in self.refused:
            raise ToolNotApproved(tool_id, "resolve", self.refused[tool_id])
        if tool is None:
            failed = self.failures.get(tool_id) or self.failures.get(tool_id.partition(":")[0]) or self.nowhere(tool_id)
            near = closest(tool_id, (t.id for t in self.list())) if failed is None else None
            raise NotFound("tool", tool_id, suggestion=near, why=failed)
        return tool

    async def connect_for(self, tool_ids: Iterable[str]) -> None:
        """Connect only what the tools named can come from: the servers of their namespaces, and the
        providers when a namespace is none of a server. Failures are noted, never raised."""
        spaces = {one.partition(":")[0] for one in tool_ids if isinstance(one, str) and ":" in one}
        servers = spaces & set(self.mcp.names) if self.mcp is not None else set()
        if self.mcp is not None and servers:
            names = sorted(servers)
            found = await asyncio.gather(*(self.mcp.connect(name) for name in names), return_exceptions=True)
            for name, result in zip(names, found, strict=True):
                if isinstance(result, Exception):
                    self.failures.setdefault(name, str(result))
        if spaces - servers:
            await self._fetch()

    async def _fetch(self) -> None:
        fetched = await self.provider.fetch()
        for provider, answer in fetched.items():
            if isinstance(answer, str):
                self.failures[provider] = answer
                continue
            self.failures.pop(provider, None)
            self._take_provider(provider, answer)
        self.failures.update(self.provider.skipped)

    def _take_provider(self, name: str, tools: Iterable[Tool]) -> None:
        """Register a provider's tools, but for those of a document that are not as they were approved."""
        refused = self._judged(name, self.provider.definitions(name)) or {}
        for tool in tools:
            if tool.name in refused:
                self.failures[tool.id] = self.refused[tool.id] = refused[tool.name]
            else:
                self.register(tool)

    async def close(self) -> None:
        """End every connection. The tools stay registered."""
        task = self._connecting.pop(asyncio.get_running_loop(), None)
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        try:
            if self.mcp is not None:
                await self.mcp.close()
        finally:
            if self._providers is not None:
                await self._providers.close()

    async def __aenter__(self) -> Toolbox:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_name(self, what: str, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(f"{what} {name!r}: a name is 1 to 128 characters of [A-Za-z0-9_.-]")

    def take_tools(self, server: str, definitions: Iterable[Any]) -> None:
        """Make the index hold exactly what an MCP server lists now; a bad tool stops no other."""
        current: set[str] = set()
        definitions = list(definitions)
        refused = self._judged(server, definitions) or {}
        for known in (self.failures, self.refused):
            for key in [key for key in known if key.startswith(f"{server}:")]:
                del known[key]
        if self.mcp is not None and server in self.mcp.names:
            self.failures |= {f"{server}:{name}": why for name, why in self.mcp.left_out(server).items()}
        for definition in definitions:
            label = f"{server}:{_field(definition, 'name')}"
            try:
                if (why := refused.get(_field(definition, "name"))) is not None:
                    self.refused[label] = why
                    raise InvalidTool(why)
                made, backend = _mcp_tool(
                    server, definition, self._seconds.get(server), trusted=self.trusts_hints(server)
                )
                if made.id in current:
                    raise InvalidTool(f"tool {made.id!r} is listed twice")
                self._take(made, backend)
                current.add(made.id)
            except InvalidTool as error:
                self.failures[label] = str(error)
        with self._lock:
            gone = self._served.get(server, set()) - current
            self._served[server] = current
        for tool_id in gone:
            for backend in self.backends(tool_id):
                if backend.kind == "mcp" and backend.server_name == server:
                    self._discard(tool_id, backend)

    def _judged(self, server: str, definitions: list[Any]) -> Mapping[str, str] | None:
        return None if self.pins is None else self.pins.refused(server, definitions)

    def _take(self, tool: Tool, backend: ToolBackend) -> None:
        with self._lock:
            known, others = self.get(tool.id), self.backends(tool.id)
            if known == tool and backend in others:
                return  # nothing new: a refresh that changes nothing makes no noise
            if known is not None and known != tool and others == [backend]:
                self._replace(tool, backend)
            else:
                self._put(tool, backend)
        self._tell()

    def _discard(self, tool_id: str, backend: ToolBackend) -> None:
        try:
            self.remove_backend(tool_id, backend)
        except NotFound:
            return  # somebody else removed it: that is what we wanted


def _table(given: Mapping[str, Any] | None, path: str) -> Mapping[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise wants(path, "an object of configurations by name", given)
    return given or {}


def _mcp_tool(server: str, definition: Any, seconds: Json, *, trusted: bool) -> tuple[Tool, ToolBackend]:
    """A server's definition as a Tool; a name we cannot use is made safe, the server's own one is kept.
    `seconds` is the timeout its configuration sets, if any; `trusted` says whether its hints count."""
    name = _field(definition, "name")
    if not isinstance(name, str) or not name:
        raise InvalidTool(f"a tool of MCP server {server!r} has no name")
    safe = re.sub(_OTHER, "_", name)[:128]
    annotations = counted_annotations(_plain(_field(definition, "annotations")), trusted=trusted)
    if isinstance(title := _field(definition, "title"), str) and title:
        annotations.setdefault("title", title)
    annotations.pop("timeout", None)  # how long we wait is not the server's to say
    if seconds is not None:
        annotations["timeout"] = seconds
    made = Tool(
        safe,
        _field(definition, "description") or "",
        _field(definition, "inputSchema", "input_schema"),
        _field(definition, "outputSchema", "output_schema"),
        namespace=server,
        annotations=annotations or None,
        icons=[_plain(icon) for icon in _field(definition, "icons") or ()] or None,
        meta=_plain(_field(definition, "_meta", "meta")) or None,
    )
    return made, ToolBackend.mcp(server, None if safe == name else name)


def _field(definition: Any, *names: str) -> Any:
    for name in names:
        found = definition.get(name) if isinstance(definition, dict) else getattr(definition, name, None)
        if found is not None:
            return found
    return None


def _plain(value: Any) -> Any:
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else fresh(value)


def _tell_replaced(tool_id: str, old: Handler | None, new: Handler) -> None:
    """Say that two functions have one id, as those of two modules may that were never meant to be the same tool."""
    was, now = _origin(old), _origin(new)
    if was is not None and now is not None and was != now:
        log.warning("tool %r: %s takes the place of %s, which has the same definition", tool_id, now, was)


def _origin(handler: Handler | None) -> str | None:
    module, name = getattr(handler, "__module__", None), getattr(handler, "__qualname__", None)
    return f"{module}.{name}" if module and name else None
