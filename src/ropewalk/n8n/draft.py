"""Drafts of workflows, as the model writes them.

A node has an `id` that the model chose, and connections go from id to id. Nodes, connections and drafts carry all
fields that n8n has for them, also those that no schema here names. `workflow.py` reads and writes the JSON of n8n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ..values import Json, did_you_mean

Draft: TypeAlias = dict[str, Any]
"""`{name, nodes: [{id, type, name, parameters, ...}], connections: [{from, to, output, input, type}], ...}`"""

MAIN: Final = "main"
STICKY_NOTE: Final = "stickyNote"
SETTINGS: Final[dict[str, Json]] = {"executionOrder": "v1"}
"""The settings of a new workflow."""

TEXT: Final[dict[str, Json]] = {"type": "string"}
_FLAG: Final[dict[str, Json]] = {"type": "boolean"}
_OBJECT: Final[dict[str, Json]] = {"type": "object"}
_INDEX: Final[dict[str, Json]] = {"type": "integer", "minimum": 0, "maximum": 100}
NODE_FIELDS: Final[dict[str, Json]] = {
    "typeVersion": {"type": "number"},
    "onError": {"type": "string", "enum": ["stopWorkflow", "continueRegularOutput", "continueErrorOutput"]},
    "retryOnFail": _FLAG,
    "maxTries": {"type": "integer"},
    "waitBetweenTries": {"type": "integer", "description": "Milliseconds"},
    "alwaysOutputData": _FLAG,
    "executeOnce": _FLAG,
    "disabled": _FLAG,
    "notes": TEXT,
    "notesInFlow": _FLAG,
    "credentials": _OBJECT,
}
NODE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"id": TEXT, "type": TEXT, "name": TEXT, "purpose": TEXT, "parameters": _OBJECT, **NODE_FIELDS},
    "required": ["id", "type", "name"],
}
CONNECTION_FIELDS: Final[dict[str, Json]] = {"from": TEXT, "to": TEXT, "output": _INDEX, "input": _INDEX, "type": TEXT}
CONNECTION: Final[dict[str, Json]] = {
    "type": "object",
    "properties": CONNECTION_FIELDS,
    "required": ["from", "to"],
}
DISCOVERED: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"name": TEXT, "nodes": {"type": "array", "items": NODE}},
    "required": ["name", "nodes"],
}
CONFIGURED: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": TEXT, "parameters": _OBJECT, **NODE_FIELDS},
                "required": ["id", "parameters"],
            },
        },
        "connections": {"type": "array", "items": CONNECTION},
        "settings": _OBJECT,
    },
    "required": ["nodes", "connections"],
}


def make_draft(discovered: Mapping[str, Any], configured: Mapping[str, Any]) -> tuple[Draft, list[str]]:
    """Combine the answers of discovery and configuration."""
    configurations = {node["id"]: node for node in configured["nodes"]}
    nodes = [new_node({**node, **configurations.get(node["id"], {})}) for node in discovered["nodes"]]
    ids = [node["id"] for node in nodes]
    unmatched = [f"configured node {describe_unknown_id(id, ids)}" for id in configurations if id not in ids]
    draft = {
        **discovered,
        **configured,
        "nodes": nodes,
        "connections": list({connection_key(line): dict(line) for line in configured["connections"]}.values()),
        "settings": {**SETTINGS, **(configured.get("settings") or {})},
    }
    return draft, unmatched


def new_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node of a draft; the purpose is only for the next phase."""
    return {**{key: node[key] for key in node if key != "purpose"}, "parameters": node.get("parameters") or {}}


def describe_unknown_id(id: str, ids: Iterable[str]) -> str:
    """Describe an id that no node has, with the most similar one."""
    suggestion = did_you_mean(id, ids)
    return f"{id!r}, which does not exist" + (f"; did you mean {suggestion!r}?" if suggestion else "")


def draft_problems(draft: Draft, triggers: Iterable[str]) -> list[str]:
    """Return what makes a draft invalid, whatever n8n-mcp says."""
    nodes = {node["id"]: node for node in draft["nodes"]}
    if not nodes:
        return ["the workflow is empty: it has no nodes"]
    ids = [node["id"] for node in draft["nodes"]]
    found_problems = [f"several nodes have the id {id!r}" for id in nodes if ids.count(id) > 1]
    for connection in draft["connections"]:
        for end in ("from", "to"):
            if connection[end] not in nodes:
                found_problems.append(f"a connection goes {end} node {describe_unknown_id(connection[end], nodes)}")
    if found_problems:
        return found_problems
    reached = distances(draft, triggers)
    active = [node for node in nodes.values() if not node["type"].endswith(STICKY_NOTE)]
    if not active:
        return ["the workflow has no node that does anything"]
    return [f"node {node['id']!r} is not reachable from a trigger" for node in active if node["id"] not in reached]


def distances(draft: Draft, triggers: Iterable[str]) -> dict[str, int]:
    """Return the number of steps from a trigger to each node that it reaches."""
    steps = dict.fromkeys(triggers, 0)
    queue = list(steps)
    while queue:
        id = queue.pop(0)
        for neighbour, extra in _neighbours(draft, id):
            if neighbour not in steps:
                steps[neighbour] = steps[id] + extra
                queue.append(neighbour)
    return steps


def _neighbours(draft: Draft, id: str) -> Iterator[tuple[str, int]]:
    for connection in draft["connections"]:
        serves = is_helper(connection)
        if connection["from"] == id and not serves:
            yield connection["to"], 1
        if connection["to"] == id and serves:
            yield connection["from"], 0


def connection_type(connection: Mapping[str, Any]) -> str:
    """Return the type of a connection: `main`, or that of a helper such as `ai_languageModel`."""
    return str(connection.get("type") or MAIN)


def is_helper(connection: Mapping[str, Any]) -> bool:
    """Return True if the first node of a connection serves the second one, as a model serves an agent."""
    return connection_type(connection).startswith("ai_")


def connection_key(connection: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells two connections of a draft apart."""
    ends = (connection["from"], connection["to"])
    return (*ends, connection.get("output") or 0, connection.get("input") or 0, connection_type(connection))
