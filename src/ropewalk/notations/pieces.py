"""The pieces of programs in the JSON of a flow: which of them a child process computes.

A piece is code (`py:piece`). Where nobody vouches for its text, the flow holds `py:elsewhere` in its place, which this
process cannot compute itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import InvalidFlow, Problem
from ..values import Json

HERE: Final = "py:piece"
ELSEWHERE: Final = "py:elsewhere"
_PIECES: Final = (HERE, ELSEWHERE)


def with_pieces_elsewhere(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return the JSON of a flow whose pieces are computed in children."""
    regions: Any = document.get("regions")
    if type(regions) is not list:
        return dict(document)  # the codec says what is wrong with it
    return {**document, "regions": [_region(region) for region in regions]}


def _region(region: Any) -> Any:
    if type(region) is not dict or type(region.get("nodes")) is not list:
        return region
    nodes = [_node(node) for node in region["nodes"]]
    _refuse_pieces([_without_piece(node) for node in nodes])
    _refuse_pieces({**region, "nodes": []})
    return {**region, "nodes": nodes}


def _node(node: Any) -> Any:
    op = node.get("op") if type(node) is dict else None
    value = op.get("value") if type(op) is dict else None
    if op is None or op.get("kind") != "Compute" or type(value) is not dict or value.get("fn") not in _PIECES:
        return node
    match value.get("args"):
        case [{"lit": str()}, _]:
            return {**node, "op": {**op, "value": {**value, "fn": ELSEWHERE}}}
    raise _wrong()


def _without_piece(node: Any) -> Any:
    """Return a node without the piece that is its value, but with the inputs of the piece."""
    match node:
        case {"op": {"value": {"fn": "py:elsewhere", "args": [_, inputs]}}}:
            return {**node, "op": inputs}
    return node


def _refuse_pieces(region: Any) -> None:
    stack = [region]
    while stack:
        part = stack.pop()
        if type(part) is list:
            stack += part
        elif type(part) is dict and "lit" not in part:  # a literal is data, even if it looks like a piece
            if part.get("fn") in _PIECES:
                raise _wrong()
            stack += part.values()


def _wrong() -> InvalidFlow:
    return InvalidFlow([Problem(path="regions", message=f"{HERE} can only be the value of a node")])
