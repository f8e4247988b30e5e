"""Compositions as a notation: the document compiled, and an ending in the words of its documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidFlow, NodeFailed, Problem
from ..ir import Flow
from ..values import Json
from .composition import CompositionDocument, is_composition, read
from .notation import Compiled, told_together


def fits(document: Mapping[str, Json]) -> bool:
    return is_composition(document)


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    from .composition_write import CompositionWriter  # most who read them write none

    return CompositionWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a composition; raises InvalidFlow with every problem of the document."""
    from .composition_flow import CompositionCompiler  # most processes run none

    document = read(config)
    compiler = CompositionCompiler(document)
    flow = compiler.flow() if document.nodes else None
    if compiler.problems or flow is None:
        raise InvalidFlow(told_together(compiler.problems, flow), flow)
    return Compiled(
        kind="composition",
        id=str(document.fields["id"]),
        name=str(document.fields["name"]),
        document=document.to_dict(),
        flow=flow,
        warnings=tuple(compiler.warnings),
        render=Rendering(document),
    )


class Rendering:
    """Writes an ending as a CompositionResult."""

    def __init__(self, document: CompositionDocument) -> None:
        self.id, self.count, self.ids = str(document.fields["id"]), len(document.nodes), document.ids()
        nodes = [inner for node in document.nodes for inner in node.inside()]
        # Without nodes inside others and without conditions, an execution that ends well has run every node.
        self.runs_all = len(nodes) == self.count and not any("condition" in n.fields for n in nodes)
        self.sets_variables = any("outputVar" in node.fields for node in nodes)

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [entry for failed in ending.failures for entry in _entries(failed, failed.node in self.ids)]
        whole = ending.status in ("completed", "partial")
        ran = self.ids if whole and self.runs_all else ending.ran()
        path = [id for id in self.ids if id in ran] if ran is not self.ids else list(ran)
        duration = round(ending.duration * 1000, 3)
        if whole:
            return {
                "success": True,
                "executionId": ending.run_id,
                "compositionId": self.id,
                "data": ending.value,
                "executionPath": path,
                "nodeCount": self.count,
                "errors": errors,
                "status": ending.status,
                "duration": duration,
                **({"variables": ending.state} if self.sets_variables else {}),
            }
        last = ending.error if isinstance(ending.error, NodeFailed) else None
        if last is None:
            errors.append(entry_of(str(ending.error), kind=type(ending.error).__name__))
        known = last is not None and last.node in self.ids
        said = str(ending.error) if last is None else last.message
        result = failure(self.id, ending.run_id, said, errors, path, status=ending.status, duration=duration)
        return {**result, "failedNode": last.node} if known and last is not None else result


def failure(
    composition_id: str,
    execution_id: str,
    error: str,
    errors: Iterable[dict[str, Json]],
    path: Iterable[str] = (),
    *,
    status: str = "failed",
    duration: float = 0.0,
) -> dict[str, Json]:
    """The result of an execution that gave no data."""
    return {
        "success": False,
        "executionId": execution_id,
        "compositionId": composition_id,
        "error": error,
        "errors": list(errors),
        "executionPath": list(path),
        "status": status,
        "duration": duration,
    }


def entry_of(message: str, *, path: str = "", keyword: str | None = None, **more: Json) -> dict[str, Json]:
    """One entry of `errors`: what does not fit has the place in the value and the schema's keyword, any
    other failure the id of the node as its path."""
    return {"path": path, "message": message, "keyword": keyword, "nodeId": None, "tool": None, **more}


def mismatches(problems: Iterable[Problem], node: str | None = None) -> list[dict[str, Json]]:
    """The entries of a value that does not fit a schema."""
    return [entry_of(p.message, path=p.path, keyword=p.keyword, nodeId=node, kind="SchemaMismatch") for p in problems]


def _entries(failed: NodeFailed, known: bool) -> list[dict[str, Json]]:
    node = failed.node if known else None
    if failed.problems:
        return mismatches(failed.problems, node)
    ran: dict[str, Any] = {"ran": True} if failed.ran else {}
    return [entry_of(failed.message, path=failed.node, nodeId=node, tool=failed.tool, kind=failed.kind, **ran)]
