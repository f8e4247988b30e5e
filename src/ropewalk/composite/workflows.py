"""Tools with which an agent lays tools into workflows of its own, runs and lists them.

A workflow is a composite of tools that are allowed; it never reaches another workflow, nor these tools. Each session
sees its own. On an app they are kept in its store, and a run of one is part of the run that calls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..dialects.composite import compile_document as compile_composite
from ..engine.flowtool import FlowTool, flow_of, value_of
from ..errors import ConfigError, InvalidFlow, NotFound, Problem
from ..fitting import check_input
from ..frozen import dataclass
from ..journal import Definition
from ..ops import calls_of
from ..schema import flaws
from ..tools.route import Args, Flows, OnProgress, Route, Routed
from ..tools.tool import Tool
from ..values import Json, check_json, closest, digest
from .builder import ComposableToolBuilder

if TYPE_CHECKING:
    from ..app import App

KIND: Final = "workflow"
"""Of the definitions in a store."""
OWN: Final = ("create_workflow", "run_workflow", "list_workflows")
ANY: Final = "*"
"""In `allow`: every tool, except those that make and run workflows."""
_NAME: Final = "^[A-Za-z0-9_.-]{1,64}$"
_STEP: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tool": {"type": "string", "minLength": 1},
        "inputMapping": {
            "type": "object",
            "description": "The tool's arguments; $input.x, $prev.x and $steps[0].x are references.",
        },
        "args": {"type": "object", "description": "The same as inputMapping."},
        "condition": {"type": "string", "description": "The step is skipped where this is false: $prev.count > 0"},
    },
    "required": ["tool"],
    "additionalProperties": False,
}
Build = Callable[[dict[str, Json]], Tool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What an agent may do."""

    allow: frozenset[str]
    max_steps: int
    max_workflows: int

    def problems(self, document: Mapping[str, Json]) -> list[Problem]:
        """Everything in a workflow that is not allowed, and what is wrong with it."""
        steps = document.get("steps")
        if isinstance(steps, list) and len(steps) > self.max_steps:
            return [Problem(path="steps", message=f"{len(steps)} steps; at most {self.max_steps} are allowed")]
        found = []
        for node in calls_of(compile_composite(document).flow.body):
            tool, path = node.op.tool, f"{node.meta.source}.tool"
            if tool in OWN:
                found.append(Problem(path=path, message=f"{tool} cannot be used inside a workflow"))
            elif ANY not in self.allow and tool not in self.allow:
                hint = closest(tool, self.allow)
                message = f"{tool} is not allowed here; allowed: {', '.join(sorted(self.allow)) or 'none'}"
                found.append(Problem(path=path, message=message, suggestion=hint))
        return found


def workflow_tools(
    home: App | ComposableToolBuilder,
    *,
    allow: Collection[str],
    max_steps: int = 20,
    max_workflows: int = 100,
    session: str = "default",
) -> list[Tool]:
    """The tools `create_workflow`, `run_workflow` and `list_workflows` of one session.

    `allow` names the tools that workflows may call, exactly; `["*"]` allows every tool but these
    three. With a builder, workflows live as long as these tools
    do; with an app they are stored, under the session's name.
    """
    if isinstance(allow, str):
        raise ConfigError("allow is a list of tool names, not one string")
    if max_steps < 1 or max_workflows < 1:
        raise ConfigError("max_steps and max_workflows are 1 or more")
    bounds = Bounds(allow=frozenset(allow), max_steps=max_steps, max_workflows=max_workflows)
    if isinstance(home, ComposableToolBuilder):
        desk = Desk(bounds, {}, _building(home))
    else:
        desk = Desk(bounds, _Stored(home, check_json(session, "session")), _on(home))
    return desk.tools()


def _building(builder: ComposableToolBuilder) -> Build:
    strict = ComposableToolBuilder(builder.execute_tool, strict_mode=True, timeout=builder.timeout)

    def build(document: dict[str, Json]) -> Tool:
        text = str(document.get("description", ""))
        spec = {"mode": "compose", "steps": document["steps"]}
        return strict.build(str(document["name"]), text, document["inputSchema"], spec)

    return build


def _on(app: App) -> Build:
    def build(document: dict[str, Json]) -> Tool:
        app.ensure(app.load(document))
        return app.as_tool(document)

    return build


class Desk:
    """The workflows of one session, and the three tools on them."""

    def __init__(self, bounds: Bounds, kept: MutableMapping[str, Any], build: Build) -> None:
        self.bounds, self.kept, self.build = bounds, kept, build
        self.runs: Counter[str] = Counter()
        """By workflow, how often it was run since these tools were made."""

    def tools(self) -> list[Tool]:
        allowed = "any" if ANY in self.bounds.allow else ", ".join(sorted(self.bounds.allow)) or "none"
        name: dict[str, Json] = {"type": "string", "pattern": _NAME}
        create: dict[str, Json] = {
            "type": "object",
            "properties": {
                "name": name,
                "description": {"type": "string"},
                "inputSchema": {
                    "type": "object",
                    "description": "A JSON Schema of its input, of any type; an object unless given.",
                },
                "steps": {"type": "array", "minItems": 1, "items": _STEP},
            },
            "required": ["name", "steps"],
            "additionalProperties": False,
        }
        run: dict[str, Json] = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "input": {"description": "What it takes; any JSON value."}},
            "required": ["name"],
            "additionalProperties": False,
        }
        said = (
            f"Make a workflow: at most {self.bounds.max_steps} tool calls one after another, under a name. "
            f"Tools that it may call: {allowed}. The same name again replaces it."
        )
        none: dict[str, Json] = {"type": "object", "additionalProperties": False}
        return [
            Tool(OWN[0], said, create, handler=self.create),
            Tool(
                OWN[1],
                "Run a workflow. Gives the result of its last step, every step's, and how often it was run.",
                run,
                handler=_Run(self),
            ),
            Tool(OWN[2], "The workflows there are.", none, annotations={"readOnlyHint": True}, handler=self.list),
        ]

    async def create(self, **args: Any) -> Json:
        steps = [_step(step, f"steps[{i}]") for i, step in enumerate(args["steps"])]
        document = {"description": "", "inputSchema": {"type": "object"}, "mode": "compose", "strict": True, **args}
        document["steps"] = steps
        problems = self.bounds.problems(document)
        if problems:
            raise InvalidFlow(problems)
        name = args["name"]
        if name not in self.kept and len(self.kept) >= self.bounds.max_workflows:
            raise ConfigError(f"there are {len(self.kept)} workflows already, and no more are allowed")
        if document_flaws := [
            Problem(path=f"inputSchema{at}", message=why) for at, why in flaws(args.get("inputSchema", {}))
        ]:
            raise InvalidFlow(document_flaws)
        self.build(_as_tool(document))  # which refuses what cannot be a tool
        self.kept[name] = document
        self.runs.pop(name, None)
        return {"name": name, "steps": len(args["steps"])}

    async def list(self) -> Json:
        return [{**_line(self.kept[name]), "runCount": self.runs[name]} for name in sorted(self.kept)]

    def flow(self, name: str) -> FlowTool:
        """A workflow, looked at again: what is allowed now may be less than when it was made."""
        if name not in self.kept:
            raise NotFound("workflow", name, suggestion=closest(name, list(self.kept)))
        document = self.kept[name]
        problems = self.bounds.problems(document)
        if problems:
            raise InvalidFlow(problems)
        found = flow_of(self.build(_as_tool(document)))
        assert found is not None
        return found

    def check_input(self, name: str, flow: FlowTool, input: Json) -> Json:
        """Check an input against the workflow's own schema, whatever its type."""
        schema = self.kept[name]["inputSchema"]
        return check_input(replace(flow.flow, input_schema=schema), input)


class _Run(Routed):
    """The handler of `run_workflow`: a run is part of the one that calls it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, name: str, input: Json = None) -> Json:
        return await self._run(name, input, None, None)

    def route(self, flows: Flows, /) -> Route:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self._run(args["name"], args.get("input"), flows, key, on_progress)

        return Route(send=send, timeout=float("inf"), per_attempt=True, waits=True)

    async def _run(
        self, name: str, input: Json, flows: Flows, key: str | None, on_progress: OnProgress | None = None
    ) -> dict[str, Json]:
        desk = self.desk
        flow = desk.flow(name)
        checked = desk.check_input(name, flow, input)
        desk.runs[name] += 1
        ended = await flow.run(checked, flows or flow.engine, key, on_progress)
        return {"result": value_of(ended, flow.kind), "steps": ended["steps"], "runCount": desk.runs[name]}


def _step(step: Mapping[str, Json], path: str) -> dict[str, Json]:
    """A step with its arguments as `inputMapping`, which `args` is another name of."""
    if "args" not in step:
        return dict(step)
    if "inputMapping" in step:
        raise InvalidFlow(
            [Problem(path=f"{path}.args", message="is inputMapping under another name; give one of them")]
        )
    return {**{key: value for key, value in step.items() if key != "args"}, "inputMapping": step["args"]}


def _as_tool(document: dict[str, Json]) -> dict[str, Json]:
    """The document that becomes a tool. Tools take objects; another input is checked by `Desk.check_input`."""
    kind = document["inputSchema"].get("type")
    return document if kind == "object" else {**document, "inputSchema": {"type": "object"}}


def _line(document: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "name": document["name"],
        "description": document["description"],
        "inputSchema": document["inputSchema"],
        "steps": [step["tool"] for step in document["steps"]],
    }


class _Stored(MutableMapping[str, Any]):
    """The workflows of one session in an app's store, by name."""

    def __init__(self, app: App, session: str) -> None:
        self._app, self._session = app, session

    def __getitem__(self, name: str) -> Any:
        found = self._app.store.get_definition(KIND, self._id(name))
        if found is None:
            raise KeyError(name)
        return found.document

    def __setitem__(self, name: str, document: Any) -> None:
        made = Definition(kind=KIND, id=self._id(name), name=name, document=document, fingerprint=digest(document))
        self._app.store.put_definition(made)

    def __delitem__(self, name: str) -> None:
        if not self._app.store.delete_definition(KIND, self._id(name)):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([d.name for d in self._app.store.list_definitions(KIND) if d.id == self._id(d.name)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _id(self, name: str) -> str:
        return f"{self._session}/{name}"  # names have no slash, so that no two sessions share an id
