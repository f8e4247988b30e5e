"""The prompts and resources of a server: its own, and those of the servers behind a gateway.

Own ones come first. A request for anything else goes to the gateway, if there is one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...errors import RopewalkError
from ...tools.mcp.call_client import CLIENT
from .prompts import MAX_COMPLETIONS
from .results import no_resource
from .subscriptions import MAX_SUBSCRIPTIONS

if TYPE_CHECKING:
    from .gateway import GatewayPassthrough
    from .prompts import FlowPrompts
    from .resources import ProjectResources

log = logging.getLogger("ropewalk.mcp.server")


class Primitives:
    """Answers `prompts/*`, `resources/*` and `completion/complete`."""

    def __init__(
        self,
        prompts: FlowPrompts,
        resources: ProjectResources | None = None,
        gateway: GatewayPassthrough | None = None,
    ) -> None:
        self._prompts, self._resources, self.gateway = prompts, resources, gateway
        self._subscribers: dict[str, dict[int, Any]] = {}  # of own resources, by URI
        self._listed: list[Any] | None = None  # the own prompts that clients have been given
        if gateway is not None:
            gateway.taken = lambda: prompts.prompts

    @property
    def has_resources(self) -> bool:
        """True if there may be resources, own ones or others."""
        return self._resources is not None or self.gateway is not None

    def handlers(self) -> dict[str, Any]:
        """For the constructor of the SDK's server."""
        handlers = {
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": self._get_prompt,
            "on_completion": self._complete,
        }
        if self.has_resources:
            handlers |= {
                "on_list_resources": self._list_resources,
                "on_list_resource_templates": self._list_templates,
                "on_read_resource": self._read_resource,
                "on_subscribe_resource": self._subscribe,
                "on_unsubscribe_resource": self._unsubscribe,
            }
        return handlers

    # --- prompts

    async def _list_prompts(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ListPromptsResult

        own = self._listed = self._prompts.described()
        others = [] if self.gateway is None else await self.gateway.list_prompts(ctx)
        return ListPromptsResult(prompts=[*own, *others])

    async def _get_prompt(self, ctx: Any, params: Any) -> Any:
        if params.name in self._prompts.prompts:
            client: Any = CLIENT.get()
            return await self._prompts.get(params.name, client, params)
        if self.gateway is not None:
            return await self.gateway.get_prompt(ctx, params)
        raise _unknown_prompt(params.name)

    async def _complete(self, ctx: Any, params: Any) -> Any:
        from mcp_types import CompleteResult, Completion

        ref, argument = params.ref, params.argument
        known = {} if params.context is None else params.context.arguments or {}
        if ref.type == "ref/prompt" and ref.name in self._prompts.prompts:
            values = self._prompts.complete(ref.name, argument.name, argument.value)
        elif ref.type == "ref/resource" and self._resources is not None and self._resources.owns(str(ref.uri)):
            values = await self._resources.complete(str(ref.uri), argument.name, argument.value, known)
        elif self.gateway is not None:
            return await self.gateway.complete(ctx, params)
        else:
            raise _unknown_prompt(ref.name) if ref.type == "ref/prompt" else no_resource(ctx, str(ref.uri))
        shown = values[:MAX_COMPLETIONS]
        return CompleteResult(completion=Completion(values=shown, has_more=len(values) > len(shown)))

    # --- resources

    async def _list_resources(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ListResourcesResult

        cursor = None if params is None else params.cursor
        resources: list[Any] = []
        following, hint = None, {}
        if self._resources is not None:
            resources, following = await self._resources.page(cursor)
            hint = self._resources.hint()
        if self.gateway is not None and cursor is None:
            resources += await self.gateway.list_resources(ctx)
            hint = {}
        return ListResourcesResult(resources=resources, next_cursor=following, **hint)

    async def _list_templates(self, ctx: Any, params: Any) -> Any:
        from mcp_types import ListResourceTemplatesResult

        templates = [] if self._resources is None else self._resources.templates()
        if self.gateway is not None:
            templates += await self.gateway.list_templates(ctx)
        return ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(self, ctx: Any, params: Any) -> Any:
        uri = str(params.uri)
        if self._resources is not None and self._resources.owns(uri):
            result = await self._resources.read(uri)
            if result is None:
                raise no_resource(ctx, uri)
            return result
        if self.gateway is not None:
            return await self.gateway.read_resource(ctx, params)
        raise no_resource(ctx, uri)

    # --- subscriptions and changes

    async def _subscribe(self, ctx: Any, params: Any) -> Any:
        from mcp_types import EmptyResult

        uri, connection = str(params.uri), ctx.session._connection
        await self.subscribe(ctx, uri, connection)
        connection.exit_stack.callback(self._remove, uri, connection)
        return EmptyResult()

    async def _unsubscribe(self, ctx: Any, params: Any) -> Any:
        from mcp_types import EmptyResult

        self._remove(str(params.uri), ctx.session._connection)
        return EmptyResult()

    async def subscribe(self, ctx: Any, uri: str, subscriber: Any) -> None:
        """Subscribe to a resource."""
        from mcp import MCPError
        from mcp_types import INTERNAL_ERROR

        if self._resources is None or not self._resources.owns(uri):
            if self.gateway is None:
                raise no_resource(ctx, uri)
            await self.gateway.subscribe(ctx, uri, subscriber)
            return
        if uri not in self._subscribers:
            if len(self._subscribers) >= MAX_SUBSCRIPTIONS:
                raise MCPError(INTERNAL_ERROR, f"more than {MAX_SUBSCRIPTIONS:,} resources are subscribed")
            if not await self._resources.watch(uri):
                raise no_resource(ctx, uri)
        self._subscribers.setdefault(uri, {})[id(subscriber)] = subscriber

    def subscribers(self, uri: str) -> list[Any]:
        """Return the subscribers of a resource."""
        others = [] if self.gateway is None else self.gateway.subscriptions.subscribers(uri)
        return [*self._subscribers.get(uri, {}).values(), *others]

    def remove_everywhere(self, subscriber: Any) -> None:
        """End all subscriptions of one subscriber."""
        for uri in list(self._subscribers):
            self._remove(uri, subscriber)
        if self.gateway is not None:
            self.gateway.subscriptions.remove_everywhere(subscriber)

    def _remove(self, uri: str, subscriber: Any) -> None:
        subscribers = self._subscribers.get(uri, {})
        subscribers.pop(id(subscriber), None)
        if not subscribers:
            self._subscribers.pop(uri, None)
        if self.gateway is not None:
            self.gateway.subscriptions.remove(uri, subscriber)

    async def changes(self) -> dict[Any, str]:
        """Return what has changed since the last look: events, each with the method of the older revisions."""
        from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated

        changes: dict[Any, str] = {}
        is_new_server = self.gateway is not None and self.gateway.has_changed()
        try:
            if is_new_server or (self._listed is not None and self._listed != self._prompts.described()):
                changes[PromptsListChanged()] = "notifications/prompts/list_changed"
                self._listed = self._prompts.described()
            if self._resources is not None:
                if self._resources.has_changed():
                    is_new_server = True
                for uri in await self._resources.changed(self._subscribers.keys()):
                    changes[ResourceUpdated(uri=uri)] = "notifications/resources/updated"
        except RopewalkError as error:
            log.warning("prompts and resources could not be looked at; the next look tries again: %s", error)
        if is_new_server:
            changes[ResourcesListChanged()] = "notifications/resources/list_changed"
        return changes

    async def close(self) -> None:
        """End all subscriptions."""
        self._subscribers = {}
        if self.gateway is not None:
            await self.gateway.subscriptions.close()


def _unknown_prompt(name: str) -> Exception:
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    return MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
