"""Prompts and resources of the servers behind a gateway: prompts as `server__prompt`, resources under their own URIs.

A resource is read from the server that lists it, else from those that have a template which begins like its URI. Of a
project with pins only servers that stand there are asked. Refused: subscriptions, completions, what a server wants to
ask the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ...tools.mcp_request import ServerRefused
from .answers import protocol_error, unmarked
from .names import unique_names

if TYPE_CHECKING:
    from ...app import App

log = logging.getLogger("ropewalk.mcp.server")

_MOST_PAGES: Final = 100
_PATIENCE: Final = 5.0  # seconds for one server's prompts or resources: it must not hold up those of the others
_NOT_FOUND: Final = -32002  # before 2026-07-28; since then it is one of the parameters that is wrong


class Passed:
    """What the handlers of the SDK's server answer from the servers behind."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.ready: Callable[[], Awaitable[None]] = _at_once
        """Waits at the start until servers have answered, for a short while."""
        self._known: set[str] | None = None  # the servers whose prompts and resources clients have been given
        self._prompts: dict[str, tuple[str, str]] = {}  # server and name, by the name that clients see
        self._owners: dict[str, str] = {}  # of resources, by URI

    def handlers(self) -> dict[str, Any]:
        """For the constructor of the SDK's server."""
        return {
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": self._get_prompt,
            "on_list_resources": self._list_resources,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": self._read_resource,
        }

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
        return [name for name in names if toolbox.pins is None or toolbox.pins.pinned(name)]

    async def _list_prompts(self, ctx: Any, params: Any) -> Any:
        import mcp_types as types

        found = await self._everywhere("list_prompts", "prompts")
        wanted = {f"{server}:{one.name}": (server, one) for server, one in found}
        names = unique_names((id, f"{server}__{one.name}") for id, (server, one) in wanted.items())
        self._prompts = {names[id]: (server, one.name) for id, (server, one) in wanted.items()}
        shown = [one.model_copy(update={"name": names[id]}) for id, (_, one) in wanted.items()]
        return types.ListPromptsResult(prompts=shown)

    async def _get_prompt(self, ctx: Any, params: Any) -> Any:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        if params.name not in self._prompts:
            await self._list_prompts(ctx, None)
        if params.name not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        server, name = self._prompts[params.name]
        return await self._ask(server, lambda session: session.get_prompt(name, params.arguments), f"prompt {name!r}")

    async def _list_resources(self, ctx: Any, params: Any) -> Any:
        import mcp_types as types

        owned: dict[str, tuple[str, Any]] = {}
        for server, one in await self._everywhere("list_resources", "resources"):
            owned.setdefault(str(one.uri), (server, one))  # where two have the same one, the first is asked
        self._owners = {uri: server for uri, (server, _) in owned.items()}
        return types.ListResourcesResult(resources=[one for _, one in owned.values()])

    async def _list_templates(self, ctx: Any, params: Any) -> Any:
        import mcp_types as types

        found = await self._everywhere("list_resource_templates", "resource_templates")
        return types.ListResourceTemplatesResult(resource_templates=[one for _, one in found])

    async def _read_resource(self, ctx: Any, params: Any) -> Any:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        uri = str(params.uri)
        if uri not in self._owners:
            await self._list_resources(ctx, None)
        servers = [self._owners[uri]] if uri in self._owners else await self._with_template(uri)
        for left, server in enumerate(servers, 1 - len(servers)):
            try:
                return await self._ask(server, lambda session: session.read_resource(uri), f"resource {uri!r}")
            except MCPError:
                if not left:  # nobody else is there to be asked
                    raise
        code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND
        raise MCPError(code, f"Resource not found: {uri}", {"uri": uri})

    async def _with_template(self, uri: str) -> list[str]:
        found = await self._everywhere("list_resource_templates", "resource_templates")
        return list(dict.fromkeys(s for s, one in found if uri.startswith(one.uri_template.partition("{")[0])))

    async def _everywhere(self, method: str, field: str) -> list[tuple[str, Any]]:
        """What every server lists that has connected; one that gives no answer has nothing, and the log says why."""
        await self.ready()
        toolbox = self._app.toolbox
        servers = [server for server in self._servers if toolbox.has_listed(server)]
        if self._known is None:
            self._known = set(servers)
        lists = await asyncio.gather(*(self._listed(server, method, field) for server in servers))
        return [(server, one) for server, listed in zip(servers, lists, strict=True) for one in listed]

    async def _listed(self, server: str, method: str, field: str) -> list[Any]:
        from mcp_types import METHOD_NOT_FOUND

        found: list[Any] = []
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._pages(server, method, field, found)
        except (ServerRefused, ConnectionError, TimeoutError) as error:
            if not isinstance(error, ServerRefused) or error.code != METHOD_NOT_FOUND:
                why = str(error) or f"no answer within {_PATIENCE:g} s"
                log.warning("%s gave no %s: %s", server, field, why)
        return found

    async def _pages(self, server: str, method: str, field: str, found: list[Any]) -> None:
        """Add every page of a server's list to `found`."""
        from mcp_types import PaginatedRequestParams

        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = PaginatedRequestParams(cursor=cursor)
            page = await self._app.toolbox.mcp.ask(
                server, lambda session, params=params: getattr(session, method)(params=params), method
            )
            found += getattr(page, field)
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
            raise MCPError(INTERNAL_ERROR, str(error)) from error


async def _at_once() -> None:
    return
