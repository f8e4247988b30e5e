"""Documents that are lists of typed nodes: what reading them has in common."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar

from ..deadline import look_at_clock
from ..errors import InvalidFlow, Problem
from ..errors.collected import Problems
from ..schema import flaws, misfits
from ..values import Json
from . import fields as f
from .fields import Checker, Report, join, known_keys, say

_SPACE: Final = uuid.UUID("0d6a1f3e-6a3b-5c1b-8a54-3f2f0c8f7a61")
MAX_NESTING: Final = 64
SCHEMAS: Final = ("inputSchema", "outputSchema")

Read = TypeVar("Read")


def read_document(
    config: Mapping[str, Json], known: Mapping[str, Checker], kind: str, schemas: Collection[str] = SCHEMAS
) -> tuple[dict[str, Json], Report]:
    """The fields of a whole document in the documented spelling, and what is wrong with them; `schemas` are
    those that hold one. Metadata is left out: an exported document carries it along, and it belongs to the
    stored one."""
    report: Report = Problems()
    if not isinstance(config, Mapping):
        raise InvalidFlow([Problem(path="", message=f"a {kind} is an object, not {f.kind(config)}")])
    given = known_keys(f.own(config, "", report), known, "", report)
    given = {key: value for key, value in given.items() if value is not None and key not in ("kind", "metadata")}
    for key, value in given.items():
        given[key] = known[key](value, key, report)
    for key in schemas:
        if key in given and not (is_schema(given[key], key, report) and _defaults_fit(given[key], key, report)):
            del given[key]
    return given, report


def read_with_nodes(
    config: Mapping[str, Json],
    known: Mapping[str, Checker],
    kind: str,
    defaults: Mapping[str, Json],
    read: Callable[[Json, str, Report, int], Read],
) -> tuple[dict[str, Json], list[Read], Report]:
    """A document with `nodes`: its fields with defaults filled in and an id made when there is none, its
    nodes, and what is wrong. The id is the same whenever the document is read again: results have it."""
    given, report = read_document(config, known, kind)
    found = {"id": given.get("id") or _id_of(kind, given), **defaults, "variables": {}, **given}
    nodes = read_nodes(found.pop("nodes", None), "nodes", report, 1, read)
    if not nodes and not any(p.path == "nodes" for p in report):
        say(report, "nodes", "must be a non-empty list of nodes")
    return found, nodes, report


def _id_of(kind: str, given: Mapping[str, Json]) -> str:
    """The id of a document without one: of its name, or of all that it says."""
    name = given.get("name")
    said = name if isinstance(name, str) and name else json.dumps(given, sort_keys=True)
    return str(uuid.uuid5(_SPACE, f"{kind}\n{said}"))


def is_schema(value: Json, path: str, report: Report) -> bool:
    """Whether this is a JSON Schema; why not is reported."""
    wrong = flaws(value)
    for place, why in wrong:
        say(report, path + place, why)
    return not wrong


def _defaults_fit(schema: Json, path: str, report: Report) -> bool:
    """Whether the defaults that are filled into an input fit; why not is reported."""
    wrong = misfits(schema) if path == "inputSchema" else []
    for place, why in wrong:
        say(report, path + place, f"the default does not fit: {why}")
    return not wrong


def read_nodes(
    value: Json, path: str, report: Report, depth: int, read: Callable[[Json, str, Report, int], Read]
) -> list[Read]:
    """A list of nodes, `depth` lists deep (the document's own is 1); inside, one node may stand for a list."""
    if depth > MAX_NESTING:
        # Told once, at the node of the document that it is in: the way down is longer than any line.
        told = Problem(path=path.partition("]")[0] + "]", message=f"nested deeper than {MAX_NESTING} lists of nodes")
        if told not in report:
            report.append(told)
        return []
    if isinstance(value, Mapping) and not path.endswith("]") and depth > 1:
        return [read(value, path, report, depth)]
    if not isinstance(value, list):
        say(report, path, f"must be a list of nodes, not {f.kind(value)}")
        return []
    found = []
    for i, item in enumerate(value):
        look_at_clock()
        found.append(read(item, f"{path}[{i}]", report, depth))
    return found


def read_fields(
    value: Mapping[str, Json],
    known: Mapping[str, Checker],
    path: str,
    report: Report,
    nullable: Collection[str],
    only_for: Mapping[str, tuple[str, ...]],
) -> dict[str, Json]:
    """The fields of one node, checked; null counts as absent but where it is `nullable`. Some are `only_for`
    nodes of some types."""
    kind = str(value.get("type")).lower()
    given = known_keys(value, known, path, report, [key for key in known if kind in only_for.get(key, (kind,))])
    given = {key: item for key, item in given.items() if item is not None or key in nullable}
    for key, item in given.items():
        given[key] = known[key](item, join(path, key), report)
    for key in ("id", "type"):
        if key not in given:
            say(report, join(path, key), "required for every node")
    return given


class Typed(Protocol):
    """A node as read."""

    @property
    def path(self) -> str: ...
    @property
    def type(self) -> str: ...


def check_type(
    node: Typed,
    present: Collection[str],
    needed: Mapping[str, str],
    only_for: Mapping[str, tuple[str, ...]],
    report: Report,
) -> None:
    """Report fields that the node's type needs, or has no use for."""
    need = needed.get(node.type)
    if need is not None and need not in present:
        say(report, join(node.path, need), f"required for a {node.type} node")
    for key in present:
        types = only_for.get(key)
        if types is not None and node.type not in types:
            say(report, join(node.path, key), f"a {node.type} node has no {key}; only {' or '.join(types)} nodes do")
