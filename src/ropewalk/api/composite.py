"""Tools with which an agent lays tools into workflows of its own, runs and lists them.

A workflow is a composite of tools that are allowed; it never reaches another workflow, nor these tools. Each session
sees its own. On an app they are kept in its store, and a run of one is part of the run that calls it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..app.preflight import check_input
from ..engine.flow_tool import FlowTool, flow_tool_of, value_of_run
from ..errors import ConfigError, InvalidFlow, NotFound, Problem
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.memory import MemoryStore
from ..journal.protocol import Definition, Store
from ..notations.composite import compile_document as compile_composite
from ..ops import calls_of
from ..schema import schema_errors
from ..tools.backends.route import Args, EngineGetter, OnProgress, Route, Routed
from ..tools.tool import Tool
from ..values import Json, check_json, did_you_mean, digest
from .composite_builder import ComposableToolBuilder

if TYPE_CHECKING:
    from ..app.app import App

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
    """The limits of an agent."""

    allow: frozenset[str]
    max_steps: int
    max_workflows: int

    def problems(self, document: Mapping[str, Json]) -> list[Problem]:
        """Return everything in a workflow that is not allowed, or is wrong."""
        steps = document.get("steps")
        if isinstance(steps, list) and len(steps) > self.max_steps:
            return [Problem(path="steps", message=f"{len(steps)} steps; at most {self.max_steps} are allowed")]
        result = []
        for node in calls_of(compile_composite(document).flow.body):
            tool, path = node.op.tool, f"{node.meta.source}.tool"
            if tool in OWN:
                result.append(Problem(path=path, message=f"{tool} cannot be used inside a workflow"))
            elif ANY not in self.allow and tool not in self.allow:
                hint = did_you_mean(tool, self.allow)
                message = f"{tool} is not allowed here; allowed: {', '.join(sorted(self.allow)) or 'none'}"
                result.append(Problem(path=path, message=message, suggestion=hint))
        return result


def workflow_tools(
    home: App | ComposableToolBuilder,
    *,
    allow: Collection[str],
    max_steps: int = 20,
    max_workflows: int = 100,
    session: str = "default",
) -> list[Tool]:
    """Make the tools `create_workflow`, `run_workflow` and `list_workflows` of one session.

    Args:
        home: With a builder, workflows live as long as these tools. With an app, they are stored under the name of the
            session.
        allow: The tools that workflows may call, exactly; `["*"]` allows every tool except these three.
        max_steps: Maximum number of steps of one workflow.
        max_workflows: Maximum number of workflows of the session.
        session: The name of the session.

    Returns:
        The three tools.

    Raises:
        ConfigError: `allow` is a string, or a maximum is less than 1.
    """
    if isinstance(allow, str):
        raise ConfigError("allow is a list of tool names, not one string")
    if max_steps < 1 or max_workflows < 1:
        raise ConfigError("max_steps and max_workflows are 1 or more")
    bounds = Bounds(allow=frozenset(allow), max_steps=max_steps, max_workflows=max_workflows)
    if isinstance(home, ComposableToolBuilder):
        store = MemoryStore()
        return Desk(bounds, _Workflows(lambda: store, session), _building(home)).tools()
    return Desk(bounds, _Workflows(lambda: home.store, check_json(session, "session")), _on(home)).tools()


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

    def __init__(self, bounds: Bounds, workflows: _Workflows, build: Build) -> None:
        self.bounds, self.workflows, self.build = bounds, workflows, build
        self.runs: Counter[str] = Counter()
        """By workflow, how often it was run since these tools were made."""

    def tools(self) -> list[Tool]:
        """Return the three tools, with the limits in their descriptions."""
        # The limits are part of the descriptions, so that a model does not have to find them out by errors.
        allowed = "any" if ANY in self.bounds.allow else ", ".join(sorted(self.bounds.allow)) or "none"
        name: dict[str, Json] = {"type": "string", "pattern": _NAME}
        create: dict[str, Json] = {
            "type": "object",
            "properties": {
                "name": name,
                "description": {"type": "string"},
                "inputSchema": {
                    "type": "object",
                    "description": "JSON Schema of the workflow's input, of any type. Default: any value.",
                },
                "steps": {"type": "array", "minItems": 1, "items": _STEP},
            },
            "required": ["name", "steps"],
            "additionalProperties": False,
        }
        run: dict[str, Json] = {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "input": {"description": "The input of the workflow: any JSON value."},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
        message = (
            f"Make a workflow: at most {self.bounds.max_steps} tool calls one after another, under a name. "
            f"Tools that it may call: {allowed}. A workflow of the same name is replaced."
        )
        none: dict[str, Json] = {"type": "object", "additionalProperties": False}
        return [
            Tool(OWN[0], message, create, handler=self.create),
            Tool(
                OWN[1],
                (
                    "Run a workflow. Returns the result of its last step, the results of all steps, and the number of "
                    "its runs."
                ),
                run,
                handler=_Run(self),
            ),
            Tool(OWN[2], "List the workflows.", none, annotations={"readOnlyHint": True}, handler=self.list),
        ]

    async def create(self, **args: Any) -> Json:
        """Check and store a workflow: the handler of `create_workflow`."""
        steps = [_step(step, f"steps[{i}]") for i, step in enumerate(args["steps"])]
        document = {"description": "", "inputSchema": {"default": {}}, "mode": "compose", "strict": True, **args}
        document["steps"] = steps
        problems = self.bounds.problems(document)
        if problems:
            raise InvalidFlow(problems)
        if document_flaws := [
            Problem(path=f"inputSchema{at}", message=why) for at, why in schema_errors(args.get("inputSchema", {}))
        ]:
            raise InvalidFlow(document_flaws)
        self.build(_as_tool(document))  # which refuses what cannot be a tool
        await run_sync_in_thread(self.workflows.store, lambda: self.workflows.put(document, self.bounds.max_workflows))
        self.runs.pop(args["name"], None)
        return {"name": args["name"], "steps": len(args["steps"])}

    async def list(self) -> Json:
        """List the workflows: the handler of `list_workflows`."""
        documents = await run_sync_in_thread(self.workflows.store, self.workflows.documents)
        return [{**_line(document), "runCount": self.runs[name]} for name, document in sorted(documents.items())]

    def flow(self, document: dict[str, Json]) -> FlowTool:
        """Return the flow of a stored workflow."""
        problems = self.bounds.problems(document)
        if problems:
            raise InvalidFlow(problems)
        result = flow_tool_of(self.build(_as_tool(document)))
        assert result is not None
        return result


class _Run(Routed):
    """The handler of `run_workflow`: a run is part of the one that calls it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, name: str, input: Json = None) -> Json:
        return await self._run(name, input, None, None)

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self._run(args["name"], args.get("input"), get_engine, key, on_progress)

        return Route(send=send, timeout=float("inf"), per_attempt=True, waits=True)

    async def _run(
        self,
        name: str,
        input: Json,
        get_engine: EngineGetter | None,
        key: str | None,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Json]:
        desk = self.desk
        document: Any = await run_sync_in_thread(desk.workflows.store, lambda: desk.workflows.find(name))
        flow = desk.flow(document)
        # Against its own schema, which may be of any type; that of the tool is one of objects.
        checked = check_input(replace(flow.flow, input_schema=document["inputSchema"]), input)
        desk.runs[name] += 1
        ended = await flow.run(checked, get_engine or flow.host.get_engine, key, on_progress)
        return {"result": value_of_run(ended, flow.kind), "steps": ended["steps"], "runCount": desk.runs[name]}


def _step(step: Mapping[str, Json], path: str) -> dict[str, Json]:
    """Return a step with its arguments as `inputMapping`; `args` is another name of it."""
    if "args" not in step:
        return dict(step)
    if "inputMapping" in step:
        raise InvalidFlow([Problem(path=f"{path}.args", message="means the same as inputMapping; remove one of them")])
    return {**{key: value for key, value in step.items() if key != "args"}, "inputMapping": step["args"]}


def _as_tool(document: dict[str, Json]) -> dict[str, Json]:
    """Return the document that becomes a tool."""

    # Tools take objects; `run_workflow` checks any other input.
    kind = document["inputSchema"].get("type")
    return document if kind == "object" else {**document, "inputSchema": {}}


def _line(document: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "name": document["name"],
        "description": document["description"],
        "inputSchema": document["inputSchema"],
        "steps": [step["tool"] for step in document["steps"]],
    }


class _Workflows:
    """The workflows of one session in a store, by name."""

    # `open` returns the store when it is first needed.

    def __init__(self, open: Callable[[], Store], session: str) -> None:
        self._open, self._session = open, session
        self._putting = threading.Lock()

    @property
    def store(self) -> Store:
        return self._open()

    def find(self, name: str) -> Json:
        """Return the document of a workflow; raise NotFound, with the closest name, for an unknown one."""
        result = self.store.get_definition(KIND, self._id(name))
        if result is None:
            raise NotFound("workflow", name, suggestion=did_you_mean(name, list(self.documents())))
        return result.document

    def documents(self) -> dict[str, Any]:
        """Return the document of every workflow of the session."""
        return {d.name: d.document for d in self.store.list_definitions(KIND) if d.id == self._id(d.name)}

    def put(self, document: dict[str, Json], max_workflows: int) -> None:
        """Store a workflow under its name."""

        # Raise ConfigError if it is a new one and there are `most` already.
        name = str(document["name"])
        new = Definition(kind=KIND, id=self._id(name), name=name, document=document, fingerprint=digest(document))
        with self._putting:  # two at a time must not both take the last place
            if self.store.get_definition(KIND, new.id) is None and (count := len(self.documents())) >= max_workflows:
                raise ConfigError(f"there are {count} workflows already, and no more are allowed")
            self.store.put_definition(new)

    def _id(self, name: str) -> str:
        return f"{self._session}/{name}"  # names have no slash, so that no two sessions share an id
