"""Where calls go: the toolbox's Runner here, an executor of the user's, or a queue that workers drain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..values import Json


class Bound(Protocol):
    """A tool resolved once. `plain` is the fast path of an async local handler: the whole pipeline
    but the timeout, which the engine keeps then."""

    @property
    def plain(self) -> Callable[[dict[str, Json]], Awaitable[Json]] | None: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def call(self) -> Callable[..., Awaitable[Json]]:
        """`await call(args, key)`: resolve, validate, dispatch with timeout, normalise, validate."""
        ...


class Caller(Protocol):
    """Resolves tools. `version` changes when a tool bound earlier may be another one now."""

    @property
    def version(self) -> int: ...

    def bind(self, tool_id: str, /) -> Any: ...
