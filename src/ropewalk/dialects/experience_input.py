"""The input of an experience: its schema, declared or inferred, and the fields of the state that begin with it.

A member of the input begins the state field of its name where the schema has both. Inferred are the fields that some
node reads and no node before it writes, and the members that the document reads as `$input.NAME`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..expr.ast import Ref, refs
from ..ir import Channel, Graph, Node, bodies, node_parts
from ..values import Json
from .experience import ANY
from .fields import Report, say

if TYPE_CHECKING:
    from .experience import ExperienceDocument

_OURS = frozenset(("merge", "default"))


def input_of(document: ExperienceDocument, body: Graph, state: Mapping[str, Channel]) -> tuple[Json, tuple[str, ...]]:
    """Return the schema of the input, None where nothing of it is read, and the fields of the state it begins."""
    declared = document.fields.get("inputSchema")
    if declared is not None:
        _check_types(document, declared)
        return declared, seeds(declared, state)
    schema, early = _inferred(document, body)
    return schema, tuple(name for name in state if name in early)


def _inferred(document: ExperienceDocument, body: Graph) -> tuple[Json, set[str]]:
    """The schema of what the graph reads, and the fields that it reads before it writes them."""
    members: set[str] = set()
    for ref in _all_refs(body):
        if ref.root == "input":
            if not ref.path or not isinstance(ref.path[0], str):
                return None, set()  # the input as a whole is read: it may be anything
            members.add(ref.path[0])
    early = set(_read_first(body, frozenset()))
    properties: dict[str, Json] = {
        name: {key: value for key, value in declared.items() if key not in _OURS and (key, value) != ("type", ANY)}
        for name, declared in document.schema.items()
        if name in early
    }
    properties |= {name: {} for name in sorted(members - properties.keys())}
    return ({"type": "object", "properties": properties} if properties else None), early


def seeds(schema: Json, state: Mapping[str, Channel]) -> tuple[str, ...]:
    """Return the fields of the state that begin with a member of an input that is declared so."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return tuple(name for name in state if name in properties) if isinstance(properties, dict) else ()


def _check_types(document: ExperienceDocument, schema: Json) -> None:
    report: Report = document.problems
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        gives = inner.get("type") if isinstance(inner, dict) else None
        takes = document.schema.get(name, {}).get("type")
        if (
            isinstance(gives, str)
            and takes not in (None, ANY)
            and gives != takes
            and (gives, takes) != ("integer", "number")
        ):
            message = f"is {gives}, and begins the state field {name!r}, which is declared as type {takes}"
            say(report, f"inputSchema.properties.{name}.type", message)


def _read_first(body: Graph, above: frozenset[str]) -> Iterator[str]:
    """The fields that nodes read which neither those `above` nor the nodes before them write."""
    by_id = {node.id: node for node in body.nodes}
    written = {node.id: _written(node) for node in body.nodes}
    before: dict[str, frozenset[str]] = {}
    for id in _in_order(body):
        needs = [needed for needed in body.needs.get(id, ()) if needed in before]
        before[id] = above.union(*(before[needed] | written[needed] for needed in needs))
    for id, node in by_id.items():
        known = before.get(id, above)
        reads = set(node.meta.reads)
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from _read_first(part, known)
            else:
                reads.update(str(ref.path[0]) for ref in refs(part) if ref.root == "state" and ref.path)
        yield from reads - known


def _in_order(body: Graph) -> Iterator[str]:
    """The ids of a region, each after those that it needs; those in a cycle, which is a problem, not at all."""
    left = {node.id: set(body.needs.get(node.id, ())) & {other.id for other in body.nodes} for node in body.nodes}
    while ready := [id for id, needs in left.items() if not needs]:
        for id in ready:
            del left[id]
            yield id
        for needs in left.values():
            needs.difference_update(ready)


def _written(node: Node) -> frozenset[str]:
    return frozenset(node.meta.writes).union(*(_written(inner) for body in bodies(node) for inner in body.nodes))


def _all_refs(body: Graph) -> Iterator[Ref]:
    for node in body.nodes:
        for _, part in node_parts(node):
            yield from _all_refs(part) if isinstance(part, Graph) else refs(part)
    if body.result is not None:
        yield from refs(body.result)
