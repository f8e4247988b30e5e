"""The check of a flow against its surroundings: the tools of the app, the input, and the variables.

Refused here: running anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ..argument_checks import wrong_type
from ..check import UNKNOWN_TOOL, Checked, ToolCard, Tools
from ..engine.flow_tool import ModelCheck, cycle_message, flow_tool_of
from ..errors import (
    Action,
    ConfigError,
    InvalidInput,
    InvalidValue,
    Problem,
    Remedy,
    ToolError,
)
from ..expr.ast import Lit, Obj
from ..ir import Flow, Graph, Node
from ..notations.registry import NOTATIONS
from ..ops import MODEL, Call, calls_of
from ..schema import compile_schema
from ..tools.backends.kinds import backend_kind
from ..tools.mcp.login_errors import Reason
from ..tools.reserved import PREFIXES
from ..tools.source import prefix_of
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..tools.undo import undo_of
from ..values import Json, check_json, did_you_mean, json_problems

if TYPE_CHECKING:
    from pathlib import Path

    from ..notations.registry import Compiled
    from .prepared import Prepared

MAX_CACHED: Final = 10_000  # cards


class Cards:
    """The toolbox as the check sees it: schemas by tool id."""

    # A tool keeps its card as long as it does not change, so that checks can reuse what they learned of its schemas.

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.effects: Mapping[str, str] = {}
        """What tools do, where the project overrides their hints."""
        self.output_in: Callable[[Path], dict[str, Json] | None]
        """Returns the JSON Schema of the value of the definition in a directory."""
        self.problems_in: Callable[[Path], Iterable[Problem]]
        """Checks the definition in a directory."""
        self.connect_tools: Callable[[Collection[str]], Awaitable[None]] = toolbox.connect_for
        """Connects the servers of tools, and finds those that are flows of the project."""
        self.directory: Path | None = None
        """The directory of the project, if there is one."""
        self.flow_files: dict[str, str] = {}
        """The files that documents call as tools (`tool: ./answer.yaml`), by the ids that stand for them."""
        self.broken = toolbox.broken
        self.flow_names: Callable[[], Iterable[str]] = tuple
        """Returns the names of the flows of the project, which are tools once they are called."""
        self._known: dict[str, tuple[Tool, ToolCard]] = {}
        self._outputs: dict[tuple[str, str | None], tuple[int, dict[str, Json] | None]] = {}

    def __call__(self, tool_id: str) -> ToolCard | None:
        result = _known(tool_id, self.toolbox)
        if result is None:
            return None
        flow = flow_tool_of(result)
        # The tools of a flow may have changed since it became a tool, or be known only now.
        gives = result.output_schema if flow is None or flow.host.value_schema is None else flow.host.value_schema()
        known = self._known.get(tool_id)
        if known is None or known[0] is not result or known[1].output_schema is not gives:
            if len(self._known) >= MAX_CACHED:  # tools come and go; those in use are back at once
                self._known.clear()
            undo = undo_of(result, self.toolbox.undos)
            known = self._known[tool_id] = (result, ToolCard(result.input_schema, gives, undo))
        return known[1]

    def output_of(self, loaded: Prepared) -> dict[str, Json] | None:
        """Return the JSON Schema of the value of a definition, inferred once per version of the toolbox."""
        key, version = (loaded.fingerprint, loaded.root), self.toolbox.version
        known = self._outputs.get(key)
        if known is None or known[0] != version:
            if len(self._outputs) >= MAX_CACHED:
                self._outputs.clear()
            self._outputs[key] = (version, None)  # of a flow that calls itself nothing is known
            known = self._outputs[key] = (version, self._infer_output(loaded))
        return known[1]

    def _infer_output(self, loaded: Prepared) -> dict[str, Json] | None:
        hooks = NOTATIONS[loaded.kind].hooks
        if not isinstance(loaded.compiled.output_schema, dict) and (found := hooks.infer_output(loaded, self)):
            return found[0]
        return output_of(loaded.compiled, hooks.tools(self, loaded.root))

    def why(self, tool_id: str) -> str | None:
        """Return why a tool is not available, if that is known: its server cannot be reached, or there is none."""
        failures, space = self.toolbox.failures, prefix_of(tool_id)
        return (
            self.broken.get(tool_id)
            or failures.get(tool_id)
            or self.toolbox.left_out.get(tool_id)
            or failures.get(space)
            or self.toolbox.why_missing(tool_id)
        )

    def certain(self, tool_id: str) -> bool:
        """Return True if an unknown tool certainly does not exist."""
        return tool_id in self.toolbox.refused or self.toolbox.is_listed(prefix_of(tool_id))

    def remedy(self, tool_id: str) -> Remedy | None:
        """Return how a tool becomes available that the pins refuse, or whose server wants a login."""
        if tool_id in self.toolbox.refused:
            return Remedy(Action.APPROVE_TOOL, {"tool": tool_id})
        reason = self.why(tool_id)
        return reason.remedy if isinstance(reason, Reason) else None

    def names(self) -> list[str]:
        """Return the ids of all tools, for suggestions."""
        return list(dict.fromkeys((*self.toolbox.ids(), *self.flow_names())))


def check_workers_can_call(flow: Flow, toolbox: Toolbox) -> None:
    """Refuse a flow with a tool that no worker can call."""
    for tool_id in sorted(tools_of(flow.body)):
        kinds = [backend_kind(backend.kind) for backend in toolbox.backends(tool_id)]
        if kinds and not any(kind.reopened_by_workers for kind in kinds):
            raise ConfigError(
                f"workers cannot call {tool_id}: a {kinds[0].name} backend exists only in the process that opened it; "
                'use engine = "local"'
            )


def tools_of(body: Graph) -> set[str]:
    """Return the ids of all tools that a region calls."""
    return {node.op.tool for node in calls_of(body)}


def tool_place(node: Node) -> str:
    """Return the path at which a document names the tool of a node."""
    return f"{node.meta.source}.{node.meta.labels.get('tool', 'tool')}"


def undo_tools_of(body: Graph, toolbox: Toolbox) -> set[str]:
    """Return the ids of the tools that undo the calls of a region, as far as they are known now."""
    undos = [node.op.undo or toolbox.undos.get(node.op.tool) for node in calls_of(body)]
    undos += [tool.undo for tool in map(toolbox.get, tools_of(body)) if tool is not None] if undos else []
    return {undo.tool for undo in undos if undo is not None}


def called_by(flow: Flow, toolbox: Toolbox) -> set[str]:
    """Return the ids of the tools that a flow calls, and of those that undo its calls."""
    return tools_of(flow.body) | undo_tools_of(flow.body, toolbox)


def output_of(compiled: Compiled, known: Tools) -> dict[str, Json] | None:
    """Return the JSON Schema of the value of a definition: the declared one, else what its graph and its tools say."""
    for schema in (compiled.flow.output_schema, compiled.output_schema):
        if isinstance(schema, dict):
            return schema
    from ..check.inference import infer  # only where a flow becomes a tool

    return infer(compiled.flow, known, compiled.value_from)


def check_cycles(flow: Flow, toolbox: Toolbox) -> list[Problem]:
    """Check that no flow tool calls itself."""
    cycles = {id: names for id in tools_of(flow.body) if (names := _find_cycle(id, toolbox))}
    if not cycles:
        return []
    return [
        Problem(
            path=tool_place(node) if node.meta.source else "code",
            message=cycle_message(cycles[node.op.tool]),
        )
        for node in calls_of(flow.body)
        if node.op.tool in cycles
    ]


def _find_cycle(tool_id: str, toolbox: Toolbox) -> list[str]:
    """Return the flow tools of a cycle that starts at a tool or at one that it reaches; empty without a cycle."""
    done: set[str] = set()
    way: list[str] = []

    def enter(id: str) -> list[str]:
        tool = _known(id, toolbox)
        id, flow_tool = id if tool is None else tool.id, flow_tool_of(tool)
        if id in way:
            return way[way.index(id) :]
        # A function of the user calls these tools; only it knows which.
        if id in done or flow_tool is None or flow_tool.host.has_executor:
            return []
        done.add(id)
        way.append(id)
        for inner in sorted(tools_of(flow_tool.flow.body)):
            names = enter(inner)
            if names:
                return names
        way.pop()
        return []

    return enter(tool_id)


def lacking(flow: Flow, toolbox: Toolbox) -> list[Problem]:
    """Check that the app of each flow tool has the tools that this flow tool calls."""
    lost: dict[str, str] = {}
    for id in sorted(tools_of(flow.body)):
        inner = flow_tool_of(_known(id, toolbox))
        names = inner.host.missing_tools(set()) if inner is not None and inner.host.missing_tools is not None else []
        if names:
            tools = ", ".join(dict.fromkeys(names))
            what = f"this tool is a flow, and the app that made it lacks the tools that the flow calls: {tools}"
            how = f"make the tool with App(..., tools=[{tools}]).as_tool(...)"
            if ":" in tools:  # no names of Python
                how = "call the definition by its name, without as_tool, so that it has the tools of the project"
            lost[id] = f"{what}; {how}"
    if not lost:
        return []
    return [
        Problem(
            path=tool_place(node),
            message=f"{node.op.tool}: {lost[node.op.tool]}",
            keyword=UNKNOWN_TOOL,
        )
        for node in calls_of(flow.body)
        if node.op.tool in lost
    ]


def missing_tools(flow: Flow, toolbox: Toolbox, visited: set[str]) -> list[str]:
    """Return the tools that a flow, or a flow that it calls, needs and that certainly do not exist."""

    # The tools of servers that are not connected yet may exist.
    result = []
    for id in sorted(tools_of(flow.body)):
        tool = _known(id, toolbox)
        inner = flow_tool_of(tool)
        if tool is None:
            if ":" not in id or prefix_of(id) not in PREFIXES | toolbox.spaces:
                result.append(id)
        elif inner is not None and inner.host.missing_tools is not None and inner.source.fingerprint not in visited:
            visited.add(inner.source.fingerprint)
            result += inner.host.missing_tools(visited)
    return result


def _known(tool_id: str, toolbox: Toolbox) -> Tool | None:
    try:
        return toolbox.get(tool_id)
    except ToolError:
        return None


def find_model_checks(
    flow: Flow, toolbox: Toolbox, own: Callable[[str, bool], str | None], visited: set[int] | None = None
) -> list[ModelCheck]:
    """Return the availability checks of the models that a flow calls."""
    visited, result = set[int]() if visited is None else visited, list[ModelCheck]()
    models = {_model_of(node.op) for node in calls_of(flow.body) if node.op.tool == MODEL}
    result += [partial(own, *model) for model in sorted(models)]
    for tool in tools_of(flow.body):
        inner = flow_tool_of(_known(tool, toolbox))
        if inner is not None and inner.host.model_checks is not None and id(inner) not in visited:
            visited.add(id(inner))
            result += inner.host.model_checks(visited)
    return result


def _model_of(call: Call) -> tuple[str, bool]:
    """Return the model that a call of `ropewalk:model` names, and True if it has a budget in US dollars."""

    # The model is "" for the default, or if only the run knows.
    options = dict(call.args.fields).get("options") if isinstance(call.args, Obj) else None
    fields = options.value if isinstance(options, Lit) and isinstance(options.value, dict) else {}
    model = fields.get("model")
    return model if isinstance(model, str) else "", fields.get("cost_budget") is not None


def check_variables(flow: Flow, variables: Mapping[str, Json]) -> None:
    """Raise an error for variables that a flow neither declares, sets nor reads."""
    if not isinstance(variables, Mapping):
        raise wrong_type("variables", "an object of values by name", variables)
    unknown = [name for name in variables if name not in flow.state]
    if unknown:
        there = (
            f"no such variable; there are: {', '.join(flow.state)}" if flow.state else "the definition has no variables"
        )
        raise InvalidInput(
            Problem(path=f"variables.{name}", message=there, suggestion=did_you_mean(name, flow.state))
            for name in unknown
        )


def check_input(flow: Flow, input: Json) -> Json:
    """Check the input of a run against the schema of its flow."""
    schema = flow.input_schema
    if input is None and isinstance(schema, dict):
        input = schema.get("default", {} if schema.get("type") == "object" else None)
    try:
        # Most inputs are plain JSON; only others are converted.
        try:
            input = check_json(input, "input")
        except InvalidValue:
            from ..tools.answers import to_json  # few inputs need it

            input = check_json(to_json(input), "input")
    except InvalidValue as exc:
        result = json_problems(input, "input")
        raise InvalidInput(Problem(path=item.place, message=item.message) for item in result) from exc
    if schema is not None:
        compiled = compile_schema(schema)
        input = compiled.with_defaults(input)
        problems = compiled.problems(input, "input")
        if problems:
            raise InvalidInput(problems)
    return input


def with_missing_tools(checked: Checked, *, allowed: bool) -> Checked:
    """Return what a check found, with all unknown tools as warnings if they are allowed, else as problems."""
    source, target = (checked.problems, checked.warnings) if allowed else (checked.warnings, checked.problems)
    missing = [problem for problem in source if problem.keyword == UNKNOWN_TOOL]
    rest = tuple(problem for problem in source if problem.keyword != UNKNOWN_TOOL)
    if allowed:
        return Checked(problems=rest, warnings=(*missing, *target))
    return Checked(problems=(*target, *missing), warnings=rest)
