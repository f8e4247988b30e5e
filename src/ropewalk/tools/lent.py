"""Tools of one toolbox in another: the one that has them runs them.

A definition alone does not say who runs it. `lent` gives it a handler that does: every call goes through the pipeline
of the toolbox it comes from, with its connections, handlers and pins, as they are at that moment.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from ..errors import InvalidTool
from ..values import Json
from .result import RunResult
from .route import Args, Flows, OnProgress, Route, Routed
from .tool import Tool

if TYPE_CHECKING:
    from .toolbox import Toolbox


class Lender(Routed):
    """Calls one tool of a toolbox."""

    def __init__(self, owner: Toolbox, tool_id: str) -> None:
        self._owner, self._id = owner, tool_id

    async def __call__(self, **args: Json) -> Json:
        """A call of it outside of a Runner."""
        from .runner import Runner

        return (await Runner(self._owner).run(self._id, args)).structured

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lender) and (self._owner, self._id) == (other._owner, other._id)

    def __hash__(self) -> int:
        return hash((id(self._owner), self._id))

    def route(self, flows: Flows, /) -> Route:
        from .runner import Runner

        owner, tool_id, runner = self._owner, self._id, Runner(self._owner, flows=flows)

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> RunResult:
            if owner.lacks(tool_id):
                await owner.connect_for([tool_id])  # its server died, and may be there again
            return await runner.bind(tool_id).execute(args, key, timeout, on_progress)

        bound = runner.bind(tool_id)
        seconds = bound.timeout if bound.per_attempt else None  # a flow's own; else the caller's stands
        return Route(
            send=send,
            normalise=_whole,
            keeps_time=True,
            strict=True,
            timeout=seconds,
            per_attempt=bound.per_attempt,
            repeatable=bound.repeatable,
            waits=bound.waits,
        )


def _whole(result: RunResult) -> tuple[Json, Any]:
    return result.structured, result.mcp_result


def lent(owner: Toolbox, tool: Tool) -> Tool:
    """The tool with a handler that calls it where it is; InvalidTool where nothing there runs it."""
    if not owner.backends(tool.id):
        raise InvalidTool(
            f"tool {tool.id!r}: nothing runs it: it was registered without a handler and without a backend"
        )
    found = copy(tool)
    for field, value in (("handler", Lender(owner, tool.id)), ("backend", None)):
        object.__setattr__(found, field, value)
    return found
