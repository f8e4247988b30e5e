"""Where calls go: the toolbox's Runner here, an executor of the user's, or a queue that workers drain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..values import Json


class Direct(Protocol):
    """The pipeline of an async local handler in parts: arguments that do not `fits` are for `check`
    to refuse, or to mend; `raw = await handler(**args)`; the result is `take(raw)`, or `settle(raw)` where that is
    NOT_JSON; what was raised becomes `failed(error)`. The engine keeps the timeout."""

    @property
    def handler(self) -> Callable[..., Awaitable[Any]]: ...

    @property
    def fits(self) -> Callable[[dict[str, Json]], bool] | None: ...

    @property
    def check(self) -> Callable[[dict[str, Json]], dict[str, Json]] | None: ...

    @property
    def take(self) -> Callable[[Any], Any]: ...

    @property
    def settle(self) -> Callable[[Any], Json]: ...

    @property
    def failed(self) -> Callable[[BaseException], Exception]: ...


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


class Lease(Protocol):
    """What lets a process act: until when it is sure that nobody has been given its runs."""

    @property
    def until(self) -> float:
        """By the clock `boottime`; a call that begins before it is the run's own."""
        ...

    async def renewed(self, run_id: str, /) -> None:
        """Returns when it is sure again; raises Fenced when the run is somebody else's by now."""
        ...


class Caller(Protocol):
    """Resolves tools. `version` changes when a tool bound earlier may be another one now.

    One that keeps something per run (a child process, say) may have `began(run_id)` and `async ended(run_id)`: they
    are called when a run begins to execute on this process, and when it has ended here in whatever way. They raise
    nothing. A run's idempotency keys begin with its id and a slash; an id may have slashes in it, too."""

    @property
    def version(self) -> int: ...

    def bind(self, tool_id: str, /) -> Any: ...
