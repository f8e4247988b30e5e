"""The server object: both eras of the protocol from one catalogue, whatever the transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from ...journal.tool_usage import as_source
from ...tools.mcp.call_client import CLIENT, announced_capabilities
from ...values import digest
from ..security import SOURCE
from .catalogue import Catalogue, unknown_tool_hint
from .client_channel import LEVEL, LEVELS, ClientChannel, SuspendedCalls
from .primitives import Primitives
from .results import explained, is_object, log_failure, log_refusal, shown_input, shown_output
from .task_methods import TaskMethods
from .tool_source import CallContext, ExposedTool

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

log = logging.getLogger("ropewalk.mcp.server")

KEY: Final = "ropewalk/idempotencyKey"
CONNECTING: Final = "ropewalk/connecting"
"""In `_meta` of a list: the servers behind that have not answered yet."""
_MAX_CHANGES: Final = 10_000  # announced by servers behind and not passed on yet
_BEFORE_THE_CLIENT_IS_KNOWN: Final = ("initialize", "notifications/initialized", "ping")
_LOOK: Final = 1.0  # seconds between looks at whether the tools have changed


class McpDoor:
    """Serve a catalogue, with prompts and resources."""

    # `server` is the SDK's, run inside `open`.

    def __init__(
        self,
        catalogue: Catalogue,
        name: str = "ropewalk",
        instructions: str | None = None,
        primitives: Primitives | None = None,
        patience: float = 1.0,
        tasks: TaskMethods | None = None,
        on_connected: Callable[[], None] = lambda: None,
    ) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

        self.catalogue = catalogue
        self._bus = InMemorySubscriptionBus()
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        # What connects the servers behind, by what the clients can be asked that it connects them for.
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._patience, self._until = patience, 0.0
        self._on_connected = on_connected  # called when all servers behind have answered or failed
        self._is_incomplete = False  # a list went out while servers had not answered
        self._known: list[Any] | None = None  # what clients have been told of the tools
        # The requests by which the client of a connection found tools.
        self._found_by: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
        self.has_one_client = False
        """Whether all requests come from one client, as on standard input; in the era of 2026-07-28 each request is a
        connection of its own, and nothing else says so."""
        self._primitives = primitives
        self._suspended = SuspendedCalls()
        self._listen = ListenHandler(self._bus)
        self._changes: dict[Any, str] = {}  # events that servers behind have announced, with their older method
        if primitives is not None and primitives.gateway is not None:
            primitives.gateway.ready = self._ready
            primitives.gateway.on_change = self._note_change
        self._called = asyncio.Event()  # a tool was: it may have changed which there are
        self._tasks = tasks
        if tasks is not None:
            tasks.has_one_client = lambda: self.has_one_client
        self.server = self._make_server(name, instructions)

    def _make_server(self, name: str, instructions: str | None) -> Server[Any]:
        from mcp.server.lowlevel import NotificationOptions, Server
        from mcp_types import SetLevelRequestParams

        primitives, tasks = self._primitives, self._tasks
        server: Server[Any] = Server(
            name,
            version=version("ropewalk"),
            title="Ropewalk",
            instructions=instructions,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=self._listen if primitives is None else self._serve_subscriptions,
            **({} if primitives is None else self._suspending(primitives.handlers())),
        )
        if primitives is not None and primitives.gateway is not None:
            server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_log_level)
        if tasks is not None:
            tasks.register(server)
        server.middleware.append(self._note)

        # That the list changes is told in every handshake; the HTTP transport asks for the options itself.
        changes = NotificationOptions(
            tools_changed=True,
            prompts_changed=primitives is not None,
            resources_changed=primitives is not None and primitives.has_resources,
        )
        make_options = server.create_initialization_options

        def options() -> Any:
            made = make_options(changes)
            if tasks is not None:
                made.capabilities.tasks = tasks.older_capability()
            return made

        server.create_initialization_options = options  # type: ignore[method-assign, assignment]
        return server

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Connect what is behind, and tell clients of changes, as long as this is open."""
        # An only client says in its first request what it can be asked, which servers may want to know at their start.
        if not (self.has_one_client and self._relays):
            self._connect_for(None)
        following = asyncio.ensure_future(self._follow())
        if self._tasks is not None:
            self._tasks.tasks.start()
        try:
            yield
        finally:
            ending = [following, *self._attempts.values()]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await self._suspended.close()
            if self._tasks is not None:
                await self._tasks.tasks.close()
            if self._primitives is not None:
                await self._primitives.close()

    # --- requests

    async def _list(self, ctx: Any, params: Any) -> Any:
        import mcp_types as types

        client = ClientChannel(ctx, self._client_id(ctx))
        self._connect_for(client)
        await self._ready()
        older = _is_older(ctx)
        tools = [_listed(name, item, older) for name, item in self.catalogue.listed.items() if item.is_for(client)]
        if self._known is None:
            self._known = self._told()
        connecting = self.catalogue.connecting
        if connecting and not self._is_incomplete:
            self._is_incomplete = True
            late = ", ".join(connecting)
            log.warning(
                "the list of tools lacks those of %s, which has not answered yet; clients are notified when it does",
                late,
            )
        meta: Any = {CONNECTING: connecting} if connecting else None
        return types.ListToolsResult(tools=tools, _meta=meta)

    async def _call(self, ctx: Any, params: Any) -> Any:
        meta = ctx.meta or {}
        key = meta.get(KEY)
        client = ClientChannel(ctx, self._client_id(ctx))
        found_by = self._found_by.setdefault(client.id, {})
        requested = CallContext(
            key=key if isinstance(key, str) else None,
            on_progress=client.progress if meta.get("progress_token") is not None else None,
            found_by=found_by,
            client=client,
            input_responses=params.input_responses,
            request_state=params.request_state,
        )
        result = await self._answer(client, params, lambda: self._make_call(ctx, params, requested))
        log_failure(params.name, result)
        return result

    async def _answer(self, client: ClientChannel, params: Any, start: Callable[[], Awaitable[Any]]) -> Any:
        """Answer a request on behalf of its client, which a server behind may ask meanwhile."""
        CLIENT.set(client)
        try:
            if client.is_modern and client.can_be_asked:
                return await self._suspended.run(client, params, start)
            return await start()
        finally:
            await client.flush()

    def _suspending(self, handlers: dict[str, Any]) -> dict[str, Any]:
        """Let servers behind ask the client also while they make a prompt or read a resource."""

        def suspending(handler: Any) -> Any:
            async def answer(ctx: Any, params: Any) -> Any:
                client = ClientChannel(ctx, self._client_id(ctx))
                return await self._answer(client, params, lambda: handler(ctx, params))

            return answer

        names = ("on_get_prompt", "on_read_resource")
        return {name: suspending(handler) if name in names else handler for name, handler in handlers.items()}

    async def _make_call(self, ctx: Any, params: Any, requested: CallContext) -> Any:
        from mcp import MCPError

        try:
            tool = await self.catalogue.find(params.name)
        except Exception as error:  # noqa: BLE001 - the server that has the tool cannot be reached
            return explained(params.name, error)
        if tool is None:
            raise self._unknown(params.name)
        try:
            if self._tasks is not None and requested.client is not None and (tool.task is not None or tool.task_only):
                # Clients of 2025-11-25 ask for a task in the call; newer ones declare that they support tasks.
                wants = isinstance((ctx.params or {}).get("task"), dict)
                args = dict(params.arguments or {})
                task = await self._tasks.created(tool, args, requested.key, requested.client, wants)
                if task is not None:
                    return task
            with as_source(_source_of(ctx)):
                result = await self.catalogue.finder.call(tool, dict(params.arguments or {}), requested)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer, and none of our texts
            return explained(params.name, error)
        finally:
            # Any call may have changed which tools exist, even one that failed.
            self._called.set()
        # Older clients accept only an object as structured content.
        return _fitted(result) if tool.verbatim and _is_older(ctx) else result

    async def _set_log_level(self, ctx: Any, params: Any) -> Any:
        from mcp_types import EmptyResult

        ctx.session._connection.state[LEVEL] = params.level
        wanted = [connection.state[LEVEL] for connection in self._connections if LEVEL in connection.state]
        if self._primitives is not None and self._primitives.gateway is not None:
            await self._primitives.gateway.set_log_level(min(wanted, key=LEVELS.index))
        return EmptyResult()

    async def _serve_subscriptions(self, ctx: Any, params: Any) -> Any:
        """Serve a stream of changes, with subscriptions to resources as long as it is open."""
        from mcp import MCPError

        assert self._primitives is not None
        subscriber = object()
        try:
            for uri in params.notifications.resource_subscriptions or ():
                with contextlib.suppress(MCPError):  # a resource that does not exist never changes
                    await self._primitives.subscribe(ctx, str(uri), subscriber)
            return await self._listen(ctx, params)
        finally:
            self._primitives.remove_everywhere(subscriber)

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self.catalogue.known(name)
        return None if tool is None or tool.withheld else tool.input_schema

    async def _ready(self) -> None:
        """Wait until the servers behind have answered or failed, or until the patience at the start is over."""

        # Servers that answer later are announced: one that never does must not keep clients from the others.
        left = self._until - asyncio.get_running_loop().time()
        pending = [task for task in self._attempts.values() if not task.done()]
        if pending and left > 0:
            await asyncio.wait(pending, timeout=left)

    @property
    def _relays(self) -> bool:
        """True if the servers behind may ask clients."""
        return self._primitives is not None and self._primitives.gateway is not None

    def _client_id(self, ctx: Any) -> Any:
        return self if self.has_one_client else ctx.session._connection

    def _connect_for(self, client: ClientChannel | None) -> None:
        """Connect the servers behind, unless that was done for a client that can be asked the same."""

        # Servers of older revisions learn in the handshake what the client can be asked, and choose their tools by it.
        can_ask = announced_capabilities(client) if self._relays else {}
        key = digest(can_ask)
        if key in self._attempts:
            return
        context = copy_context()
        context.run(CLIENT.set, client if can_ask else None)
        loop = asyncio.get_running_loop()
        self._until = loop.time() + self._patience
        self._attempts[key] = loop.create_task(self._connect(), context=context)

    async def _connect(self) -> None:
        await self.catalogue.connect()
        self._on_connected()

    def _unknown(self, name: str) -> Exception:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        text = f"Unknown tool: {name}{unknown_tool_hint(name, self.catalogue.tools)}"
        if late := self.catalogue.connecting:
            text += f"; the tools of {', '.join(late)} are not known yet"
        return MCPError(INVALID_PARAMS, text)

    # --- changes

    async def _note(self, ctx: Any, call_next: Any) -> Any:
        """Remember who is connected, since the SDK has no list of them, and log refused requests."""
        from mcp import MCPError

        try:
            return await self._pass_on(ctx, call_next)
        except MCPError as error:
            log_refusal(ctx.method, error)
            raise

    async def _pass_on(self, ctx: Any, call_next: Any) -> Any:
        self._connections.add(ctx.session._connection)
        if self.has_one_client and not self._attempts and ctx.method not in _BEFORE_THE_CLIENT_IS_KNOWN:
            self._connect_for(ClientChannel(ctx, self))
        if self._tasks is not None and ctx.method == "tools/call" and _is_older(ctx) and "task" in (ctx.params or {}):
            # The SDK lets no task of 2025-11-25 through.
            from mcp_types import CallToolRequestParams

            result = await self._call(ctx, CallToolRequestParams.model_validate(ctx.params, by_name=False))
            if isinstance(result, dict):
                return result
            return result.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})
        return await call_next(ctx)

    def _note_change(self, method: str, params: Any) -> None:
        """Remember what a server behind announces, until it is announced to clients."""
        from mcp.shared.subscriptions import event_from_wire

        event = event_from_wire(method, params)
        if event is not None and (len(self._changes) < _MAX_CHANGES or event in self._changes):
            self._changes[event] = method
            self._called.set()

    async def _announce_changes(self) -> None:
        """Announce what has changed here or at servers behind: lists to all clients, a resource to its subscribers."""
        from mcp.shared.subscriptions import ResourceUpdated

        changes, self._changes = self._changes, {}
        if self._primitives is not None:
            changes |= await self._primitives.changes()
        for event, method in changes.items():
            if not isinstance(event, ResourceUpdated):
                await self._announce(event, method)
                continue
            await self._bus.publish(event)
            subscribers = [] if self._primitives is None else self._primitives.subscribers(event.uri)
            for subscriber in subscribers:
                if subscriber in self._connections:
                    await subscriber.notify(method, {"uri": event.uri})

    async def _follow(self) -> None:
        from mcp.shared.subscriptions import ToolsListChanged

        loop = asyncio.get_running_loop()
        due, seen = loop.time(), self.catalogue.revision
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), due - loop.time())
            self._called.clear()
            # A look goes through every flow file, which costs more than a call. So a call brings no look forward,
            # unless something is known to have changed.
            if loop.time() < due and not self._changes and self.catalogue.revision == seen:
                continue
            due, seen = loop.time() + _LOOK, self.catalogue.revision
            await self._announce_changes()
            if self._known is None:
                continue  # nobody has a list that could be out of date
            try:
                now = self._told()
            except Exception:
                log.exception("the tools could not be listed; Ropewalk tries again at the next check")
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
        """Return what clients know of the tools, to notice changes."""
        tools = self.catalogue.listed
        return [(name, t.description, t.input_schema, t.output_schema, t.annotations) for name, t in tools.items()]


def _source_of(ctx: Any) -> str | None:
    """The source that the guard found for a request over HTTP: a session's handlers outlive the request's context."""
    scope = getattr(ctx.request, "scope", None)
    return None if scope is None else scope.get(SOURCE)


def _is_older(ctx: Any) -> bool:
    """Return True if the client speaks a revision before 2026-07-28."""

    # In those, schemas have no choice at their root, and structured content is an object.
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS


def _listed(name: str, tool: ExposedTool, older: bool) -> Any:
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
