"""Requests to an MCP server, and the messages of servers that misbehave.

- `Request`: one call, made in the caller's task and served in the task that owns the connection.
  Cancelling it cancels that request only.
- `ServerDispatcher`: the SDK validates every notification and starts a task for each, and one
  malformed tool makes it refuse a whole list. Ours drops notifications that nobody needs before
  they cost anything, and takes malformed tools out of a list by name (`MalformedTools`).
- `OpenRequests`: finds out which request an unreadable message answers, so that the call fails at
  once and not at its timeout. Unreadable is a message that is not JSON, or not JSON-RPC. Its id is
  trusted only where a response has it: at the top level of an object without a method. A log line
  that quotes a request ends no call.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from ...values import Json
from ..output import current_output
from ..raw_result import UnusableResult
from ..tool import ProgressEvent
from .call_client import CAPABILITY_OF, CLIENT
from .questions import CAPABILITY, ELICIT, QUESTIONS

if TYPE_CHECKING:
    import anyio
    from mcp import ClientSession
    from mcp_types import CallToolResult, JSONRPCError
    from pydantic import ValidationError

_MAX_PROGRESS: Final = 1024  # events of one request that wait for its caller
_PERMANENT_CODES: Final = (-32601, -32602)  # JSON-RPC: no such method; wrong parameters (a tool's name is one)


class Undelivered(ConnectionError):
    """The server cannot have executed the request: it is safe to send it again."""


class NoAnswer(TimeoutError):
    """The server did not answer, or did not connect, within `seconds`."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        self.seconds = seconds
        super().__init__(message)


class ServerRefused(Exception):
    """The server answered with a protocol error, or with something that is not a tool result."""

    # `code`: The JSON-RPC code as the server sent it; None for an answer that is not a tool result.
    # `data`: What the server sent with the code.
    # `retryable`: False when the server would refuse the same request again.
    # `key`: The setting of the server that is probably wrong.

    key: tuple[str, ...] = ()

    def __init__(self, message: str, *, code: int | None = None, data: Json = None) -> None:
        self.code, self.data = code, data
        self.retryable = code not in _PERMANENT_CODES
        super().__init__(message)


class BrokenResult(ServerRefused, UnusableResult):
    """The server ran a tool, but its answer is not a tool result; `result` is what it sent."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


SessionQuery: TypeAlias = Callable[["ClientSession"], Awaitable[Any]]


class Request:
    """One call of a tool, or any other query of the SDK's session."""

    # `client`: The client on whose behalf the call is made, if any.
    # `questions`: The questions of the call that its run records, if it does.
    # `over`: Set once the request is not served any more.
    # `sent`: True once the request may have reached the server.
    # `cancelled`: True once the caller gave it up without an outcome.
    # `context`: The caller's context variables, so that the request belongs to the caller's trace.

    __slots__ = (
        "_outcome", "_progress", "_scope", "_wake", "args", "cancelled", "client", "context", "input_responses", "key",
        "output", "over", "passes_input", "query", "questions", "request_state", "sent", "tool", "wants_progress",
    )  # fmt: skip

    def __init__(
        self,
        tool: str,
        args: Mapping[str, Json],
        *,
        key: str | None = None,
        wants_progress: bool = False,
        query: SessionQuery | None = None,
        input_responses: Any = None,
        request_state: str | None = None,
        passes_input: bool = False,
    ) -> None:
        self.tool = tool
        self.args = dict(args)
        self.key = key
        self.wants_progress = wants_progress
        self.query = query
        self.input_responses, self.request_state = input_responses, request_state
        self.passes_input = passes_input
        self.client, self.output = CLIENT.get(), current_output()
        self.questions = QUESTIONS.get() if tool else None
        if self.questions is not None and self.questions.responses is not None:
            self.input_responses, self.request_state = self.questions.responses, self.questions.state
        self.over = asyncio.Event()
        self.sent = False
        self.cancelled = False
        self.context = copy_context()
        self._wake = asyncio.Event()
        # A flood of progress drops the oldest: it may not fill our memory.
        self._progress: deque[ProgressEvent] = deque(maxlen=_MAX_PROGRESS)
        self._outcome: CallToolResult | Exception | None = None
        self._scope: anyio.CancelScope | None = None

    # --- the caller's side

    async def events(self, deadline: float) -> AsyncGenerator[ProgressEvent | CallToolResult, None]:
        """Yield the progress in order, then the result."""

        # Leaving early cancels the request.
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
        """Note the scope in which the request is served; `cancel` cancels it."""
        self._scope = scope

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Add a progress notification, without waiting for the caller to read it."""
        self._progress.append(ProgressEvent(progress, total, message))
        self._wake.set()

    def finish(self, outcome: CallToolResult | Exception) -> None:
        """Set the outcome, unless there is one already, and wake the caller."""
        if self._outcome is None:
            self._outcome = outcome
            self._wake.set()


_HANDLED_BY_SDK: Final = frozenset(
    (
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    )
)
_FOR_CLIENTS: Final = frozenset(
    (
        "notifications/elicitation/complete",
        "notifications/message",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    )
)
"""Notifications that only a gateway has a use for: it passes them on."""
TASK_META: Final = "ropewalk/task"
"""In `_meta` of a result: the task that the server has created in place of a result."""
_MAX_NAME: Final = 60  # characters of a tool's name in an error
OnNotification: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Takes the method and the parameters of a notification of `_FOR_CLIENTS`."""


class MalformedTools:
    """Collects the tools of a server's lists that the protocol does not allow."""

    # `version`: Returns the protocol version that the session has agreed on, or None.

    def __init__(self) -> None:
        self.version: Callable[[], str | None] = lambda: None
        self._reasons: dict[str, str] = {}

    def take(self) -> dict[str, str]:
        """Return why each tool was left out since the last call, by tool name, and forget it."""
        reasons, self._reasons = self._reasons, {}
        return reasons

    def remove_from(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return a page of tools without the malformed ones."""
        tools = page.get("tools")
        if not isinstance(tools, list) or self._problem(tools) is None:
            return page
        valid = []
        for index, tool in enumerate(tools):
            problem = self._problem([tool])
            if problem is None:
                valid.append(tool)
            else:
                self._reasons[_tool_name(tool, index)] = problem
        return {**page, "tools": valid}

    def _problem(self, tools: list[Json]) -> str | None:
        """Return why the SDK would refuse a page of these tools, or None."""
        from mcp_types import ListToolsResult
        from mcp_types.methods import validate_server_result
        from pydantic import ValidationError

        page = {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        try:
            validate_server_result("tools/list", self.version() or "2025-11-25", page)
            ListToolsResult.model_validate(page, by_name=False)
        except KeyError:
            return None  # the SDK does not check the lists of this version
        except ValidationError as error:
            problem = error.errors()[0]
            path = ".".join(map(str, problem["loc"][2:]))
            return f"the protocol does not allow this tool: {path}: {problem['msg']}".replace(": : ", ": ")
        return None


class ServerDispatcher:
    """The SDK's dispatcher of a session with a server, and what Ropewalk does differently from it."""

    # It tells the server what can be asked during each request, and hands the server's requests on as JSON.

    def __init__(
        self,
        read: Any,
        write: Any,
        malformed: MalformedTools,
        announced: Mapping[str, Json],
        ask: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]],
        relay: OnNotification | None = None,
        on_message: Callable[[Mapping[str, Any]], None] = lambda params: None,
    ) -> None:
        from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

        self._dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, write)
        self._malformed, self._announced, self._ask, self._relay = malformed, announced, ask, relay
        self._on_message = on_message

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        """Send a request, and return its result."""
        if method == "server/discover" and opts:
            # Drop the SDK's limit of 10 s: `connect_timeout` limits the whole handshake.
            opts = {key: value for key, value in opts.items() if key != "timeout"}
        if method == "initialize":
            params = {**(params or {}), "capabilities": self._announced}
        answer = await self._dispatcher.send_raw_request(method, self._with_capabilities(params), opts)
        if method == "tools/call" and answer.get("resultType") == "task":
            # The SDK knows no such result. Its session checks this one, and the connection takes the task out.
            return {"resultType": "complete", "content": [], "_meta": {TASK_META: answer}}
        return self._malformed.remove_from(answer) if method == "tools/list" else answer

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Send a notification."""
        await self._dispatcher.notify(method, params, opts)

    async def run(self, on_request: Any, on_notify: Any, on_notify_intercept: Any = None, **more: Any) -> None:
        """Receive messages until the stream ends."""

        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            if method == "notifications/message":
                self._on_message(params or {})
            if self._relay is not None and method in _FOR_CLIENTS:
                self._relay(method, params or {})
            if on_notify_intercept is not None and on_notify_intercept(method, params):
                return True
            return method not in _HANDLED_BY_SDK

        async def answer(context: Any, method: str, params: Mapping[str, Any] | None) -> Any:
            capability = CAPABILITY_OF.get(method)
            is_known = self._relay is not None or capability in self._announced or method == ELICIT
            if capability is None or not is_known:
                return await on_request(context, method, params)
            return await self._answer(method, params)

        await self._dispatcher.run(answer, on_notify, intercept, **more)

    async def _answer(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Answer a request of the server; a malformed one, or a malformed answer, becomes an error."""
        from mcp import MCPError
        from mcp_types import METHOD_NOT_FOUND
        from mcp_types.methods import parse_server_request, validate_client_result

        version = self._malformed.version() or "2025-11-25"
        try:
            request = parse_server_request(method, version, params)
        except KeyError:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method) from None
        data = (
            {} if request.params is None else request.params.model_dump(by_alias=True, mode="json", exclude_none=True)
        )
        result = await self._ask(method, data)
        validate_client_result(method, version, result)
        return result

    def _with_capabilities(self, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the parameters of a 2026-07-28 request with what can be asked during it, and the client's log
        level."""

        # Older revisions state both once per session.
        from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY

        meta = params.get("_meta") if params is not None else None
        if params is None or not meta or CLIENT_CAPABILITIES_META_KEY not in meta:
            return params
        client = CLIENT.get() if self._relay is not None else None
        # The run of a call that records questions answers what its client cannot.
        own: dict[str, Json] = {} if QUESTIONS.get() is None else {"elicitation": dict(CAPABILITY)}
        capabilities = {**own, **(self._announced if client is None else client.capabilities)}
        meta = {**meta, CLIENT_CAPABILITIES_META_KEY: capabilities}
        if client is not None and client.log_level is not None:
            meta[LOG_LEVEL_META_KEY] = client.log_level
        return {**params, "_meta": meta}


def _tool_name(tool: Json, index: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name[:_MAX_NAME] if isinstance(name, str) and name else f"#{index + 1}"


_MAX_QUOTE: Final = 200  # characters of an unreadable message that an error quotes
_MAX_FRAGMENT: Final = 65_536  # bytes of a message in several lines that are kept while its end is missing
_ID: Final = rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{1,200}")'
_ID_FIRST: Final = rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID
_ID_LAST: Final = _ID + rb"\s*\}\s*$"
_HEAD: Final = 1000  # bytes at the beginning of a message in which an id or a method is looked for
_TAIL: Final = 300  # bytes at the end of a message in which an id is looked for


class Unreadable(str):
    """The `data` of the error that replaces an unreadable answer: the beginning of what the server sent."""

    __slots__ = ()


class OpenRequests:
    """The requests of one session that the server has not answered yet."""

    def __init__(self) -> None:
        self._ids: set[int | str] = set()
        self._fragment = b""  # of a message that is printed in several lines

    def sent(self, message: Any) -> None:
        """Note a message that goes out."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(message, JSONRPCRequest):
            self._ids.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._ids.discard((message.params or {}).get("requestId", ""))

    def received(self, message: Any) -> Any:
        """Note a message that has arrived, and return it."""

        # An error with the id null answers a request that the server could not read. If only one request is open, the
        # error must belong to it: the returned message has its id.
        from mcp_types import JSONRPCError, JSONRPCResponse

        self._fragment = b""
        if isinstance(message, JSONRPCError) and message.id is None and len(self._ids) == 1:
            message = message.model_copy(update={"id": next(iter(self._ids))})
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            self._ids.discard(self._normalize_id(message.id))
        return message

    def may_read(self, line: bytes) -> bool:
        """Return False for a line that cannot be (part of) a message, as most garbage cannot."""
        return bool(self._fragment) or line.lstrip()[:1] == b"{"

    def failed(self, line: bytes, error: ValidationError) -> JSONRPCError | None:
        """Return the error that answers the request which an unreadable line was meant for, or None."""
        message = self._join_lines(line)
        if message is None:
            return None
        id, why = self._find_request(message, error)
        if id not in self._ids:
            return None
        from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

        self._ids.discard(id)
        # A character has at most four bytes.
        quote = Unreadable(message[: 4 * _MAX_QUOTE].decode(errors="replace").strip()[:_MAX_QUOTE])
        return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=PARSE_ERROR, message=why, data=quote))

    def _join_lines(self, line: bytes) -> bytes | None:
        """Return the message that a line is or ends; None while its end is missing."""
        if not self._fragment:
            if line.strip() != b"{":
                return line
            self._fragment = line
            return None
        self._fragment += line + b"\n"
        if not line.startswith(b"}") and len(self._fragment) < _MAX_FRAGMENT:
            return None
        message, self._fragment = self._fragment, b""
        return message

    def _find_request(self, message: bytes, error: ValidationError) -> tuple[int | str, str]:
        """Return the id that a message has as a response ("" if it has none), and what is wrong with the message."""
        try:
            value = orjson.loads(message)
        except ValueError:
            return self._normalize_id(_id_in_text(message)), f"it is not JSON ({error.errors()[0]['msg']})"
        if not isinstance(value, dict) or "method" in value:
            return "", ""
        return self._normalize_id(value.get("id")), _response_problem(value, b"\n" in message.strip())

    def _normalize_id(self, id: Any) -> int | str:
        """Return an id as we sent it: a server may answer 7 with "7"."""
        if isinstance(id, bool) or not isinstance(id, (int, str)):
            return ""
        if id not in self._ids and isinstance(id, str) and id.isdecimal():
            return int(id)
        return id


def refusal_of(line: bytes, error: ValidationError) -> JSONRPCError | None:
    """Return the error that answers an unreadable message of a client; None for a blank line, or for a response."""
    from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

    # Bytes that are not UTF-8, and lone surrogates, rarely hide the id: with it, the client knows which call failed.
    try:
        message = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        message = None
    fields = message if isinstance(message, dict) else {}
    if not line.strip() or (fields.keys() & {"result", "error"} and "method" not in fields):
        return None
    problem = error.errors()[0]
    is_json = problem["type"] != "json_invalid"
    id = fields.get("id") if isinstance(fields.get("id"), str) or type(fields.get("id")) is int else None
    why = "Invalid Request: it is not a JSON-RPC message" if is_json else f"Parse error: {problem['msg']}"
    code = INVALID_REQUEST if is_json else PARSE_ERROR
    return JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=why))


def _id_in_text(message: bytes) -> Any:
    """Find the id of a response in a message that is not JSON, at its beginning or at its end."""
    if not message.lstrip().startswith(b"{") or b'"method"' in message[:_HEAD]:
        return None
    match = re.match(_ID_FIRST, message[:_HEAD]) or re.search(_ID_LAST, message[-_TAIL:])
    return orjson.loads(match[1]) if match else None


def _response_problem(message: dict[str, Any], in_lines: bool) -> str:
    if in_lines:
        return "a message was printed in several lines; the protocol requires one line for each message"
    if "error" in message:
        return "its error is not an object with a code and a message"
    if "result" not in message:
        return "it has neither a result nor an error"
    if not isinstance(message["result"], dict):
        return "its result is not an object"
    return "it is not a JSON-RPC message"
