"""A whole executor given by a user, used where a Runner would be: `(tool_name, params) -> result`.

It has no schemas and refuses no name; results are checked to be JSON. A plain function runs in a
thread, as a local handler does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import ToolNotFound
from .bound import DEFAULT_TIMEOUT, Bound, Rules, bind_route
from .local import maybe_await, threads
from .route import Args, OnProgress, Route
from .signature import is_async


class ExecutorCaller:
    """Calls every tool through one function; `bind` and `version` are those of a Runner."""

    version = 0

    def __init__(self, executor: Callable[[str, Args], Any], *, timeout: float = DEFAULT_TIMEOUT) -> None:
        if not callable(executor):
            raise TypeError(f"an executor is a function of (tool_name, params), not {type(executor).__qualname__}")
        self._executor = executor
        self._rules = Rules(timeout=timeout)
        self._bound: dict[str, Bound] = {}

    def bind(self, tool_id: str) -> Bound:
        """The executor bound to one tool name; every non-empty name is known to it."""
        bound = self._bound.get(tool_id)
        if bound is None:
            if not tool_id:
                raise ToolNotFound(tool_id, "resolve", "empty tool name")
            bound = bind_route(tool_id, None, None, _route(self._executor, tool_id), self._rules)
            self._bound[tool_id] = bound
        return bound


def _route(executor: Callable[[str, Args], Any], tool_id: str) -> Route:
    if is_async(executor):

        async def call(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await executor(tool_id, args)

        return Route(send=call, direct=lambda **args: executor(tool_id, args))

    async def in_thread(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await maybe_await(await threads.run(partial(executor, tool_id, args)))

    return Route(send=in_thread)
