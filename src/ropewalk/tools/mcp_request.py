"""One call on its way through a server's owner task: made in the caller's task, served in the
owner's, tied together by one wake-up event. Cancelling it cancels that request only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..values import Json
from .raw import UnusableResult
from .result import ProgressEvent

if TYPE_CHECKING:
    import anyio
    from mcp import ClientSession
    from mcp_types import CallToolResult

_MOST_PROGRESS: Final = 1024
_FOR_GOOD: Final = (-32601, -32602)  # JSON-RPC: no such method; the parameters, the tool's name among them, are wrong


class Undelivered(ConnectionError):
    """The server cannot have executed the request: it is safe to send it again."""


class NoAnswer(TimeoutError):
    """The server did not answer, or was not connected, within `seconds`."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        self.seconds = seconds
        super().__init__(message)


class ServerRefused(Exception):
    """The server answered with a protocol error (`code`, `data` as it sent them), or with
    something that is no tool result (`code` None). `retryable` is false when the same request
    would be refused again."""

    def __init__(self, message: str, *, code: int | None = None, data: Json = None) -> None:
        self.code, self.data = code, data
        self.retryable = code not in _FOR_GOOD
        super().__init__(message)


class BrokenResult(ServerRefused, UnusableResult):
    """The server ran a tool, but its answer is no tool result; `result` is what it sent."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


Ask: TypeAlias = Callable[["ClientSession"], Awaitable[Any]]


class Request:
    """A call: `tool` with `args`; `key` names it for a server that knows repeats. Or, without a tool, whatever else
    `ask` asks of the SDK's session."""

    __slots__ = (
        "_outcome", "_progress", "_scope", "_wake", "args", "ask", "cancelled", "context", "key", "sent", "tool",
        "watched",
    )  # fmt: skip

    def __init__(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        key: str | None = None,
        watched: bool = False,
        ask: Ask | None = None,
    ) -> None:
        self.tool, self.args, self.key, self.watched, self.ask = tool, dict(args), key, watched, ask
        self.sent = self.cancelled = False
        self.context = copy_context()  # the caller's: its trace goes on with the request
        self._wake = asyncio.Event()
        # A flood of progress drops the oldest: it may not fill our memory.
        self._progress: deque[ProgressEvent] = deque(maxlen=_MOST_PROGRESS)
        self._outcome: CallToolResult | Exception | None = None
        self._scope: anyio.CancelScope | None = None

    # --- the caller's side

    async def events(self, deadline: float) -> AsyncGenerator[ProgressEvent | CallToolResult, None]:
        """Progress in order, then the result. Raises the failure, or TimeoutError (without text)
        at `deadline` on the loop's clock; leaving early cancels the request."""
        try:
            while True:
                if self._outcome is None and not self._progress:
                    async with asyncio.timeout_at(deadline):
                        await self._wake.wait()
                self._wake.clear()
                while self._progress:
                    yield self._progress.popleft()
                if isinstance(self._outcome, Exception):
                    raise self._outcome
                if self._outcome is not None:
                    yield self._outcome
                    return
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Tell the server to stop, unless it has answered; never waits."""
        if self._outcome is None:
            self.cancelled = True
            if self._scope is not None:
                self._scope.cancel()

    # --- the owner's side

    def begin(self, scope: anyio.CancelScope) -> None:
        """Serving starts inside `scope`; `sent` is set when the request goes out."""
        self._scope = scope

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a progress notification; never waits for the caller."""
        self._progress.append(ProgressEvent(progress, total, message))
        self._wake.set()

    def finish(self, outcome: CallToolResult | Exception) -> None:
        """Hand the outcome over; the first one counts."""
        if self._outcome is None:
            self._outcome = outcome
            self._wake.set()
