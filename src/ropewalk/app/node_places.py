"""Places of nodes: the path of each node of a definition, and where its document says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import display_path
from ..ir import Graph, node_parts
from ..ops import Program

if TYPE_CHECKING:
    from .prepared import Prepared


def places(loaded: Prepared) -> dict[str, str]:
    """Return `file:line` of every node by its id, without ids that occur twice, and of every line of a plan."""
    if loaded.file is None:
        return {}
    result: dict[str, str] = {}
    twice = set()
    for path, source in node_sources(loaded.flow.body, ""):
        id = path.rpartition("/")[2]
        if id in result:
            twice.add(id)
        if source:
            result[id] = f"{display_path(loaded.file.file)}:{loaded.file.locate(source).line}"
    return (
        {id: place for id, place in result.items() if id not in twice} | _agent_places(loaded) | _program_places(loaded)
    )


def _agent_places(loaded: Prepared) -> dict[str, str]:
    """Return the places of an agent, whose file has no nodes: of its prompt by "", and of its model by `turn`."""
    if loaded.file is None or loaded.kind != "agent":
        return {}
    prompt = next((key for key in ("prompt", "messages") if key in loaded.document), "")
    keys = {"": prompt, "turn": "model" if "model" in loaded.document else prompt}
    return {id: f"{display_path(loaded.file.file)}:{loaded.file.locate(key).line}" for id, key in keys.items()}


def _program_places(loaded: Prepared) -> dict[str, str]:
    """Return the places of a plan in a Python file: of its `def` by "", and of each line of its program by `line N`."""
    lines = next((node.op.places for node in loaded.flow.body.nodes if isinstance(node.op, Program)), ())
    if not lines:
        return {}
    named = {f"line {i}": f"{display_path(place.file)}:{place.line}" for i, place in enumerate(lines, 1)}
    return {"": f"{display_path(loaded.file.file)}:{loaded.file.locate('').line}", **named}


def node_sources(body: Graph, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each node, made of ids, and its place in the document."""
    for node in body.nodes:
        yield f"{path}{node.id}", node.meta.source
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from node_sources(part, f"{path}{node.id}/")
