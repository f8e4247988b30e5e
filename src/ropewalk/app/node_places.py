"""Places of nodes: the path of each node of a definition, and where its document says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import display_path
from ..ir import Graph, node_parts

if TYPE_CHECKING:
    from .prepared import Prepared


def places(loaded: Prepared) -> dict[str, str]:
    """Return `file:line` of every node of a file by its id, without ids that occur twice."""
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
    found = {id: place for id, place in result.items() if id not in twice}
    if loaded.kind == "agent":
        # An agent has no nodes in its file: its limits are those of the prompt, its turns those of the model.
        for id, keys in (("", ("prompt", "messages")), ("turn", ("model", "prompt", "messages"))):
            key = next((key for key in keys if key in loaded.document), "")
            found[id] = f"{display_path(loaded.file.file)}:{loaded.file.locate(key).line}"
    return found


def node_sources(body: Graph, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each node, made of ids, and its place in the document."""
    for node in body.nodes:
        yield f"{path}{node.id}", node.meta.source
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from node_sources(part, f"{path}{node.id}/")
