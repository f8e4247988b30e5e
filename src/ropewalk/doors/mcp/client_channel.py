"""Requests to the client of a call, and calls that wait for its answers.

In the older revisions a request goes to the client while the call waits (`ClientChannel.ask`). Since 2026-07-28 a
server asks nothing: the call ends with an input-required result, and the client calls again with its answers.
`SuspendedCalls` keeps the call in progress in between. Refused: a call again with another tool or other arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ...fast_dataclass import dataclass
from ...tools.mcp.call_client import CAPABILITY_OF
from ...tools.tool import ProgressEvent
from ...values import Json, digest

if TYPE_CHECKING:
    from mcp_types import InputRequiredResult

log = logging.getLogger("ropewalk.mcp.server")

TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension for tasks."""
_STATE: Final = "ropewalk-call-"
"""Prefix of the request state of a call that waits here."""
_MAX_CALLS: Final = 1000
_MAX_WAIT: Final = 600.0  # seconds for the answers of a client; then the call is cancelled
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least to the most severe."""
LEVEL: Final = "ropewalk log level"
"""Key in the state of a connection: the log level that its client has set."""


class ClientChannel:
    """The client of one request."""

    # It is a `tools.mcp.call_client.CallClient`.
    # `is_modern`: True if the client speaks 2026-07-28.
    # `capabilities`: What the client declares, as JSON.
    # `log_level`: The least severe log level that it wants, or None for none.
    # `takes_tasks`: True if it declares the extension for tasks.

    def __init__(self, ctx: Any, id: object) -> None:
        from mcp_types import LOG_LEVEL_META_KEY
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self.id = id
        self._session = ctx.session
        self._questions: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._count = 0
        self._sending: set[asyncio.Future[None]] = set()
        self.was_asked = asyncio.Event()
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self.is_modern:
            self.log_level = (ctx.meta or {}).get(LOG_LEVEL_META_KEY)
        else:
            self.log_level = ctx.session._connection.state.get(LEVEL, "info")
        declared = ctx.session.client_capabilities
        known = {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)
        self.takes_tasks = self.is_modern and TASKS in (known.pop("extensions", None) or {})
        self.capabilities: Mapping[str, Json] = known

    def pass_tasks(self) -> None:
        """Let the server behind, whose result the client gets as it is, answer with a task."""
        if self.takes_tasks:
            self.capabilities = {**self.capabilities, "extensions": {TASKS: {}}}

    @property
    def can_be_asked(self) -> bool:
        """True if there is anything that this client can be asked."""
        return any(capability in self.capabilities for capability in CAPABILITY_OF.values())

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client, and return its answer."""
        if not self.is_modern:
            # On the stream of this request: a client knows by it which call asks.
            return dict(await self._session._request_outbound.send_raw_request(method, params, None))
        self._count += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        key = f"input-{self._count}"
        self._questions[key] = {"method": method, "params": params}, answer
        self.was_asked.set()
        try:
            return await answer
        finally:
            self._questions.pop(key, None)

    async def progress(self, event: ProgressEvent) -> None:
        """Report progress of the call to the client, on the request that waits for its result."""
        await self._session.report_progress(event.progress, event.total, event.message)

    def log(self, params: dict[str, Any]) -> None:
        """Send the client a log message, if it wants messages of this level."""
        level = params.get("level")
        if self.log_level not in LEVELS or level not in LEVELS or LEVELS.index(level) < LEVELS.index(self.log_level):
            return
        sending = asyncio.ensure_future(self._session._request_outbound.notify("notifications/message", params))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def flush(self) -> None:
        """Wait until the log messages of the request are sent: its result must be its last message."""
        if self._sending:
            await asyncio.gather(*self._sending, return_exceptions=True)

    # --- the questions of a call that waits

    def move_to(self, other: ClientChannel) -> None:
        """Continue with the request in which the client calls again: progress and log messages go there."""
        self._session = other._session
        self.capabilities, self.log_level = other.capabilities, other.log_level

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Give the answers of the client to what asked."""

        # Answers that nobody asked for are ignored.
        for key, response in responses.items():
            question = self._questions.pop(key, None)
            if question is not None and not question[1].done():
                dump = getattr(response, "model_dump", None)
                answer = dump(by_alias=True, mode="json", exclude_none=True) if dump is not None else response
                question[1].set_result(answer)
        if not self._questions:
            self.was_asked.clear()

    def input_required(self, state: str) -> InputRequiredResult:
        """Return the result that asks the client the open questions."""
        from mcp_types import InputRequiredResult

        requests = {key: request for key, (request, _) in self._questions.items()}
        return InputRequiredResult.model_validate({"inputRequests": requests, "requestState": state})


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """A call that waits for answers of its client."""

    task: asyncio.Future[Any]
    channel: ClientChannel
    request: str
    timer: asyncio.TimerHandle | None = None


class SuspendedCalls:
    """Calls of 2026-07-28 clients that wait for the next request of their client."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    async def run(self, channel: ClientChannel, params: Any, start: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, or continue the one that the request state names, until it ends or asks the client."""
        call = self._resumed(channel, params)
        if call is None:
            call = _Call(task=asyncio.ensure_future(start()), channel=channel, request=_request_of(params))
        asked = asyncio.ensure_future(call.channel.was_asked.wait())
        try:
            await asyncio.wait([call.task, asked], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.task.cancel()
            await asyncio.wait([call.task])
            raise
        finally:
            asked.cancel()
        await call.channel.flush()  # what it logged goes out before the result of this request
        if call.task.done():
            return call.task.result()
        state = _STATE + secrets.token_urlsafe(24)
        self._keep(state, call)
        return call.channel.input_required(state)

    async def close(self) -> None:
        """Cancel the calls that wait."""
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            self._cancel(call)
        if calls:
            await asyncio.wait([call.task for call in calls])

    def _resumed(self, channel: ClientChannel, params: Any) -> _Call | None:
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        state = params.request_state
        if not isinstance(state, str) or not state.startswith(_STATE):
            return None
        call = self._calls.get(state)
        if call is None or call.request != _request_of(params):
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState")
        del self._calls[state]
        if call.timer is not None:
            call.timer.cancel()
        call.channel.move_to(channel)
        call.channel.answer(params.input_responses or {})
        return call

    def _keep(self, state: str, call: _Call) -> None:
        if len(self._calls) >= _MAX_CALLS:
            oldest = next(iter(self._calls))
            log.warning("more than %s calls wait for answers of clients; the oldest is cancelled", f"{_MAX_CALLS:,}")
            self._expire(oldest)
        self._calls[state] = call
        call.timer = asyncio.get_running_loop().call_later(_MAX_WAIT, self._expire, state)

    def _expire(self, state: str) -> None:
        call = self._calls.pop(state, None)
        if call is not None:
            self._cancel(call)

    def _cancel(self, call: _Call) -> None:
        if call.timer is not None:
            call.timer.cancel()
        call.task.cancel()
        call.task.add_done_callback(_forget_outcome)


def _forget_outcome(task: asyncio.Future[Any]) -> None:
    """Read the outcome of a cancelled call, which nobody else does."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _request_of(params: Any) -> str:
    data = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    return digest([data.get("name"), data.get("uri"), data.get("arguments")])
