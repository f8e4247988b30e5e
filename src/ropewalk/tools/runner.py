"""The Runner: a tool id and arguments in, a checked result out.

Steps 1 to 4 of the pipeline are here (cancelled, id, resolve, select), 5 to 8 in `bound.py`. It does no
discovery and no ranking. To add a kind of backend, add its route to `route.py` and to `_route`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from ..values import Json, check_json
from .absent import absent
from .bound import (
    DEFAULT_TIMEOUT,
    Bound,
    Rules,
    Validator,
    bind_route,
    check_timeout,
    checked_args,
    seconds_complaint,
    stop_if_cancelled,
)
from .local import maybe_await
from .progress import Progress
from .result import ProgressEvent, RunResult, StreamEvent
from .route import (
    Args,
    Flows,
    LocalRegistry,
    McpExecutor,
    OnProgress,
    ProviderExecutor,
    Route,
    Routed,
    handler_route,
    mcp_route,
    provider_route,
    registry_route,
)
from .tool import Tool, ToolBackend, parse_tool_id

if TYPE_CHECKING:
    from .pace import Pace

ToolResolver: TypeAlias = Callable[[str], Tool | Awaitable[Tool | None] | None]
BackendsResolver: TypeAlias = Callable[[str], Any]
Learner: TypeAlias = Callable[[str, Mapping[str, bool]], None]
BackendSelector: TypeAlias = Callable[[list[ToolBackend]], ToolBackend | Awaitable[ToolBackend]]

_RANK: Final = {"local": 0, "provider": 1, "mcp": 2}


def check_request(given: object) -> str:
    """What a call or a run is for, in words; InvalidInput for what is no text."""
    if not isinstance(given, str):
        raise InvalidInput([Problem(path="request", message=f"must be a string, not {type(given).__name__}")])
    return str(check_json(given, "request"))


def select_backend(backends: Sequence[ToolBackend]) -> ToolBackend:
    """The default rule: local before provider before mcp, the first in list order within a kind."""
    return min(backends, key=lambda backend: _RANK[backend.kind])


class Runner:
    """Runs tools by id, through one pipeline; safe for concurrent use.

    `index` is a Toolbox, or anything with `get(id) -> Tool | None` and `backends(id) -> list`, not async;
    what it does not know the resolvers are asked for. Resolvers, selector and executors may be sync or
    async. Executors and the local registry default to those of the index. `timeout` is in seconds,
    for every call whose tool sets none. `flows` gives the engine in whose store the runs of flows that
    are called as tools are kept; without one they run in memory. `pace` limits how fast tools are called.
    `learner` is told the request that a call was for and, by tool, whether it succeeded.
    """

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
        mcp: McpExecutor | None = None,
        provider: ProviderExecutor | None = None,
        local: LocalRegistry | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        flows: Flows = None,
        pace: Pace | None = None,
        learner: Learner | None = None,
    ) -> None:
        if complaint := seconds_complaint(timeout):
            raise ValueError(f"timeout {complaint}")
        self.index = index
        self._tool_resolver = tool_resolver
        self._backends_resolver = backends_resolver
        self._selector = backend_selector
        self._given = {"mcp": mcp, "provider": provider, "local": local}
        self._flows = flows
        self._learner = learner
        self._rules = Rules(
            timeout=timeout,
            validate_input=validate_input,
            validate_output=validate_output,
            validator=validator,
            pace=pace,
        )
        self._ready: tuple[int, dict[str, Bound]] = (-1, {})

    @property
    def version(self) -> int:
        """Changes whenever the index does: bound tools may be kept as long as it stays the same."""
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
        """One call. Raises a ToolError that names the stage; `timeout` (seconds) replaces the usual one;
        `key` is the idempotency key for backends that take one. `request` is what the call is for, in words: from it
        the tool selector learns, which an app's runner has (or another `learner`)."""
        check_timeout(timeout)
        await stop_if_cancelled()  # 1
        bound = await self._prepare(tool_id)  # 2 to 4
        if request is None:
            return await bound.execute(checked_args(tool_id, bound, args), key, timeout, None)  # 5 to 8
        with self.teaching(tool_id, request):
            return await bound.execute(checked_args(tool_id, bound, args), key, timeout, None)

    @contextmanager
    def teaching(self, tool_id: str, request: str | None) -> Iterator[None]:
        """Around a call: the learner is told whether it succeeded, when there is a request it was for and the tool was
        asked: arguments that it does not take are none of its failures. Raises ConfigError when nobody learns,
        InvalidInput for a request that is no text."""
        if request is not None:
            if self._learner is None:
                what = "nothing learns from this Runner's requests; use an app's runner, or give it a `learner`"
                raise ConfigError(what)
            check_request(request)
        try:
            yield
        except (ExecutionFailed, OutputValidationFailed):
            if request is not None and self._learner is not None:
                self._learner(request, {tool_id: False})
            raise
        if request is not None and self._learner is not None:
            self._learner(request, {tool_id: True})

    async def run_stream(
        self, tool_id: str, args: Args | None = None, *, key: str | None = None, timeout: float | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """One call as a stream that ends in a `done` or an `error`. What goes wrong before it begins
        raises a ToolError; `timeout` is the longest wait for one event."""
        check_timeout(timeout)
        await stop_if_cancelled()
        bound = await self._prepare(tool_id)
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
        """`run`, told as (0, 1, "started"), what the tool itself reports, and (1, 1, "completed" or
        "error"). A callback that raises is logged and changes nothing."""
        check_timeout(timeout)
        await stop_if_cancelled()
        progress = Progress(on_progress)
        progress.tell(ProgressEvent(0, 1, "started"))
        try:
            bound = await self._prepare(tool_id)
            told = progress.tell if on_progress is not None else None
            result = await bound.execute(checked_args(tool_id, bound, args), key, timeout, told)
        except BaseException:
            progress.tell(ProgressEvent(1, 1, "error"))
            await progress.flush()
            raise
        progress.tell(ProgressEvent(1, 1, "completed"))
        await progress.flush()
        return result

    def bind(self, tool_id: str) -> Bound:
        """The tool ready to be called many times; valid as long as `version` stays the same.

        Raises ToolError for an unknown tool when there is no resolver to ask; with resolvers or a
        selector of one's own it resolves at each call instead.
        """
        ready = self._static(tool_id)
        if ready is not None:
            return ready
        parse_tool_id(tool_id)
        tool = self._known(tool_id)
        if tool is None and self._tool_resolver is None:
            raise absent(tool_id, self.index)
        if tool is not None and self._backends_resolver is None and not self._backends_of(tool_id, tool):
            raise NoBackends(tool_id, "resolve", "no backends available")
        return self._late(tool_id, tool)

    # --- steps 2 to 4 ---------------------------------------------------------------------

    async def _prepare(self, tool_id: str) -> Bound:
        servers = getattr(self.index, "mcp", None)
        if getattr(servers, "lost", None) and isinstance(tool_id, str) and self.index.lacks(tool_id):
            await self.index.connect_for([tool_id])  # what it takes may be something else now
        ready = self._static(tool_id)
        if ready is not None:
            return ready
        parse_tool_id(tool_id)  # 2
        tool = self._known(tool_id) or await self._ask_for_tool(tool_id)  # 3
        backends = self._backends_of(tool_id, tool) or await self._ask_for_backends(tool_id)
        if not backends:
            raise NoBackends(tool_id, "resolve", "no backends available")
        backend = await self._select(tool_id, backends)  # 4
        return bind_route(tool_id, tool, backend, self._route(tool, backend), self._rules)

    def _static(self, tool_id: str) -> Bound | None:
        """What the index alone can bind, kept until the index changes; None where more must be asked."""
        if self._selector is not None or self.index is None:
            return None
        version = self.version
        if self._ready[0] != version:
            self._ready = (version, {})
        cache = self._ready[1]
        bound = cache.get(tool_id) if isinstance(tool_id, str) else None
        if bound is not None:
            return bound
        tool = self._known(tool_id) if tool_id else None
        backends = self._backends_of(tool_id, tool) if tool is not None else ()
        if tool is None or not backends:
            return None
        backend = select_backend(backends)
        bound = bind_route(tool_id, tool, backend, self._route(tool, backend), self._rules)
        if hasattr(self.index, "version"):
            cache[tool_id] = bound
        return bound

    def _known(self, tool_id: str) -> Tool | None:
        """The index's answer; only "not found" is None, any other failure of the index stops."""
        if self.index is None:
            return None
        try:
            return _as_tool(self.index.get(tool_id), "index")
        except NotFound:
            return None
        except Exception as error:
            raise ToolError(tool_id, "resolve", error) from error

    def _backends_of(self, tool_id: str, tool: Tool) -> list[ToolBackend]:
        found: Any = None
        try:
            if self.index is not None:
                found = _as_backends(self.index.backends(tool_id), "index")
        except NotFound:
            pass
        except Exception as error:
            raise ToolError(tool_id, "resolve", error) from error
        if found:
            return list(found)
        if tool.backend is not None:
            return [tool.backend]
        return [ToolBackend.local(tool.id)] if tool.handler is not None else []

    async def _ask_for_tool(self, tool_id: str) -> Tool:
        tool = None
        if self._tool_resolver is not None:
            try:
                tool = _as_tool(await maybe_await(self._tool_resolver(tool_id)), "tool resolver")
            except NotFound as error:
                raise ToolNotFound(tool_id, "resolve", error) from error
            except Exception as error:
                raise ToolError(tool_id, "resolve", error) from error
        if tool is None:
            raise absent(tool_id, self.index)
        return tool

    async def _ask_for_backends(self, tool_id: str) -> list[ToolBackend]:
        if self._backends_resolver is None:
            return []
        try:
            return _as_backends(await maybe_await(self._backends_resolver(tool_id)), "backends resolver")
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
                raise TypeError(f"the selector gave {type(chosen).__qualname__}, not a ToolBackend")
        except Exception as error:
            raise ToolError(tool_id, "select_backend", error) from error
        return chosen

    # --- step 6 -----------------------------------------------------------------------------

    def _route(self, tool: Tool, backend: ToolBackend) -> Route:
        if backend.kind == "mcp":
            return mcp_route(self._executor("mcp"), backend, tool.name)
        if backend.kind == "provider":
            return provider_route(self._executor("provider"), backend)
        name = backend.name or ""
        registry = self._executor("local")
        if self._given["local"] is None:
            # The index's own handlers change only with its version: found once, called directly.
            handler = registry.get(name) if registry is not None else None
            if handler is None and name == tool.id:
                handler = tool.handler
            if handler is not None:
                return handler_route(handler, self._flows)
        return registry_route(registry, name, self._flows)

    def _executor(self, kind: str) -> Any:
        given = self._given[kind]
        return given if given is not None else getattr(self.index, kind, None)

    def _late(self, tool_id: str, tool: Tool | None) -> Bound:
        """A Bound that resolves at every call."""

        async def call(
            args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
        ) -> Json:
            return await (await self._prepare(tool_id)).call(args, key, timeout, on_progress)

        async def execute(
            args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None
        ) -> RunResult:
            return await (await self._prepare(tool_id)).execute(args, key, timeout, on_progress)

        async def stream(args: Args, key: str | None, timeout: float | None) -> AsyncGenerator[StreamEvent, None]:
            async with aclosing((await self._prepare(tool_id)).stream(args, key, timeout)) as events:
                async for event in events:
                    yield event

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


def _as_tool(found: Any, who: str) -> Tool | None:
    if found is None or isinstance(found, Tool):
        return found
    raise TypeError(f"the {who} gave {type(found).__qualname__}, not a Tool")


def _as_backends(found: Any, who: str) -> list[ToolBackend]:
    backends = [found] if isinstance(found, ToolBackend) else list(found or ())
    for backend in backends:
        if not isinstance(backend, ToolBackend):
            raise TypeError(f"the {who} gave {type(backend).__qualname__}, not a ToolBackend")
    return backends
