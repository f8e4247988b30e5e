"""Run chains as documents: the steps of `Runner.run_chain` in a file, run, checked and drawn like any other.

Arguments are data: nothing in them is read as a reference. A step with `usePrevious` gets the result of the step
before it as its argument `previous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed, Problem
from ..expr.ast import NULL, Lit, Obj, Ref
from ..frozen import dataclass
from ..ir import Flow, Node
from ..ops import Call
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say
from .nodes import read_document
from .notation import Compiled, failures
from .runchain import flow_of
from .writing import POLICY, Fields, FlowWriter

FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "steps": f.anything,
}
STEP_FIELDS: Final[dict[str, Checker]] = {"toolId": f.name, "args": f.mapping, "usePrevious": f.truth}


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """One step as the document has it; the Runner's `ChainStep` in a file."""

    tool_id: str
    args: dict[str, Json] = field(default_factory=dict)
    use_previous: bool = False

    def to_dict(self) -> dict[str, Json]:
        """Return the step in the document's words; empty arguments and a false flag are left out."""
        made: dict[str, Json] = {"toolId": self.tool_id}
        if self.args:
            made["args"] = self.args
        return {**made, "usePrevious": True} if self.use_previous else made


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if the document has steps that name their tools as run chains do."""
    steps = document.get("steps")
    listed = steps if isinstance(steps, list) and "mode" not in document else ()
    return any(isinstance(step, Mapping) and not {"toolId", "tool_id"}.isdisjoint(step) for step in listed)


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a run chain; InvalidFlow, or `losses`, lists what a run chain cannot hold."""
    return RunChainWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a run chain; raises InvalidFlow with every problem of the document."""
    given, report = read_document(config, FIELDS, "run chain")
    steps = _steps(given.get("steps"), report)
    if report:
        raise InvalidFlow(report)
    name = str(given.get("name", given.get("id", "runchain")))
    flow = replace(flow_of(steps), name=name)
    document: dict[str, Json] = {"name": name, **given, "steps": [step.to_dict() for step in steps]}
    return Compiled(
        kind="runchain",
        id=str(given.get("id", name)),
        name=name,
        document=document,
        flow=flow,
        warnings=(),
        render=Rendering(name, steps),
    )


def _steps(value: Json, report: Report) -> list[DocumentStep]:
    if not isinstance(value, list):
        say(report, "steps", f"must be a list of steps, not {f.kind(value)}")
        return []
    steps: list[DocumentStep] = []
    for i, item in enumerate(value):
        path = f"steps[{i}]"
        if not isinstance(item, Mapping):
            say(report, path, f"must be an object with toolId, not {f.kind(item)}")
            continue
        given = {k: v for k, v in known_keys(item, STEP_FIELDS, path, report).items() if v is not None}
        checked: dict[str, Any] = {key: STEP_FIELDS[key](v, join(path, key), report) for key, v in given.items()}
        if "toolId" not in checked:
            say(report, join(path, "toolId"), "required for every step")
            continue
        steps.append(DocumentStep(checked["toolId"], checked.get("args") or {}, bool(checked.get("usePrevious"))))
    return steps


class Rendering:
    """Writes an ending in the words of run chains: `result` is that of the last step, `steps` are all that ran."""

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


HELD: Final[dict[type[Any], tuple[str, ...]]] = {Node: ("id", "op", "meta"), Call: ("tool", "args"), **POLICY}


class RunChainWriter(FlowWriter[None]):
    """Writes one flow as a run chain."""

    kind, held = "runchain", HELD

    def document(self) -> Fields:
        flow, body = self.flow, self.flow.body
        for name in flow.state:
            self.refuse(f"state.{name}", "a run chain has no state")
        for name in ("input_schema", "output_schema", "timeout"):
            if getattr(flow, name) is not None:
                self.refuse(name, f"a run chain has no {name.replace('_', ' ')}")
        if not body.ordered and len(body.nodes) > 1:
            self.refuse(
                "nodes", "the steps of a run chain run one after another, not as soon as what they use is there"
            )
        last = Ref("out", (body.nodes[-1].id,)) if body.nodes else NULL
        if body.result not in (last, Ref("prev")):
            self.refuse("result", "a run chain gives what its last step gave")
        return {
            "kind": "runchain",
            "name": flow.name,
            "steps": [step for node in body.nodes for step in self.step(node)],
        }

    def step(self, node: Node) -> list[Fields]:
        """Write one node as a step; a node that calls nothing is left out."""
        self.refuse_unheld(node, node.id)
        if not isinstance(node.op, Call):
            self.refuse_op(node, node.id, "its steps are tool calls")
            return []
        args = node.op.args
        if isinstance(args, Lit) and isinstance(args.value, dict):
            return [DocumentStep(node.op.tool, args.value).to_dict()]
        given: dict[str, Json] = {}
        use_previous = False
        for key, value in args.fields if isinstance(args, Obj) else ():
            if key == "previous" and self._is_previous(node, value):
                use_previous = True
            elif isinstance(value, Lit):
                given[key] = value.value
            else:
                self.refuse(f"{node.id}.args.{key}", "the arguments of a run chain are data, without references")
        if not isinstance(args, Obj):
            self.refuse(f"{node.id}.args", "the arguments of a run chain are an object of data")
        return [DocumentStep(node.op.tool, given, use_previous).to_dict()]

    def _is_previous(self, node: Node, value: Any) -> bool:
        ids = [one.id for one in self.flow.body.nodes]
        at = ids.index(node.id)
        return value == Ref("prev") or (at > 0 and value == Ref("out", (ids[at - 1],)))
