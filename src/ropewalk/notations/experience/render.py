"""The notation `experience` for the registry: `fits`, `write` and `compile_document`, and the result of a run.

`Rendering` writes an ending as the result of an experience: its final state, errors, and what the results of modules
and models say besides: metrics, and warnings about parts of them that nothing uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ...errors import InvalidFlow, NodeFailed, Problem, failure_data, retry_data
from ...expr.ast import Path, Var, show
from ...ir import Flow, Graph, Node, bodies
from ...ops import MODEL, Call
from ...values import Json, did_you_mean
from ..fields import snake
from ..registry import Compiled, all_problems
from .compile import ExperienceCompiler
from .nodes import path_in
from .read import ExperienceDocument, read

METRICS: Final = ("tokens_in", "tokens_out", "cost_usd")
RESULT: Final = ("state_delta", "edge_output", "metrics")


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of an experience."""
    return "graph" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as an experience."""
    from .write import ExperienceWriter  # loaded late: reading an experience does not need it

    return ExperienceWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile an experience."""
    document = read(config)
    flow = ExperienceCompiler(document).flow() if document.nodes else None
    if document.problems or flow is None:
        raise InvalidFlow(all_problems(document.problems, flow), flow)
    return Compiled(
        kind="experience",
        id=str(document.fields.get("id", document.name)),
        name=document.name,
        document=document.fields,
        flow=flow,
        warnings=tuple(document.warnings),
        render=Rendering(document, flow.body),
        value_from="state" if document.fields.get("result") is None else "result",
        local=True,
        env=document.env,
        at_once=("runtime", "concurrency"),
    )


class Rendering:
    """Writes an ending of the engine as the result of an experience."""

    def __init__(self, document: ExperienceDocument, body: Graph) -> None:
        self.has_result = document.fields.get("result") is not None
        self.name, self.version = document.name, str(document.fields["version"])
        self.outputs = {
            node.id: path_in(str(node.get("output"))) or () for node in document.nodes if node.get("output")
        }
        self.conditions = dict(_conditions(body))
        self.reads_calls = bool(self.outputs) or _has_modules(body)

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [_error(failure, self.conditions) for failure in ending.failures]
        if ending.error is not None and not isinstance(ending.error, NodeFailed):
            about = {"message": str(ending.error), "kind": type(ending.error).__name__}
            errors.append({"nodeId": None, **about, **retry_data(ending.error.__cause__)})
        metrics, warnings = tally(ending.calls() if self.reads_calls else (), self.outputs)
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "status": ending.status,
            **({"result": ending.value} if self.has_result else {}),
            "finalState": ending.state,
            "errors": errors,
            "warnings": warnings,
            "metrics": metrics,
            "duration": round(ending.duration * 1000, 3),
        }


def _has_modules(body: Graph) -> bool:
    """Return True if tool modules or models run, whose results say more than a value."""
    for node in body.nodes:
        if isinstance(node.op, Call) and node.op.tool.startswith(("impl:", MODEL)):
            return True
        if any(map(_has_modules, bodies(node))):
            return True
    return False


def _conditions(body: Graph) -> Iterator[tuple[str, str]]:
    """Yield the id of each hidden node of a condition, and the place of the condition."""
    for node in body.nodes:
        if node.meta.hidden and node.meta.source:
            yield node.id, f"{node.meta.source}.when"
        for inner in bodies(node):
            yield from _conditions(inner)


def _error(failure: NodeFailed, conditions: Mapping[str, str]) -> dict[str, Json]:
    message, module = failure.message, (failure.tool or "").removeprefix("impl:")
    if failure.kind == "InvalidValue" and message.startswith("state.") and module != failure.tool:
        message = f"{module.removeprefix('./')}: {message}"  # the write that was refused came from there
    elif failure.node in conditions:
        message = f"{conditions[failure.node]}: {message}"
    return {
        "nodeId": failure.node,
        "path": failure.path,
        "tool": failure.tool,
        "message": message,
        "kind": failure.kind,
        "attempts": failure.attempts,
        **failure_data(failure, failure.path),
    }


def _has_path(value: Json, path: Path) -> bool:
    """Return True if there is something at the end of a path."""
    for step in path:
        if type(value) is list and type(step) is int and -len(value) <= step < len(value):
            value = value[step]
        elif type(value) is dict and step in value:
            value = value[str(step)]
        else:
            return False
    return True


def _unused(node: Node, fields: dict[str, Json], known: tuple[str, ...], owner: str) -> Iterator[str]:
    """Yield a warning for each key that nothing reads."""
    verb = "have" if owner.endswith("s") else "has"
    for key in fields:
        if key not in known:
            near = did_you_mean(snake(key), known)
            hint = f"did you mean {near}?" if near else f"known are: {', '.join(known)}"
            yield f'The {owner} of node "{node.meta.name}" {verb} "{key}", which is not used; {hint}'


def tally(calls: Iterable[tuple[Node, Json]], outputs: Mapping[str, Path]) -> tuple[dict[str, Json], list[Json]]:
    """Return the sums of the metrics of all calls, and warnings about what their results have or lack."""
    metrics: dict[str, Json] = {}
    warnings: dict[str, None] = {}  # each once, in order
    for node, value in calls:
        if isinstance(node.op, Call) and node.op.tool == MODEL and type(value) is dict:
            _add(metrics, _model_metrics(value))
            continue
        path = outputs.get(node.meta.name, ())
        if not _has_path(value, path):
            missing = show(Var("", path)).lstrip(".")
            warnings[f'The result of node "{node.meta.name}" has no {missing}, its output; it gives null'] = None

        # Only the result of a module has more than a value.
        if not isinstance(node.op, Call) or not node.op.tool.startswith("impl:") or type(value) is not dict:
            continue
        warnings |= dict.fromkeys(_unused(node, value, RESULT, "result"))
        spent = value.get("metrics")
        if type(spent) is dict:
            warnings |= dict.fromkeys(_unused(node, spent, METRICS, "metrics"))
            _add(metrics, spent)
        delta = value.get("state_delta")
        if type(delta) is dict:
            for key in delta:
                if key not in node.meta.writes:
                    message = f'Node "{node.meta.name}" wrote the state field "{key}", which its writes do not name'
                    warnings[message] = None
    return metrics, list(warnings)


def _add(metrics: dict[str, Json], spent: Mapping[str, Json]) -> None:
    for key in METRICS:
        if type(spent.get(key)) in (int, float):
            metrics[key] = metrics.get(key, 0) + spent[key]


def _model_metrics(turn: Mapping[str, Any]) -> dict[str, Json]:
    """Return what a turn of a model has cost, under the names of the metrics."""
    usage = turn.get("usage") or {}
    read = sum(usage.get(key, 0) for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
    return {"tokens_in": read, "tokens_out": usage.get("output_tokens", 0), "cost_usd": turn.get("cost")}
