"""Find offered tools by what a client wants to do, and learn from how they did.

The tools of the project are ranked by the app's selector, with what it has learnt; flows, which that selector does not
know, by one of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...errors import ExecutionFailed, OutputValidationFailed, StoreError
from ...journal.offloop import off_loop
from ...select.selector import Selector
from ...tools.mcp_request import ServerRefused
from ...values import Json
from .offer import Asked, Offered

if TYPE_CHECKING:
    from ...app import App

log = logging.getLogger("ropewalk.mcp.server")

_THRESHOLD: Final = 0.1  # lower than usual: a model is better off with near misses than with nothing
_MOST_FINDS: Final = 200  # tools found by one client whose requests are remembered until they are called


class Finder:
    """Ranks offered tools for a request, and teaches the app's selector."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._flows: tuple[dict[str, str], Selector] | None = None

    @property
    def connecting(self) -> list[str]:
        """The servers whose tools cannot be found yet."""
        mcp = self._app.toolbox.mcp
        return [] if mcp is None else mcp.connecting

    def best(self, tools: Mapping[str, Offered], query: str, limit: int) -> list[tuple[str, float]]:
        """Return names and scores of the tools that fit a request, the best first."""
        toolbox = self._app.toolbox
        names = {one.id: name for name, one in tools.items() if toolbox.get(one.id) is not None}
        options: dict[str, Any] = {"maxResults": limit, "threshold": _THRESHOLD}
        rows: list[dict[str, Any]] = []
        if names:
            rows += self._app.selector.select(query, allowTools=list(names), **options)["results"]
        flows = {name: one.description for name, one in tools.items() if one.id not in names}
        if flows:
            rows += self._of_flows(flows, tools).select(query, **options)["results"]
        scores = [(names.get(str(row["name"]), str(row["name"])), round(float(row["score"]), 2)) for row in rows]
        return sorted(scores, key=lambda score: -score[1])[:limit]

    def _of_flows(self, flows: dict[str, str], tools: Mapping[str, Offered]) -> Selector:
        if self._flows is None or self._flows[0] != flows:
            cards = [
                {"name": name, "description": said, "inputSchema": tools[name].input_schema}
                for name, said in flows.items()
            ]
            self._flows = flows, Selector(cards)
        return self._flows[1]

    def note(self, asked: Asked, query: str, ids: list[str]) -> None:
        """Remember the request that a client found some tools by."""
        for id in ids:
            asked.found_by.pop(id, None)
            asked.found_by[id] = query
        while len(asked.found_by) > _MOST_FINDS:
            del asked.found_by[next(iter(asked.found_by))]

    async def call(self, tool: Offered, args: dict[str, Json], asked: Asked, request: str | None = None) -> Any:
        """Call a tool. The selector learns how it did for `request`, or for the request that it was found by."""
        request = request or asked.found_by.pop(tool.id, None)
        try:
            result = await tool.call(args, asked)
        except Exception as error:
            if request is not None and _has_failed(error):
                await self._learn(request, tool.id, False)
            raise
        if request is not None:
            await self._learn(request, tool.id, not result.is_error)
        return result

    async def _learn(self, request: str, id: str, success: bool) -> None:
        if self._app.toolbox.get(id) is None:
            return
        try:
            await off_loop(self._app.store, lambda: self._app.selector.learn(request, {id: success}))
        except StoreError:  # the call is done; only what could be learnt from it is lost
            log.exception("the selector learnt nothing from a call of %s", id)


def _has_failed(error: Exception) -> bool:
    """Whether the tool failed, and not the arguments or the permission to call it."""
    if isinstance(error, ServerRefused):
        return error.retryable
    return isinstance(error, (ExecutionFailed, OutputValidationFailed, ConnectionError, TimeoutError))
