"""The notation `composition` for the registry: `fits`, `write` and `compile_document`, and the result of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import InvalidFlow, NodeFailed, Problem, failure_data, retry_data
from ...ir import Flow
from ...values import Json
from ..registry import Compiled, all_problems
from .read import CompositionDocument, is_composition, read


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of a composition."""
    return is_composition(document)


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a composition."""
    from .write import CompositionWriter  # loaded late: reading a composition does not need it

    return CompositionWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a composition."""
    from .compile import CompositionCompiler  # loaded late: most processes use no compositions

    document = read(config)
    compiler = CompositionCompiler(document)
    flow = compiler.flow() if document.nodes else None
    if compiler.problems or flow is None:
        raise InvalidFlow(all_problems(compiler.problems, flow), flow)
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
    """Write an ending as a CompositionResult."""

    def __init__(self, document: CompositionDocument) -> None:
        self.id, self.count, self.ids = str(document.fields["id"]), len(document.nodes), document.ids()
        nodes = [inner for node in document.nodes for inner in node.with_inner()]
        # Without inner nodes and conditions, a run that ends well has run every node.
        self.runs_all = len(nodes) == self.count and not any("condition" in n.fields for n in nodes)
        self.sets_variables = any("outputVar" in node.fields for node in nodes)

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [entry for failure in ending.failures for entry in _failure_entries(failure, failure.node in self.ids)]
        has_data = ending.status in ("completed", "partial")
        ran = self.ids if has_data and self.runs_all else ending.ran()
        path = [id for id in self.ids if id in ran] if ran is not self.ids else list(ran)
        duration = round(ending.duration * 1000, 3)
        if has_data:
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
        # Without data the result names the error, and the node if it was one of the document.
        node_error = ending.error if isinstance(ending.error, NodeFailed) else None
        if node_error is None and ending.error is not None:  # a waiting run has no error
            about = retry_data(ending.error.__cause__)
            errors.append(error_entry(str(ending.error), kind=type(ending.error).__name__, **about))
        is_node = node_error is not None and node_error.node in self.ids
        message = node_error.message if node_error is not None else None if ending.error is None else str(ending.error)
        result = failed_result(self.id, ending.run_id, message, errors, path, status=ending.status, duration=duration)
        return {**result, "failedNode": node_error.node} if is_node and node_error is not None else result


def failed_result(
    composition_id: str,
    execution_id: str,
    error: str | None,
    errors: Iterable[dict[str, Json]],
    path: Iterable[str] = (),
    *,
    status: str = "failed",
    duration: float = 0.0,
) -> dict[str, Json]:
    """Return the result of an execution without data."""
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


def error_entry(message: str, *, path: str = "", keyword: str | None = None, **more: Json) -> dict[str, Json]:
    """Return one entry of `errors`."""

    # A mismatch has the path in the value and the keyword of the schema. Any other failure has the id of its node as
    # path.
    return {"path": path, "message": message, "keyword": keyword, "nodeId": None, "tool": None, **more}


def mismatch_entries(problems: Iterable[Problem], node: str | None = None, **more: Json) -> list[dict[str, Json]]:
    """Return the entries of a value that does not fit a schema."""
    return [
        error_entry(p.message, path=p.path, keyword=p.keyword, nodeId=node, kind="SchemaMismatch", **more)
        for p in problems
    ]


def _failure_entries(failure: NodeFailed, is_node: bool) -> list[dict[str, Json]]:
    node = failure.node if is_node else None
    if failure.problems:
        return mismatch_entries(failure.problems, node, **retry_data(failure))
    ran = failure_data(failure, failure.node)
    return [error_entry(failure.message, path=failure.node, nodeId=node, tool=failure.tool, kind=failure.kind, **ran)]
