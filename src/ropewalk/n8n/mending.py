"""Repairs of a draft: a list of explicit operations, applied one after another.

An operation that fits nothing is said and left out; the others hold. To add one, add a function to OPERATIONS with
what it needs: it changes the draft it is given, and gives what is wrong or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..values import Json, closest, fresh
from .draft import CONNECTION, NODE, Draft, kind, unknown


def mend(draft: Draft, operations: Iterable[Mapping[str, Any]]) -> tuple[Draft, list[str]]:
    """The draft after these operations, and which could not be done."""
    changed: Draft = fresh(draft)
    wrong = []
    for place, one in enumerate(operations):
        do = OPERATIONS.get(one["op"])
        if do is None:
            near = closest(one["op"], OPERATIONS)
            said: str | None = "there is no such operation" + (f"; did you mean {near}?" if near else "")
        elif lacking := [name for name in do.needs if name not in one]:
            said = f"it needs {', '.join(lacking)}"
        else:
            said = do(changed, fresh(dict(one)))
        if said:
            wrong.append(f"operation {place + 1} ({one['op']}): {said}")
    return changed, wrong


class _Operation:
    """What it needs beside `op`, each with the schema that the model is shown, and what does it."""

    def __init__(self, needs: Mapping[str, Json], do: Callable[[Draft, dict[str, Any]], str | None]) -> None:
        self.needs, self._do = needs, do

    def __call__(self, draft: Draft, one: dict[str, Any]) -> str | None:
        return self._do(draft, one)


def _on_node(do: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Draft, dict[str, Any]], str | None]:
    def found(draft: Draft, one: dict[str, Any]) -> str | None:
        node = next((node for node in draft["nodes"] if node["id"] == one["id"]), None)
        if node is None:
            return f"a node {unknown(one['id'], [node['id'] for node in draft['nodes']])}"
        do(node, one)
        return None

    return found


def _add(draft: Draft, one: dict[str, Any]) -> str | None:
    node = one["node"]
    if any(node["id"] == other["id"] for other in draft["nodes"]):
        return f"there is a node {node['id']!r} already"
    draft["nodes"].append(
        {**{key: node[key] for key in ("id", "type", "name")}, "parameters": node.get("parameters", {})}
    )
    return None


def _remove(draft: Draft, one: dict[str, Any]) -> str | None:
    kept = [node for node in draft["nodes"] if node["id"] != one["id"]]
    if len(kept) == len(draft["nodes"]):
        return f"a node {unknown(one['id'], [node['id'] for node in kept])}"
    draft["nodes"] = kept
    draft["connections"] = [line for line in draft["connections"] if one["id"] not in (line["from"], line["to"])]
    return None


def _set(node: dict[str, Any], one: dict[str, Any]) -> None:
    node["parameters"] |= one["parameters"]


def _replace(node: dict[str, Any], one: dict[str, Any]) -> None:
    node["parameters"] = one["parameters"]


def _retype(node: dict[str, Any], one: dict[str, Any]) -> None:
    node["type"] = one["type"]


def _rename(node: dict[str, Any], one: dict[str, Any]) -> None:
    node["name"] = one["name"]


def _connect(draft: Draft, one: dict[str, Any]) -> str | None:
    draft["connections"].append(one["connection"])
    return None


def _disconnect(draft: Draft, one: dict[str, Any]) -> str | None:
    gone = _line(one["connection"])
    kept = [line for line in draft["connections"] if _line(line) != gone]
    if len(kept) == len(draft["connections"]):
        return f"there is no connection from {gone[0]!r} to {gone[1]!r} like that"
    draft["connections"] = kept
    return None


def _line(connection: Mapping[str, Any]) -> tuple[Any, ...]:
    ends = (connection["from"], connection["to"])
    return (*ends, connection.get("output") or 0, connection.get("input") or 0, kind(connection))


_TEXT: Final[dict[str, Json]] = {"type": "string"}
_OBJECT: Final[dict[str, Json]] = {"type": "object"}
_ID: Final[dict[str, Json]] = {"id": _TEXT}
_LINE: Final[dict[str, Json]] = {"connection": CONNECTION}

OPERATIONS: Final[dict[str, _Operation]] = {
    "add_node": _Operation({"node": NODE}, _add),
    "remove_node": _Operation(_ID, _remove),
    "set_parameters": _Operation({**_ID, "parameters": _OBJECT}, _on_node(_set)),
    "replace_parameters": _Operation({**_ID, "parameters": _OBJECT}, _on_node(_replace)),
    "set_type": _Operation({**_ID, "type": _TEXT}, _on_node(_retype)),
    "rename_node": _Operation({**_ID, "name": _TEXT}, _on_node(_rename)),
    "connect": _Operation(_LINE, _connect),
    "disconnect": _Operation(_LINE, _disconnect),
}
_FIELDS: Final = {name: given for one in OPERATIONS.values() for name, given in one.needs.items()}
MENDED: Final[dict[str, Json]] = {
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
