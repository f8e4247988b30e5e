"""One connection to one MCP server.

- `Connection` belongs to one task, which opens it, uses it and closes it. Requests arrive through
  a queue and run concurrently inside that task. When the task ends, for whatever reason, every
  waiting request gets an error that names the server and says what happened.
- `SdkLogFilter` shortens and bounds what the SDK logs about a server.

Refused here: reopening a dead connection (`ServerLink` makes a new one), and the SDK's check of
results against output schemas: it runs Python `re` on patterns that the server chose, and our
runner validates results anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...config.secrets import Secrets
from ...config.settings import WAIT
from ...errors import ConfigError, ToolError
from ...values import Json
from ..child_process import Child, without_control_characters
from ..definition import Definition
from ..printed_end import printed_end
from ..raw_result import RawResult, shortened
from ..signature import hash_key
from .auth_settings import LOGIN, NO_AUTH, resolved_auth
from .call_client import CallClient, ask_client, can_ask, only_client
from .call_output import CallOutput
from .config import ServerConfig, resolved
from .input_requests import (
    answer_input_requests,
    ask_run,
    begins_again,
    call_of_run,
    elicitation_remedy,
    nobody_answers,
    unanswered_requests,
)
from .listing import Judge, Listing, list_definitions
from .login_errors import LoginRequired
from .negotiation import LEGACY, LegacyOnly, follow_changes, negotiate
from .questions import ELICIT
from .requests import (
    BrokenResult,
    MalformedTools,
    NoAnswer,
    OnNotification,
    Request,
    ServerDispatcher,
    ServerRefused,
    Undelivered,
    Unreadable,
)
from .session_loss import UNKNOWN_SESSION, is_session_lost, may_repeat, take_status
from .transports import LOGIN_WANTED, LOST, UNDELIVERED, StdioStreams, authorization, http_streams, spawn

if TYPE_CHECKING:
    from mcp import ClientSession, MCPError

log = logging.getLogger("ropewalk.mcp")

_SDK_LOGGERS: Final = (
    "client",  # of mcp.client.session
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.caching",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)
_MAX_INPUT_ROUNDS: Final = 10  # results of one call that ask for input
_MAX_LAST_LINES: Final = 1_500  # characters of stderr in an error, which people see whole
_MAX_BODY: Final = 300  # characters of a refusal in an error
_RETRYABLE_STATUSES: Final = (408, 409, 425, 429)
_MAX_OUTPUT: Final = 4_000  # characters of stderr in the stack of a failure
_LOG_WINDOW: Final = 60.0  # seconds
_MAX_LOG_LINES: Final = 5  # per server and window
_MAX_LOG_LINE: Final = 300  # characters

_log_source: ContextVar[str] = ContextVar("ropewalk_mcp_source", default="")


def attribute_sdk_logs(source: str) -> None:
    """Report what the SDK logs in this context as coming from `source`, shortened and bounded."""
    for name in _SDK_LOGGERS:
        logging.getLogger(name).addFilter(_sdk_log_filter)  # adding it twice changes nothing
    _log_source.set(source)


class SdkLogFilter(logging.Filter):
    """Replaces log records of the SDK with short lines that name the server, at most five a minute per server."""

    # The SDK warns about each message that it cannot use, with a traceback: a server that floods us would fill disks.
    # Records about other clients in this process pass unchanged.

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for a record that is not about one of our servers; log a short line in place of any other."""
        source = _log_source.get()
        if not source:
            return True

        # Open a new window where the last one is over, and say how many lines that one dropped.
        now = time.monotonic()
        window_start, count = self._counts.get(source, (now, 0))
        if now - window_start >= _LOG_WINDOW:
            if count > _MAX_LOG_LINES:
                log.warning("%s: left out %d more lines about what it sent", source, count - _MAX_LOG_LINES)
            window_start, count = now, 0
        self._counts[source] = window_start, count + 1

        if count < _MAX_LOG_LINES:
            log.log(record.levelno, "%s: %s", source, _log_line(record))
        elif count == _MAX_LOG_LINES:
            log.warning("%s: more lines like this are left out for %g s", source, _LOG_WINDOW)
        return False


def _log_line(record: logging.LogRecord) -> str:
    """Put a record on one short line, with the type of its exception in place of the traceback."""
    text = " ".join(record.getMessage().split())
    if record.exc_info and record.exc_info[1] is not None:
        text += f" ({type(record.exc_info[1]).__name__})"
    return text if len(text) <= _MAX_LOG_LINE else text[: _MAX_LOG_LINE - 1] + "…"


_sdk_log_filter: Final = SdkLogFilter()


class Connection:
    """A connection that opens when `start` is called and lives until `stop` or its death."""

    # `opened`: Set once the connection is usable or has failed.
    # `announced`: What its handshake tells the server that can be asked.
    # `error`: Why it cannot be used any more, or None.
    # `is_ready`: True once it was usable.
    # `is_leaving`: True when its end was requested by us.

    def __init__(
        self,
        config: ServerConfig,
        era: str | None,
        judge: Judge,
        first_schemas: dict[str, Json],
        on_tools: Callable[[Connection, tuple[Definition, ...]], None],
        on_death: Callable[[Connection, Exception], None],
        relay: OnNotification | None,
        local: CallClient | None,
        announced: Mapping[str, Json],
    ) -> None:
        self.config = config
        self.announced = announced
        self.local = local
        self.era = era
        self._relay = relay
        self.opened = asyncio.Event()
        self.error: Exception | None = None
        self.is_ready = False
        self.is_leaving = False
        self._owes_answer = False  # the server has not answered since we gave up a request
        self._on_tools, self._on_death = on_tools, on_death
        self.malformed = MalformedTools()
        self._listing = Listing(config, judge, first_schemas, self._publish)
        self._one_call = asyncio.Lock()
        self._inbox: asyncio.Queue[Request | None] = asyncio.Queue()
        self._drained = asyncio.Event()  # set when the last request of a retired connection has ended
        self._requests: set[Request] = set()
        self._output = CallOutput(self._requests, lambda: self.secrets)
        self._child: Child | None = None
        self._streams: StdioStreams | None = None
        self._fixed_secrets = Secrets()
        self._login_secrets: Callable[[], frozenset[str]] = frozenset
        self._task: asyncio.Task[None] | None = None

    # --- from any task of the loop

    def start(self, delay: float = 0.0) -> asyncio.Task[None]:
        """Begin to connect after `delay` seconds, and return the task that owns the connection."""
        self._task = asyncio.create_task(self._run(delay), name=f"ropewalk {self.config}")
        return self._task

    def submit(self, request: Request) -> None:
        """Queue a request; it always gets an outcome, unless it is cancelled."""
        if self.error is not None:
            request.finish(Undelivered(str(self.error)))
            return
        self._requests.add(request)
        self._inbox.put_nowait(request)

    def turn(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """Return the context of one tool call: one at a time, if a run may have to know whose question it gets."""

        # Only the 2026-07-28 revision says to which call a question belongs.
        return self._one_call if self.config.questions == WAIT and self.era == LEGACY else contextlib.nullcontext()

    @property
    def is_idle(self) -> bool:
        """True while no request waits for an answer."""
        return not self._requests

    def stop(self) -> None:
        """Fail the waiting requests and end the process group; await the owner task for the end."""
        self.is_leaving = True
        is_opening = not self.opened.is_set()
        self._fail(ConnectionError(f"{self.config} was closed"))
        if self._task is not None and is_opening:
            self._task.cancel()

    def abandon(self) -> None:
        """Kill the child of a connection whose event loop is closed; no task of it can run any more."""
        self.error = self.error or ConnectionError(f"{self.config}: its event loop was closed")
        if self._child is not None:
            self._child.kill()

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The tools of the last list that the settings let nobody use."""
        return self._listing.switched_off

    # --- the owner task

    async def _run(self, delay: float) -> None:
        attribute_sdk_logs(str(self.config))
        try:
            if delay:
                await asyncio.sleep(delay)
            try:
                await self._connect_and_serve()
            except LegacyOnly:
                # It hung up when asked which era it speaks: connect again without asking.
                self.era = "legacy"
                await self._connect_and_serve()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - every end of the owner reaches its callers
            self._fail(self._explain(_first_error(error)))
        except asyncio.CancelledError:
            self.is_leaving = True
            raise
        finally:
            self._fail(ConnectionError(f"{self.config} was closed"))

    async def _connect_and_serve(self) -> None:
        from mcp import ClientSession
        from mcp_types import ToolListChangedNotification

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._listing.announce()

        async with (
            self._transport() as (read, write),
            ClientSession(
                dispatcher=ServerDispatcher(
                    read,
                    write,
                    self.malformed,
                    self.announced,
                    self._ask_client,
                    self._relay and self._relay_notification,
                    self._output.keep_message,
                ),
                message_handler=on_message,
                client_info=_client_info(),
            ) as session,
        ):
            self.malformed.version = lambda: session.protocol_version
            failure = await self._handshake(session)
            if failure is None:
                await self._serve_requests(session)
            elif not isinstance(failure, LegacyOnly):
                self._fail(failure)  # before the process has ended: nobody should wait for that
        if isinstance(failure, LegacyOnly):
            raise failure

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        """Open the message streams (read, write): over HTTP, or over the pipes of a new process."""
        import anyio

        if self.config.url:
            headers, secrets = resolved(self.config, "headers")
            _, auth_secrets = resolved_auth(str(self.config), self.config.auth)
            self._fixed_secrets = Secrets(secrets.read, secrets.named | auth_secrets.named)
            auth = authorization(self.config)
            if auth is not None:
                self._login_secrets = auth.secrets
            async with http_streams(self.config.url, headers, self.config.connect_timeout, auth) as streams:
                yield streams
            return

        self._child, self._fixed_secrets = await spawn(self.config, self._output.keep_stderr)
        self._streams = StdioStreams(self._child.stdout, self._child.stdin)
        try:
            async with self._streams.open() as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                # Nobody waits for the work that such a server still has: it gets no time to finish it.
                is_busy = self._owes_answer or not self.is_ready or self._awaits_answers()
                await self._child.stop(hurried=is_busy)

    async def _handshake(self, session: ClientSession) -> Exception | None:
        """Agree on the era and list the tools."""

        # Return the failure, or None.
        # The failure is not raised, because the SDK's task groups would change its shape.
        import anyio

        try:
            with anyio.fail_after(self.config.connect_timeout):
                self.era = await negotiate(session, self.config.mode, self.era, hangs_up=bool(self._child))
                self._listing.take(await list_definitions(session))
        except LegacyOnly as error:
            return error
        except TimeoutError as error:
            limit = self.config.connect_timeout
            failure = NoAnswer(self._describe(f"did not finish the handshake within {limit:g} s"), limit)
            failure.__cause__ = error
            return failure
        except Exception as error:  # noqa: BLE001 - whatever a server makes the SDK raise is this server's failure
            return await self._explain_after_exit(error)
        self.is_ready = True
        self.opened.set()
        return None

    async def _serve_requests(self, session: ClientSession) -> None:
        """Run every request of the inbox concurrently, until the inbox gives None."""
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._listing.follow, session)
            group.start_soon(follow_changes, session, self._listing, self._relay is not None)
            if self._streams is not None:
                group.start_soon(self._watch_process, self._streams)
            while (request := await self._inbox.get()) is not None:
                if self.error is not None:
                    request.finish(Undelivered(str(self.error)))
                    self._requests.discard(request)
                    request.over.set()
                    continue
                # In the caller's context, so that the request belongs to the caller's trace.
                request.context.run(attribute_sdk_logs, str(self.config))
                request.context.run(group.start_soon, self._serve_request, session, request)
            if self._requests:  # of a retired connection
                self._drained.clear()
                await self._drained.wait()
            group.cancel_scope.cancel()

    async def _serve_request(self, session: ClientSession, request: Request) -> None:
        import anyio

        try:
            with anyio.CancelScope() as scope:
                request.begin(scope)
                answer = await self._answer(session, request)
                self._owes_answer = False
                self._output.flush()
                request.finish(_without_secrets(self.secrets, answer))
        except Exception as error:  # noqa: BLE001 - it is the request's failure, and goes to its caller
            loss = await self._explain_loss(session, error, request)
            failure = loss or await self._explain_after_exit(error, request.tool)
            is_broken = isinstance(failure, ConnectionError)
            self._output.flush()
            request.finish(Undelivered(str(failure)) if is_broken and not request.sent else failure)
            if self._child is not None and is_broken:
                self._fail(failure)
            elif loss is not None or isinstance(failure, Undelivered):
                # Over HTTP a refused or broken request says nothing about the others that are waiting.
                self._retire(failure)
        self._owes_answer |= request.cancelled and request.sent
        # Not in a `finally`: when the owner itself ends, its end tells the caller why.
        self._requests.discard(request)
        if not self._requests:
            self._drained.set()
        request.over.set()

    async def _answer(self, session: ClientSession, request: Request) -> Any:
        """Execute a request; a tool call goes out only while the tool is what was approved."""
        from mcp import MCPError
        from mcp_types import HEADER_MISMATCH

        if request.query is not None:
            request.sent = True
            return await request.query(session)
        await self._listing.admit(session, request.tool, request.args)
        if self.error is not None:
            raise Undelivered(str(self.error))
        request.sent = True
        try:
            return await self._call_tool(session, request)
        except MCPError as error:
            if error.error.code != HEADER_MISMATCH:
                raise
        # The server wants headers made from a schema that we must list first: the protocol's remedy.
        self._listing.announce()
        await self._listing.admit(session, request.tool, request.args)
        return await self._call_tool(session, request)

    async def _call_tool(self, session: ClientSession, request: Request) -> Any:
        """Send one tools/call."""

        # `Client.call_tool` cannot be used: it validates results with Python `re`.
        import mcp_types as types
        from mcp import MCPError

        meta: Any = {}
        if request.key is not None:
            meta["ropewalk/idempotencyKey"] = hash_key(request.key)
        try:
            result = await self._send_call(session, request, meta, request.input_responses, request.request_state)
        except MCPError as error:
            if not begins_again(request, error):
                raise
            result = await self._send_call(session, request, meta, None, None)
        # Ask the client, and call again with its answers.
        for _ in range(_MAX_INPUT_ROUNDS):
            client = request.client or self.local
            if not isinstance(result, types.InputRequiredResult) or (request.passes_input and client is not None):
                return result
            responses = await answer_input_requests(request, result, client, self.config.name)
            if responses is None:
                raise ServerRefused(self._describe(unanswered_requests(request, result), ":", tail=False))
            result = await self._send_call(session, request, meta, responses, result.request_state)
        if isinstance(result, types.InputRequiredResult):
            message = f"tool {request.tool!r} still asks for input after {_MAX_INPUT_ROUNDS} rounds of answers"
            raise ServerRefused(self._describe(message, ":", tail=False))
        return result

    async def _send_call(
        self, session: ClientSession, request: Request, meta: Any, responses: Any, state: str | None
    ) -> Any:
        import mcp_types as types

        params = types.CallToolRequestParams(
            name=request.tool,
            arguments=request.args,
            input_responses=responses,
            request_state=state,
            _meta=meta or None,
        )
        on_progress = request.progress if request.wants_progress else None
        call = types.CallToolRequest(params=params)
        return await session.send_request(call, _result_type(), progress_callback=on_progress)

    # --- requests and notifications of the server, for the client of a call

    def _client_of_calls(self) -> CallClient | None:
        calls = (item for item in self._requests if item.sent and (item.query is None or item.client is not None))
        return only_client(request.client for request in calls)

    async def _ask_client(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        client = self._client_of_calls() or self.local
        if method == ELICIT and not (client and can_ask(client.capabilities, method, params)):
            call = call_of_run(self._requests) if self.config.questions == WAIT else None
            if call is not None:
                return await ask_run(call, params, self.config.name)
            if all(request.client is None for request in self._requests):
                raise nobody_answers(self.config, params)
        return await ask_client(client, method, params)

    def _relay_notification(self, method: str, params: Mapping[str, Any]) -> None:
        client = self._client_of_calls()
        if method == "notifications/message" and client is not None:
            client.log(dict(params))
        elif self._relay is not None and method != "notifications/message":
            self._relay(method, params)

    async def _watch_process(self, streams: StdioStreams) -> None:
        """Notice the end of the process also when no request is waiting."""
        await streams.ended.wait()
        self._fail(await self._explain_after_exit(ConnectionError("connection closed")))

    def _publish(self, definitions: tuple[Definition, ...]) -> None:
        try:
            self._on_tools(self, definitions)
        except Exception:
            log.exception("%s: a listener of its tools failed", self.config)

    def _fail(self, error: Exception) -> None:
        """End the connection: every waiting request gets the first reason that was reported."""
        if self.error is None:
            self.error = error
            self._on_death(self, error)
        self.opened.set()
        self._owes_answer |= self._awaits_answers()
        self._inbox.put_nowait(None)
        if self._streams is not None and self.is_ready:
            self._streams.hang_up()
        self._output.flush()
        for request in tuple(self._requests):
            request.finish(copy_error(self.error) if request.sent else Undelivered(str(self.error)))
        self._requests.clear()
        self._drained.set()

    def _retire(self, error: Exception) -> None:
        """Take no more requests; those that were sent still get their answers."""
        if self.error is None:
            self.error = error
            self._on_death(self, error)
        self._inbox.put_nowait(None)

    def _awaits_answers(self) -> bool:
        return any(request.sent for request in self._requests)

    # --- errors for callers

    async def _explain_after_exit(self, error: Exception, tool: str = "") -> Exception:
        """Explain an error; give a dying process a moment to print its last words."""
        if self._child is None or not _is_closed(error):
            return self._explain(error, tool)
        reason = await self._child.describe_end()
        if not reason and self._streams is not None:
            reason = self._streams.broken
        failure = ConnectionError(self._describe(reason or "closed its connection"))
        failure.__cause__ = error
        return failure

    async def _explain_loss(self, session: ClientSession, error: Exception, request: Request) -> Exception | None:
        """Return the failure of a request whose session is lost: Undelivered if it may be sent again."""
        from mcp import MCPError

        if self._child is not None or self.era != LEGACY or not isinstance(error, MCPError):
            return None
        data = error.error.data
        wants_login = isinstance(data, dict) and LOGIN_WANTED in data
        if wants_login or data == UNDELIVERED or _is_lost(error) or _unreadable_answer(error) is not None:
            return None
        status = take_status(error)
        if not await is_session_lost(session, error, status):
            return None
        error.error = _without_secrets(self.secrets, error.error)
        message = f"lost its session at {self._address()}: {error.error.message}"
        failure: Exception
        if may_repeat(request, status, self._listing.known(request.tool)):
            failure = Undelivered(self._describe(message))
        else:
            why = "the request was not sent again, because the server may have executed it"
            failure = ConnectionError(self._describe(f"{message}; {why}"))
        failure.__cause__ = error
        return failure

    def _explain(self, error: BaseException, tool: str = "") -> Exception:
        """Return the exception for a caller: it names the server, what happened and the cause."""
        from mcp import MCPError
        from pydantic import ValidationError

        if isinstance(error, MCPError):
            return self._explain_mcp_error(error, tool)
        if isinstance(error, ToolError):
            return error
        own_errors = (ConfigError, LoginRequired, ServerRefused, ConnectionError, TimeoutError)
        if isinstance(error, own_errors) and str(error).startswith(str(self.config)):
            return error  # it is explained already

        if isinstance(error, ValidationError):
            problem = error.errors()[0]
            # Names of the SDK's own models in the path mean nothing to a reader.
            path = ".".join(str(part) for part in problem["loc"] if isinstance(part, int) or part.islower())
            why = f"its answer violates the protocol: {path + ': ' if path else ''}{problem['msg']}"
            return self._invalid_answer(why, shortened(problem.get("input")), tool, error)

        failure: Exception
        if isinstance(error, ServerRefused):
            text = self._describe(str(error), ":", tail=False)
            failure = ServerRefused(text, code=error.code, data=error.data)
        else:
            tool_prefix = f"tool {tool!r}: " if tool else ""
            failure = ConnectionError(self._describe(f"{tool_prefix}{str(error) or type(error).__name__}", ":"))
        failure.__cause__ = error
        return failure

    def _explain_mcp_error(self, error: MCPError, tool: str) -> Exception:
        status = take_status(error)
        unreadable = _unreadable_answer(error)
        if unreadable is not None:
            return self._invalid_answer(*unreadable, tool, error)

        error.error = _without_secrets(self.secrets, error.error)  # the caller sees it as the cause
        code, message, data = error.error.code, error.error.message, error.error.data
        failure: Exception
        if isinstance(data, dict) and LOGIN_WANTED in data:
            failure = self._explain_login(message, data[LOGIN_WANTED])
        elif data == UNDELIVERED or status == UNKNOWN_SESSION:
            failure = Undelivered(self._describe(f"could not be reached at {self._address()}: {message}"))
        elif _is_lost(error):
            failure = ConnectionError(self._describe(f"lost the connection to {self._address()}: {message}"))
        elif (answer := getattr(error, "answer", None)) is not None:
            failure = self._explain_refusal(answer, message, code, tool)
        else:
            tool_prefix = f"tool {tool!r}: " if tool else ""
            remedy = elicitation_remedy(message)
            text = self._describe(f"{tool_prefix}{message} (code {code}){remedy}", ":", tail=False)
            failure = ServerRefused(text, code=code, data=data)
        failure.__cause__ = error
        return failure

    def _explain_refusal(self, answer: Mapping[str, Any], message: str, code: int, tool: str) -> ServerRefused:
        """Return the failure of a request that a status of HTTP refused: who answered what, and what may be wrong."""
        status, body, hint = answer["status"], " ".join(self.secrets.redact_error(answer["body"]).split()), ""
        if body.startswith("<"):  # a page for people
            title = re.search(r"<title>(.*?)</title>", body, re.IGNORECASE)
            body = title[1].strip() if title else ""
        if status in (401, 403) and self.config.headers:
            hint = f"; `headers` were sent ({', '.join(self.config.headers)}): check the key in them"
        elif self.is_ready:
            pass  # the address and the key were right before
        elif status in (401, 403) and not self.secrets.named and self.config.auth.kind in (LOGIN, NO_AUTH):
            hint = "; a key in `headers` is probably missing"
        elif status in (404, 405) and not urlsplit(self.config.url).path.endswith("/mcp"):
            hint = "; the path of an MCP server is often /mcp"
        excerpt = f": {body[:_MAX_BODY]}{'…' if len(body) > _MAX_BODY else ''}" if body else ""
        tool_prefix = f"tool {tool!r}: " if tool else ""
        text = f"{tool_prefix}{message} from {self._address()}{excerpt}{hint}"
        failure = ServerRefused(self._describe(text, ":", tail=False), code=code)
        failure.retryable = failure.retryable and (status >= 500 or status in _RETRYABLE_STATUSES)
        failure.key = ("headers",) if "check the key" in hint else ()
        return failure

    def _explain_login(self, message: str, wanted: Any) -> Exception:
        """Return the failure of a request that could not be authorized; a person can help if it is LoginRequired."""
        if not isinstance(wanted, dict):
            return ServerRefused(self._describe(f"the authorization failed: {message}", ":", tail=False))
        scope, challenge = wanted.get("scope"), wanted.get("challenge")
        text = without_control_characters(message)
        failure = LoginRequired(text, self.config.name, scope if isinstance(scope, str) else None)
        failure.challenge = challenge if isinstance(challenge, str) else ""
        return failure

    def _invalid_answer(self, why: str, sent: str, tool: str, cause: BaseException) -> ServerRefused:
        """Return the failure of a request without a valid result: what is wrong, and what the server sent."""
        message = self._describe(f"tool {tool!r}: {why}" if tool else why, ":", tail=False)
        text = without_control_characters(self.secrets.redact_error(sent))
        message += f"; it sent: {text}"
        failure = BrokenResult(message, RawResult(False, text=text)) if tool else ServerRefused(message)
        failure.__cause__ = cause
        return failure

    def last_output(self) -> str:
        """Return the end of what the process has printed to stderr, without secrets."""
        return self._printed_end(_MAX_OUTPUT)

    def _printed_end(self, limit: int) -> str:
        text = "" if self._child is None else self._child.stderr_tail().strip()
        return printed_end(without_control_characters(self.secrets.redact_error(text)), limit)

    def _describe(self, event: str, join: str = "", *, tail: bool = True) -> str:
        """Word an error of this server; with `tail`, add what it printed last."""
        text = f"{self.config}{join} {event}"
        if tail and self._streams is not None and self._streams.garbage:
            text += f"; it printed text that is not JSON-RPC: {self._streams.garbage!r}"
        if tail and (stderr := self._printed_end(_MAX_LAST_LINES)):
            text += f"; its stderr ends with:\n{stderr}"
        return without_control_characters(self.secrets.redact_error(text))

    @property
    def secrets(self) -> Secrets:
        """The secrets of the settings, and those of the login, which changes."""
        login, fixed = self._login_secrets(), self._fixed_secrets
        return Secrets(fixed.read, fixed.named | login) if login else fixed

    def _address(self) -> str:
        """The address without user, password and query."""
        return re.sub(r"//[^/?#]*@", "//", self.config.url).partition("?")[0]


def _without_secrets(secrets: Secrets, answer: Any) -> Any:
    """Remove the secrets that a server was given from its answer, a model of the SDK."""
    if not secrets.named or not secrets.are_in(answer.model_dump_json().encode()):
        return answer
    return type(answer).model_validate(secrets.redact_value(answer.model_dump(mode="json", by_alias=True)))


@cache
def _result_type() -> Any:
    import mcp_types as types
    from pydantic import TypeAdapter

    return TypeAdapter(types.CallToolResult | types.InputRequiredResult)


@cache
def _client_info() -> Any:
    import mcp_types as types

    return types.Implementation(name="ropewalk", version=version("ropewalk"))


def _unreadable_answer(error: MCPError) -> tuple[str, str] | None:
    """Return why an answer cannot be read, and how it begins, if the error stands for such an answer."""
    message, data = error.error.message, error.error.data
    if isinstance(data, Unreadable):
        return f"its answer cannot be read: {message}", data

    # The SDK's HTTP transport gives the words of pydantic, which quote the beginning and the end of the answer.
    if not message.startswith(("Failed to parse JSON response: ", "Failed to parse SSE message: ")):
        return None
    why = re.search(r"^JSONRPCResponse\.(.*\n.*) \[type=", message, re.MULTILINE)
    why = why or re.search(r"^ +(.*) \[type=", message, re.MULTILINE)
    reason = re.sub(r"\n +", ": ", why[1]) if why else message
    sent = re.search(r"input_value=(.*), input_type=", message)
    return f"its answer cannot be read: {reason}", sent[1] if sent else "nothing"


def _is_closed(error: BaseException) -> bool:
    """Return True if the pipes to a child have closed."""
    from mcp import MCPError

    if isinstance(error, MCPError):
        return error.error.code == -32000 and error.error.message == "Connection closed"
    return isinstance(error, ConnectionError)


def _is_lost(error: MCPError) -> bool:
    """Return True if a request over HTTP was interrupted."""
    if error.error.data == LOST:
        return True
    # The code alone proves nothing: a server may use it for errors of its own.
    return error.error.code == -32000 and error.error.message.startswith(("Connection closed", "SSE stream "))


def copy_error(error: Exception) -> Exception:
    """Return a new exception of the same kind, data and cause."""

    # One object raised in many tasks would collect the tracebacks of all of them.
    copy = type(error)(str(error))
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy


def _first_error(error: BaseException) -> BaseException:
    """Return the first exception inside nested groups that is not a cancellation, if there is one."""
    while isinstance(error, BaseExceptionGroup):
        errors = [e for e in error.exceptions if not isinstance(e, asyncio.CancelledError)]
        error = errors[0] if errors else error.exceptions[0]
    return error
