"""Operations that repair a draft, applied one after another.

Operations that do not fit are skipped and reported. To add one, add a function to OPERATIONS with the fields it needs:
it changes the draft and returns a problem or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..values import Json, did_you_mean, fresh
from .draft import CONNECTION, NODE, NODE_FIELDS, TEXT, Draft, connection_key, describe_unknown_id, new_node


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


def _on_node(
    change: Callable[[dict[str, Any], dict[str, Any]], str | None],
) -> Callable[[Draft, dict[str, Any]], str | None]:
    def apply(draft: Draft, operation: dict[str, Any]) -> str | None:
        node = next((node for node in draft["nodes"] if node["id"] == operation["id"]), None)
        if node is None:
            return f"it names node {describe_unknown_id(operation['id'], [node['id'] for node in draft['nodes']])}"
        return change(node, operation)

    return apply


def _add_node(draft: Draft, operation: dict[str, Any]) -> str | None:
    node = operation["node"]
    if any(node["id"] == existing["id"] for existing in draft["nodes"]):
        return f"there is already a node {node['id']!r}"
    draft["nodes"].append(new_node(node))
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


def _set_fields(node: dict[str, Any], operation: dict[str, Any]) -> str | None:
    if "id" in operation["fields"]:
        return "the id of a node cannot change, because connections name it"
    node |= operation["fields"]
    return None


def _connect(draft: Draft, operation: dict[str, Any]) -> str | None:
    added = operation["connection"]
    if connection_key(added) in map(connection_key, draft["connections"]):
        return f"{added['from']!r} and {added['to']!r} are already connected"
    draft["connections"].append(added)
    return None


def _disconnect(draft: Draft, operation: dict[str, Any]) -> str | None:
    removed = connection_key(operation["connection"])
    remaining = [line for line in draft["connections"] if connection_key(line) != removed]
    if len(remaining) == len(draft["connections"]):
        return f"no such connection from {removed[0]!r} to {removed[1]!r}"
    draft["connections"] = remaining
    return None


_OBJECT: Final[dict[str, Json]] = {"type": "object"}
_ID_FIELD: Final[dict[str, Json]] = {"id": TEXT}
_FIELDS_FIELD: Final[dict[str, Json]] = {"type": "object", "properties": {"type": TEXT, "name": TEXT, **NODE_FIELDS}}
_CONNECTION_FIELD: Final[dict[str, Json]] = {"connection": CONNECTION}

OPERATIONS: Final[dict[str, _Operation]] = {
    "add_node": _Operation({"node": NODE}, _add_node),
    "remove_node": _Operation(_ID_FIELD, _remove_node),
    "set_parameters": _Operation({**_ID_FIELD, "parameters": _OBJECT}, _on_node(_set_parameters)),
    "replace_parameters": _Operation({**_ID_FIELD, "parameters": _OBJECT}, _on_node(_replace_parameters)),
    "set_fields": _Operation({**_ID_FIELD, "fields": _FIELDS_FIELD}, _on_node(_set_fields)),
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
