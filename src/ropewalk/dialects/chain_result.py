"""Chains as a notation: the document compiled, and an ending in the words of the chain documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..check import check
from ..errors import InvalidFlow, NodeFailed, Problem
from ..ir import Flow
from ..values import Json
from .chain import read
from .chain_flow import ChainCompiler
from .notation import Compiled, notation


def _fits(document: Mapping[str, Json]) -> bool:
    nodes = document.get("nodes")
    return isinstance(nodes, list) and "graph" not in document


@notation("chain", fits=_fits)
def compile_chain(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a chain; raises InvalidFlow with every problem of the document."""
    chain = read(config)
    compiler = ChainCompiler(chain)
    flow = compiler.flow() if chain.nodes else None
    if compiler.problems or flow is None:
        raise InvalidFlow(_together(compiler.problems, flow))
    return Compiled(
        kind="chain",
        id=str(chain.fields["id"]),
        name=str(chain.fields["name"]),
        document=chain.to_dict(),
        flow=flow,
        warnings=tuple(compiler.warnings),
        render=Rendering(str(chain.fields["id"])),
    )


def _together(found: list[Problem], flow: Flow | None) -> list[Problem]:
    """What is wrong with the document, and with what could be made of it, in the document's order."""
    told = {problem.path for problem in found} | {"result"}  # which is ours: what it reads is told elsewhere
    more = [p for p in check(flow).problems if told.isdisjoint(_around(p.path))] if flow is not None else []
    return sorted(dict.fromkeys([*found, *more]), key=_position)


def _around(path: str) -> list[str]:
    """The path and those of everything it is in: what is said of those explains this."""
    return [path, *(path[: cut.start()] for cut in re.finditer(r"[.\[]", path))]


def _position(problem: Problem) -> int:
    at = _NODE.match(problem.path)
    return int(at[1]) if at else -1


_NODE = re.compile(r"nodes\[(\d+)\]")


class Rendering:
    """Writes an ending as an ExecutionResult."""

    def __init__(self, chain_id: str) -> None:
        self.chain_id = chain_id

    def __call__(self, ending: Any) -> dict[str, Json]:
        errors = [
            {"nodeId": e.node, "tool": e.tool, "message": e.message, "kind": e.kind, "attempts": e.attempts}
            for e in ending.failures
        ]
        if ending.error is not None and not isinstance(ending.error, NodeFailed):
            kind = type(ending.error).__name__
            errors += [{"nodeId": None, "tool": None, "message": str(ending.error), "kind": kind, "attempts": 1}]
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
