"""Whether a flow fits its surroundings: the tools there are, and the input it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from .check import UNKNOWN_TOOL, ToolCard, Tools
from .engine.flowtool import FlowTool, Missing, cycle, flow_of, input_schema_of, tool_name
from .errors import ConfigError, InvalidFlow, InvalidInput, InvalidValue, NotFound, Problem, ToolError
from .errors.given import wants
from .ir import Flow, Graph
from .ops import MODEL, calls_of
from .schema import compile_schema
from .tools.tool import Tool
from .tools.toolbox import Toolbox
from .values import Json, check_json, closest, complaints

if TYPE_CHECKING:
    from pathlib import Path

    from .config.workplace import Rate
    from .definitions import Loaded
    from .dialects.notation import Compiled
    from .jobs import Jobs

KEPT: Final = 10_000  # cards
_BUILT_IN: Final = ("impl", "dataset", "ropewalk")  # spaces of tools of directories and agents


class Cards:
    """The toolbox as the check sees it: schemas by tool id. A tool has the same card for as long as
    it is the same tool, so that what a check finds out about its schemas serves the next one."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self.load: Callable[[Path], Loaded] | None = None
        """Loads the definition in a directory."""
        self._known: dict[str, tuple[Tool, ToolCard]] = {}
        self._outputs: dict[tuple[str, str | None], tuple[int, dict[str, Json] | None]] = {}

    def __call__(self, tool_id: str) -> ToolCard | None:
        found = _known(tool_id, self.toolbox)
        if found is None:
            return None
        flow = flow_of(found)
        # The tools of a flow may have changed since it became a tool, or be known only now.
        gives = found.output_schema if flow is None or flow.gives is None else flow.gives()
        known = self._known.get(tool_id)
        if known is None or known[0] is not found or known[1].output_schema is not gives:
            if len(self._known) >= KEPT:  # tools come and go; those in use are back at once
                self._known.clear()
            known = self._known[tool_id] = (found, ToolCard(found.input_schema, gives))
        return known[1]

    def output_of(self, loaded: Loaded) -> dict[str, Json] | None:
        """Return the JSON Schema of the value of a definition, inferred once per version of the toolbox."""
        key, version = (loaded.fingerprint, loaded.root), self.toolbox.version
        known = self._outputs.get(key)
        if known is None or known[0] != version:
            if len(self._outputs) >= KEPT:
                self._outputs.clear()
            self._outputs[key] = (version, None)  # of a flow that reaches itself nothing is known
            tools = LocalCards(self, loaded.root) if loaded.compiled.local else self
            known = self._outputs[key] = (version, output_of(loaded.compiled, tools))
        return known[1]

    def state_of(self, root: str, path: str) -> dict[str, Json] | None:
        """Return the schema of the final state of the experience in a directory inside another."""
        from pathlib import Path

        from .tools.inside import WrongPath, find

        try:
            return None if self.load is None else self.output_of(self.load(find(Path(root), path, directory=True)))
        except (WrongPath, InvalidFlow, NotFound):  # which the check of the files reports
            return None

    def why(self, tool_id: str) -> str | None:
        """Why a tool is not there, when that is known: its server cannot be reached, or there is none."""
        failures, space = self.toolbox.failures, tool_id.partition(":")[0]
        return failures.get(tool_id) or failures.get(space) or self.toolbox.nowhere(tool_id)

    def certain(self, tool_id: str) -> bool:
        """Whether a tool that is not known is certain not to be there."""
        return tool_id in self.toolbox.refused or self.toolbox.told(tool_id.partition(":")[0])

    def names(self) -> list[str]:
        return [tool.id for tool in self.toolbox.list()]


class LocalCards:
    """The toolbox and the files of a directory as the check sees them. Of files only experiences have a schema: what
    they give follows from their state."""

    def __init__(self, cards: Cards, root: str | None = None) -> None:
        self.cards, self.root = cards, root
        self.why, self.names, self.certain = cards.why, cards.names, cards.certain

    def __call__(self, tool_id: str) -> ToolCard | None:
        if not is_local(tool_id):
            return self.cards(tool_id)
        if self.root is None or not tool_id.startswith("experience:"):
            return _FILE
        state = self.cards.state_of(self.root, tool_id.partition(":")[2])
        return _FILE if state is None else ToolCard(None, _run_of(state))


_FILE: Final = ToolCard()


def _run_of(state: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of what a node gives that runs an experience with this final state."""
    inner: dict[str, Json] = {key: value for key, value in state.items() if key != "$defs"}
    properties: dict[str, Json] = {"runId": {"type": "string"}, "status": {"type": "string"}, "finalState": inner}
    defs: dict[str, Json] = {"$defs": state["$defs"]} if "$defs" in state else {}
    return {"type": "object", "properties": properties, "required": ["finalState"], **defs}


def is_local(tool_id: str) -> bool:
    """Whether a tool is found in the directory of the definition, not in the toolbox."""
    return tool_id.startswith(("impl:", "dataset:", "experience:", "cli-agent:"))


def is_of_agents(tool_id: str) -> bool:
    """Whether a tool is one that the loops of agents are made of: the model, an approval."""
    return tool_id.startswith("ropewalk:")


def tools_of(body: Graph) -> set[str]:
    """The ids of all tools that a region calls."""
    return {node.op.tool for node in calls_of(body)}


def flow_tool(loaded: Any, jobs: Jobs, engine: Any, cards: Cards, name: str | None, description: str | None) -> Tool:
    """A compiled definition as a tool; `jobs` are those of the app whose tools and model it has."""
    flow, compiled = loaded.flow, loaded.compiled
    own, namespace = (tool_name(loaded.name), compiled.namespace) if name is None else (name, None)
    runs = FlowTool(
        id=f"{namespace}:{own}" if namespace else own,
        kind=loaded.kind,
        flow=flow,
        fingerprint=loaded.fingerprint,
        document=loaded.document,
        definition_id=loaded.stored_id,
        begun=jobs.again,
        root=loaded.root,
        render=compiled.render,
        engine=engine,
        missing=lambda seen: _missing(flow, cards.toolbox, seen),
        gives=lambda: cards.output_of(loaded),
        models=lambda seen: models_asked(flow, cards.toolbox, jobs.model_missing, seen),
        caller=jobs.caller(None, loaded),
        ready=lambda: jobs.ready(loaded),
        secrets=lambda: jobs.secrets,
    )
    said = str(loaded.document.get("description") or "") if description is None else description
    gives = cards.output_of(loaded)
    return Tool(own, said, input_schema_of(flow), gives, namespace=namespace, handler=runs)


def output_of(compiled: Compiled, known: Tools) -> dict[str, Json] | None:
    """Return the JSON Schema of the value of a definition: the declared one, else what its graph and its tools say.

    Args:
        compiled: The definition.
        known: Gives the schemas of a tool by its id.
    """
    for schema in (compiled.flow.output_schema, compiled.output_schema):
        if isinstance(schema, dict):
            return schema
    from .check.inference import infer  # only where a flow becomes a tool

    return infer(compiled.flow, known, compiled.value_from)


def check_cycles(flow: Flow, toolbox: Toolbox) -> list[Problem]:
    """A problem for each node that calls a flow tool which reaches itself, with the names on the way."""
    circles = {id: names for id in tools_of(flow.body) if (names := _circle(id, toolbox))}
    if not circles:
        return []
    return [
        Problem(path=f"{node.meta.source}.{node.meta.labels.get('tool', 'tool')}", message=cycle(circles[node.op.tool]))
        for node in calls_of(flow.body)
        if node.op.tool in circles
    ]


def _circle(tool_id: str, toolbox: Toolbox) -> list[str]:
    """The flow tools from one to itself again, or from one of those it reaches."""
    done: set[str] = set()
    way: list[str] = []

    def enter(id: str) -> list[str]:
        if id in way:
            return way[way.index(id) :]
        flow_tool = flow_of(_known(id, toolbox))
        # What calls go through a function of the user's only that function knows.
        if id in done or flow_tool is None or flow_tool.given:
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
    """A problem for each node that calls a flow tool whose own app does not have a tool that it calls."""
    lost: dict[str, str] = {}
    for id in sorted(tools_of(flow.body)):
        inner = None if is_local(id) else flow_of(_known(id, toolbox))
        names = inner.missing(set()) if inner is not None and inner.missing is not None else []
        if names:
            tools = ", ".join(dict.fromkeys(names))
            what = f"the app that made a tool of this flow does not have what it calls: {tools}"
            lost[id] = f"{what}; make it with App(..., tools=[{tools}]).as_tool(...)"
    if not lost:
        return []
    return [
        Problem(
            path=f"{node.meta.source}.{node.meta.labels.get('tool', 'tool')}",
            message=f"{node.op.tool}: {lost[node.op.tool]}",
            keyword=UNKNOWN_TOOL,
        )
        for node in calls_of(flow.body)
        if node.op.tool in lost
    ]


def _missing(flow: Flow, toolbox: Toolbox, seen: set[str]) -> list[str]:
    """The tools that a flow and the flows it calls name and that certainly nobody has: those of servers that
    are not connected yet may be any."""
    found = []
    for id in sorted(tools_of(flow.body)):
        if is_local(id) or is_of_agents(id):
            continue
        tool = _known(id, toolbox)
        inner = flow_of(tool)
        if tool is None:
            if ":" not in id or id.partition(":")[0] not in toolbox.spaces:
                found.append(id)
        elif inner is not None and inner.missing is not None and inner.fingerprint not in seen:
            seen.add(inner.fingerprint)
            found += inner.missing(seen)
    return found


def _known(tool_id: str, toolbox: Toolbox) -> Tool | None:
    try:
        return toolbox.get(tool_id)
    except ToolError:
        return None


def models_asked(flow: Flow, toolbox: Toolbox, own: Missing, seen: set[int] | None = None) -> list[Missing]:
    """What says why the model cannot be asked, of each model that a flow asks: `own` of what it asks itself, and what
    the flows have that it calls as tools, each with the tools and the model of its own app."""
    seen, found = set[int]() if seen is None else seen, list[Missing]()
    for tool in tools_of(flow.body):
        if tool == MODEL:
            found.append(own)
        inner = None if is_local(tool) else flow_of(_known(tool, toolbox))
        if inner is not None and inner.models is not None and id(inner) not in seen:
            seen.add(id(inner))
            found += inner.models(seen)
    return found


def check_variables(flow: Flow, variables: Mapping[str, Json]) -> None:
    """InvalidInput for variables that a flow does not have: it neither declares, sets nor reads them."""
    if not isinstance(variables, Mapping):
        raise wants("variables", "an object of values by name", variables)
    unknown = [name for name in variables if name not in flow.state]
    if unknown:
        there = (
            f"no such variable; there are: {', '.join(flow.state)}" if flow.state else "the definition has no variables"
        )
        raise InvalidInput(
            Problem(path=f"variables.{name}", message=there, suggestion=closest(name, flow.state)) for name in unknown
        )


def misplaced(rates: Mapping[str, Rate], toolbox: Toolbox) -> list[ConfigError]:
    """The limits of `[limits.tools]` that are for no tool and no server there is; tools of servers that are not
    connected yet may be any."""
    from fnmatch import fnmatchcase

    ids = {tool.id for tool in toolbox.list()}
    spaces = {*_BUILT_IN, *toolbox.spaces, *(id.partition(":")[0] for id in ids if ":" in id)}
    found = []
    for pattern, rate in rates.items():
        space, colon, _ = pattern.partition(":")
        named = any(fnmatchcase(one, space) if colon else fnmatchcase(f"{one}:", pattern) for one in spaces)
        if named or any(fnmatchcase(id, pattern) for id in ids):
            continue
        if not colon and space in spaces:
            near: str | None = f"{space}:*"
        else:
            near = closest(space, spaces) if colon else closest(pattern, ids)
            near = f"{near}:*" if colon and near else near
        hint = f"; did you mean {near}?" if near else ""
        what = f"server {space!r}" if colon else f"tool {pattern!r}"
        place = rate.where("per_second") if rate.where is not None else None
        found.append(ConfigError(f'[limits.tools."{pattern}"] there is no {what}{hint}', place=place))
    return found


def check_input(flow: Flow, input: Json) -> Json:
    """The input in containers of our own; InvalidInput, with every problem, when it is no JSON or
    does not fit the schema. What it leaves out has the schema's default; no input counts as `{}` where the schema asks
    for an object."""
    schema = flow.input_schema
    if input is None and isinstance(schema, dict):
        input = schema.get("default", {} if schema.get("type") == "object" else None)
    try:
        input = check_json(input, "input")
    except InvalidValue as exc:
        found = complaints(input, "input")
        raise InvalidInput(Problem(path=one.place, message=one.message) for one in found) from exc
    if schema is not None:
        compiled = compile_schema(schema)
        input = compiled.filled(input)
        problems = compiled.problems(input, "input")
        if problems:
            raise InvalidInput(problems)
    return input
