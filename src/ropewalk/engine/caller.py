"""Where calls go: the toolbox's Runner here, an executor of the user's, or a queue that workers drain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..values import Json


class Direct(Protocol):
    """The pipeline of an async local handler in parts: arguments that do not `fits` are for `check`
    to refuse; `raw = await handler(**args)`; the result is `take(raw)`, or `settle(raw)` where that is
    NOT_JSON; what was raised becomes `failed(error)`. The engine keeps the timeout."""

    @property
    def handler(self) -> Callable[..., Awaitable[Any]]: ...

    @property
    def fits(self) -> Callable[[dict[str, Json]], bool] | None: ...

    @property
    def check(self) -> Callable[[dict[str, Json]], None] | None: ...

    @property
    def take(self) -> Callable[[Any], Any]: ...

    @property
    def settle(self) -> Callable[[Any], Json]: ...

    @property
    def failed(self) -> Callable[[Exception], Exception]: ...


class Bound(Protocol):
    """A tool resolved once."""

    @property
    def direct(self) -> Direct | None: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def call(self) -> Callable[..., Awaitable[Json]]:
        """`await call(args, key)`: resolve, validate, dispatch with timeout, normalise, validate."""
        ...


class Caller(Protocol):
    """Resolves tools. `version` changes when a tool bound earlier may be another one now.

    One that keeps something per run (a child process, say) may have `async ended(run_id)`: it is awaited when a run
    has ended on this process, in whatever way, and raises nothing."""

    @property
    def version(self) -> int: ...

    def bind(self, tool_id: str, /) -> Any: ...
