"""Experiences as a notation: the document compiled, and an ending in the words of the experience documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..errors import InvalidFlow, NodeFailed
from ..ir import Flow, Graph, Node, bodies
from ..ops import Call
from ..values import Json, closest
from .experience import ExperienceDocument, read
from .experience_flow import ExperienceCompiler
from .fields import snake
from .notation import Compiled, told_together

METRICS: Final = ("tokens_in", "tokens_out", "cost_usd")
RESULT: Final = ("state_delta", "edge_output", "metrics")


def fits(document: Mapping[str, Json]) -> bool:
    return isinstance(document.get("graph"), Mapping)


def write(flow: Flow) -> dict[str, Json]:
    from .experience_write import ExperienceWriter  # most who read experiences write none

    return ExperienceWriter.write(flow)


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
        local=True,
        env=document.env,
        at_once=("runtime", "concurrency"),
    )


class Rendering:
    """Writes an ending as the result of an experience."""

    def __init__(self, document: ExperienceDocument, body: Graph) -> None:
        self.name, self.version = document.name, str(document.fields["version"])
        self.modules = _has_modules(body)

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [_error(failure) for failure in ending.failures]
        if ending.error is not None and not isinstance(ending.error, NodeFailed):
            errors.append({"nodeId": None, "message": str(ending.error), "kind": type(ending.error).__name__})
        metrics, warnings = tally(ending.calls() if self.modules else ())
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


def _has_modules(body: Graph) -> bool:
    """Whether there are tool modules, which say more than a value."""
    return any(
        (isinstance(node.op, Call) and node.op.tool.startswith("impl:")) or any(map(_has_modules, bodies(node)))
        for node in body.nodes
    )


def _error(failure: NodeFailed) -> dict[str, Json]:
    return {
        "nodeId": failure.node,
        "path": failure.path,
        "tool": failure.tool,
        "message": failure.message,
        "kind": failure.kind,
        "attempts": failure.attempts,
    }


def _unused(node: Node, given: dict[str, Json], known: tuple[str, ...], what: str) -> Iterator[str]:
    """A warning for each key that nobody looks at."""
    verb = "have" if what.endswith("s") else "has"
    for key in given:
        if key not in known:
            near = closest(snake(key), known)
            has = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            yield f'The {what} of node "{node.meta.name}" {verb} "{key}", which is not used; {has}'


def tally(calls: Iterable[tuple[Node, Json]]) -> tuple[dict[str, Json], list[Json]]:
    """What the results of all nodes and rounds say beside the state: the sums of their metrics, and
    a warning for each field that a node wrote without naming it in its `writes`, and for what nobody looks at."""
    metrics: dict[str, Json] = {}
    warnings: dict[str, None] = {}
    for node, value in calls:
        if not isinstance(node.op, Call) or not node.op.tool.startswith("impl:") or type(value) is not dict:
            continue
        warnings |= dict.fromkeys(_unused(node, value, RESULT, "result"))
        given = value.get("metrics")
        if type(given) is dict:
            warnings |= dict.fromkeys(_unused(node, given, METRICS, "metrics"))
            for key in METRICS:
                if type(given.get(key)) in (int, float):
                    metrics[key] = metrics.get(key, 0) + given[key]
        delta = value.get("state_delta")
        for key in delta if type(delta) is dict else ():
            if key not in node.meta.writes:
                warnings[f'Node "{node.meta.name}" wrote the state field "{key}", which its writes do not name'] = None
    return metrics, list(warnings)
