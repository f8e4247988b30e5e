"""Build composite tools in Python: `ComposableToolBuilder` combines several tools into one.

The builder has no registry. Every step calls the function that the builder received, with the caller's context.
The result is a Tool. Called alone, it runs in memory. Registered in a Toolbox and called in a run, it is journaled,
resumed and stopped with that run. The notation is the one of `notations/composite.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from ..app.preflight import output_of, tools_of
from ..check import ToolCard
from ..duration import read_duration
from ..engine.flow_tool import FlowHost, FlowSource, FlowTool, cycle_message, flow_tool_of, input_schema_of
from ..errors import InvalidFlow, InvalidValue, Problem, UnresolvedReference
from ..expr.lift import UNRESOLVED
from ..fast_dataclass import dataclass
from ..notations.composite import NAMESPACE, find_spec_problems
from ..notations.composite import compile_document as compile_composite
from ..notations.registry import Compiled
from ..ops import calls_of
from ..schema import compile_schema
from ..tools.backends.local import maybe_await, threads
from ..tools.backends.route import ToolReported
from ..tools.bound_call import DEFAULT_TIMEOUT
from ..tools.runner import ExecutorCaller
from ..tools.signature import is_async
from ..tools.tool import Tool, ToolExecutionResult
from ..values import Json, check_json, digest

log = logging.getLogger("ropewalk.composite")

ExecuteTool = Callable[[str, dict[str, Json], Any], Awaitable[ToolExecutionResult]]
_call_context: ContextVar[tuple[object, Any]] = ContextVar("ropewalk_composite_context", default=(None, None))
"""The builder whose tool is executed, and the context of the caller."""
_PREFIX: Final = f"{NAMESPACE}:"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`errors` has one message per failing check; it is None when `valid`."""

    valid: bool
    errors: list[str] | None = None

    def __getitem__(self, name: str) -> Any:
        """Read it as the object that the documentation shows: `result["valid"]`."""
        if name not in ("valid", "errors"):
            raise KeyError(name)
        return getattr(self, name)


class ComposableTool(Tool):
    """A Tool whose steps are calls of other tools; `execute` runs it by itself."""

    async def execute(self, args: Mapping[str, Any] | None = None, context: Any = None) -> ToolExecutionResult:
        """Check the arguments and run the steps."""

        # Failures are in the result and not raised.
        flow = flow_tool_of(self)
        assert flow is not None
        try:
            arguments = check_json(dict(args or {}), "args")
            takes = compile_schema(self.input_schema)
            arguments = takes.with_defaults(arguments)
            problems = takes.problems(arguments, "args")
        except InvalidValue as exc:
            problems = [Problem(path=exc.place, message=exc.message)]
        except (TypeError, ValueError):
            problems = [Problem(path="args", message=f"must be an object, not {type(args).__name__}")]
        if problems:
            return ToolExecutionResult(False, error=f"Invalid input of {self.name}: {'; '.join(map(str, problems))}")
        token = _call_context.set((flow.host.caller, context))
        try:
            result = await flow.run(arguments)
        except InvalidFlow as exc:  # it reaches itself
            return ToolExecutionResult(False, error=str(exc))
        finally:
            _call_context.reset(token)
        error = result["error"]
        return ToolExecutionResult(
            bool(result["success"]), result["result"], str(error) if error else None, {"steps": result["steps"]}
        )


class ComposableToolBuilder:
    """Builds tools from steps that call other tools.

    Args:
        execute_tool: `async (tool_name, args, context) -> ToolExecutionResult`; it makes every call.
        strict_mode: Refuse a `$` expression without a meaning in `build`. Default: use its text, and log a warning.
        timeout: Seconds for each step, or a duration such as "10s".
        tools: Returns the Tool with a name, or None; only its schemas are used.
    """

    def __init__(
        self,
        execute_tool: ExecuteTool,
        strict_mode: bool = False,
        *,
        timeout: float | str = DEFAULT_TIMEOUT,
        tools: Callable[[str], Tool | None] | None = None,
    ) -> None:
        self.timeout: float = read_duration(timeout)
        self.execute_tool, self.strict_mode = execute_tool, strict_mode
        self._tools = tools
        self._caller = _Caller(execute_tool, self.timeout)
        self._built: WeakValueDictionary[str, ComposableTool] = WeakValueDictionary()

    def validate(self, spec: Any) -> ValidationResult:
        """Check the shape of a spec. Whether its tools exist is not checked.

        Args:
            spec: The spec of a composite tool.

        Returns:
            `valid`, and one message per failed check in `errors`.
        """
        errors = [problem.message for problem in find_spec_problems(spec)]
        return ValidationResult(not errors, errors or None)

    def build(
        self, name: str, description: str, input_schema: dict[str, Json], spec: Mapping[str, Any]
    ) -> ComposableTool:
        """Build a tool from a spec.

        Args:
            name: The name of the tool.
            description: What models read.
            input_schema: The JSON Schema of the arguments.
            spec: The spec of the composite.

        Returns:
            The tool.

        Raises:
            InvalidFlow: The spec is wrong; with every problem.
            UnresolvedReference: In strict mode, a reference has no source.
            InvalidTool: The name or the schema cannot be those of a tool.
        """
        problems = find_spec_problems(spec)
        if any(problem.path == "steps" for problem in problems):
            raise InvalidFlow(problems)  # and the rest cannot be read
        document = {**spec, "name": name, "description": description, "inputSchema": input_schema}
        if self.strict_mode:
            document["strict"] = True
        try:
            compiled = compile_composite(document)
        except InvalidFlow as exc:
            unresolved = [problem for problem in exc.problems if problem.keyword == UNRESOLVED]
            if self.strict_mode and unresolved:
                raise UnresolvedReference(exc.problems) from exc
            raise
        self._no_cycle(name, compiled)
        for warning in compiled.warnings:
            log.warning("%s: %s", name, warning)
        return self._tool(name, description, compiled)

    def _tool(self, name: str, description: str, compiled: Compiled) -> ComposableTool:
        source = FlowSource(
            kind=compiled.kind,
            flow=compiled.flow,
            fingerprint=digest(compiled.document),
            document=compiled.document,
            render=compiled.render,
        )
        handler = FlowTool(name, source, FlowHost(caller=self._caller, has_executor=True))
        gives = output_of(compiled, self._card)
        takes = input_schema_of(compiled.flow)
        tool = ComposableTool(name, description, takes, gives, handler=handler, aliases=(_PREFIX + name,))
        self._built[name] = tool
        return tool

    def _card(self, tool: str) -> ToolCard | None:
        known = self._known(tool)
        return ToolCard(known.input_schema, known.output_schema) if known is not None else None

    def _known(self, tool: str) -> Tool | None:
        return self._built.get(tool.removeprefix(_PREFIX)) or (self._tools(tool) if self._tools else None)

    def _no_cycle(self, name: str, compiled: Compiled) -> None:
        """Refuse a composite that reaches itself through those built here."""
        for node in calls_of(compiled.flow.body):
            way = self._find_path(node.op.tool.removeprefix(_PREFIX), name, {name})
            if way is not None:
                path = f"{node.meta.source}.tool"
                raise InvalidFlow([Problem(path=path, message=cycle_message([name, *way]))])

    def _find_path(self, start: str, end: str, visited: set[str]) -> list[str] | None:
        """Return the names from one composite to another, without the last one; None if none lead there."""
        if start == end:
            return []
        tool = flow_tool_of(self._built.get(start))
        if tool is None or start in visited:
            return None
        visited.add(start)
        for inner in sorted(tools_of(tool.flow.body)):
            way = self._find_path(inner.removeprefix(_PREFIX), end, visited)
            if way is not None:
                return [start, *way]
        return None


class _Caller(ExecutorCaller):
    """The function of a builder as an executor: with the context of whoever executes a tool of its."""

    def __init__(self, execute_tool: Any, timeout: float) -> None:
        if not callable(execute_tool):
            kind = type(execute_tool).__name__
            raise TypeError(f"execute_tool is an async function of (tool_name, args, context), not {kind}")
        super().__init__(self._execute, timeout=timeout)
        self._execute_tool, self._in_loop = execute_tool, is_async(execute_tool)

    async def _execute(self, name: str, args: dict[str, Json]) -> ToolExecutionResult:
        builder, context = _call_context.get()
        call = partial(self._execute_tool, name, args, context if builder is self else None)
        return _checked(await maybe_await(call() if self._in_loop else await threads.run(call)))


def _checked(result: Any) -> ToolExecutionResult:
    """Return the value of a user's function; raise its failure as that of any other tool."""
    read = result.get if isinstance(result, Mapping) else partial(getattr, result)
    success = read("success", None)
    if not isinstance(success, bool):
        raise TypeError(f"execute_tool returned {type(result).__name__}, not a ToolExecutionResult")
    if not success:
        raise ToolReported(str(read("error", None) or "the tool gave no reason"), result)
    return ToolExecutionResult(True, read("output", None))
