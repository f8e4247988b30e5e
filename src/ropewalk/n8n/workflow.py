"""Workflows in the JSON of n8n: `read_workflow` makes a draft of one, `make_workflow` makes one of a draft.

A field that the draft has comes back as it is. `make_workflow` adds only what is missing (unique names, versions,
positions and a trigger) and corrects misspelt node types: equal drafts and facts give the same workflow, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from ..errors import InvalidValue
from ..fast_dataclass import dataclass
from ..values import Json, fresh
from .draft import CONNECTION_FIELDS, STICKY_NOTE, Draft, connection_type, distances, is_helper
from .node_tools import Facts
from .node_types import TRIGGERS, closest_type, full_type, names_trigger, short_type

FindFacts: TypeAlias = Callable[[str], Facts | None]
"""Returns the facts about a node type; None for one that is not known."""

MANUAL: Final = "nodes-base.manualTrigger"
_WIDTH, _HEIGHT = 240, 180


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorkflow:
    """A workflow and its draft."""

    # The JSON that n8n can import.
    workflow: dict[str, Json]
    # The draft, with a trigger and corrected types.
    draft: Draft
    # The names of the nodes, by their ids in the draft.
    names: dict[str, str]
    # The ids of the triggers.
    triggers: tuple[str, ...]
    # The credentials that nodes need: `{node, types}`.
    credentials: list[Json]
    # The node types that were corrected, as sentences.
    corrections: tuple[str, ...]


def read_workflow(workflow: Mapping[str, Any]) -> Draft:
    """Return the draft of a workflow: its nodes have unique ids, and its connections go from id to id."""
    if not isinstance(workflow.get("nodes"), list) or not isinstance(workflow.get("connections"), Mapping):
        raise InvalidValue("", "this is not a workflow of n8n: it needs a list of nodes and an object of connections")
    nodes: list[dict[str, Any]] = []
    ids: dict[str, str] = {}  # of the first node with a name, because connections go by name
    used: set[str] = set()
    for node in workflow["nodes"]:
        id = _unused(str(node.get("id") or node.get("name") or "node"), used)
        used.add(id)
        ids.setdefault(node.get("name"), id)
        nodes.append({"name": "", "parameters": {}, **fresh(node), "id": id})
    connections = [
        {
            **{key: value for key, value in target.items() if key not in ("node", "type", "index")},
            "from": ids.get(source, source),
            "to": ids.get(target["node"], target["node"]),
            "output": output,
            "input": target.get("index", 0),
            "type": type,
            **({"inputType": target["type"]} if target.get("type", type) != type else {}),
        }
        for source, by_type in workflow["connections"].items()
        for type, outputs in by_type.items()
        for output, targets in enumerate(outputs or ())
        for target in ([targets] if isinstance(targets, Mapping) else targets or ())
    ]
    return {**fresh(dict(workflow)), "nodes": nodes, "connections": connections}


def make_workflow(draft: Draft, find_facts: FindFacts = lambda type: None) -> BuiltWorkflow:
    """Make the workflow of a draft, even of one with problems, for the report."""
    draft, corrections = _correct_types(draft, find_facts)
    draft = add_trigger(draft, find_facts)
    triggers = tuple(node["id"] for node in draft["nodes"] if _is_trigger(node, find_facts))
    names = _unique_names(draft)
    places = _positions(draft, triggers)

    # Without facts about its type, a node gets version 1; n8n-mcp then reports the unknown type.
    nodes: list[Json] = []
    credentials: list[Json] = []
    for node in draft["nodes"]:
        facts, name = find_facts(node["type"]), names[node["id"]]
        nodes.append(
            {
                "id": node["id"],
                "name": name,
                "type": full_type(node["type"]),
                "typeVersion": _version_number(facts.version) if facts is not None else 1,
                "position": list(places[node["id"]]),
                **{key: value for key, value in fresh(node).items() if key not in ("id", "name", "type")},
            }
        )
        needed = facts.needs(node["parameters"]) if facts is not None else []
        chosen = node.get("credentials")
        if types := list(dict.fromkeys([*needed, *(chosen if isinstance(chosen, dict) else ())])):
            credentials.append({"node": name, "types": list[Json](types)})
    return BuiltWorkflow(
        workflow={**fresh(draft), "nodes": nodes, "connections": _connections(draft, names)},
        draft=draft,
        names=names,
        triggers=triggers,
        credentials=credentials,
        corrections=corrections,
    )


def _correct_types(draft: Draft, find_facts: FindFacts) -> tuple[Draft, tuple[str, ...]]:
    """Return the draft with corrected node types, and a sentence for each correction."""
    corrections: list[str] = []
    nodes: list[dict[str, Any]] = []
    for node in draft["nodes"]:
        facts, type = find_facts(node["type"]), short_type(node["type"])
        # Without facts, only a misspelt trigger is corrected, because a second one would be added.
        corrected = short_type(facts.type) if facts is not None else closest_type(type, TRIGGERS) or type
        if corrected != type:
            corrections.append(f"{node['name'] or node['id']}: corrected the node type {type} to {corrected}")
            node = {**node, "type": corrected}
        nodes.append(node)
    return {**draft, "nodes": nodes}, tuple(corrections)


def add_trigger(draft: Draft, find_facts: FindFacts) -> Draft:
    """Return the draft with a trigger: if it has none, a manual one in front of the nodes without a predecessor."""
    nodes = draft["nodes"]
    if not nodes or any(_is_trigger(node, find_facts) for node in nodes):
        return draft
    targets = {connection["to"] for connection in draft["connections"] if not is_helper(connection)}
    helpers = {connection["from"] for connection in draft["connections"] if is_helper(connection)}
    starts = [
        node["id"] for node in nodes if node["id"] not in targets | helpers and not node["type"].endswith(STICKY_NOTE)
    ]
    if not starts:
        return draft  # a cycle has no first node
    id = _unused("start", {node["id"] for node in nodes})
    trigger = {"id": id, "type": MANUAL, "name": "Start", "parameters": {}}
    connections = [{"from": id, "to": connection} for connection in starts]
    return {**draft, "nodes": [trigger, *nodes], "connections": [*connections, *draft["connections"]]}


def _is_trigger(node: Mapping[str, Any], find_facts: FindFacts) -> bool:
    facts = find_facts(node["type"])
    return facts.trigger if facts is not None else names_trigger(node["type"])  # without facts, the name decides


def _unused(name: str, used: Collection[str]) -> str:
    """Return a name that is not used, made as n8n does: the second `Set` becomes `Set1`."""
    return next(free for number in count() if (free := f"{name}{number or ''}") not in used)


def _unique_names(draft: Draft) -> dict[str, str]:
    """Return unique names of nodes by id."""
    original = {node["name"] for node in draft["nodes"]}
    used: set[str] = set()
    names: dict[str, str] = {}
    for node in draft["nodes"]:
        name = node["name"] or node["id"]
        names[node["id"]] = name = _unused(name, original | used) if name in used else name
        used.add(name)
    return names


def _positions(draft: Draft, triggers: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return free positions by node id: a column for each distance from the trigger, helpers below their node."""
    columns = distances(draft, triggers)
    rows: Counter[int] = Counter()
    taken = [list(node.get("position") or ()) for node in draft["nodes"]]
    positions: dict[str, tuple[int, int]] = {}
    for node in draft["nodes"]:
        column = columns.get(node["id"], 0)
        while [column * _WIDTH, rows[column] * _HEIGHT] in taken:
            rows[column] += 1
        positions[node["id"]] = (column * _WIDTH, rows[column] * _HEIGHT)
        rows[column] += 1
    return positions


def _connections(draft: Draft, names: Mapping[str, str]) -> dict[str, Json]:
    by_source: dict[str, Any] = {}
    for connection in draft["connections"]:
        source, type = names.get(connection["from"], connection["from"]), connection_type(connection)
        outputs = by_source.setdefault(source, {}).setdefault(type, [])
        output = connection.get("output") or 0
        outputs.extend([] for _ in range(output + 1 - len(outputs)))
        others = {key: connection[key] for key in connection if key not in (*CONNECTION_FIELDS, "inputType")}
        outputs[output].append(
            {
                "node": names.get(connection["to"], connection["to"]),
                "type": connection.get("inputType") or type,
                "index": connection.get("input") or 0,
                **others,
            }
        )
    return by_source


def _version_number(version: float) -> Json:
    return int(version) if version == int(version) else version
