"""A draft becomes n8n's JSON. Code alone: the same draft and facts give the same workflow, byte for byte.

What the model has no say in is decided here: ids, unique names, full type names, versions, positions, a trigger.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from ..frozen import dataclass
from ..values import Json, fresh
from .draft import MAIN, STICKY, Draft, kind, reach
from .facts import Facts
from .node_tools import short_type

MANUAL: Final = "nodes-base.manualTrigger"
_SPACE: Final = uuid.UUID("6f1c5f0e-6f0a-5d51-9d0c-7f1d8f6d2b11")
_WIDTH, _HEIGHT = 240, 180


class FactsOf(Protocol):
    """What is known of node types: `Known` is one, a dict another."""

    def __getitem__(self, type: str, /) -> Facts | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A workflow with what it was made from. `names` are the names of the nodes by their ids in the draft."""

    workflow: dict[str, Json]
    draft: Draft
    names: dict[str, str]
    triggers: tuple[str, ...]
    credentials: list[Json]


def make(draft: Draft, known: FactsOf) -> Made:
    """The workflow of a draft. A draft that `draft.problems` refuses gives one all the same, for the report."""
    draft = with_trigger(draft, known)
    triggers = tuple(node["id"] for node in draft["nodes"] if _starts(node, known))
    names = _names(draft)
    places = _places(draft, triggers)
    nodes: list[Json] = []
    credentials: list[Json] = []
    for node in draft["nodes"]:
        facts, name = known[node["type"]], names[node["id"]]
        parameters = fresh(node["parameters"])
        nodes.append(
            {
                "id": str(uuid.uuid5(_SPACE, f"{draft['name']}\n{node['id']}")),
                "name": name,
                "type": facts.type if facts is not None else full_type(node["type"]),
                "typeVersion": _number(facts.version) if facts is not None else 1,
                "position": list(places[node["id"]]),
                "parameters": parameters,
            }
        )
        if facts is not None and (needs := facts.needs(parameters)):
            credentials.append({"node": name, "types": list(needs)})
    workflow: dict[str, Json] = {
        "name": draft["name"],
        "nodes": nodes,
        "connections": _connections(draft, names),
        "settings": {"executionOrder": "v1"},
    }
    return Made(workflow=workflow, draft=draft, names=names, triggers=triggers, credentials=credentials)


def with_trigger(draft: Draft, known: FactsOf) -> Draft:
    """The draft, with a manual trigger before whatever nothing leads to, if it has no trigger."""
    nodes = draft["nodes"]
    if not nodes or any(_starts(node, known) for node in nodes):
        return draft
    led = {one["to"] for one in draft["connections"] if kind(one) == MAIN}
    serving = {one["from"] for one in draft["connections"] if kind(one) != MAIN}
    first = [node["id"] for node in nodes if node["id"] not in led | serving and not node["type"].endswith(STICKY)]
    if not first:
        return draft  # a ring: where it begins is not ours to guess
    taken = {node["id"] for node in nodes}
    id = next(name for n in range(len(taken) + 1) if (name := "start" + (str(n) if n else "")) not in taken)
    start = {"id": id, "type": MANUAL, "name": "Start", "parameters": {}}
    lines = [{"from": id, "to": one} for one in first]
    return {**draft, "nodes": [start, *nodes], "connections": [*lines, *draft["connections"]]}


def full_type(given: str) -> str:
    """A node type as workflows spell it: `n8n-nodes-base.slack`."""
    short = short_type(given)
    if short.startswith("nodes-base."):
        return f"n8n-{short}"
    return f"@n8n/n8n-{short}" if short.startswith("nodes-langchain.") else short


def _starts(node: Mapping[str, Any], known: FactsOf) -> bool:
    facts = known[node["type"]]
    short = short_type(node["type"])  # where nobody can be asked, its name tells
    return facts.trigger if facts is not None else short.endswith("Trigger") or short == "nodes-base.webhook"


def _names(draft: Draft) -> dict[str, str]:
    """As n8n does it: the second `Set` is `Set1`."""
    wanted = Counter(node["name"] for node in draft["nodes"])
    taken: set[str] = set()
    found: dict[str, str] = {}
    for node in draft["nodes"]:
        name, count = node["name"] or node["id"], 0
        while name in taken or (count and name in wanted):
            count += 1
            name = f"{node['name'] or node['id']}{count}"
        taken.add(name)
        found[node["id"]] = name
    return found


def _places(draft: Draft, triggers: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Steps from the trigger go to the right, what is as far stands below; what serves a node stands under it."""
    far = reach(draft, triggers)
    rows: Counter[int] = Counter()
    found: dict[str, tuple[int, int]] = {}
    for node in draft["nodes"]:
        column = far.get(node["id"], 0)
        found[node["id"]] = (column * _WIDTH, rows[column] * _HEIGHT)
        rows[column] += 1
    return found


def _connections(draft: Draft, names: Mapping[str, str]) -> dict[str, Json]:
    found: dict[str, Any] = {}
    for one in draft["connections"]:
        source, type = names.get(one["from"], one["from"]), kind(one)
        outputs = found.setdefault(source, {}).setdefault(type, [])
        output = one.get("output") or 0
        outputs.extend([] for _ in range(output + 1 - len(outputs)))
        target = {"node": names.get(one["to"], one["to"]), "type": type, "index": one.get("input") or 0}
        if target not in outputs[output]:
            outputs[output].append(target)
    return found


def _number(version: float) -> Json:
    return int(version) if version == int(version) else version
