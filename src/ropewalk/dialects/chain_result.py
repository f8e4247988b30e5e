"""Chains as a notation: the document compiled, and an ending in the words of the chain documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidFlow
from ..ir import Flow
from ..values import Json
from .chain import read
from .chain_flow import ChainCompiler
from .notation import Compiled, failures, told_together


def fits(document: Mapping[str, Json]) -> bool:
    return "nodes" in document and "graph" not in document  # whatever they are: that is told by who reads them


def write(flow: Flow) -> dict[str, Json]:
    from .chain_write import ChainWriter  # most who read chains write none

    return ChainWriter.write(flow)


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
        render=Rendering(str(chain.fields["id"])),
    )


class Rendering:
    """Writes an ending as an ExecutionResult."""

    def __init__(self, chain_id: str) -> None:
        self.chain_id = chain_id

    def __call__(self, ending: Any) -> dict[str, Json]:
        return {
            "success": ending.status == "completed",
            "executionId": ending.run_id,
            "chainId": self.chain_id,
            "status": ending.status,
            "results": ending.outputs,
            "variables": ending.state,
            "errors": failures(ending),
            "duration": round(ending.duration * 1000, 3),
        }
