"""Experiences as a notation: the document compiled, and an ending in the words of the experience documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed, Problem
from ..expr.ast import Path, Var
from ..expr.show import show
from ..ir import Flow, Graph, Node, bodies
from ..ops import Call
from ..values import Json, closest
from .agent_flow import MODEL
from .experience import ExperienceDocument, read
from .experience_flow import ExperienceCompiler
from .experience_nodes import path_in
from .fields import snake
from .notation import Compiled, told_together

METRICS: Final = ("tokens_in", "tokens_out", "cost_usd")
RESULT: Final = ("state_delta", "edge_output", "metrics")


def fits(document: Mapping[str, Json]) -> bool:
    return "graph" in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    from .experience_write import ExperienceWriter  # most who read experiences write none

    return ExperienceWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile an experience; raises InvalidFlow with every problem of the document."""
    document = read(config)
    flow = ExperienceCompiler(document).flow() if document.nodes else None
    if document.problems or flow is None:
        raise InvalidFlow(told_together(document.problems, flow), flow)
    return Compiled(
        kind="experience",
        id=document.name,
        name=document.name,
        document=document.fields,
        flow=flow,
        warnings=tuple(document.warnings),
        render=Rendering(document, flow.body),
        value_from="state",
        local=True,
        env=document.env,
        at_once=("runtime", "concurrency"),
    )


class Rendering:
    """Writes an ending as the result of an experience."""

    def __init__(self, document: ExperienceDocument, body: Graph) -> None:
        self.name, self.version = document.name, str(document.fields["version"])
        self.outputs = {
            node.id: path_in(str(node.get("output"))) or () for node in document.nodes if node.get("output")
        }
        self.conditions = dict(_conditions(body))
        self.read = bool(self.outputs) or _tells_more(body)

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [_error(failure, self.conditions) for failure in ending.failures]
        if ending.error is not None and not isinstance(ending.error, NodeFailed):
            errors.append({"nodeId": None, "message": str(ending.error), "kind": type(ending.error).__name__})
        metrics, warnings = tally(ending.calls() if self.read else (), self.outputs)
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "status": ending.status,
            "finalState": ending.state,
            "errors": errors,
            "warnings": warnings,
            "metrics": metrics,
            "duration": round(ending.duration * 1000, 3),
        }


def _tells_more(body: Graph) -> bool:
    """Whether there are tool modules or models, which say more than a value."""
    return any(
        (isinstance(node.op, Call) and node.op.tool.startswith(("impl:", MODEL))) or any(map(_tells_more, bodies(node)))
        for node in body.nodes
    )


def _conditions(body: Graph) -> Iterator[tuple[str, str]]:
    """The places of the conditions of edges, by the hidden nodes that stand for them."""
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
        **({"ran": True} if failure.ran else {}),
    }


def _leads(value: Json, way: Path) -> bool:
    """Whether there is something at the end of a path."""
    for step in way:
        if type(value) is list and type(step) is int and -len(value) <= step < len(value):
            value = value[step]
        elif type(value) is dict and step in value:
            value = value[str(step)]
        else:
            return False
    return True


def _unused(node: Node, given: dict[str, Json], known: tuple[str, ...], what: str) -> Iterator[str]:
    """A warning for each key that nobody looks at."""
    verb = "have" if what.endswith("s") else "has"
    for key in given:
        if key not in known:
            near = closest(snake(key), known)
            has = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            yield f'The {what} of node "{node.meta.name}" {verb} "{key}", which is not used; {has}'


def tally(calls: Iterable[tuple[Node, Json]], outputs: Mapping[str, Path]) -> tuple[dict[str, Json], list[Json]]:
    """What the results of all nodes and rounds say beside the state: the sums of their metrics, and
    a warning for each field that a node wrote without naming it in its `writes`, for what nobody looks at,
    and for each of the `outputs` (paths by node) that is not there."""
    metrics: dict[str, Json] = {}
    warnings: dict[str, None] = {}
    for node, value in calls:
        if isinstance(node.op, Call) and node.op.tool == MODEL and type(value) is dict:
            _add(metrics, _spent(value))
            continue
        way = outputs.get(node.meta.name, ())
        if not _leads(value, way):
            lacks = show(Var("", way)).lstrip(".")
            warnings[f'The result of node "{node.meta.name}" has no {lacks}, its output; it gives null'] = None
        if not isinstance(node.op, Call) or not node.op.tool.startswith("impl:") or type(value) is not dict:
            continue
        warnings |= dict.fromkeys(_unused(node, value, RESULT, "result"))
        given = value.get("metrics")
        if type(given) is dict:
            warnings |= dict.fromkeys(_unused(node, given, METRICS, "metrics"))
            _add(metrics, given)
        delta = value.get("state_delta")
        for key in delta if type(delta) is dict else ():
            if key not in node.meta.writes:
                warnings[f'Node "{node.meta.name}" wrote the state field "{key}", which its writes do not name'] = None
    return metrics, list(warnings)


def _add(metrics: dict[str, Json], given: Mapping[str, Json]) -> None:
    for key in METRICS:
        if type(given.get(key)) in (int, float):
            metrics[key] = metrics.get(key, 0) + given[key]


def _spent(turn: Mapping[str, Any]) -> dict[str, Json]:
    """What a turn of a model has cost, in the words of the metrics."""
    usage = turn.get("usage") or {}
    read = sum(usage.get(key, 0) for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
    return {"tokens_in": read, "tokens_out": usage.get("output_tokens", 0), "cost_usd": turn.get("cost")}
