"""The gateway: tools, prompts and resources of the MCP servers behind this server.

Tools of MCP servers keep their description, schemas, answers, progress and protocol errors under the name
`server__tool`. All other tools of the toolbox go through the runner. A tool that the toolbox refuses, such as a changed
tool with a pin, is not listed. A call of it gets an error without details: the details come from that server's author
and go to the log only. No header, token or `_meta` of a client reaches a server behind the gateway.

Prompts have names `server__prompt`; resources keep their URIs. A resource is read from the server that lists it, or
from the servers with a template that begins like its URI. In a project with pins, only pinned servers are asked.
Completions, subscriptions, log levels and announced changes are passed on. Requests of a server to the client go
through `client_channel.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...errors import ToolError, ToolNotApproved, message_of
from ...tools.annotations import counted_annotations
from ...tools.backends.route import ToolReported
from ...tools.bound_call import Progress
from ...tools.mcp.call_client import CLIENT, ask_client
from ...tools.mcp.requests import ServerRefused
from ...tools.reserved import OWN, PLANS
from ...tools.tool import Tool, ToolBackend
from ...values import Json
from .catalogue import safe_name, unique_names
from .flows import Steps
from .results import given, no_resource, passed_task, protocol_error, shown_value, unmarked
from .subscriptions import ResourceSubscriptions
from .tool_source import Call, CallContext, ExposedTool

if TYPE_CHECKING:
    from ...app.app import App
    from ...tools.definition import Definition

log = logging.getLogger("ropewalk.mcp.server")

_MOST_PAGES: Final = 100
_MAX_ENTRIES: Final = 10_000  # prompts or resources of one server
_PATIENCE: Final = 5.0  # seconds for one server's prompts or resources: it must not hold up those of the others
_MAX_ROUNDS: Final = 10  # results of one request that ask for input


class GatewayPassthrough:
    """Passes prompts and resources of the servers behind on to clients."""

    def __init__(self, app: App, *, prefix: bool = True) -> None:
        self._app, self._prefix = app, prefix
        self.subscriptions = ResourceSubscriptions(lambda *question: app.toolbox.mcp.ask(*question))
        self.on_change: Callable[[str, Mapping[str, Any]], None] = lambda method, params: None
        """Called with the method and the parameters of what a server announces: changed prompts and resources."""
        if app.toolbox.mcp is not None:
            app.toolbox.mcp.on_notification = self._announced
        self.ready: Callable[[], Awaitable[None]] = _at_once
        """Waits at the start until servers have answered, for a short while."""
        self.taken: Callable[[], Iterable[str]] = tuple
        """Returns the names that prompts of servers cannot have."""
        self._known: set[str] | None = None  # the servers whose prompts and resources clients have been given
        self._prompts: dict[str, tuple[str, str]] = {}  # server and name, by the name that clients see
        self._owners: dict[str, str] = {}  # of resources, by URI

    def _announced(self, server: str, method: str, params: Mapping[str, Any]) -> None:
        if server in self._servers:
            self.on_change(method, params)

    def has_changed(self) -> bool:
        """Return True once for each time that a server has come since clients were given a list."""
        now = {server for server in self._servers if self._app.toolbox.has_listed(server)}
        if self._known is None or now == self._known:
            return False
        self._known = now
        return True

    @property
    def _servers(self) -> list[str]:
        toolbox = self._app.toolbox
        names = [] if toolbox.mcp is None else toolbox.mcp.names
        return [name for name in names if toolbox.pins is None or toolbox.pins.is_pinned(name)]

    async def list_prompts(self, ctx: Any) -> list[Any]:
        """Return the prompts of all servers, by the names that clients see."""
        result = await self._everywhere("list_prompts", "prompts")
        wanted = {f"{server}:{item.name}": (server, item) for server, item in result}
        shown = {id: f"{server}__{item.name}" if self._prefix else item.name for id, (server, item) in wanted.items()}
        names = unique_names(shown.items(), taken=self.taken())
        self._prompts = {names[id]: (server, item.name) for id, (server, item) in wanted.items()}
        return [item.model_copy(update={"name": names[id]}) for id, (_, item) in wanted.items()]

    async def get_prompt(self, ctx: Any, params: Any) -> Any:
        """Get a prompt from its server."""
        server, name = await self._prompt(ctx, params.name)

        async def get(session: Any, **retry: Any) -> Any:
            return await session.get_prompt(name, params.arguments, allow_input_required=True, **retry)

        return await self._ask_in_rounds(server, get, f"prompt {name!r}", params)

    async def _prompt(self, ctx: Any, shown: str) -> tuple[str, str]:
        """Return the server of a prompt, and its name there."""
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        if shown not in self._prompts:
            await self.list_prompts(ctx)
        if shown not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {shown}")
        return self._prompts[shown]

    async def complete(self, ctx: Any, params: Any) -> Any:
        """Get the completions of an argument from its server."""
        ref = params.ref
        if ref.type == "ref/prompt":
            server, name = await self._prompt(ctx, ref.name)
            ref = ref.model_copy(update={"name": name})
        else:
            server = await self._owner(ctx, str(ref.uri))
        argument = params.argument.model_dump()
        context = None if params.context is None else params.context.arguments
        return await self._ask(
            server, lambda session: session.complete(ref, argument, context), f"completion of {argument['name']!r}"
        )

    async def subscribe(self, ctx: Any, uri: str, subscriber: Any) -> None:
        """Subscribe to a resource."""
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR

        server = await self._owner(ctx, uri)
        try:
            await self.subscriptions.add(server, uri, subscriber)
        except ServerRefused as error:
            raise protocol_error(error) from error
        except (ConnectionError, TimeoutError, OverflowError) as error:
            raise MCPError(INTERNAL_ERROR, message_of(error)) from error

    async def set_log_level(self, level: str) -> None:
        """Set the log level at every connected server of an older revision; since 2026-07-28 each request has its
        own."""

        async def ask(session: Any) -> None:
            capabilities = session.server_capabilities
            if session.discover_result is None and capabilities is not None and capabilities.logging is not None:
                from mcp_types import EmptyResult, SetLevelRequest

                await session.send_request(SetLevelRequest.model_validate({"params": {"level": level}}), EmptyResult)

        toolbox = self._app.toolbox
        servers = [server for server in self._servers if toolbox.has_listed(server)]
        questions = (toolbox.mcp.ask(server, ask, "log level", _PATIENCE) for server in servers)
        await asyncio.gather(*questions, return_exceptions=True)

    async def list_resources(self, ctx: Any) -> list[Any]:
        """Return the resources of all servers."""
        owned: dict[str, tuple[str, Any]] = {}
        for server, entry in await self._everywhere("list_resources", "resources"):
            owned.setdefault(str(entry.uri), (server, entry))  # where two have the same one, the first is asked
        self._owners = {uri: server for uri, (server, _) in owned.items()}
        return [item for _, item in owned.values()]

    async def list_templates(self, ctx: Any) -> list[Any]:
        """Return the resource templates of all servers."""
        return [item for _, item in await self._everywhere("list_resource_templates", "resource_templates")]

    async def read_resource(self, ctx: Any, params: Any) -> Any:
        """Read a resource from its server."""
        from mcp import MCPError

        uri = str(params.uri)

        async def read(session: Any, **retry: Any) -> Any:
            return await session.read_resource(uri, allow_input_required=True, **retry)

        servers = await self._owners_of(ctx, uri)
        for left, server in enumerate(servers, 1 - len(servers)):
            try:
                return await self._ask_in_rounds(server, read, f"resource {uri!r}", params)
            except MCPError:
                if not left:  # nobody else is there to be asked
                    raise
        raise no_resource(ctx, uri)

    async def _owners_of(self, ctx: Any, uri: str) -> list[str]:
        """Return the servers to ask for a resource, the likeliest first."""
        if uri not in self._owners:
            await self.list_resources(ctx)
        return [self._owners[uri]] if uri in self._owners else await self._with_template(uri)

    async def _owner(self, ctx: Any, uri: str) -> str:
        servers = await self._owners_of(ctx, uri)
        if not servers:
            raise no_resource(ctx, uri)
        return servers[0]

    async def _with_template(self, uri: str) -> list[str]:
        result = await self._everywhere("list_resource_templates", "resource_templates")
        return list(dict.fromkeys(s for s, item in result if uri.startswith(item.uri_template.partition("{")[0])))

    async def _everywhere(self, method: str, field: str) -> list[tuple[str, Any]]:
        """Return what every connected server lists."""

        # A server that does not answer is logged and left out.
        await self.ready()
        toolbox = self._app.toolbox
        servers = [server for server in self._servers if toolbox.has_listed(server)]
        if self._known is None:
            self._known = set(servers)
        lists = await asyncio.gather(*(self._listed(server, method, field) for server in servers))
        return [(server, item) for server, listed in zip(servers, lists, strict=True) for item in listed]

    async def _listed(self, server: str, method: str, field: str) -> list[Any]:
        from mcp_types import METHOD_NOT_FOUND

        result: list[Any] = []
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._pages(server, method, field, result)
        except (ServerRefused, ConnectionError, TimeoutError) as error:
            if not isinstance(error, ServerRefused) or error.code != METHOD_NOT_FOUND:
                why = message_of(error) or f"no answer within {_PATIENCE:g} s"
                log.warning("server %s did not list its %s: %s", server, field, why)
        return result

    async def _pages(self, server: str, method: str, field: str, entries: list[Any]) -> None:
        """Add every page of a server's list to `entries`."""
        from mcp_types import PaginatedRequestParams

        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = PaginatedRequestParams(cursor=cursor)
            page = await self._app.toolbox.mcp.ask(
                server, lambda session, params=params: getattr(session, method)(params=params), method
            )
            entries += getattr(page, field)
            if len(entries) > _MAX_ENTRIES:
                log.warning("%s lists more than %s %s; the others are left out", server, f"{_MAX_ENTRIES:,}", field)
                del entries[_MAX_ENTRIES:]
                return
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _ask(self, server: str, ask: Any, what: str) -> Any:
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR

        try:
            return unmarked(await self._app.toolbox.mcp.ask(server, ask, what))
        except ServerRefused as error:
            raise protocol_error(error) from error
        except (ConnectionError, TimeoutError) as error:
            raise MCPError(INTERNAL_ERROR, message_of(error)) from error

    async def _ask_in_rounds(self, server: str, ask: Any, what: str, params: Any) -> Any:
        """Ask a server what may need input of the client; a client of an older revision is asked for it here."""
        from mcp_types import InputRequiredResult

        client = CLIENT.get()
        retry = {"input_responses": params.input_responses, "request_state": params.request_state}
        for _ in range(_MAX_ROUNDS):
            result = await self._ask(server, lambda session, retry=retry: ask(session, **retry), what)
            if not isinstance(result, InputRequiredResult) or client is None or getattr(client, "is_modern", False):
                break
            responses = {}
            for key, item in (result.input_requests or {}).items():
                data = item.model_dump(by_alias=True, mode="json", exclude_none=True)
                responses[key] = await ask_client(client, data["method"], data.get("params") or {})
            retry = {"input_responses": responses, "request_state": result.request_state}
        return result


async def _at_once() -> None:
    return


class Tools:
    """The tools of an app, for MCP clients."""

    def __init__(self, app: App, *, servers_only: bool = False, prefix: bool = True) -> None:
        self._app, self._servers_only, self._prefix = app, servers_only, prefix

    def version(self) -> Any:
        """Return the version of the toolbox."""
        return self._app.toolbox.version

    async def connect(self) -> None:
        """Connect every server."""

        # `toolbox.failures` has the reason for each server that cannot be reached.
        await self._app.connect()

    async def reach(self, name: str) -> None:
        """Connect the servers that have not listed their tools and whose name a tool of this name begins with."""
        toolbox = self._app.toolbox
        silent = [] if toolbox.mcp is None else [item for item in toolbox.mcp.names if not toolbox.is_listed(item)]
        owners = [server for server in silent if not self._prefix or name.startswith(f"{safe_name(server)}__")]
        await toolbox.connect_for(f"{server}:" for server in owners)
        if owners and not any(map(toolbox.is_listed, owners)):
            raise ConnectionError("\n".join(toolbox.failures.get(server, f"{server}: closed") for server in owners))

    def offered(self) -> Iterator[ExposedTool]:
        """Yield one tool for each tool that can be called."""
        toolbox = self._app.toolbox
        listed = {} if toolbox.mcp is None else {name: _by_name(toolbox.mcp.tools(name)) for name in toolbox.mcp.names}
        flows = self._app.jobs.flow_tools
        for tool in toolbox.list():
            # Clients have the flow itself, and saved plans from another source. Parts of agents are no tools for them.
            if tool.namespace in (OWN, PLANS) or (flows is not None and flows.is_offered(tool.id)):
                continue
            for backend in toolbox.backends(tool.id)[:1]:
                if backend.kind == "mcp":
                    name = backend.tool_id or tool.name
                    definition = listed.get(backend.server_name or "", {}).get(name)
                    if definition is not None:
                        yield self._verbatim(tool, backend.server_name or "", definition)
                elif not self._servers_only:
                    yield self._run(tool, backend)
        for id, why in toolbox.refused.items():
            server, _, name = id.partition(":")
            if server in listed or not self._servers_only:
                yield self._withheld(id, self._name(server, name), why)

    def _name(self, server: str, name: str) -> str:
        return f"{server}__{name}" if self._prefix else name

    def _verbatim(self, tool: Tool, server: str, definition: Definition) -> ExposedTool:
        async def call(args: dict[str, Json], asked: CallContext) -> Any:
            servers = self._app.toolbox.mcp
            if asked.client is not None:
                asked.client.pass_tasks()
            result = await servers.call_tool(
                server,
                definition.name,
                args,
                key=asked.key,
                on_progress=asked.on_progress,
                input_responses=asked.input_responses,
                request_state=asked.request_state,
                passes_input=asked.client is not None and asked.client.is_modern,
            )
            return passed_task(server, unmarked(result))

        schema: Any = definition.input_schema
        output: Any = definition.output_schema
        # Hints of a server that is not trusted are not repeated to the client.
        trusted = self._app.toolbox.trusts_hints(server)
        claimed: Any = definition.annotations
        notes: Any = counted_annotations(claimed, trusted=trusted) or None
        return ExposedTool(
            id=tool.id,
            wanted=self._name(server, definition.name),
            title=definition.title,
            description=definition.description or definition.title or f"{definition.name} of {server}.",
            input_schema=schema,
            output_schema=output,
            annotations=notes,
            call=call,
            verbatim=True,
            is_current=self._unchanged(),
            is_for=lambda client: self._app.toolbox.mcp.offers(server, definition.name, client),
        )

    def _unchanged(self) -> Callable[[], bool]:
        """Return a function that says whether the toolbox is as it is now."""
        toolbox = self._app.toolbox
        version = toolbox.version
        return lambda: toolbox.version == version

    def _withheld(self, id: str, name: str, why: str) -> ExposedTool:
        async def call(args: dict[str, Json], asked: CallContext) -> Any:
            # Its server may have died since, and come back with what was approved.
            await self._app.toolbox.connect_for([id])
            again = next((item for item in self.offered() if item.id == id and not item.withheld), None)
            if again is None:
                raise ToolNotApproved(id, "resolve", self._app.toolbox.refused.get(id, why))
            return await again.call(args, asked)

        # Verbatim: what comes of it is an answer of its server, if anything does.
        return ExposedTool(id=id, wanted=name, description="", input_schema={}, call=call, withheld=True, verbatim=True)

    def _run(self, tool: Tool, backend: ToolBackend) -> ExposedTool:
        notes = {key: value for key, value in (tool.annotations or {}).items() if key.endswith("Hint")}
        return ExposedTool(
            id=tool.id,
            wanted=tool.id.replace(":", "__"),
            title=(tool.annotations or {}).get("title"),
            description=tool.description.strip() or f"{tool.display_name} ({backend.kind} tool).",
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=notes or None,
            call=self._make_call(tool),
            is_current=self._unchanged(),
        )

    def _make_call(self, tool: Tool) -> Call:
        async def call(args: dict[str, Json], asked: CallContext) -> Any:
            progress = Progress(asked.on_progress)
            steps = Steps(progress, counted=False)  # a flow reports each of its nodes: not more than a client can read
            reported = steps.tell if asked.on_progress is not None else None
            try:
                done = await self._app.runner.bind(tool.id).execute(args, asked.key, None, reported)
            except ToolError as error:
                if isinstance(error.__cause__, ToolReported) and hasattr(error.__cause__.result, "content"):
                    return unmarked(error.__cause__.result)
                raise
            finally:
                steps.flush()
                await progress.flush()
            if hasattr(done.mcp_result, "content"):
                structured = shown_value(tool.output_schema, done.structured)
                return unmarked(done.mcp_result).model_copy(update={"structured_content": structured})
            return given(done.structured, tool.output_schema)

        return call


def _by_name(definitions: list[Definition]) -> dict[str, Definition]:
    return {definition.name: definition for definition in definitions}
