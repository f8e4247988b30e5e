"""The notation `chain` for the registry: `fits`, `write` and `compile_document`, and the result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InvalidFlow, Problem
from ...ir import Flow, Node
from ...values import Json
from ..registry import Compiled, all_problems, failures
from .compile import ChainCompiler
from .read import read


def fits(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of a chain."""
    return "nodes" in document and "graph" not in document


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a chain."""
    from .write import ChainWriter  # loaded late: reading a chain does not need it

    return ChainWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a chain."""
    chain = read(config)
    compiler = ChainCompiler(chain)
    flow = compiler.flow() if chain.nodes else None
    if compiler.problems or flow is None:
        raise InvalidFlow(all_problems(compiler.problems, flow), flow)
    return Compiled(
        kind="chain",
        id=str(chain.fields["id"]),
        name=str(chain.fields["name"]),
        document=chain.to_dict(),
        flow=flow,
        warnings=tuple(compiler.warnings),
        value_from="nodes" if chain.fields["mode"] == "loop" and chain.fields.get("result") is None else "result",
        render=Rendering(
            str(chain.fields["id"]),
            flow.body.nodes[0] if chain.fields["mode"] == "loop" else None,
            chain.fields.get("result") is not None,
        ),
    )


class Rendering:
    """Write an ending as an ExecutionResult."""

    # `loop_id` is the id of the hidden node of a chain in loop mode; it fails if `until` does.

    def __init__(self, chain_id: str, loop_node: Node | None, has_result: bool) -> None:
        self.has_result = has_result
        self.chain_id, self.loop_id = chain_id, loop_node.id if loop_node is not None else None

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = failures(ending)
        for error in errors:
            if error["nodeId"] is not None and error["nodeId"] == self.loop_id:
                error["nodeId"] = "until"
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "chainId": self.chain_id,
            "status": ending.status,
            **({"result": ending.value} if self.has_result else {}),
            "results": ending.outputs,
            "variables": ending.state,
            "errors": errors,
            "duration": round(ending.duration * 1000, 3),
        }
