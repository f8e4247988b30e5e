"""A draft: what the model says of a workflow, before any of it is n8n's JSON.

A node has an `id` that the model chose; connections go from id to id. Refused when a draft is built: see `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ..values import Json, closest

Draft: TypeAlias = dict[str, Any]
"""`{name, nodes: [{id, type, name, parameters}], connections: [{from, to, output, input, type}]}`"""

MAIN: Final = "main"
STICKY: Final = "stickyNote"

_TEXT: Final[dict[str, Json]] = {"type": "string"}
NODE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"id": _TEXT, "type": _TEXT, "name": _TEXT, "purpose": _TEXT, "parameters": {"type": "object"}},
    "required": ["id", "type", "name"],
}
CONNECTION: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "from": _TEXT,
        "to": _TEXT,
        "output": {"type": "integer", "minimum": 0, "maximum": 100},
        "input": {"type": "integer", "minimum": 0, "maximum": 100},
        "type": _TEXT,
    },
    "required": ["from", "to"],
}
FOUND: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"name": _TEXT, "nodes": {"type": "array", "items": NODE}},
    "required": ["name", "nodes"],
}
CONFIGURED: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _TEXT, "parameters": {"type": "object"}},
                "required": ["id", "parameters"],
            },
        },
        "connections": {"type": "array", "items": CONNECTION},
    },
    "required": ["nodes", "connections"],
}


def drafted(found: Mapping[str, Any], configured: Mapping[str, Any]) -> tuple[Draft, list[str]]:
    """The draft that discovery and configuration made, and what of it fits nothing."""
    parameters = {one["id"]: one["parameters"] for one in configured["nodes"]}
    nodes = [
        {
            "id": node["id"],
            "type": node["type"],
            "name": node["name"],
            "parameters": parameters.get(node["id"], node.get("parameters") or {}),
        }
        for node in found["nodes"]
    ]
    ids = [node["id"] for node in nodes]
    stray = [f"configured a node {unknown(one, ids)}" for one in parameters if one not in ids]
    draft = {"name": found["name"], "nodes": nodes, "connections": list(map(dict, configured["connections"]))}
    return draft, stray


def unknown(id: str, ids: Iterable[str]) -> str:
    """An id that no node has, and the one that was meant."""
    near = closest(id, ids)
    return f"{id!r} that is not there" + (f"; did you mean {near!r}?" if near else "")


def problems(draft: Draft, triggers: Iterable[str]) -> list[str]:
    """Why we refuse a draft, whatever n8n-mcp says: it is empty, ids are not unique, a connection leads nowhere, or a
    node cannot be reached from a trigger (`triggers` are the ids of those)."""
    nodes = {node["id"]: node for node in draft["nodes"]}
    if not nodes:
        return ["the workflow is empty: it has no nodes"]
    ids = [node["id"] for node in draft["nodes"]]
    found = [f"several nodes have the id {id!r}" for id in nodes if ids.count(id) > 1]
    for connection in draft["connections"]:
        for end in ("from", "to"):
            if connection[end] not in nodes:
                found.append(f"a connection goes {end} a node {unknown(connection[end], nodes)}")
    if found:
        return found
    reached = reach(draft, triggers)
    working = [node for node in nodes.values() if not node["type"].endswith(STICKY)]
    if not working:
        return ["the workflow has no node that does anything"]
    return [f"node {node['id']!r} cannot be reached from a trigger" for node in working if node["id"] not in reached]


def reach(draft: Draft, triggers: Iterable[str]) -> dict[str, int]:
    """How many steps each node is away from a trigger. What serves a node (a model, a memory) is as far as that."""
    found = dict.fromkeys(triggers, 0)
    line = list(found)
    while line:
        at = line.pop(0)
        for next, step in _neighbours(draft, at):
            if next not in found:
                found[next] = found[at] + step
                line.append(next)
    return found


def _neighbours(draft: Draft, id: str) -> Iterator[tuple[str, int]]:
    for connection in draft["connections"]:
        serves = kind(connection) != MAIN
        if connection["from"] == id and not serves:
            yield connection["to"], 1
        if connection["to"] == id and serves:
            yield connection["from"], 0


def kind(connection: Mapping[str, Any]) -> str:
    return str(connection.get("type") or MAIN)
