"""The way from arguments to a raw result, one per kind of backend.

A Route knows how to reach its executor and nothing of schemas, timeouts or errors: those are
`bound.py`. To add a kind of backend, add a function here that returns its Route, and a line to
`Runner._route`.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from ..content import expanded
from ..errors import ConfigError
from ..frozen import dataclass
from ..values import Json
from .local import collect, maybe_await, threads
from .normalise import normalise_mcp, normalise_other
from .result import ProgressEvent
from .signature import KEY, is_async, is_async_generator, whole_parameters
from .tool import Handler, ToolBackend

OnProgress: TypeAlias = Callable[[ProgressEvent], Any]
Args: TypeAlias = dict[str, Json]
Send: TypeAlias = Callable[[Args, str | None, float | None, OnProgress | None], Awaitable[Any]]
Flows: TypeAlias = Callable[[], Any] | None
OpenStream: TypeAlias = Callable[[Args, str | None], Awaitable[AsyncIterator[Any] | None]]


class MissingHandler(LookupError):
    """A local backend names a handler that nobody registered."""


class McpExecutor(Protocol):
    """Reaches MCP servers. `key`, `timeout` and `on_progress` are passed only where it takes them."""

    def call_tool(self, server_name: str, tool_name: str, args: Args, /) -> Any: ...


class ProviderExecutor(Protocol):
    """Reaches providers. `key`, `timeout` and `on_progress` are passed only where it takes them."""

    def call_tool(self, provider_id: str, tool_id: str, args: Args, /) -> Any: ...


class LocalRegistry(Protocol):
    """Finds local handlers by name."""

    def get(self, name: str, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """`send` gives the raw result, `normalise` makes (value, raw MCP result or None) of it.

    `direct` is there for coroutine handlers only: it gives the handler's own coroutine.
    `open` gives the stream, or None where there is none. `keeps_time` says that the executor was told
    the timeout and may raise TimeoutError for it. `strict` says that it leaves its arguments as they are and that
    `normalise` gives checked JSON of ours: nothing is copied or checked a second time.
    `whole` names the arguments that have to be an `int`: JSON Schema calls 2.0 an integer, too.
    `timeout` (seconds) stands where the tool sets none.
    `per_attempt` asks for keys that tell the attempts of a node apart. `checked` says that the result fits the output
    schema of the tool already: that of a flow follows from its graph, or was held to the declared one.
    `repeatable` says whether a call may be repeated after it took effect; None leaves it to the tool's annotations.
    `waits` says that the tool runs a flow that may wait for events and approvals.
    """

    send: Send
    normalise: Callable[[Any], tuple[Any, Any]] = normalise_other
    direct: Callable[..., Awaitable[Any]] | None = None
    open: OpenStream | None = None
    keeps_time: bool = False
    strict: bool = False
    timeout: float | None = None
    per_attempt: bool = False
    checked: bool = False
    waits: bool = False
    whole: tuple[str, ...] = ()
    repeatable: bool | None = None


class Routed:
    """A handler that makes its own Route. `flows` is what the Runner was given: it gives the engine
    that runs flows called as tools, None where there is no store."""

    def route(self, flows: Flows, /) -> Route:
        raise NotImplementedError


def handler_route(handler: Handler, flows: Flows = None) -> Route:
    """The route to one Python callable, which gets the arguments by name."""
    if isinstance(handler, Routed):
        return handler.route(flows)
    route, keyed = _callable_route(handler), getattr(handler, KEY, None)
    return route if keyed is None else _keyed(route, keyed)


def _callable_route(handler: Handler) -> Route:
    whole = whole_parameters(handler)
    if is_async_generator(handler):

        async def gather(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await collect(handler(**args), on_progress)

        async def open_stream(args: Args, key: str | None) -> Any:
            return handler(**args)

        return Route(send=gather, open=open_stream, whole=whole)
    if is_async(handler):

        async def call(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await handler(**args)

        return Route(send=call, direct=handler, whole=whole)

    async def in_thread(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await maybe_await(await threads.run(partial(handler, **args)))

    return Route(send=in_thread, whole=whole)


def _keyed(route: Route, name: str) -> Route:
    """The same, given the idempotency key as the argument `name`: one of its own where a call comes without any,
    being no part of a run."""

    def also(args: Args, key: str | None) -> Args:
        return {**args, name: key or uuid.uuid4().hex}

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await route.send(also(args, key), key, timeout, on_progress)

    async def open_stream(args: Args, key: str | None) -> Any:
        return await route.open(also(args, key), key) if route.open is not None else None

    return Route(send=send, open=open_stream if route.open is not None else None, whole=route.whole)


def registry_route(registry: LocalRegistry | None, name: str, flows: Flows = None) -> Route:
    """The route to a handler looked up by name at every call."""

    async def find() -> Route:
        if registry is None:
            raise ConfigError("local registry not configured")
        handler = await maybe_await(registry.get(name))
        if handler is None:
            raise MissingHandler(f'local handler "{name}" not found')
        return handler_route(handler, flows)

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await (await find()).send(args, key, timeout, on_progress)

    async def open_stream(args: Args, key: str | None) -> Any:
        found = (await find()).open
        return await found(args, key) if found else None

    return Route(send=send, open=open_stream)


def mcp_route(executor: McpExecutor | None, backend: ToolBackend, name: str) -> Route:
    """The route to a tool of an MCP server, under the server's own bare name."""
    route = _remote(executor, "MCP", (backend.server_name, backend.tool_id or name), normalise_mcp)

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await route.send(expanded(args), key, timeout, on_progress)

    async def open_stream(args: Args, key: str | None) -> Any:
        return await route.open(expanded(args), key) if route.open is not None else None

    # A part of content among the arguments is sent as the content block of MCP: the server has no blobs of ours.
    return replace(route, send=send, open=open_stream if route.open is not None else None)


def provider_route(executor: ProviderExecutor | None, backend: ToolBackend) -> Route:
    """The route to a provider's tool, under the backend's own ids."""
    return _remote(executor, "provider", (backend.provider_id, backend.tool_id), normalise_other)


def _remote(executor: Any, label: str, target: tuple[Any, ...], normalise: Callable[[Any], tuple[Any, Any]]) -> Route:
    if executor is None:

        async def refuse(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            raise ConfigError(f"{label} executor not configured")

        async def refuse_stream(args: Args, key: str | None) -> Any:
            raise ConfigError(f"{label} executor not configured")

        return Route(send=refuse, open=refuse_stream)
    call, takes = executor.call_tool, executor_extras(executor.call_tool)
    in_loop = is_async(call)

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        extras = {"key": key, "timeout": timeout, "on_progress": on_progress}
        wanted = {name: value for name, value in extras.items() if name in takes and value is not None}
        if in_loop:
            return await call(*target, args, **wanted)
        return await maybe_await(await threads.run(partial(call, *target, args, **wanted)))

    keeps_time = "timeout" in takes
    opener = getattr(executor, "call_tool_stream", None)
    if opener is None:
        return Route(send=send, normalise=normalise, keeps_time=keeps_time)
    opener_takes = executor_extras(opener)

    async def open_stream(args: Args, key: str | None) -> Any:
        wanted = {"key": key} if key is not None and "key" in opener_takes else {}
        return await maybe_await(opener(*target, args, **wanted))

    return Route(send=send, normalise=normalise, open=open_stream, keeps_time=keeps_time)


def executor_extras(function: Callable[..., Any]) -> frozenset[str]:
    """Which of our optional arguments an executor's method takes."""
    known = frozenset(("key", "timeout", "on_progress"))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return known
    return known & {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
