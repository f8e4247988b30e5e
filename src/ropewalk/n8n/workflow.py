"""Drafts of workflows, as the model writes them, and the operations that repair them.

A node has an `id` that the model chose, and connections go from id to id. `draft_problems` lists what makes a draft
invalid, whatever n8n-mcp says.

Repairs are a list of operations, applied one after another. Operations that do not fit are skipped and reported. To add
one, add a function to OPERATIONS with the fields it needs: it changes the draft and returns a problem or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ..values import Json, did_you_mean, fresh

Draft: TypeAlias = dict[str, Any]
"""`{name, nodes: [{id, type, name, parameters}], connections: [{from, to, output, input, type}]}`"""

MAIN: Final = "main"
STICKY_NOTE: Final = "stickyNote"

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
DISCOVERED: Final[dict[str, Json]] = {
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


def make_draft(discovered: Mapping[str, Any], configured: Mapping[str, Any]) -> tuple[Draft, list[str]]:
    """Combine the answers of discovery and configuration."""
    parameters = {node["id"]: node["parameters"] for node in configured["nodes"]}
    nodes = [
        {
            "id": node["id"],
            "type": node["type"],
            "name": node["name"],
            "parameters": parameters.get(node["id"], node.get("parameters") or {}),
        }
        for node in discovered["nodes"]
    ]
    ids = [node["id"] for node in nodes]
    unmatched = [f"configured node {describe_unknown_id(node, ids)}" for node in parameters if node not in ids]
    draft = {"name": discovered["name"], "nodes": nodes, "connections": list(map(dict, configured["connections"]))}
    return draft, unmatched


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
        serves = connection_type(connection) != MAIN
        if connection["from"] == id and not serves:
            yield connection["to"], 1
        if connection["to"] == id and serves:
            yield connection["from"], 0


def connection_type(connection: Mapping[str, Any]) -> str:
    """Return the type of a connection: `main`, or that of a helper such as `ai_languageModel`."""
    return str(connection.get("type") or MAIN)


def apply_repairs(draft: Draft, operations: Iterable[Mapping[str, Any]]) -> tuple[Draft, list[str]]:
    """Apply operations to a copy of a draft."""
    changed: Draft = fresh(draft)
    not_applied = []
    for index, operation in enumerate(operations):
        apply = OPERATIONS.get(operation["op"])
        if apply is None:
            suggestion = did_you_mean(operation["op"], OPERATIONS)
            problem: str | None = "unknown operation" + (f"; did you mean {suggestion}?" if suggestion else "")
        elif missing := [name for name in apply.needs if name not in operation]:
            problem = f"it needs {', '.join(missing)}"
        else:
            problem = apply(changed, fresh(dict(operation)))
        if problem:
            not_applied.append(f"operation {index + 1} ({operation['op']}): {problem}")
    return changed, not_applied


class _Operation:
    """A repair operation: the schemas of its fields, and the function that applies it."""

    def __init__(self, needs: Mapping[str, Json], do: Callable[[Draft, dict[str, Any]], str | None]) -> None:
        self.needs, self._do = needs, do

    def __call__(self, draft: Draft, operation: dict[str, Any]) -> str | None:
        return self._do(draft, operation)


def _on_node(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Draft, dict[str, Any]], str | None]:
    def apply(draft: Draft, operation: dict[str, Any]) -> str | None:
        node = next((node for node in draft["nodes"] if node["id"] == operation["id"]), None)
        if node is None:
            return f"it names node {describe_unknown_id(operation['id'], [node['id'] for node in draft['nodes']])}"
        change(node, operation)
        return None

    return apply


def _add_node(draft: Draft, operation: dict[str, Any]) -> str | None:
    node = operation["node"]
    if any(node["id"] == existing["id"] for existing in draft["nodes"]):
        return f"there is already a node {node['id']!r}"
    draft["nodes"].append(
        {**{key: node[key] for key in ("id", "type", "name")}, "parameters": node.get("parameters", {})}
    )
    return None


def _remove_node(draft: Draft, operation: dict[str, Any]) -> str | None:
    remaining = [node for node in draft["nodes"] if node["id"] != operation["id"]]
    if len(remaining) == len(draft["nodes"]):
        return f"it names node {describe_unknown_id(operation['id'], [node['id'] for node in remaining])}"
    draft["nodes"] = remaining
    draft["connections"] = [line for line in draft["connections"] if operation["id"] not in (line["from"], line["to"])]
    return None


def _set_parameters(node: dict[str, Any], operation: dict[str, Any]) -> None:
    node["parameters"] |= operation["parameters"]


def _replace_parameters(node: dict[str, Any], operation: dict[str, Any]) -> None:
    node["parameters"] = operation["parameters"]


def _set_type(node: dict[str, Any], operation: dict[str, Any]) -> None:
    node["type"] = operation["type"]


def _rename_node(node: dict[str, Any], operation: dict[str, Any]) -> None:
    node["name"] = operation["name"]


def _connect(draft: Draft, operation: dict[str, Any]) -> str | None:
    draft["connections"].append(operation["connection"])
    return None


def _disconnect(draft: Draft, operation: dict[str, Any]) -> str | None:
    removed = _connection_key(operation["connection"])
    remaining = [line for line in draft["connections"] if _connection_key(line) != removed]
    if len(remaining) == len(draft["connections"]):
        return f"no such connection from {removed[0]!r} to {removed[1]!r}"
    draft["connections"] = remaining
    return None


def _connection_key(connection: Mapping[str, Any]) -> tuple[Any, ...]:
    ends = (connection["from"], connection["to"])
    return (*ends, connection.get("output") or 0, connection.get("input") or 0, connection_type(connection))


_OBJECT: Final[dict[str, Json]] = {"type": "object"}
_ID_FIELD: Final[dict[str, Json]] = {"id": _TEXT}
_CONNECTION_FIELD: Final[dict[str, Json]] = {"connection": CONNECTION}

OPERATIONS: Final[dict[str, _Operation]] = {
    "add_node": _Operation({"node": NODE}, _add_node),
    "remove_node": _Operation(_ID_FIELD, _remove_node),
    "set_parameters": _Operation({**_ID_FIELD, "parameters": _OBJECT}, _on_node(_set_parameters)),
    "replace_parameters": _Operation({**_ID_FIELD, "parameters": _OBJECT}, _on_node(_replace_parameters)),
    "set_type": _Operation({**_ID_FIELD, "type": _TEXT}, _on_node(_set_type)),
    "rename_node": _Operation({**_ID_FIELD, "name": _TEXT}, _on_node(_rename_node)),
    "connect": _Operation(_CONNECTION_FIELD, _connect),
    "disconnect": _Operation(_CONNECTION_FIELD, _disconnect),
}
_FIELDS: Final = {name: schema for operation in OPERATIONS.values() for name, schema in operation.needs.items()}
REPAIRS_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "operations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"op": {"type": "string", "enum": list(OPERATIONS)}, **_FIELDS},
                "required": ["op"],
            },
        }
    },
    "required": ["operations"],
}
