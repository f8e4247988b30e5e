"""Chains as a notation: the document compiled, and an ending in the words of the chain documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidFlow, Problem
from ..ir import Flow, Node
from ..values import Json
from .chain import read
from .chain_flow import ChainCompiler
from .notation import Compiled, failures, told_together


def fits(document: Mapping[str, Json]) -> bool:
    return "nodes" in document and "graph" not in document  # whatever they are: that is told by who reads them


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    from .chain_write import ChainWriter  # most who read chains write none

    return ChainWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a chain; raises InvalidFlow with every problem of the document."""
    chain = read(config)
    compiler = ChainCompiler(chain)
    flow = compiler.flow() if chain.nodes else None
    if compiler.problems or flow is None:
        raise InvalidFlow(told_together(compiler.problems, flow), flow)
    return Compiled(
        kind="chain",
        id=str(chain.fields["id"]),
        name=str(chain.fields["name"]),
        document=chain.to_dict(),
        flow=flow,
        warnings=tuple(compiler.warnings),
        value_from="nodes" if chain.fields["mode"] == "loop" else "result",
        render=Rendering(str(chain.fields["id"]), flow.body.nodes[0] if chain.fields["mode"] == "loop" else None),
    )


class Rendering:
    """Writes an ending as an ExecutionResult; `rounds` is the hidden node of a chain in loop mode, which fails where
    `until` does."""

    def __init__(self, chain_id: str, rounds: Node | None) -> None:
        self.chain_id, self.rounds = chain_id, rounds.id if rounds is not None else None

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = failures(ending)
        for error in errors:
            if error["nodeId"] is not None and error["nodeId"] == self.rounds:
                error["nodeId"] = "until"
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "chainId": self.chain_id,
            "status": ending.status,
            "results": ending.outputs,
            "variables": ending.state,
            "errors": errors,
            "duration": round(ending.duration * 1000, 3),
        }
