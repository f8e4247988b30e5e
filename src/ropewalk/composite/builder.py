"""Composite tools in Python: several tools laid into one by `ComposableToolBuilder`.

The builder holds no registry: every call of a step goes through the function it was given, with the context that
the caller gave. What is built is a Tool: alone it runs in memory, registered in a Toolbox and called in a run it is
journaled, resumed and stopped with it. The notation is that of `dialects/composite.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from ..check import ToolCard
from ..dialects.composite import NAMESPACE, spec_problems
from ..dialects.composite import compile_document as compile_composite
from ..dialects.notation import Compiled
from ..engine.flowtool import FlowTool, cycle, flow_of, input_schema_of
from ..errors import InvalidFlow, InvalidValue, Problem, UnresolvedReference
from ..fitting import output_of, tools_of
from ..frozen import dataclass
from ..ops import calls_of
from ..schema import compile_schema
from ..tools.bound import DEFAULT_TIMEOUT
from ..tools.executor import ExecutorCaller
from ..tools.local import maybe_await, threads
from ..tools.normalise import ToolReported
from ..tools.result import ToolExecutionResult
from ..tools.signature import is_async
from ..tools.tool import Tool
from ..values import Json, check_json, digest

log = logging.getLogger("ropewalk.composite")

ExecuteTool = Callable[[str, dict[str, Json], Any], Awaitable[ToolExecutionResult]]
_given: ContextVar[tuple[object, Any]] = ContextVar("ropewalk_composite_context", default=(None, None))
"""The builder whose tool is executed, and the context that it was given."""
_PREFIX: Final = f"{NAMESPACE}:"


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`errors` has one message per failing check; it is None when `valid`."""

    valid: bool
    errors: list[str] | None = None


class ComposableTool(Tool):
    """A Tool whose steps are calls of other tools; `execute` runs it by itself."""

    async def execute(self, args: Mapping[str, Any] | None = None, context: Any = None) -> ToolExecutionResult:
        """Check the arguments and run the steps. What fails is in the result, not raised: `error` names the
        step, `details["steps"]` has what each step that was reached gave."""
        flow = flow_of(self)
        assert flow is not None
        try:
            given = check_json(dict(args or {}), "args")
            takes = compile_schema(self.input_schema)
            given = takes.filled(given)
            problems = takes.problems(given, "args")
        except InvalidValue as exc:
            problems = [Problem(path=exc.place, message=exc.message)]
        except (TypeError, ValueError):
            problems = [Problem(path="args", message=f"must be an object, not {type(args).__name__}")]
        if problems:
            return ToolExecutionResult(False, error=f"Invalid input of {self.name}: {'; '.join(map(str, problems))}")
        token = _given.set((flow.caller, context))
        try:
            result = await flow.run(given)
        except InvalidFlow as exc:  # it reaches itself
            return ToolExecutionResult(False, error=str(exc))
        finally:
            _given.reset(token)
        error = result["error"]
        return ToolExecutionResult(
            bool(result["success"]), result["result"], str(error) if error else None, {"steps": result["steps"]}
        )


class ComposableToolBuilder:
    """Makes tools of steps. `execute_tool` is `async (tool_name, args, context) -> ToolExecutionResult`.

    With `strict_mode` a `$` expression that means nothing is an error of `build`, else it is the text itself,
    and a warning. `timeout` is in seconds, per step. `tools` is a function from a tool's name to its Tool, or
    None where it is not known; it is asked for schemas only.
    """

    def __init__(
        self,
        execute_tool: ExecuteTool,
        strict_mode: bool = False,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        tools: Callable[[str], Tool | None] | None = None,
    ) -> None:
        self.execute_tool, self.strict_mode, self.timeout = execute_tool, strict_mode, timeout
        self._tools = tools
        self._caller = _Caller(execute_tool, timeout)
        self._built: WeakValueDictionary[str, ComposableTool] = WeakValueDictionary()

    def validate(self, spec: Any) -> ValidationResult:
        """Whether a spec has the right shape; whether its tools exist is not looked at."""
        errors = [problem.message for problem in spec_problems(spec)]
        return ValidationResult(not errors, errors or None)

    def build(
        self, name: str, description: str, input_schema: dict[str, Json], spec: Mapping[str, Any]
    ) -> ComposableTool:
        """The tool. Raises InvalidFlow with every problem, UnresolvedReference in strict mode, and
        InvalidTool where the name or the schema cannot be a tool's."""
        problems = spec_problems(spec)
        if any(problem.path == "steps" for problem in problems):
            raise InvalidFlow(problems)  # and the rest cannot be read
        document = {**spec, "name": name, "description": description, "inputSchema": input_schema}
        if self.strict_mode:
            document["strict"] = True
        try:
            compiled = compile_composite(document)
        except InvalidFlow as exc:
            unresolved = [problem for problem in exc.problems if problem.keyword == "unresolved"]
            if self.strict_mode and unresolved:
                raise UnresolvedReference(exc.problems) from exc
            raise
        self._no_cycle(name, compiled)
        for warning in compiled.warnings:
            log.warning("%s: %s", name, warning)
        return self._tool(name, description, compiled)

    def _tool(self, name: str, description: str, compiled: Compiled) -> ComposableTool:
        handler = FlowTool(
            id=_PREFIX + name,
            kind=compiled.kind,
            flow=compiled.flow,
            fingerprint=digest(compiled.document),
            document=compiled.document,
            render=compiled.render,
            caller=self._caller,
            given=True,
        )
        gives = output_of(compiled, self._card)
        takes = input_schema_of(compiled.flow)
        tool = ComposableTool(name, description, takes, gives, namespace=NAMESPACE, handler=handler)
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
            way = self._way(node.op.tool.removeprefix(_PREFIX), name, {name})
            if way is not None:
                path = f"{node.meta.source}.tool"
                raise InvalidFlow([Problem(path=path, message=cycle([name, *way]))])

    def _way(self, start: str, end: str, seen: set[str]) -> list[str] | None:
        """The names from one composite on that lead to another, without the last; None when none do."""
        if start == end:
            return []
        tool = flow_of(self._built.get(start))
        if tool is None or start in seen:
            return None
        seen.add(start)
        for inner in sorted(tools_of(tool.flow.body)):
            way = self._way(inner.removeprefix(_PREFIX), end, seen)
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
        whose, context = _given.get()
        call = partial(self._execute_tool, name, args, context if whose is self else None)
        return _checked(await maybe_await(call() if self._in_loop else await threads.run(call)))


def _checked(result: Any) -> ToolExecutionResult:
    """What the function of a user gave; a failure is raised, as that of any other tool is."""
    read = result.get if isinstance(result, Mapping) else partial(getattr, result)
    success = read("success", None)
    if not isinstance(success, bool):
        raise TypeError(f"execute_tool gave {type(result).__name__}, not a ToolExecutionResult")
    if not success:
        raise ToolReported(str(read("error", None) or "the tool gave no reason"), result)
    return ToolExecutionResult(True, read("output", None))
