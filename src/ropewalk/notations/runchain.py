"""The notation `runchain`: the steps of `Runner.run_chain` as a document.

Arguments are data: nothing in them is read as a reference. A step with `usePrevious` gets the result of the step
before it as its argument `previous`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed, Problem, ValidationFailed
from ..expr.ast import NULL, Expr, Lit, Obj, Ref
from ..fast_dataclass import dataclass
from ..ir import Flow, Graph, Meta, Node
from ..ops import Call
from ..problems import join_problems
from ..values import Json
from . import fields as f
from .budget import check_budget
from .fields import Checker, Report, add_problem, join, normalize_keys, read_document
from .registry import Compiled, all_problems, failures
from .undo import check_undo_policy
from .writing import POLICY, Fields, FlowWriter


def flow_of(steps: Sequence[Any]) -> Flow:
    """Return the flow of a list of `ChainStep`s (or objects with tool_id, args and use_previous)."""
    for i, step in enumerate(steps):
        if not all(hasattr(step, name) for name in ("tool_id", "args", "use_previous")):
            raise TypeError(
                f"steps[{i}] is a {type(step).__name__}, not a step: ChainStep(tool_id, args, use_previous)"
            )
    invalid = {i: step for i, step in enumerate(steps) if step.args is not None and not isinstance(step.args, dict)}
    if invalid:
        problems = [
            Problem(path=f"steps[{i}].args", message=f"arguments must be an object, not {type(step.args).__qualname__}")
            for i, step in invalid.items()
        ]
        first = next(iter(invalid.values()))
        raise ValidationFailed(first.tool_id, "validate_input", join_problems(problems), problems=problems)
    # Arguments with a wrong type would only fail at run time, one step after the other.
    nodes = tuple(
        Node(id=f"step{i}", op=Call(tool=step.tool_id, args=_args(step.args, step.use_previous)), meta=_meta(i))
        for i, step in enumerate(steps)
    )
    result = Ref("out", (nodes[-1].id,)) if nodes else NULL
    return Flow(name="run_chain", body=Graph(nodes=nodes, result=result, ordered=True))


def _args(args: dict[str, Json] | None, use_previous: bool) -> Expr:
    fields: dict[str, Expr] = {key: Lit(value) for key, value in (args or {}).items()}
    if use_previous:
        fields["previous"] = Ref("prev")
    return Obj(tuple(fields.items()))


def _meta(i: int) -> Meta:
    return Meta(source=f"steps[{i}]", labels={"tool": "toolId"})


FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "mcpPrompt": f.truth,
    "steps": f.anything,
    "undo": check_undo_policy,
    "budget": check_budget,
}
STEP_FIELDS: Final[dict[str, Checker]] = {"toolId": f.name, "args": f.mapping, "usePrevious": f.truth}


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """A step as the document has it: the Runner's `ChainStep` in a file."""

    tool_id: str
    args: dict[str, Json] = field(default_factory=dict)
    use_previous: bool = False

    def to_dict(self) -> dict[str, Json]:
        """Return the step in the document's words; empty arguments and a false flag are left out."""
        fields: dict[str, Json] = {"toolId": self.tool_id}
        if self.args:
            fields["args"] = self.args
        return {**fields, "usePrevious": True} if self.use_previous else fields


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has steps that name their tools as run chains do."""
    steps = document.get("steps")
    items = steps if isinstance(steps, list) and "mode" not in document else ()
    return any(isinstance(step, Mapping) and not {"toolId", "tool_id"}.isdisjoint(step) for step in items)


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a run chain."""
    return RunChainWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a run chain."""
    fields, report = read_document(config, FIELDS, "run chain")
    steps = _read_steps(fields.get("steps"), report)
    name = str(fields.get("name", fields.get("id", "runchain")))
    undo: Any = fields.get("undo")
    budget: Any = fields.get("budget")
    flow = replace(flow_of(steps), name=name, undo=undo, budget=budget)
    if report:
        raise InvalidFlow(all_problems(report, flow), flow)
    document: dict[str, Json] = {"name": name, **fields, "steps": [step.to_dict() for step in steps]}
    return Compiled(
        kind="runchain",
        id=str(fields.get("id", name)),
        name=name,
        document=document,
        flow=flow,
        warnings=(),
        render=Rendering(name, steps),
    )


def _read_steps(value: Json, report: Report) -> list[DocumentStep]:
    if not isinstance(value, list):
        add_problem(report, "steps", f"must be a list of steps, not {f.type_name(value)}")
        return []
    steps: list[DocumentStep] = []
    for i, item in enumerate(value):
        path = f"steps[{i}]"
        if not isinstance(item, Mapping):
            add_problem(report, path, f"must be an object with toolId, not {f.type_name(item)}")
            steps.append(DocumentStep(""))  # keeps the positions of the others
            continue
        fields = {k: v for k, v in normalize_keys(item, STEP_FIELDS, path, report).items() if v is not None}
        checked: dict[str, Any] = {key: STEP_FIELDS[key](v, join(path, key), report) for key, v in fields.items()}
        if "toolId" not in checked:
            add_problem(report, join(path, "toolId"), "required for every step")
        steps.append(
            DocumentStep(checked.get("toolId", ""), checked.get("args") or {}, bool(checked.get("usePrevious")))
        )
    return steps


class Rendering:
    """Write an ending as the result of a run chain: `result` is that of the last step, `steps` are all that ran."""

    def __init__(self, name: str, steps: list[DocumentStep]) -> None:
        self.name, self.steps = name, steps

    def __call__(self, ending: Any) -> dict[str, Json]:
        failed = ending.error.node if isinstance(ending.error, NodeFailed) else None
        steps: list[Json] = []
        for i, step in enumerate(self.steps):
            id = f"step{i}"
            if id == failed:
                error: dict[str, Json] = {"kind": ending.error.kind, "message": ending.error.message}
                steps.append({"toolId": step.tool_id, "error": error})
            elif id in ending.outputs:
                steps.append({"toolId": step.tool_id, "result": {"structured": ending.outputs[id]}})
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "runchain": self.name,
            "status": ending.status,
            "result": ending.value,
            "steps": steps,
            "errors": failures(ending),
            "duration": round(ending.duration * 1000, 3),
        }


SUPPORTED: Final[dict[type[Any], tuple[str, ...]]] = {Node: ("id", "op", "meta"), Call: ("tool", "args"), **POLICY}


class RunChainWriter(FlowWriter[None]):
    """Write one flow as a run chain."""

    kind, supported, keys = "runchain", SUPPORTED, {}

    def document(self) -> Fields:
        """Return the document; what a run chain cannot hold is refused."""
        flow, body = self.flow, self.flow.body
        self.before = {after.id: node.id for node, after in pairwise(body.nodes)}
        self.after_no_step = {after.id for node, after in pairwise(body.nodes) if not isinstance(node.op, Call)}
        # Refuse everything that the notation has no place for.
        for name in flow.state:
            self.refuse(f"state.{name}", "a run chain has no state")
        for name in ("input_schema", "output_schema", "timeout"):
            if getattr(flow, name) is not None:
                self.refuse(name, f"a run chain has no {name.replace('_', ' ')}")
        if not body.ordered and len(body.nodes) > 1:
            self.refuse("nodes", "the steps of a run chain run in sequence, not as soon as their inputs are ready")
        # The value must be that of the last step, however the flow names it.
        last = Ref("out", (body.nodes[-1].id,)) if body.nodes else NULL
        if body.result not in (last, Ref("prev")):
            self.refuse("result", "the value of a run chain is its last step's result")
        return {"steps": [step for node in body.nodes for step in self.step(node)]}

    def step(self, node: Node) -> list[Fields]:
        """Write one node as a step; a node that calls nothing is left out."""
        self.refuse_unsupported(node, node.id)
        if not isinstance(node.op, Call):
            self.refuse_op(node, node.id, "its steps are tool calls")
            return []
        args = node.op.args
        if isinstance(args, Lit) and isinstance(args.value, dict):
            return [DocumentStep(node.op.tool, args.value).to_dict()]
        data: dict[str, Json] = {}
        use_previous = False
        # Everything must be data, except `previous`.
        for key, value in args.fields if isinstance(args, Obj) else ():
            if key == "previous" and self._is_previous(node, value):
                use_previous = True
            elif isinstance(value, Lit):
                data[key] = value.value
            else:
                reason = "the arguments of a run chain are data, without references"
                self.refuse(f"{node.id}.args.{key}", reason, decisive=True)
        if not isinstance(args, Obj):
            self.refuse(f"{node.id}.args", "the arguments of a run chain are an object of data", decisive=True)
        return [DocumentStep(node.op.tool, data, use_previous).to_dict()]

    def _is_previous(self, node: Node, value: Any) -> bool:
        if node.id in self.after_no_step:
            return False  # in the document another step comes before it
        before = self.before.get(node.id)
        return value == Ref("prev") or (before is not None and value == Ref("out", (before,)))
