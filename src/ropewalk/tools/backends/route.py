"""Routes: the way from arguments to a raw result, and from a raw result to one JSON value.

A Route reaches a Python callable or an executor. It knows nothing of schemas, timeouts and errors; those are
in `bound_call.py`. To add a kind of backend, register it (`kinds.py`); its sources are executors.

Known results are an MCP CallToolResult (an object or a dict, with either spelling of its fields; the `mcp` package is
not needed) and a ToolExecutionResult. Any other result is the value itself. A result that reports an error raises
`ToolReported` with its text.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast

import orjson

from ...content import TYPES, from_mcp, with_mcp_blocks
from ...errors import ConfigError, StackTrace, ToolError, attribute_of, exception_text
from ...fast_dataclass import dataclass
from ...values import Json, is_json, parse_answer
from ..raw_result import json_text
from ..signature import KEY, integer_parameters, is_async, is_async_generator, with_arguments_object
from ..tool import Handler, ProgressEvent, ToolExecutionResult
from .kinds import BackendKind
from .local import collect, maybe_await, threads

_ABSENT: Any = object()
CONTENT: Final = frozenset(TYPES)
_PLAIN_FIELDS: Final = ("type", "text", "data", "uri", "name", "title", "description", "size", "blob", "resource")
_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in _PLAIN_FIELDS},
    "mimeType": ("mimeType", "mime_type"),
}


class ToolReported(Exception):
    """The tool reported a failure, with this text; `result` is the raw result."""

    # `trace`: What the server printed, for the record of the failure.

    trace: StackTrace | None = None

    def __init__(self, text: str, result: Any) -> None:
        self.result = result
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class FlowValue:
    """The value of a flow that was called as a tool, and a text about the tools in it that broke their schemas."""

    value: Json
    broken: str = ""


def normalise_mcp(result: Any) -> tuple[Any, Any]:
    """Return (value, raw result) for an MCP result, otherwise the same as `normalise_other`."""
    if not _is_mcp(result):
        return normalise_other(result)
    if get_field(result, "isError", "is_error") is True:
        raise ToolReported(_error_text(result), result)
    structured = get_field(result, "structuredContent", "structured_content")
    if structured is not None and structured is not _ABSENT:
        return structured, result
    return _from_content(get_field(result, "content")), result


def normalise_other(result: Any) -> tuple[Any, Any]:
    """Return (value, raw MCP result or None) for the result of a handler or a provider."""
    if isinstance(result, ToolExecutionResult):
        if not result.success:
            raise ToolReported(result.error or "the tool reported an error", result)
        return result.output, None
    if not isinstance(result, dict) and _is_mcp(result):
        return normalise_mcp(result)
    return result, None


def _is_mcp(result: Any) -> bool:
    if isinstance(result, dict):
        return "content" in result or "structuredContent" in result
    return get_field(result, "content") is not _ABSENT and get_field(result, "isError", "is_error") is not _ABSENT


def _from_content(content: Any) -> Json:
    """Convert content blocks to one value."""

    # No block gives null, one text its JSON or the text, several texts a list of those that are not empty. With an
    # image, audio, a link or a resource, the value is a list of the texts and these blocks.
    parts = list(content) if isinstance(content, (list, tuple)) else []
    if any(get_field(part, "type") in CONTENT for part in parts):
        values = [from_mcp(plain(part)) for part in parts]
        return [value for value in values if value != ""]
    if len(parts) == 1:
        text = _text_of_part(parts[0])
        return None if text is None else _parse_text(text)
    texts = _texts(parts)
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else texts


def plain(part: Any) -> dict[str, Any]:
    """Return a content block as a dict with the field names of MCP."""
    if isinstance(part, dict):
        return part
    dump = getattr(part, "model_dump", None)
    if dump is not None:
        return cast(dict[str, Any], dump(mode="json", by_alias=True, exclude_none=True))
    block: dict[str, Any] = {}
    for name, spellings in _SPELLINGS.items():
        value = get_field(part, *spellings)
        if value is not _ABSENT and value is not None:
            block[name] = plain(value) if name == "resource" else value
    return block


def _parse_text(text: str) -> Json:
    """Return the JSON value of a text; the text itself if it is not JSON, or a number that we cannot keep exactly."""

    # Invalid values inside a list or an object are reported later, as they are in `structuredContent`.
    try:
        value = parse_answer(text)
    except orjson.JSONDecodeError:
        return text
    return value if type(value) in (dict, list) or is_json(value) else text


def _text_of_part(part: Any) -> str | None:
    if get_field(part, "type") != "text":
        return None
    text = get_field(part, "text")
    return text if isinstance(text, str) else None


def _texts(parts: Iterable[Any]) -> list[str]:
    return [text for text in map(_text_of_part, parts) if text]


def _error_text(result: Any) -> str:
    content = get_field(result, "content")
    texts = _texts(content) if isinstance(content, (list, tuple)) else []
    if texts:
        return "\n".join(texts)
    structured = get_field(result, "structuredContent", "structured_content")
    if structured is _ABSENT or structured is None or not is_json(structured):
        return "the tool reported an error"
    return orjson.dumps(structured).decode()


def get_field(holder: Any, *names: str) -> Any:
    """Return the first of these members that a dict or an object has; a private marker if it has none."""
    for name in names:
        value = holder.get(name, _ABSENT) if isinstance(holder, dict) else getattr(holder, name, _ABSENT)
        if value is not _ABSENT:
            return value
    return _ABSENT


OnProgress: TypeAlias = Callable[[ProgressEvent], Any]
Args: TypeAlias = dict[str, Json]
Send: TypeAlias = Callable[[Args, str | None, float | None, OnProgress | None], Awaitable[Any]]
EngineGetter: TypeAlias = Callable[[], Any]
"""Returns the `engine.Engine` whose store keeps the runs of flows that are called as tools.

Tools are a layer below the engine, so the type is not named here.
"""
OpenStream: TypeAlias = Callable[[Args, str | None], Awaitable[AsyncIterator[Any] | None]]


class MissingHandler(LookupError):
    """A local backend names a handler that is not registered."""


class McpExecutor(Protocol):
    """Calls tools of MCP servers."""

    # It may also take the keywords `key`, `timeout` (seconds) and `on_progress`.
    # With a method `may_wait(server_name)` that returns True, a durable run waits for answers to questions of the
    # server, which the executor asks with `tools.mcp.questions.QUESTIONS`.
    # A method `last_output(server_name)` returns the end of what the server printed to stderr, without secrets.

    def call_tool(self, server_name: str, tool_name: str, args: Args, /) -> Any:
        """Call a tool; sync or async."""
        ...


class ProviderExecutor(Protocol):
    """Calls tools of providers."""

    # It may also take the keywords `key`, `timeout` (seconds) and `on_progress`.

    def call_tool(self, provider_id: str, tool_id: str, args: Args, /) -> Any:
        """Call a tool; sync or async."""
        ...


class LocalRegistry(Protocol):
    """Finds local handlers by name."""

    def get(self, name: str, /) -> Any:
        """Find a handler; sync or async."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way to one executor."""

    # Calls the executor and returns the raw result.
    send: Send
    # Converts the raw result to (value, raw MCP result or None).
    normalise: Callable[[Any], tuple[Any, Any]] = normalise_other
    # The coroutine handler itself; None for all other executors.
    direct: Callable[..., Awaitable[Any]] | None = None
    # Returns the stream of a call, or None if there is none.
    open: OpenStream | None = None
    # The executor knows the timeout and may raise TimeoutError for it.
    keeps_time: bool = False
    # The executor does not change its arguments, and `normalise` returns checked JSON, so nothing is copied or checked
    # again.
    strict: bool = False
    # Seconds per call if the tool sets none.
    timeout: float | None = None
    # Each attempt of a node needs an idempotency key of its own.
    per_attempt: bool = False
    # Returns the schema of the result, where the tool's own may be out of date.
    result_schema: Callable[[], Json] | None = None
    # Returns True if a result that does not fit is used all the same, by the key of the call.
    accepts: Callable[[str | None], Awaitable[bool]] | None = None
    # The call may wait for a person: a flow for its events and approvals, a server for answers.
    waits: bool = False
    # The arguments that must be an `int`; JSON Schema also calls 2.0 an integer.
    integer_arguments: tuple[str, ...] = ()
    # A call that took effect may be repeated; None leaves this to the tool's annotations.
    repeatable: bool | None = None


class Routed:
    """A handler that makes its own Route."""

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        """Return the route of a call."""
        raise NotImplementedError


def handler_route(handler: Handler, get_engine: EngineGetter | None = None, schema: Json = None) -> Route:
    """Return the route to a Python callable, which gets the arguments by name."""
    if isinstance(handler, Routed):
        return handler.route(get_engine)
    if isinstance(schema, dict):
        handler = with_arguments_object(handler, schema)
    route = _callable_route(handler)
    key_parameter = getattr(handler, KEY, None)
    return route if key_parameter is None else _with_key(route, key_parameter)


def _callable_route(handler: Handler) -> Route:
    integer_arguments = integer_parameters(handler)

    # An async generator streams, a coroutine function runs in the event loop, anything else in a thread.
    if is_async_generator(handler):

        async def gather(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await collect(handler(**args), on_progress)

        async def open_stream(args: Args, key: str | None) -> Any:
            return handler(**args)

        return Route(send=gather, open=open_stream, integer_arguments=integer_arguments)
    if is_async(handler):

        async def call(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await handler(**args)

        return Route(send=call, direct=handler, integer_arguments=integer_arguments)

    async def in_thread(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await maybe_await(await threads.run(partial(handler, **args)))

    return Route(send=in_thread, integer_arguments=integer_arguments)


def _with_key(route: Route, name: str) -> Route:
    """Pass the idempotency key as the argument `name`; a call outside of a run gets a new key."""

    def add_key(args: Args, key: str | None) -> Args:
        return {**args, name: key or uuid.uuid4().hex}

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await route.send(add_key(args, key), key, timeout, on_progress)

    async def open_stream(args: Args, key: str | None) -> Any:
        return await route.open(add_key(args, key), key) if route.open is not None else None

    return Route(
        send=send, open=open_stream if route.open is not None else None, integer_arguments=route.integer_arguments
    )


def registry_route(
    registries: Sequence[LocalRegistry], name: str, get_engine: EngineGetter | None = None, schema: Json = None
) -> Route:
    """Return the route to a handler that is looked up by name at every call, in one registry after another."""

    async def look_up() -> Route:
        if not registries:
            raise ConfigError("local registry not configured")
        for registry in registries:
            handler = await maybe_await(registry.get(name))
            if handler is not None:
                return handler_route(handler, get_engine, schema)
        raise MissingHandler(f'local handler "{name}" not found')

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await (await look_up()).send(args, key, timeout, on_progress)

    async def open_stream(args: Args, key: str | None) -> Any:
        opener = (await look_up()).open
        return await opener(args, key) if opener else None

    return Route(send=send, open=open_stream)


def executor_route(kind: BackendKind, executor: Any, target: tuple[Any, ...]) -> Route:
    """Return the route to a tool that an executor calls."""
    if not kind.has_mcp_results:
        return _call_tool_route(executor, kind.name, target, normalise_other)
    route = _call_tool_route(executor, kind.name.upper(), target, normalise_mcp)

    last_output: Callable[[Any], str] | None = getattr(executor, "last_output", None)

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        try:
            return await route.send(with_mcp_blocks(args), key, timeout, on_progress)
        except Exception as error:
            _add_output(error, last_output, target)
            raise

    def normalise(result: Any) -> tuple[Any, Any]:
        try:
            return normalise_mcp(result)
        except ToolReported as error:
            _add_output(error, last_output, target)
            raise

    async def open_stream(args: Args, key: str | None) -> Any:
        return await route.open(with_mcp_blocks(args), key) if route.open is not None else None

    # Content in the arguments is sent as content blocks of MCP, because the server cannot read our blobs.
    may_wait = getattr(executor, "may_wait", None)
    waits = may_wait is not None and bool(may_wait(target[0]))
    opened = open_stream if route.open is not None else None
    return replace(route, send=send, normalise=normalise, open=opened, waits=waits)


def _add_output(error: Exception, last_output: Callable[[Any], str] | None, target: tuple[Any, ...]) -> None:
    """Add to the failure of a call, for its record, what the server sent with it and the end of its stderr."""
    if last_output is None or isinstance(error, ToolError):
        return
    data, printed = attribute_of(error, "data"), last_output(target[0])
    parts = [exception_text(error)]
    if data is not None:
        parts.append(f"data: {json_text(data)}")
    if printed and printed not in parts[0]:
        parts.append(f"the stderr of the server ends with:\n{printed}")
    if len(parts) > 1:
        # Where engine/stack_trace.py reads it; the class may have a property of this name.
        error.__dict__["trace"] = StackTrace(None, "\n\n".join(parts))


def _call_tool_route(
    executor: Any, label: str, target: tuple[Any, ...], normalise: Callable[[Any], tuple[Any, Any]]
) -> Route:
    if executor is None:

        async def refuse(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            raise ConfigError(f"{label} executor not configured")

        async def refuse_stream(args: Args, key: str | None) -> Any:
            raise ConfigError(f"{label} executor not configured")

        return Route(send=refuse, open=refuse_stream)
    # Look at the signatures once: a user's executor may take none of the optional arguments.
    call = executor.call_tool
    accepted = executor_extras(call)
    in_loop = is_async(call)

    async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        extras = {"key": key, "timeout": timeout, "on_progress": on_progress}
        accepted_extras = {name: value for name, value in extras.items() if name in accepted and value is not None}
        if in_loop:
            return await call(*target, args, **accepted_extras)
        return await maybe_await(await threads.run(partial(call, *target, args, **accepted_extras)))

    keeps_time = "timeout" in accepted
    opener = getattr(executor, "call_tool_stream", None)
    if opener is None:
        return Route(send=send, normalise=normalise, keeps_time=keeps_time)
    opener_takes_key = "key" in executor_extras(opener)

    async def open_stream(args: Args, key: str | None) -> Any:
        accepted_extras = {"key": key} if key is not None and opener_takes_key else {}
        return await maybe_await(opener(*target, args, **accepted_extras))

    return Route(send=send, normalise=normalise, open=open_stream, keeps_time=keeps_time)


def executor_extras(function: Callable[..., Any]) -> frozenset[str]:
    """Return which of the arguments `key`, `timeout` and `on_progress` an executor's method accepts."""
    known = frozenset(("key", "timeout", "on_progress"))
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return known
    return known & {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
