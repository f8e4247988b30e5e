"""Subscriptions of clients to resources of the servers behind a gateway.

One subscription at the server serves all clients of a URI, in whatever revision it and they speak. It is made again
when the server comes back, and ends with the last client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from ...tools.mcp.requests import ServerRefused

log = logging.getLogger("ropewalk.mcp.server")

_FOREVER: Final = 1e9  # seconds
_PAUSE: Final = 5.0  # seconds before a lost subscription is made again
_COURTESY: Final = 2.0  # seconds for a server to take the end of a subscription
MAX_SUBSCRIPTIONS: Final = 1000

AskServer: TypeAlias = Callable[[str, Callable[[Any], Awaitable[Any]], str, float], Awaitable[Any]]
"""Asks the session of a server: its name, the question, what it is about, the timeout in seconds."""


class ResourceSubscriptions:
    """The subscribed resources, each with its subscribers."""

    def __init__(self, ask: AskServer) -> None:
        self._ask = ask
        self._subscribers: dict[str, dict[int, Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def subscribers(self, uri: str) -> list[Any]:
        """Return the subscribers of a resource."""
        return list(self._subscribers.get(uri, {}).values())

    async def add(self, server: str, uri: str, subscriber: Any) -> None:
        """Subscribe to a resource, and wait until the server has confirmed it."""
        if uri not in self._tasks and len(self._tasks) >= MAX_SUBSCRIPTIONS:
            raise OverflowError(f"more than {MAX_SUBSCRIPTIONS:,} resources are subscribed")
        self._subscribers.setdefault(uri, {})[id(subscriber)] = subscriber
        if uri in self._tasks:
            return
        confirmed = asyncio.Event()
        task = self._tasks[uri] = asyncio.create_task(self._keep(server, uri, confirmed))
        waiting = asyncio.ensure_future(confirmed.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            self.remove(uri, subscriber)
            task.result()

    def remove(self, uri: str, subscriber: Any) -> None:
        """End the subscription of one subscriber, if there is one."""
        subscribers = self._subscribers.get(uri, {})
        subscribers.pop(id(subscriber), None)
        if not subscribers:
            self._subscribers.pop(uri, None)
            task = self._tasks.pop(uri, None)
            if task is not None:
                task.cancel()

    def remove_everywhere(self, subscriber: Any) -> None:
        """End all subscriptions of one subscriber."""
        for uri in list(self._subscribers):
            self.remove(uri, subscriber)

    async def close(self) -> None:
        """End all subscriptions."""
        tasks, self._tasks, self._subscribers = list(self._tasks.values()), {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, server: str, uri: str, confirmed: asyncio.Event) -> None:
        while True:
            try:
                await self._ask(server, lambda session: _hold(session, uri, confirmed), f"resource {uri!r}", _FOREVER)
            except (ServerRefused, ConnectionError, TimeoutError) as error:
                if not confirmed.is_set():
                    raise
                log.info("subscribing again to %s of %s: %s", uri, server, error)
            await asyncio.sleep(_PAUSE)


async def _hold(session: Any, uri: str, confirmed: asyncio.Event) -> None:
    """Subscribe, and keep the subscription until this is cancelled or the server ends it."""
    import anyio
    from mcp import MCPError
    from mcp.client.subscriptions import SubscriptionLost, listen
    from mcp_types import EmptyResult, SubscribeRequest, UnsubscribeRequest

    request = {"params": {"uri": uri}}
    if session.discover_result is None:
        # The session's methods for this warn that the current revision has no such request.
        await session.send_request(SubscribeRequest.model_validate(request), EmptyResult)
        confirmed.set()
        try:
            await asyncio.Event().wait()
        finally:
            with anyio.move_on_after(_COURTESY, shield=True), contextlib.suppress(MCPError):
                await session.send_request(UnsubscribeRequest.model_validate(request), EmptyResult)
    else:
        with contextlib.suppress(SubscriptionLost):
            async with listen(session, resource_subscriptions=[uri]) as events:
                confirmed.set()
                async for _ in events:
                    pass  # the dispatcher has handed it on
