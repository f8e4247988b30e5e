"""One connection to one server, owned by one task: opened, used and left in that task.

Calls arrive through a queue and run concurrently inside the owner; its end, for whatever reason,
gives every waiting call an error that names the server and what happened. Refused here: a second
life (a dead connection is replaced, see mcp.py), the SDK's check of results against output
schemas (it runs Python `re` on patterns the server chose; our runner validates).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..config.secret import Secrets
from ..errors import ConfigError, ToolError
from ..values import Json
from .child import Child, harmless
from .idempotency import hash_key
from .mcp_config import ServerConfig, resolved
from .mcp_definition import Definition, list_definitions
from .mcp_dispatcher import Malformed, ProgressTokens, dispatcher
from .mcp_http import LOST, UNDELIVERED, http_streams
from .mcp_listing import Judge, Listing
from .mcp_negotiation import LegacyOnly, follow_changes, negotiate
from .mcp_process import spawn
from .mcp_request import BrokenResult, NoAnswer, Request, ServerRefused, Undelivered
from .mcp_sdk_logs import logged_as
from .mcp_stdio import StdioStreams
from .mcp_unreadable import Unreadable
from .raw import RawResult, shortened

if TYPE_CHECKING:
    from mcp import ClientSession, MCPError

log = logging.getLogger("ropewalk.mcp")


class Connection:
    """A connection that opens as soon as `start` is called and lives until `stop` or its death.

    `opened` is set once it is usable or has failed; `error` is why it cannot be used any more.
    """

    def __init__(
        self,
        config: ServerConfig,
        era: str | None,
        judge: Judge,
        seen: dict[str, Json],
        on_tools: Callable[[Connection, tuple[Definition, ...]], None],
        on_death: Callable[[Connection, Exception], None],
    ) -> None:
        self.config, self.era = config, era
        self.opened = asyncio.Event()
        self.error: Exception | None = None
        self.ready = False
        self.leaving = False  # the end is one we asked for
        self._owes = False  # the server has not answered since a request was given up
        self._on_tools, self._on_death = on_tools, on_death
        self._progress, self.malformed = ProgressTokens(), Malformed()
        self._listing = Listing(config, judge, seen, self._publish)
        self._inbox: asyncio.Queue[Request | None] = asyncio.Queue()
        self._requests: set[Request] = set()
        self._child: Child | None = None
        self._streams: StdioStreams | None = None
        self._secrets = Secrets()
        self._task: asyncio.Task[None] | None = None

    # --- from any task of the loop

    def start(self, delay: float = 0.0) -> asyncio.Task[None]:
        """Begin to connect, after `delay` seconds; the task given back is the owner."""
        self._task = asyncio.create_task(self._own(delay), name=f"ropewalk {self.config}")
        return self._task

    def submit(self, request: Request) -> None:
        """Queue a call; it always gets an outcome, unless it is cancelled."""
        if self.error is not None:
            request.finish(Undelivered(str(self.error)))
            return
        self._requests.add(request)
        self._inbox.put_nowait(request)

    def stop(self) -> None:
        """Leave: waiting calls fail, the process group ends. Await the owner task for the end."""
        self.leaving = True
        opening = not self.opened.is_set()
        self._die(ConnectionError(f"{self.config} was closed"))
        if self._task is not None and opening:
            self._task.cancel()

    def abandon(self) -> None:
        """For a loop that is closed: kill the child; nothing else of it can run any more."""
        self.error = self.error or ConnectionError(f"{self.config}: its event loop was closed")
        if self._child is not None:
            self._child.kill()

    # --- the owner task

    async def _own(self, delay: float) -> None:
        logged_as(str(self.config))
        try:
            if delay:
                await asyncio.sleep(delay)
            try:
                await self._live()
            except LegacyOnly:
                # It hung up on the question which era it speaks: ask no more.
                self.era = "legacy"
                await self._live()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - every end of the owner is told to its callers
            self._die(self.explain(_leaf(error)))
        except asyncio.CancelledError:
            self.leaving = True
            raise
        finally:
            self._die(ConnectionError(f"{self.config} was closed"))

    async def _live(self) -> None:
        from mcp import ClientSession
        from mcp_types import ToolListChangedNotification

        async def notice(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                self._listing.announce()

        async with (
            self._transport() as (read, write),
            ClientSession(
                dispatcher=dispatcher(read, write, self._progress, self.malformed),
                message_handler=notice,
                client_info=_client_info(),
            ) as session,
        ):
            self.malformed.version = lambda: session.protocol_version
            failure = await self._handshake(session)
            if failure is None:
                await self._serve_all(session)
            elif not isinstance(failure, LegacyOnly):
                self._die(failure)  # before the process has ended: nobody should wait for that
        if isinstance(failure, LegacyOnly):
            raise failure

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[tuple[Any, Any]]:
        import anyio

        if self.config.url:
            headers, self._secrets = resolved(self.config, "headers")
            async with http_streams(self.config.url, headers, self.config.connect_timeout) as pair:
                yield pair
            return
        self._child, self._secrets = await spawn(self.config)
        self._streams = StdioStreams(self._child.stdout, self._child.stdin)
        try:
            async with self._streams.open() as pair:
                yield pair
        finally:
            with anyio.CancelScope(shield=True):
                # Nobody waits for what it may still do: it gets no time to finish it.
                await self._child.stop(hurried=self._owes or not self.ready or self._awaited())

    async def _handshake(self, session: ClientSession) -> Exception | None:
        """Agree on the era and list the tools; the failure is given back, because raised through
        the SDK's task groups it would lose its shape."""
        import anyio

        try:
            with anyio.fail_after(self.config.connect_timeout):
                self.era = await negotiate(session, self.config.mode, self.era, hangs_up=bool(self._child))
                self._listing.take(await list_definitions(session))
        except LegacyOnly as error:
            return error
        except TimeoutError as error:
            limit = self.config.connect_timeout
            failure: Exception = NoAnswer(self._told(f"did not finish the handshake within {limit:g} s"), limit)
            failure.__cause__ = error
            return failure
        except Exception as error:  # noqa: BLE001 - whatever a server makes the SDK raise is this server's failure
            return await self._told_later(error)
        self.ready = True
        self.opened.set()
        return None

    async def _serve_all(self, session: ClientSession) -> None:
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._listing.follow, session)
            group.start_soon(follow_changes, session, self._listing)
            if self._streams is not None:
                group.start_soon(self._watch, self._streams)
            while (request := await self._inbox.get()) is not None:
                request.context.run(logged_as, str(self.config))
                request.context.run(group.start_soon, self._serve, session, request)
            group.cancel_scope.cancel()

    async def _serve(self, session: ClientSession, request: Request) -> None:
        import anyio

        try:
            with anyio.CancelScope() as scope:
                request.begin(scope)
                answer = await self._answer(session, request)
                self._owes = False
                request.finish(_without(self._secrets, answer))
        except Exception as error:  # noqa: BLE001 - it is the request's failure, and goes to its caller
            told = await self._told_later(error, request.tool)
            unsent = isinstance(told, ConnectionError) and not request.sent
            request.finish(Undelivered(str(told)) if unsent else told)
            # Over HTTP a broken response says nothing about the other requests.
            if isinstance(told, Undelivered) or (self._child is not None and isinstance(told, ConnectionError)):
                self._die(told)
        self._owes |= request.cancelled and request.sent
        # Not in a `finally`: when the owner itself is going, its end tells the caller why.
        self._requests.discard(request)

    async def _answer(self, session: ClientSession, request: Request) -> Any:
        """What was asked for; a call goes out when the tool is still what it was."""
        from mcp import MCPError
        from mcp_types import HEADER_MISMATCH

        if request.ask is not None:
            request.sent = True
            return await request.ask(session)
        await self._listing.admit(session, request.tool, request.args)
        request.sent = True
        try:
            return await self._call(session, request)
        except MCPError as error:
            if error.error.code != HEADER_MISMATCH:
                raise
        # The protocol's cure: the server wants headers made from a schema we must list first.
        self._listing.announce()
        await self._listing.admit(session, request.tool, request.args)
        return await self._call(session, request)

    async def _call(self, session: ClientSession, request: Request) -> Any:
        token = self._progress.add(request.progress) if request.watched else None
        try:
            return await _call(session, request, token)
        finally:
            if token is not None:
                self._progress.drop(token)

    async def _watch(self, streams: StdioStreams) -> None:
        """Notice the end of the process also when no call is waiting."""
        await streams.ended.wait()
        self._die(await self._told_later(ConnectionError("connection closed")))

    def _publish(self, definitions: tuple[Definition, ...]) -> None:
        try:
            self._on_tools(self, definitions)
        except Exception:
            log.exception("%s: a listener of its tools failed", self.config)

    def _die(self, error: Exception) -> None:
        """The first reason counts. Everything that waits learns it."""
        if self.error is None:
            self.error = error
            self._on_death(self, error)
        self.opened.set()
        self._owes |= self._awaited()
        self._inbox.put_nowait(None)
        if self._streams is not None and self.ready:
            self._streams.hang_up()
        for request in tuple(self._requests):
            request.finish(copied(self.error) if request.sent else Undelivered(str(self.error)))
        self._requests.clear()

    def _awaited(self) -> bool:
        return any(request.sent for request in self._requests)

    # --- what happened, in words

    async def _told_later(self, error: Exception, tool: str = "") -> Exception:
        """`explain`, after giving a dying process a moment to say its last words."""
        if self._child is not None and _is_closed(error):
            ended = await self._child.last_words()
            what = ended or (self._streams.broken if self._streams else "") or "closed its connection"
            failure = ConnectionError(self._told(what))
            failure.__cause__ = error
            return failure
        return self.explain(error, tool)

    def explain(self, error: BaseException, tool: str = "") -> Exception:
        """The exception for a caller: it names the server, what happened, and the cause."""
        from mcp import MCPError
        from pydantic import ValidationError

        if isinstance(error, MCPError) and (unreadable := _unreadable(error)) is not None:
            return self._broken(*unreadable, tool, error)
        if isinstance(error, MCPError):  # what a client of ours is told of it, too
            error.error = _without(self._secrets, error.error)
        if isinstance(error, ToolError):
            return error
        ours = (ConfigError, ServerRefused, ConnectionError, TimeoutError)
        if isinstance(error, ours) and str(error).startswith(str(self.config)):
            return error
        about = f"tool {tool!r}: " if tool else ""
        failure: Exception
        if isinstance(error, MCPError) and error.error.data == UNDELIVERED:
            failure = Undelivered(self._told(f"could not be reached at {self._address()}: {error.error.message}"))
        elif isinstance(error, MCPError) and _is_lost(error):
            failure = ConnectionError(self._told(f"lost the connection to {self._address()}: {error.error.message}"))
        elif isinstance(error, MCPError):
            text = self._told(f"{about}{error.error.message} (code {error.error.code})", ":", tail=False)
            failure = ServerRefused(text, code=error.error.code, data=error.error.data)
        elif isinstance(error, ValidationError):
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.islower())
            why = f"its answer is not what the protocol allows: {place + ': ' if place else ''}{first['msg']}"
            return self._broken(why, shortened(first.get("input")), tool, error)
        elif isinstance(error, ServerRefused):
            failure = ServerRefused(self._told(str(error), ":", tail=False), code=error.code, data=error.data)
        else:
            failure = ConnectionError(self._told(f"{about}{str(error) or type(error).__name__}", ":"))
        failure.__cause__ = error
        return failure

    def _broken(self, why: str, sent: str, tool: str, cause: BaseException) -> ServerRefused:
        """The failure of a request whose answer is none: it says what is wrong, and what the server sent."""
        told = self._told(f"tool {tool!r}: {why}" if tool else why, ":", tail=False)
        text = harmless(self._secrets.hidden(sent))
        if tool:
            failure: ServerRefused = BrokenResult(f"{told}; it sent: {text}", RawResult(False, text=text))
        else:
            failure = ServerRefused(f"{told}; it sent: {text}")
        failure.__cause__ = cause
        return failure

    def _told(self, what: str, join: str = "", *, tail: bool = True) -> str:
        text = f"{self.config}{join} {what}"
        if tail and self._streams is not None and self._streams.garbage:
            text += f"; it printed what is not JSON-RPC: {self._streams.garbage!r}"
        if tail and self._child is not None and (said := self._child.stderr_tail().strip()):
            text += f"; its stderr ends with:\n{said}"
        return harmless(self._secrets.hidden(text))

    def _address(self) -> str:
        return re.sub(r"//[^/?#]*@", "//", self.config.url).partition("?")[0]


async def _call(session: ClientSession, request: Request, token: str | None) -> Any:
    """One tools/call. Not `Client.call_tool`: that one validates results with Python `re`."""
    import mcp_types as types

    meta: Any = {} if request.key is None else {"ropewalk/idempotencyKey": hash_key(request.key)}
    if token is not None:
        meta["progressToken"] = token
    params = types.CallToolRequestParams(name=request.tool, arguments=request.args, _meta=meta or None)
    result = await session.send_request(types.CallToolRequest(params=params), _result_type())
    if isinstance(result, types.InputRequiredResult):
        raise ServerRefused(f"tool {request.tool!r} asks for input from a user; this client gives none")
    return result


def _without(secrets: Secrets, answer: Any) -> Any:
    """An answer of the server (a model of the SDK) without the secrets that it was given; mostly it is as it came."""
    if not secrets.named or not secrets.are_in(answer.model_dump_json().encode()):
        return answer
    return type(answer).model_validate(secrets.out_of(answer.model_dump(mode="json", by_alias=True)))


@cache
def _result_type() -> Any:
    import mcp_types as types
    from pydantic import TypeAdapter

    return TypeAdapter(types.CallToolResult | types.InputRequiredResult)


@cache
def _client_info() -> Any:
    import mcp_types as types

    return types.Implementation(name="ropewalk", version=version("ropewalk"))


def _unreadable(error: MCPError) -> tuple[str, str] | None:
    """Why an answer cannot be read, and its beginning, where the error takes the place of such an answer."""
    message, data = error.error.message, error.error.data
    if isinstance(data, Unreadable):
        return f"its answer cannot be read: {message}", data
    # The SDK's HTTP transport gives the words of pydantic, which quote the beginning and the end of what came.
    if not message.startswith(("Failed to parse JSON response: ", "Failed to parse SSE message: ")):
        return None
    patterns = (r"^JSONRPCResponse\.(.*\n.*) \[type=", r"^ +(.*) \[type=")
    why = next(filter(None, (re.search(pattern, message, re.MULTILINE) for pattern in patterns)), None)
    sent = re.search(r"input_value=(.*), input_type=", message)
    told = re.sub(r"\n +", ": ", why[1]) if why else message
    return f"its answer cannot be read: {told}", sent[1] if sent else "nothing"


def _is_closed(error: BaseException) -> bool:
    """Whether the pipes to a child have closed."""
    from mcp import MCPError

    if isinstance(error, MCPError):
        return error.error.code == -32000 and error.error.message == "Connection closed"
    return isinstance(error, ConnectionError)


def _is_lost(error: MCPError) -> bool:
    """Whether a request over HTTP broke off; a server may use the same code for its own errors."""
    return error.error.data == LOST or (
        error.error.code == -32000 and error.error.message.startswith(("Connection closed", "SSE stream "))
    )


def copied(error: Exception) -> Exception:
    """A fresh exception of the same kind, data and cause: one object raised in many tasks would
    collect all their tracebacks."""
    fresh = type(error)(str(error))
    fresh.__dict__.update(error.__dict__)
    fresh.__cause__ = error.__cause__
    return fresh


def _leaf(error: BaseException) -> BaseException:
    """The most telling exception inside groups of groups."""
    while isinstance(error, BaseExceptionGroup):
        plain = [e for e in error.exceptions if not isinstance(e, asyncio.CancelledError)]
        error = plain[0] if plain else error.exceptions[0]
    return error
