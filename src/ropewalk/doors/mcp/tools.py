"""Tools of the toolbox as they are: those of MCP servers verbatim, all others through the runner.

In front of MCP servers this is a gateway: `server__tool`, its description and schemas word for word, its answers,
progress and protocol errors untouched. What the toolbox refuses (a changed tool that is pinned) is not listed, and a
call of it says no more than that: what differs was written by whoever runs that server, and goes to the log only.
No header, token or `_meta` of a client goes to a server behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...errors import ToolError, ToolNotApproved
from ...tools.normalise import ToolReported
from ...tools.progress import Progress
from ...tools.tool import Tool, ToolBackend
from ...tools.trust import counted_annotations
from ...values import Json
from .answers import given, unmarked
from .execution import Steps
from .names import safe_name
from .offer import Asked, Call, Offered
from .schemas import shown_value

if TYPE_CHECKING:
    from ...app import App
    from ...tools.mcp_definition import Definition


class Tools:
    """The toolbox of an app; with `servers_only` nothing but the tools of its MCP servers."""

    def __init__(self, app: App, *, servers_only: bool = False) -> None:
        self._app, self._servers_only = app, servers_only

    def version(self) -> Any:
        """The toolbox's own."""
        return self._app.toolbox.version

    async def connect(self) -> None:
        """Reach every server; why one cannot be reached is in `toolbox.failures`."""
        await self._app.connect()

    async def reach(self, name: str) -> None:
        """Connect the servers that have not listed their tools and whose name a tool of this name begins with."""
        toolbox = self._app.toolbox
        silent = [] if toolbox.mcp is None else [one for one in toolbox.mcp.names if not toolbox.told(one)]
        owners = [server for server in silent if name.startswith(f"{safe_name(server)}__")]
        await toolbox.connect_for(f"{server}:" for server in owners)
        if owners and not any(map(toolbox.told, owners)):
            raise ConnectionError("\n".join(toolbox.failures.get(server, f"{server}: closed") for server in owners))

    def offered(self) -> Iterator[Offered]:
        """One for each tool that can be called."""
        toolbox = self._app.toolbox
        listed = {} if toolbox.mcp is None else {name: _by_name(toolbox.mcp.tools(name)) for name in toolbox.mcp.names}
        for tool in toolbox.list():
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
                yield self._withheld(id, f"{server}__{name}", why)

    def _verbatim(self, tool: Tool, server: str, definition: Definition) -> Offered:
        async def call(args: dict[str, Json], asked: Asked) -> Any:
            servers = self._app.toolbox.mcp
            result = await servers.call_tool(
                server, definition.name, args, key=asked.key, on_progress=asked.on_progress
            )
            return unmarked(result)

        schema: Any = definition.input_schema
        output: Any = definition.output_schema
        # A claim that does not count here is not passed on as ours.
        trusted = self._app.toolbox.trusts_hints(server)
        claimed: Any = definition.annotations
        notes: Any = counted_annotations(claimed, trusted=trusted) or None
        return Offered(
            id=tool.id,
            wanted=f"{server}__{definition.name}",
            title=definition.title,
            description=definition.description or definition.title or f"{definition.name} of {server}.",
            input_schema=schema,
            output_schema=output,
            annotations=notes,
            call=call,
            verbatim=True,
        )

    def _withheld(self, id: str, name: str, why: str) -> Offered:
        async def call(args: dict[str, Json], asked: Asked) -> Any:
            # Its server may have died since, and come back with what was approved.
            await self._app.toolbox.connect_for([id])
            again = next((one for one in self.offered() if one.id == id and not one.withheld), None)
            if again is None:
                raise ToolNotApproved(id, "resolve", self._app.toolbox.refused.get(id, why))
            return await again.call(args, asked)

        # Verbatim: what comes of it is an answer of its server, if anything does.
        return Offered(id=id, wanted=name, description="", input_schema={}, call=call, withheld=True, verbatim=True)

    def _run(self, tool: Tool, backend: ToolBackend) -> Offered:
        notes = {key: value for key, value in (tool.annotations or {}).items() if key.endswith("Hint")}
        return Offered(
            id=tool.id,
            wanted=tool.id.replace(":", "__"),
            title=(tool.annotations or {}).get("title"),
            description=tool.description.strip() or f"{tool.display_name} ({backend.kind} tool).",
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=notes or None,
            call=self._called(tool),
        )

    def _called(self, tool: Tool) -> Call:
        async def call(args: dict[str, Json], asked: Asked) -> Any:
            progress = Progress(asked.on_progress)
            steps = Steps(progress, counted=False)  # a flow reports each of its nodes: not more than a client can read
            told = steps.tell if asked.on_progress is not None else None
            try:
                done = await self._app.runner.bind(tool.id).execute(args, asked.key, None, told)
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
