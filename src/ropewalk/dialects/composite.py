"""Composite tools: steps one after another, each a tool call, as one tool.

`compile_document` reads the document and turns it into a Flow; `spec_problems` are the checks that
a builder makes first. What the references in it mean is in `composite_steps.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed, Problem
from ..errors.collected import MOST_PROBLEMS
from ..expr.ast import Ref
from ..ir import Flow, Graph
from ..values import Json
from . import fields as f
from .composite_steps import StepReader, Steps
from .fields import Checker, say
from .nodes import read_document
from .notation import Compiled, failures

NAMESPACE: Final = "composable"
"""Of the ids of composite tools: `composable:<name>`."""

FIELDS: Final[dict[str, Checker]] = {
    "id": f.name,
    "kind": f.text,
    "name": f.name,
    "description": f.text,
    "inputSchema": f.mapping,
    "outputSchema": f.mapping,
    "mode": f.one_of(("compose",)),
    "steps": f.anything,
    "strict": f.truth,
    "timeout": f.number,
}


def spec_problems(spec: Any) -> list[Problem]:
    """What is wrong with the shape of a spec, one problem per failing check."""
    steps = spec.get("steps") if isinstance(spec, Mapping) else None
    if not isinstance(steps, (list, tuple)) or not steps:
        return [Problem(path="steps", message="ComposableToolSpec.steps must be a non-empty array.")]
    found: list[Problem] = []
    for i, step in enumerate(steps):
        tool = step.get("tool") if isinstance(step, Mapping) else None
        if not isinstance(tool, str) or not tool.strip():
            message = f'Step at index {i} has an empty or missing "tool" name.'
            found.append(Problem(path=f"steps[{i}].tool", message=message))
            if len(found) == MOST_PROBLEMS:
                break
    return found


def fits(document: Mapping[str, Json]) -> bool:
    return str(document.get("mode")).strip().lower() == "compose" and "steps" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    from .composite_write import CompositeWriter  # most who read them write none

    return CompositeWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a composite; raises InvalidFlow with every problem of the document."""
    given, report = read_document(config, FIELDS, "composite")
    if "name" not in given:
        say(report, "name", "required: the name of the tool")
    # Converting a flow without a tool call gives a composite without steps, which calls nothing.
    empty = given.get("steps") == [] and config.get("kind") == "composite"
    wrong = [] if empty else spec_problems(given)
    report += wrong
    reader = StepReader(bool(given.get("strict")), report)
    steps = reader.steps
    if not any(problem.path == "steps" for problem in wrong):
        reader.read(given["steps"])
    flow = _flow(given, steps)
    if report:
        raise InvalidFlow(report, flow)
    name = str(given["name"])
    document: dict[str, Json] = {"name": name, "description": "", "mode": "compose", **given, "steps": steps.documents}
    return Compiled(
        kind="composite",
        id=str(given.get("id", name)),
        name=name,
        document=document,
        flow=flow,
        warnings=tuple(reader.warnings),
        render=Rendering(name, steps),
        namespace=NAMESPACE,
        typed_at="outputSchema",
    )


def _flow(given: Mapping[str, Any], steps: Steps) -> Flow:
    timeout = given.get("timeout")
    return Flow(
        name=str(given.get("name", "")),
        # What the last step that ran gave; a skipped one leaves it as it is.
        body=Graph(nodes=tuple(steps.nodes), result=Ref("prev"), ordered=True),
        input_schema=given.get("inputSchema"),
        output_schema=given.get("outputSchema"),
        timeout=timeout / 1000 if timeout else None,
    )


class Rendering:
    """Writes an ending in the words of composite tools: `result` is the output, `error` one text."""

    def __init__(self, name: str, steps: Steps) -> None:
        self.name = name
        self.steps = {node.id: document for node, document in zip(steps.nodes, steps.documents, strict=True)}
        self.named = [(id, step["name"], step["tool"]) for id, step in self.steps.items()]

    def __call__(self, ending: Any) -> dict[str, Json]:
        failed = ending.error.node if isinstance(ending.error, NodeFailed) else None
        outputs, skipped = ending.outputs, ending.skipped
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "composite": self.name,
            "status": ending.status,
            "result": ending.value,
            "steps": [
                {
                    "name": name,
                    "tool": tool,
                    "status": "failed" if id == failed else "skipped" if id in skipped else "completed",
                    "output": outputs.get(id),
                }
                for id, name, tool in self.named
                if id in outputs or id == failed
            ],
            "error": self._error(ending.error),
            "errors": failures(ending),
            "duration": round(ending.duration * 1000, 3),
        }

    def _error(self, error: Exception | None) -> str | None:
        if isinstance(error, NodeFailed) and error.node in self.steps:
            step = self.steps[error.node]
            return f'Step "{step["name"]}" (tool: "{step["tool"]}") failed: {error.message}'
        return None if error is None else str(error)
