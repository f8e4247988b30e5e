"""Public workflows, as the package n8n-mcp has them, through read, draft and write.

The templates are read where the package keeps them and never copied: what is pinned is their numbers.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ropewalk.n8n.node_types import TRIGGERS, closest_type, names_trigger
from ropewalk.n8n.repairs import apply_repairs
from ropewalk.n8n.workflow import make_workflow, read_workflow
from tools.mcp_lab import node_script

pytestmark = pytest.mark.node
SEED, COUNT = 39, 100

# What does not come back as it was; everything else does, field by field.
EMPTY = "connections: an output that leads nowhere is left out"
CONNECTIONS = "connections: changed"  # they lack the list around an output, or name nodes by their id
VERSION = "node: typeVersion is added"
DIFFERENCES = {
    EMPTY: [
        *(3834, 3858, 3862, 4066, 4252, 4414, 4625, 4978, 5067, 5100, 5106),
        *(5374, 6006, 6089, 6307, 8292, 11025, 11591, 11724, 12901, 13168, 13173),
    ],
    CONNECTIONS: [6507],
    VERSION: [4904],
}
ALL_DIFFERENCES = {
    "a trigger is added": 5,
    EMPTY: 418,
    CONNECTIONS: 4,
    "node: id is added": 19,
    "node: id is changed": 1,  # two nodes have it
    "node: name is added": 6,
    "node: name is changed": 5,  # two nodes have it
    VERSION: 2,
}


def rows(query: str) -> list[Any]:
    database = node_script("n8n-mcp", "", "data/nodes.db")
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def templates() -> dict[int, dict[str, Any]]:
    packed = rows("select id, workflow_json_compressed from templates order by id")
    return {id: json.loads(gzip.decompress(base64.b64decode(text))) for id, text in packed}


def chosen(templates: dict[int, dict[str, Any]]) -> list[int]:
    return random.Random(SEED).sample(list(templates), COUNT)


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """The names of what is different, each once or more often."""
    for key in (before.keys() | after.keys()) - {"nodes", "connections"}:
        yield from difference(f"workflow: {key}", before, after, key)
    nodes, sources = list(after["nodes"]), dict(after["connections"])
    if len(nodes) == len(before["nodes"]) + 1:
        yield "a trigger is added"
        sources.pop(nodes.pop(0)["name"])
    assert len(nodes) == len(before["nodes"])
    for old, new in zip(before["nodes"], nodes, strict=True):
        for key in old.keys() | new.keys():
            yield from difference(f"node: {key}", old, new, key)
    if sources != before["connections"]:
        yield EMPTY if without_empty(before["connections"]) == without_empty(sources) else CONNECTIONS


def difference(name: str, before: dict[str, Any], after: dict[str, Any], key: str) -> Iterator[str]:
    if key not in after:
        yield f"{name} is lost"
    elif key not in before or json.dumps(before[key]) != json.dumps(after[key]):  # 1 is not 1.0, nor True
        yield f"{name} is {'changed' if before.get(key) else 'added'}"


def without_empty(connections: dict[str, Any]) -> dict[str, Any]:
    """The outputs that lead to a node, with their numbers."""
    lines: dict[str, Any] = defaultdict(dict)
    for source, types in connections.items():
        for type, outputs in types.items():
            for number, targets in enumerate(outputs):
                if targets:
                    lines[source][type, number] = targets
    return dict(lines)


def found(templates: dict[int, dict[str, Any]], ids: list[int]) -> dict[str, list[int]]:
    every: dict[str, list[int]] = defaultdict(list)
    for id in ids:
        made = make_workflow(read_workflow(templates[id])).workflow
        for name in sorted(set(differences(templates[id], made))):
            every[name].append(id)
    return {name: sorted(every[name]) for name in sorted(every)}


def test_a_hundred_public_templates_come_back_field_by_field(templates: dict[int, dict[str, Any]]) -> None:
    assert found(templates, chosen(templates)) == DIFFERENCES


@pytest.mark.campaign("properties", only=True)
def test_all_public_templates_come_back(templates: dict[int, dict[str, Any]]) -> None:
    every = found(templates, list(templates))
    assert {name: len(ids) for name, ids in every.items()} == ALL_DIFFERENCES
    assert len(templates) - len({id for ids in every.values() for id in ids}) == 1900


def test_an_operation_changes_one_field_of_a_template(templates: dict[int, dict[str, Any]]) -> None:
    id = next(id for id in chosen(templates) if not found(templates, [id]))
    draft = read_workflow(templates[id])
    fields = {"onError": "continueErrorOutput", "retryOnFail": True, "notes": "asked twice"}
    first, *others = draft["nodes"]
    changed, wrong = apply_repairs(draft, [{"op": "set_fields", "id": first["id"], "fields": fields}])
    made: Any = make_workflow(changed).workflow
    assert wrong == []
    assert made["nodes"] == [{**templates[id]["nodes"][0], **fields}, *templates[id]["nodes"][1:]]
    assert made["connections"] == templates[id]["connections"]
    assert len(others) == len(made["nodes"]) - 1


def test_no_node_type_of_n8n_is_corrected_and_names_tell_triggers() -> None:
    types = {
        type: bool(trigger) for type, trigger in rows("select node_type, is_trigger from nodes where not is_community")
    }
    assert len(types) > 500
    assert {type: names_trigger(type) for type in types} == types
    assert [type for type in types if closest_type(type, TRIGGERS) not in (None, type)] == []
