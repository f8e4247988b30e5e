"""The operations on plans as tools of models: their schemas, and one function that calls them for every interface.

In an agent a plan is a run that is part of the agent's run. It waits, stops and survives a crash with it. A model never
approves its own calls: a `decision` counts only where the interface says that a person sends it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..duration import PATTERN
from ..engine.flow_tool import FlowTool
from ..errors import InvalidInput, Problem
from ..fast_dataclass import dataclass
from ..notations.records import outcome
from ..schema import compile_schema
from ..select.search import HOW_TO_ASK, LIMIT, QUERIES
from ..tools.backends.route import Args, EngineGetter, OnProgress, Route, Routed
from ..tools.reserved import OWN
from ..tools.tool import Tool
from ..values import Json
from .plans import Plans, problem_of_program
from .run_budget import read_budget
from .saved_plans import KIND
from .start import DEFAULT, Start

if TYPE_CHECKING:
    from .context import Context
    from .jobs import Jobs

_CODE: Final[dict[str, Json]] = {
    "type": "string",
    "description": "Python: top-level statements with await before calls of tools. The last expression or return is "
    "the result. asyncio.gather, for, while, try, json and math work; imports of other modules do not.",
}
_INPUT: Final[dict[str, Json]] = {"type": "object", "description": "Values that the program reads by name."}
_BUDGET: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "calls": {"type": "integer", "minimum": 0, "description": "The maximum number of tool calls in the whole run."},
        "seconds": {
            "type": ["number", "string"],
            "exclusiveMinimum": 0,
            "pattern": PATTERN,
            "description": "The maximum duration of the run.",
        },
        "tokens": {
            "type": "integer",
            "minimum": 0,
            "description": "The maximum number of tokens of the models that the run calls.",
        },
        "cost": {"type": "number", "minimum": 0, "description": "The maximum cost of these tokens, in US dollars."},
    },
    "additionalProperties": False,
}
_DECISION: Final[dict[str, Json]] = {
    "type": "object",
    "description": "A person's answer to what the run waits for: `approved`, or `event` with `payload`.",
    "properties": {
        "approved": {"type": "boolean"},
        "note": {"type": "string"},
        "node": {"type": "string"},
        "digest": {"type": "string", "description": "The digest at the end of the question."},
        "event": {"type": "string"},
        "payload": {},
    },
    "additionalProperties": False,
}
_TEXT: Final[dict[str, Json]] = {"type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation as a tool."""

    name: str
    description: str
    properties: dict[str, Json]
    required: tuple[str, ...]
    reads: bool = False

    @property
    def schema(self) -> dict[str, Json]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            name="find_tools",
            description=f"Finds tools as Python stubs: a program with run_plan calls them. {HOW_TO_ASK} The best tools "
            "come with a stub, the others as one line; search for a name to get its stub.",
            properties={
                "queries": QUERIES,
                "request": {"type": "string", "minLength": 1, "description": "One task, in place of `queries`."},
                "limit": LIMIT,
            },
            required=(),
            reads=True,
        ),
        Operation(
            name="check_plan",
            description="Checks a program without calling a tool: problems with their line, or its tools, their "
            "effects, the most calls, and the graph.",
            properties={"code": _CODE, "input": _INPUT},
            required=("code",),
            reads=True,
        ),
        Operation(
            name="run_plan",
            description="Checks and runs a program that calls tools. Gives its result; or waiting, with the run and "
            "what it waits for; or the line that failed, why, the partial results, and what can be undone. A program "
            "with an error makes no calls.",
            properties={"code": _CODE, "input": _INPUT, "budget": _BUDGET},
            required=("code",),
        ),
        Operation(
            name="resume_run",
            description="Continues a run after an approval, an event or a failure. With corrected code, calls that "
            "were made are not repeated.",
            properties={"run_id": _TEXT, "decision": _DECISION, "code": _CODE},
            required=("run_id",),
        ),
        Operation(
            name="undo_run",
            description="Undoes the finished calls of a run that failed or was stopped, the last one first. The answer "
            "to a failed run lists the calls in `undo`. It may wait for an approval; then call it again.",
            properties={"run_id": _TEXT},
            required=("run_id",),
        ),
        Operation(
            name="save_plan",
            description="Saves a program as a tool. Declare each parameter as an annotated name: `department: str`.",
            properties={
                "name": {"type": "string", "description": "Lower-case letters, digits and _."},
                "code": _CODE,
                "description": {"type": "string", "description": "A description, which tool search reads."},
            },
            required=("name", "code", "description"),
        ),
    )
}
IDS: Final = tuple(f"{OWN}:{name}" for name in OPERATIONS if name != "undo_run")
"""The ids of the operations as tools of agents. The programs of an agent are parts of its run, which is undone as a
whole."""
STORE: Final = f"{OWN}:store_plan"
"""The tool that stores an approved plan. Programs cannot call it."""
_SAVE: Final = """
answer = await approve(question)
if not answer:
    return {"status": "rejected", "by": answer.by, "note": answer.note}
return await store_plan(name=name, code=code, description=description)
"""


async def call_operation(
    plans: Plans,
    name: str,
    args: Mapping[str, Any],
    *,
    may_decide: bool = False,
    by: str | None = None,
    start: Start = DEFAULT,
) -> dict[str, Json]:
    """Call an operation for a model."""
    if "run_id" in OPERATIONS[name].properties and "runId" in args and "run_id" not in args:
        args = {("run_id" if key == "runId" else key): value for key, value in args.items()}  # as answers name it
    checked = compile_schema(OPERATIONS[name].schema)
    if not checked.is_valid(dict(args)):
        raise InvalidInput(checked.problems(dict(args), "arguments"))
    if name == "find_tools":
        return await plans.find_tools(**args)
    if name == "check_plan":
        return await plans.check_plan(args["code"], args.get("input"))
    if name == "run_plan":
        return await plans.run_plan(
            args["code"], args.get("input"), args.get("budget"), run_id=start.run_id, on_event=start.on_event
        )
    if name == "resume_run":
        decision = args.get("decision")
        if decision is not None and not may_decide and not plans.context.plans.decide:
            message = (
                "a person must decide, outside of this conversation; afterwards call resume_run without a decision"
            )
            raise InvalidInput([Problem(path="decision", message=message)])
        return await plans.resume_run(
            args["run_id"], decision, args.get("code"), by=by, new_id=start.run_id, on_event=start.on_event
        )
    if name == "undo_run":
        return await plans.undo_run(args["run_id"], on_event=start.on_event)
    # Without the permission to save, a plan is checked and then waits for a person.
    if plans.context.plans.save == "allow":
        return await plans.save_plan(args["name"], args["code"], args["description"])
    loaded, problems = await plans.checked_for_saving(args["name"], args["code"], args["description"])
    if loaded is None or problems:
        return _invalid(args["code"], problems)
    return await plans.start(replace(start, definition=saving_plan(plans), input=_saving_input(args)), {})


def _invalid(code: str, problems: list[Problem]) -> dict[str, Json]:
    return {"status": "invalid", "problems": [problem_of_program(code, problem) for problem in problems]}


def saving_plan(plans: Plans) -> Any:
    """Return the definition that asks a person and then stores a plan."""
    entry = {"id": STORE, "parameters": ["name", "code", "description"]}
    document = {
        "kind": KIND,
        "name": "save_plan",
        "code": _SAVE,
        "inputs": ["name", "code", "description", "question"],
        "tools": {"store_plan": entry},
    }
    install_operations(plans.context, plans.jobs)
    return plans.context.definitions.get(document)


def _saving_input(args: Mapping[str, Any]) -> dict[str, Json]:
    question = f"Save the plan {args['name']} ({args['description']}) as a tool?\n{args['code']}"
    return {**{key: args[key] for key in ("name", "code", "description")}, "question": question}


class PlanHandler(Routed):
    """One operation as a tool of an agent: its runs are parts of the run that calls it."""

    def __init__(self, plans: Plans, operation: Operation) -> None:
        self.plans, self.operation = plans, operation

    async def __call__(self, **args: Json) -> Json:
        return await self._call(args, None, None, None)

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        """Return the route."""

        # A program may wait, so the call has no timeout of its own.

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self._call(args, get_engine, key, on_progress)

        waits = self.operation.name in ("run_plan", "resume_run", "save_plan") and get_engine is not None
        return Route(send=send, timeout=math.inf, per_attempt=True, waits=waits)

    async def _call(
        self, args: Args, get_engine: EngineGetter | None, key: str | None, on_progress: OnProgress | None
    ) -> Json:
        name, plans = self.operation.name, self.plans
        arguments: Any = args
        if name == "run_plan":
            limits = read_budget(arguments.get("budget"))
            loaded, problems = await plans.load(arguments["code"], arguments.get("input"))
            if loaded is None or problems:
                return _invalid(arguments["code"], problems)
            return await self._run(loaded, arguments.get("input"), limits, get_engine, key, on_progress)
        if name == "save_plan" and plans.context.plans.save == "ask":
            loaded, problems = await plans.checked_for_saving(
                arguments["name"], arguments["code"], arguments["description"]
            )
            if loaded is None or problems:
                return _invalid(arguments["code"], problems)
            return await self._run(saving_plan(plans), _saving_input(arguments), {}, get_engine, key, on_progress)
        return await call_operation(plans, name, arguments, start=Start(run_id=key))

    async def _run(
        self,
        loaded: Any,
        input: Any,
        limits: Mapping[str, float],
        get_engine: EngineGetter | None,
        key: str | None,
        on_progress: OnProgress | None,
    ) -> Json:
        """Run a plan as part of the run that makes the call."""
        plans = self.plans
        handler: Any = plans.jobs.make_tool(loaded, "plan", "").handler
        assert isinstance(handler, FlowTool)
        handler = handler.with_host(budget=limits)
        result = await handler.run(dict(input or {}), get_engine, key, on_progress)
        return await plans.answer(outcome(result, KIND))


def install_operations(context: Context, jobs: Jobs) -> None:
    """Register the operations as tools of agents, and the tool that stores plans."""
    plans = Plans(context, jobs, context.plans.approve)
    tools = [
        Tool(
            operation.name,
            operation.description,
            operation.schema,
            namespace=OWN,
            annotations={"readOnlyHint": True} if operation.reads else None,
            handler=PlanHandler(plans, operation),
        )
        for operation in OPERATIONS.values()
        if f"{OWN}:{operation.name}" in IDS
    ]

    async def store(name: str, code: str, description: str) -> Json:
        return await plans.save_plan(name, code, description)

    schema = OPERATIONS["save_plan"].schema
    tools.append(Tool("store_plan", "Stores an approved plan.", schema, namespace=OWN, handler=store))
    for tool in tools:
        if context.toolbox.get(tool.id) is None:
            context.toolbox.register(tool)
