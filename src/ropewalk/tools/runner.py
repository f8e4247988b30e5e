"""The Runner calls a tool by id with arguments and returns a checked result.

The pipeline has eight steps. Steps 1 to 4 are here (cancellation, id, resolve, select a backend), 5 to 8
in `bound_call.py`. The Runner does no discovery and no ranking. Kinds of backend are registered in
`backends/kinds.py`.

`logged` writes the input and the result of a model's calls to the log `ropewalk.tools`, with secrets masked.
An ExecutorCaller replaces a Runner by one function `(tool_name, params) -> result` of the user. It has no
schemas and accepts every name; it refuses results that are not JSON.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from ..argument_checks import wrong_type
from ..config.secrets import ProcessSecrets, is_secret_name
from ..duration import read_duration
from ..errors import (
    ConfigError,
    ExecutionFailed,
    InvalidInput,
    NoBackends,
    NotFound,
    OutputValidationFailed,
    Problem,
    ToolError,
    ToolNotFound,
)
from ..redaction import MARK
from ..values import Json, check_json
from .backends.kinds import backend_kind
from .backends.local import maybe_await, threads
from .backends.route import (
    Args,
    EngineGetter,
    LocalRegistry,
    McpExecutor,
    OnProgress,
    ProviderExecutor,
    Route,
    Routed,
    executor_route,
    handler_route,
    registry_route,
)
from .bound_call import (
    DEFAULT_TIMEOUT,
    Bound,
    Progress,
    Rules,
    Validator,
    bind_route,
    check_timeout,
    checked_args,
    stop_if_cancelled,
    timeout_problem,
)
from .index import tool_not_found
from .raw_result import RawResult
from .signature import is_async
from .tool import ProgressEvent, RunResult, StreamEvent, Tool, ToolBackend, parse_tool_id, strict_patterns

if TYPE_CHECKING:
    from .backends.http import RateLimiter

ToolResolver: TypeAlias = Callable[[str], Tool | Awaitable[Tool | None] | None]
BackendsResolver: TypeAlias = Callable[[str], Any]
Learner: TypeAlias = Callable[[str, Mapping[str, bool]], None]
BackendSelector: TypeAlias = Callable[[list[ToolBackend]], ToolBackend | Awaitable[ToolBackend]]


def check_request(request: object) -> str:
    """Return the task of a call or a run, in words."""
    if not isinstance(request, str):
        raise InvalidInput([Problem(path="request", message=f"must be a string, not {type(request).__name__}")])
    return str(check_json(request, "request"))


def select_backend(backends: Sequence[ToolBackend]) -> ToolBackend:
    """Return the backend whose kind has the lowest rank (local, provider, mcp, others), the first of that kind."""
    return min(backends, key=lambda backend: backend_kind(backend.kind).rank)


class Runner:
    """Runs tools by id, through one pipeline; safe for concurrent use."""

    # Resolvers, selector and executors may be sync or async.

    def __init__(
        self,
        index: Any = None,
        *,
        tool_resolver: ToolResolver | None = None,
        backends_resolver: BackendsResolver | None = None,
        backend_selector: BackendSelector | None = None,
        validator: Validator | None = None,
        validate_input: bool = True,
        validate_output: bool = True,
        strict_output: bool | Sequence[str] | None = None,
        mcp: McpExecutor | None = None,
        provider: ProviderExecutor | None = None,
        local: LocalRegistry | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        get_engine: EngineGetter | None = None,
        pace: RateLimiter | None = None,
        learner: Learner | None = None,
    ) -> None:
        timeout = read_duration(timeout)
        if complaint := timeout_problem(timeout):
            raise ValueError(f"timeout {complaint}")
        self.index = index
        self._tool_resolver = tool_resolver
        self._backends_resolver = backends_resolver
        self._selector = backend_selector
        self._executors = {"mcp": mcp, "provider": provider, "local": local}
        self._get_engine = get_engine
        self._learner = learner
        strict = getattr(index, "strict_output", []) if strict_output is None else strict_patterns(strict_output)
        self._rules = Rules(
            timeout=timeout,
            validate_input=validate_input,
            validate_output=validate_output,
            strict_output=strict,
            validator=validator,
            pace=pace,
            undos=getattr(index, "undos", {}),
        )
        self._bound_cache: tuple[int, dict[str, Bound]] = (-1, {})

    @property
    def version(self) -> int:
        """The version of the index. Bound tools stay valid as long as it does not change."""
        return getattr(self.index, "version", 0)

    @property
    def timeout(self) -> float:
        """Seconds for every call whose tool sets none."""
        return self._rules.timeout

    async def run(
        self,
        tool_id: str,
        args: Args | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
        request: str | None = None,
    ) -> RunResult:
        """Call a tool once.

        Args:
            tool_id: `name`, `namespace:name` or `namespace:name:version`.
            args: The arguments, a JSON object; None means none.
            key: The idempotency key, for backends that take one.
            timeout: Seconds for this call; None uses the tool's timeout, or the Runner's.
            request: The task of the call, in words. The tool selector (or another `learner`) learns from it.

        Returns:
            The checked result.

        Raises:
            ToolError: The call failed; the error names the stage.
            InvalidInput: `timeout` is not a number of seconds, or `request` is not a string.
            ConfigError: There is a `request`, but the Runner has no learner.
        """
        check_timeout(timeout)
        await stop_if_cancelled()  # 1
        bound = await self._resolve(tool_id)  # 2 to 4
        if request is None:
            return await bound.execute(checked_args(tool_id, bound, args), key, timeout, None)  # 5 to 8
        with self.teaching(tool_id, request):
            return await bound.execute(checked_args(tool_id, bound, args), key, timeout, None)

    @contextmanager
    def teaching(self, tool_id: str, request: str | None) -> Iterator[None]:
        """Report the outcome of the enclosed call to the learner.

        Nothing is reported if the arguments were invalid, because the tool did not fail then.

        Args:
            tool_id: The id of the tool.
            request: The task of the call, in words; None reports nothing.

        Yields:
            Nothing.

        Raises:
            ConfigError: There is a request, but no learner.
            InvalidInput: The request is not a string.
        """
        learner = self._learner
        if request is None:
            yield
            return
        if learner is None:
            message = "request needs a learner; use the runner of an app, or pass learner= to the Runner"
            raise ConfigError(message)
        check_request(request)
        try:
            yield
        except (ExecutionFailed, OutputValidationFailed):
            learner(request, {tool_id: False})
            raise
        learner(request, {tool_id: True})

    async def run_stream(
        self, tool_id: str, args: Args | None = None, *, key: str | None = None, timeout: float | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """Call a tool as a stream.

        Args:
            tool_id: `name`, `namespace:name` or `namespace:name:version`.
            args: The arguments, a JSON object; None means none.
            key: The idempotency key, for backends that take one.
            timeout: The longest wait for one event, in seconds.

        Yields:
            The events; the last one is a `done` or an `error`.

        Raises:
            ToolError: The call failed before the stream began.
        """
        check_timeout(timeout)
        await stop_if_cancelled()
        bound = await self._resolve(tool_id)
        async with aclosing(bound.stream(checked_args(tool_id, bound, args), key, timeout)) as events:
            async for event in events:
                yield event

    async def run_with_progress(
        self,
        tool_id: str,
        args: Args | None = None,
        on_progress: OnProgress | None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> RunResult:
        """Call a tool as `run` does, and report its progress.

        Args:
            tool_id: `name`, `namespace:name` or `namespace:name:version`.
            args: The arguments, a JSON object; None means none.
            on_progress: Gets (0, 1, "started"), the events of the tool, and (1, 1, "completed" or "error"). Its
                exceptions are logged and do not change the result.
            key: The idempotency key, for backends that take one.
            timeout: Seconds for this call; None uses the tool's timeout, or the Runner's.

        Returns:
            The checked result.

        Raises:
            ToolError: The call failed; the error names the stage.
        """
        check_timeout(timeout)
        await stop_if_cancelled()
        progress = Progress(on_progress)
        progress.report(ProgressEvent(0, 1, "started"))
        try:
            bound = await self._resolve(tool_id)
            report = progress.report if on_progress is not None else None
            result = await bound.execute(checked_args(tool_id, bound, args), key, timeout, report)
        except BaseException:
            progress.report(ProgressEvent(1, 1, "error"))
            await progress.flush()
            raise
        progress.report(ProgressEvent(1, 1, "completed"))
        await progress.flush()
        return result

    def bind(self, tool_id: str) -> Bound:
        """Return a tool ready to be called many times. It is valid as long as `version` does not change.

        With a selector, or for a tool that only a resolver knows, every call resolves the tool again.

        Args:
            tool_id: The id of the tool.

        Returns:
            The bound tool.

        Raises:
            ToolError: The tool is unknown or nothing runs it, and no resolver can supply it.
        """
        bound = self._bind_from_index(tool_id)
        if bound is not None:
            return bound
        # Refuse now what no resolver could supply later.
        parse_tool_id(tool_id)
        tool = self._lookup(tool_id)
        if tool is None and self._tool_resolver is None:
            raise tool_not_found(tool_id, self.index)
        if tool is not None and self._backends_resolver is None and not self._backends_of(tool_id, tool):
            raise NoBackends(tool_id, "resolve", "no backends available")
        return self._bind_late(tool_id, tool)

    def bind_handler(self, tool: Tool, handler: Any) -> Bound:
        """Return a tool bound to another handler than its own, with the same checks.

        Args:
            tool: The tool.
            handler: What is called in place of the tool's handler, such as a flow whose calls are counted.
        """
        if not isinstance(tool, Tool):
            raise wrong_type("tool", "a Tool", tool)
        route = handler_route(handler, self._get_engine)
        return bind_route(tool.id, tool, ToolBackend.local(tool.id), route, self._rules)

    # --- steps 2 to 4 ---------------------------------------------------------------------

    async def _resolve(self, tool_id: str) -> Bound:
        if getattr(self.index, "lost", None) and isinstance(tool_id, str) and self.index.is_missing(tool_id):
            await self.index.connect_for([tool_id])  # the tool may have another definition now
        bound = self._bind_from_index(tool_id)
        if bound is not None:
            return bound
        parse_tool_id(tool_id)  # 2
        tool = self._lookup(tool_id) or await self._call_tool_resolver(tool_id)  # 3
        backends = self._backends_of(tool_id, tool) or await self._call_backends_resolver(tool_id)
        if not backends:
            raise NoBackends(tool_id, "resolve", "no backends available")
        backend = await self._select(tool_id, backends)  # 4
        return bind_route(tool_id, tool, backend, self._route(tool, backend), self._rules)

    def _bind_from_index(self, tool_id: str) -> Bound | None:
        """Return the tool bound with the index alone, cached until the index changes."""

        # None means that a resolver or the selector must be asked.
        if self._selector is not None or self.index is None:
            return None
        version = self.version
        if self._bound_cache[0] != version:
            self._bound_cache = (version, {})
        cache = self._bound_cache[1]
        bound = cache.get(tool_id) if isinstance(tool_id, str) else None
        if bound is not None:
            return bound
        tool = self._lookup(tool_id) if tool_id else None
        backends = self._backends_of(tool_id, tool) if tool is not None else ()
        if tool is None or not backends:
            return None
        backend = select_backend(backends)
        bound = bind_route(tool_id, tool, backend, self._route(tool, backend), self._rules)
        if hasattr(self.index, "version"):
            cache[tool_id] = bound
        return bound

    def _lookup(self, tool_id: str) -> Tool | None:
        """Return the index's tool; None if it has none."""

        # Any other failure of the index is a ToolError.
        if self.index is None:
            return None
        try:
            return _require_tool(self.index.get(tool_id), "index")
        except NotFound:
            return None
        except Exception as error:
            raise ToolError(tool_id, "resolve", error) from error

    def _backends_of(self, tool_id: str, tool: Tool) -> list[ToolBackend]:
        if self.index is not None:
            try:
                backends = _require_backends(self.index.backends(tool_id), "index")
                if backends:
                    return backends
            except NotFound:
                pass
            except Exception as error:
                raise ToolError(tool_id, "resolve", error) from error
        # A tool that is not registered may bring its own backend or handler.
        if tool.backend is not None:
            return [tool.backend]
        return [ToolBackend.local(tool.id)] if tool.handler is not None else []

    async def _call_tool_resolver(self, tool_id: str) -> Tool:
        tool = None
        if self._tool_resolver is not None:
            try:
                tool = _require_tool(await maybe_await(self._tool_resolver(tool_id)), "tool resolver")
            except (NotFound, ToolNotFound) as error:
                raise ToolNotFound(tool_id, "resolve", error) from error
            except Exception as error:
                raise ToolError(tool_id, "resolve", error) from error
        if tool is None:
            raise tool_not_found(tool_id, self.index)
        return tool

    async def _call_backends_resolver(self, tool_id: str) -> list[ToolBackend]:
        if self._backends_resolver is None:
            return []
        try:
            return _require_backends(await maybe_await(self._backends_resolver(tool_id)), "backends resolver")
        except NotFound as error:
            raise NoBackends(tool_id, "resolve", error) from error
        except Exception as error:
            raise ToolError(tool_id, "resolve", error) from error

    async def _select(self, tool_id: str, backends: list[ToolBackend]) -> ToolBackend:
        if self._selector is None:
            return select_backend(backends)
        try:
            chosen = await maybe_await(self._selector(list(backends)))
            if not isinstance(chosen, ToolBackend):
                raise TypeError(f"the backend selector must return a ToolBackend, not {type(chosen).__qualname__}")
        except Exception as error:
            raise ToolError(tool_id, "select_backend", error) from error
        return chosen

    # --- step 6 -----------------------------------------------------------------------------

    def _route(self, tool: Tool, backend: ToolBackend) -> Route:
        kind = backend_kind(backend.kind)
        if kind.name != "local":
            place, name = (getattr(backend, attribute) for attribute in kind.fields.values())
            target = (place, name or tool.name) if kind.is_built_in else (name or tool.name,)
            return executor_route(kind, self._executor(kind.name, backend), target)
        name = backend.name or ""
        # The handlers that the user passed come first. They add to those of the index and of the tool.
        own = {} if name != tool.id or tool.handler is None else {name: tool.handler}
        known: tuple[Any, ...] = (self._executors["local"], getattr(self.index, "local", None), own or None)
        registries = [registry for registry in known if registry is not None]
        if self._executors["local"] is None:
            # The index's own handlers change only with its version, so look the handler up once.
            handler = next((found for registry in registries if (found := registry.get(name)) is not None), None)
            if handler is not None:
                return handler_route(handler, self._get_engine, tool.input_schema)
        return registry_route(registries, name, self._get_engine, tool.input_schema)

    def _executor(self, kind: str, backend: ToolBackend) -> Any:
        """Return the executor that the user passed for a kind, or that of the index."""
        executor = self._executors.get(kind)
        if executor is not None:
            return executor
        find = None if kind == "local" else getattr(self.index, "executor", None)
        return getattr(self.index, kind, None) if find is None else find(backend)

    def _bind_late(self, tool_id: str, tool: Tool | None) -> Bound:
        """Return a Bound that resolves the tool at every call."""
        # Each of the three ways to call a tool resolves it first.

        async def call(
            args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
        ) -> Json:
            return await (await self._resolve(tool_id)).call(args, key, timeout, on_progress)

        async def execute(
            args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None
        ) -> RunResult:
            return await (await self._resolve(tool_id)).execute(args, key, timeout, on_progress)

        async def stream(args: Args, key: str | None, timeout: float | None) -> AsyncGenerator[StreamEvent, None]:
            async with aclosing((await self._resolve(tool_id)).stream(args, key, timeout)) as events:
                async for event in events:
                    yield event

        # A Routed handler may be a flow, which needs a key for each attempt and may wait.
        limit = (tool.timeout if tool is not None else None) or self._rules.timeout
        flow = tool is not None and isinstance(tool.handler, Routed)
        return Bound(
            tool=tool,
            backend=None,
            call=call,
            direct=None,
            timeout=limit,
            execute=execute,
            stream=stream,
            per_attempt=flow,
            waits=flow,
        )


def _require_tool(result: Any, origin: str) -> Tool | None:
    if result is None or isinstance(result, Tool):
        return result
    raise TypeError(f"the {origin} must return a Tool, not {type(result).__qualname__}")


def _require_backends(result: Any, origin: str) -> list[ToolBackend]:
    backends = [result] if isinstance(result, ToolBackend) else list(result or ())
    for backend in backends:
        if not isinstance(backend, ToolBackend):
            raise TypeError(f"the {origin} must return ToolBackends, not {type(backend).__qualname__}")
    return backends


log = logging.getLogger("ropewalk.tools")
MAX_LOGGED: Final = 2_000
"""Longest text of an input or a result in the log, in characters."""


def logged(bound: Bound, tool_id: str) -> Bound:
    """Wrap a model's tool so that each call logs its input and result at level INFO."""

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        is_enabled = log.isEnabledFor(logging.INFO)  # masking and encoding cost time
        # The key tells calls apart that are made at the same time.
        name = f"{tool_id} [{key}]" if key else tool_id
        if is_enabled:
            log.info("tool %s input: %s", name, log_text(args))
        try:
            result = await bound.call(args, key, timeout, on_progress)
        except OutputValidationFailed as error:
            raw = error.result
            if raw is not None:
                if is_enabled:
                    log.info("tool %s rejected result: %s", name, log_text(raw.value if raw.is_json else raw.text))
                if raw.is_json:  # the form that the conversation reads if a person accepts the result
                    error.result = RawResult(True, {"value": raw.value})
            raise
        if is_enabled:
            value = result.get("value") if isinstance(result, dict) else result
            log.info("tool %s result: %s", name, log_text(value))
        return result

    return replace(bound, call=call, direct=None)


def log_text(value: Json) -> str:
    """Return a value as shortened JSON on one line, without secrets."""

    # Secrets are the values that this process knows as secrets, and members with names such as `password`.
    text = orjson.dumps(ProcessSecrets(os.environ).redaction.value(mask_secret_members(value))).decode()
    return text if len(text) <= MAX_LOGGED else text[: MAX_LOGGED - 1] + "…"


def mask_secret_members(value: Any) -> Json:
    """Replace the members of objects whose names say that they are secrets."""
    if isinstance(value, dict):
        return {
            key: MARK if is_secret_name(key) and item is not None else mask_secret_members(item)
            for key, item in value.items()
        }
    return [mask_secret_members(item) for item in value] if isinstance(value, list) else value


class ExecutorCaller:
    """Calls every tool through one function; it has `bind` and `version` as a Runner does."""

    # `executor`: `(tool_name, params) -> result`, sync (it runs in a thread) or async.

    version = 0

    def __init__(self, executor: Callable[[str, Args], Any], *, timeout: float = DEFAULT_TIMEOUT) -> None:
        if not callable(executor):
            raise TypeError(f"executor must be a function of (tool_name, params), not {type(executor).__qualname__}")
        self._executor = executor
        self._rules = Rules(timeout=read_duration(timeout))
        self._bound: dict[str, Bound] = {}

    def bind(self, tool_id: str) -> Bound:
        """Return the executor bound to a tool name."""
        bound = self._bound.get(tool_id)
        if bound is None:
            if not tool_id:
                raise ToolNotFound(tool_id, "resolve", "empty tool name")
            bound = bind_route(tool_id, None, None, _function_route(self._executor, tool_id), self._rules)
            self._bound[tool_id] = bound
        return bound


def _function_route(executor: Callable[[str, Args], Any], tool_id: str) -> Route:
    if is_async(executor):

        async def call(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await executor(tool_id, args)

        return Route(send=call, direct=lambda **args: executor(tool_id, args))

    async def in_thread(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        return await maybe_await(await threads.run(partial(executor, tool_id, args)))

    return Route(send=in_thread)
