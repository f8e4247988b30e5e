"""Read the document of an experience: a directory with `experience.yaml`, a declared state, nodes and edges.

`read` turns it into an ExperienceDocument and collects every problem of the document itself: unknown keys, wrong
types, state fields that contradict themselves. It opens no files; the app does, because it knows the directory. Nodes
are read in `nodes.py`.

Two parts of the meaning live here too, because the reader and the compiler share them. `node_entries` turns edges
into gates: an edge is live if its source ended well and its `when` holds, and a node runs if one of its edges is
live. `input_and_seeds` declares or infers the schema of the input: the members read as `$input.NAME`, and the state
fields that some node reads before any node writes them.

To add a key to the document, name it in `DOCUMENT`, `GRAPH`, `EDGE`, `LOOP` or `PIPELINE` with its checker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any, Final

from ...check.export import of_kinds
from ...check.structure import cycles
from ...check.types import ALL, NULL, Sub, describe_kinds
from ...check.updates import accepted_by
from ...errors import InvalidFlow, Problem
from ...expr.ast import Expr, Fn, Lit, Ref, refs
from ...fast_dataclass import dataclass
from ...ir import Channel, Graph, Meta, Node, bodies, node_parts
from ...ops import Compute
from ...problems import Problems, Warnings
from ...state import REDUCERS, has_type, json_type
from ...values import Json, did_you_mean
from .. import fields as f
from ..chain.compile import any_of
from ..fields import Checker, Report, add_problem, check_schema, join, read_object
from ..node_fields import DOCUMENT_FIELDS, check_strict
from .nodes import SCOPES, ExperienceNode, identifier, list_of, node_of

CONCURRENCY: Final = 4
MAX_ITERS: Final = 100
TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
ANY: Final = "any"
"""The type of a state field that takes every value."""


def version(value: Json, path: str, report: Report) -> Json:
    """Check that a version is text of three numbers: `N.N.N`."""
    if not isinstance(value, str):
        add_problem(report, path, f"must be text such as 0.1.0, not {f.type_name(value)}; put it in quotes")
    elif not re.fullmatch(r"\d+\.\d+\.\d+", value, re.ASCII):
        add_problem(report, path, f"must be three numbers such as 0.1.0, not {value!r}")
    return value


DOCUMENT: Final[dict[str, Checker]] = {
    **DOCUMENT_FIELDS,
    "name": f.name,
    "version": version,
    "phases": f.anything,
    "runtime": f.anything,
    "state": f.anything,
    "graph": f.anything,
    "inputSchema": f.mapping,
    "strict": check_strict,
    "state_scope": f.one_of(SCOPES),
    "files": f.mapping,
}
RUNTIME: Final[dict[str, Checker]] = {"concurrency": f.positive, "env": f.names}
STATE: Final[dict[str, Checker]] = {"schema": f.mapping, "store": f.name}
FIELD: Final[dict[str, Checker]] = {
    "type": f.one_of((*TYPES, ANY)),
    "merge": f.one_of(tuple(REDUCERS)),
    "default": f.anything,
    "description": f.text,
}
KEYWORDS: Final = frozenset(
    (
        "$ref",
        "$defs",
        "$comment",
        "title",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "format",
        "enum",
        "const",
        "items",
        "prefixItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
        "additionalItems",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "minLength",
        "maxLength",
        "pattern",
        "contentEncoding",
        "contentMediaType",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
"""The keywords of JSON Schema that a state field may have in addition to `type`, `default` and `description`."""
PHASE: Final[dict[str, Checker]] = {"id": f.name, "title": f.text}
GRAPH: Final[dict[str, Checker]] = {
    "nodes": f.anything,
    "edges": f.anything,
    "loops": f.anything,
    "pipelines": f.anything,
}
EDGE: Final[dict[str, Checker]] = {"from": f.name, "to": f.name, "when": f.condition}
LOOP: Final[dict[str, Checker]] = {
    "id": identifier,
    "body": f.names,
    "until": f.condition,
    "max_iters": f.positive,
    "budget": f.number,
    "phase": f.name,
}
PIPELINE: Final[dict[str, Checker]] = {"id": identifier, "items": f.anything, "stages": f.anything, "phase": f.name}


@dataclass(frozen=True, slots=True)
class Part:
    """An edge, a loop or a pipeline as read: its place and its fields; a pipeline also has the ids of its stages."""

    path: str
    fields: dict[str, Json]
    stages: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id, "" for an edge."""
        return str(self.fields.get("id", ""))


@dataclass(frozen=True, slots=True)
class ExperienceDocument:
    """An experience as read; `problems` is empty if it is valid so far."""

    # `schema` has the declaration of each state field: its JSON Schema with `merge`, `default` and `description`.

    fields: dict[str, Json]
    schema: dict[str, dict[str, Json]]
    nodes: list[ExperienceNode] = field(default_factory=list)  # those written inline in pipelines too
    edges: list[Part] = field(default_factory=list)
    loops: list[Part] = field(default_factory=list)
    pipelines: list[Part] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=Problems)
    warnings: list[Problem] = field(default_factory=Warnings)

    @property
    def name(self) -> str:
        """The name of the experience, "" without one."""
        return str(self.fields.get("name", ""))

    @property
    def members(self) -> list[ExperienceNode | Part]:
        """Everything that has an id: nodes, then loops, then pipelines, each in the order of the document."""
        return [*self.nodes, *self.loops, *self.pipelines]

    @property
    def concurrency(self) -> int:
        """How many nodes of a region may run at once."""
        return int(self.fields.get("runtime", {}).get("concurrency", self.fields.get("concurrency", CONCURRENCY)))

    @property
    def env(self) -> tuple[str, ...]:
        """The names of the environment variables that tool modules get."""
        return tuple(self.fields.get("runtime", {}).get("env", ()))


def read(config: Mapping[str, Json]) -> ExperienceDocument:
    """Read a document and collect its problems."""
    report: Report = Problems()
    if not isinstance(config, Mapping):
        raise InvalidFlow([Problem(path="", message=f"an experience must be an object, not {f.type_name(config)}")])
    # Work on a copy: reading renames keys and removes invalid fields.
    copy = f.copy_plain(config, "", report)
    fields = read_object(copy, DOCUMENT, "", report, required=("name", "version", "state", "graph"))
    for key in ("kind", "metadata"):
        fields.pop(key, None)
    if "runtime" in fields:
        fields["runtime"] = read_object(fields["runtime"], RUNTIME, "runtime", report)
        _check_env_names(fields["runtime"].get("env", ()), report)
    document = ExperienceDocument(fields, _state_schema(fields, report), problems=report)
    # Remove an invalid schema, so that compiling it does not report it again.
    for key in ("inputSchema", "outputSchema"):
        if key in fields and not check_schema(fields[key], key, report):
            del fields[key]
    for name, value in fields.get("variables", {}).items():
        document.schema.setdefault(name, {"type": ANY, "default": value})
    state = fields.get("state")
    if isinstance(state, Mapping) and state.get("store") is not None:
        message = (
            "is not used, because the store of a run keeps its state; the next run can start with the final state of "
            "the last one"
        )
        add_problem(document.warnings, "state.store", message)
    _read_phases(document)
    if "graph" in fields:
        _read_graph(document)
    return document


def _check_env_names(names: Json, report: Report) -> None:
    for i, name in enumerate(names):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            add_problem(report, f"runtime.env[{i}]", f"{name!r} cannot be the name of an environment variable")


def _state_schema(fields: dict[str, Json], report: Report) -> dict[str, dict[str, Json]]:
    """Read the declarations of the state fields."""
    if "state" not in fields:
        return {}
    state = read_object(fields["state"], STATE, "state", report, required=("schema",))
    schema: dict[str, dict[str, Json]] = {}
    for name, value in state.get("schema", {}).items():
        path = f"state.schema.{name}"
        if not name:
            add_problem(report, path, "a state field needs a name")
        schema[name] = _read_state_field(value, path, report)
        _check_state_field(schema[name], path, report)
    return schema


def _read_state_field(value: Json, path: str, report: Report) -> dict[str, Json]:
    """Read the declaration of a state field: our keys, and any other keyword of JSON Schema."""
    if not isinstance(value, Mapping):
        return read_object(value, FIELD, path, report)
    keywords: dict[str, Json] = {}
    ours: dict[str, Json] = {}
    for key, item in value.items():
        holder = keywords if key in KEYWORDS or key.startswith("x-") else ours
        holder[key] = item
    # The keywords are only named here so that a misspelt one is suggested.
    declared = read_object(ours, {**FIELD, **dict.fromkeys(KEYWORDS, f.anything)}, path, report, nulls=("default",))
    if "type" not in declared and not keywords:
        add_problem(report, join(path, "type"), "required")
    keywords.pop("$ref", None)  # names a file that nobody reads
    if keywords and not check_schema(keywords, path, report):
        return declared
    return {**declared, **keywords}


def _check_state_field(declared: dict[str, Json], path: str, report: Report) -> None:
    """Check that type, merge and default of a state field go together."""
    type, merge = declared.get("type"), declared.get("merge")
    takes = REDUCERS[merge].takes if merge in REDUCERS else None
    if takes is not None and type in TYPES and type != takes:
        add_problem(report, join(path, "merge"), f"{merge} takes {takes} updates; the field is declared as type {type}")
    default = declared.get("default")
    if default is not None and type in TYPES and not has_type(default, str(type)):
        add_problem(report, join(path, "default"), f"is {json_type(default)}; the field is declared as type {type}")
        del declared["default"]


def _read_phases(document: ExperienceDocument) -> None:
    report = document.problems
    first: dict[str, str] = {}
    for path, value in list_of(document.fields.get("phases"), "phases", report):
        phase = read_object(value, PHASE, path, report, required=("id",))
        place = first.setdefault(str(phase.get("id")), path)
        if place != path and "id" in phase:
            add_problem(report, join(path, "id"), f"the phase {phase['id']!r} is already declared by {place}")


def _read_graph(document: ExperienceDocument) -> None:
    report = document.problems
    graph = read_object(document.fields["graph"], GRAPH, "graph", report, required=("nodes",))
    for path, value in list_of(graph.get("nodes"), "graph.nodes", report):
        document.nodes.append(node_of(value, path, report))
    if "nodes" in graph and graph["nodes"] == []:
        add_problem(report, "graph.nodes", "must be a non-empty list of nodes")
    for path, value in list_of(graph.get("edges"), "graph.edges", report):
        edge = read_object(value, EDGE, path, report, required=("from", "to"))
        document.edges.append(Part(path, edge))
    for node in document.nodes:
        for id in node.get("after", ()):
            document.edges.append(Part(join(node.path, "after"), {"from": id, "to": node.id}))
    for path, value in list_of(graph.get("loops"), "graph.loops", report):
        loop = read_object(value, LOOP, path, report, required=("id", "body"))
        if "budget" in loop:
            add_problem(document.warnings, join(path, "budget"), "is not enforced; max_iters limits a loop")
        document.loops.append(Part(path, loop))
    for path, value in list_of(graph.get("pipelines"), "graph.pipelines", report):
        pipeline = read_object(value, PIPELINE, path, report, required=("id", "items", "stages"))
        stages = _read_stages(document, pipeline.get("stages"), join(path, "stages"))
        document.pipelines.append(Part(path, pipeline, stages))


def _read_stages(document: ExperienceDocument, stages: Json, path: str) -> tuple[str, ...]:
    """Return the ids of a pipeline's stages; nodes that are written there join those of the graph."""
    ids = []
    for place, value in list_of(stages, path, document.problems):
        if isinstance(value, str):
            ids.append(value)
        else:
            node = node_of(value, place, document.problems, expected="a node or the id of one")
            document.nodes.append(node)
            ids.append(node.id)
    return tuple(ids)


# --- edges ------------------------------------------------------------------------------------

OK: Final = Lit("ok")
CONDITION_LABELS: Final = {"when": "when", "value": "when"}


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two nodes, loops or pipelines of one region."""

    path: str
    source: str
    target: str
    when: str | bool | None = None


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """How a node is reached."""

    # `predecessors` are the ids at the other ends of its edges, `gate` is the condition under which it runs (None:
    # always), `label` the same in words. `conditions` are the hidden nodes that evaluate the `when` of its edges;
    # `after` are all nodes that it waits for, hidden ones included.

    predecessors: tuple[str, ...] = ()
    gate: Expr | None = None
    label: str = ""
    conditions: tuple[Node, ...] = ()
    after: frozenset[str] = field(default_factory=frozenset)


def edges_by_region(
    parts: list[Part], owners: Mapping[str, Part | None], stages: Mapping[str, tuple[str, int]], report: Report
) -> dict[str, list[Edge]]:
    """Return the edges of each region, and report those that lead nowhere."""

    # `owners`: The loop or pipeline around everything that has an id, None at the top.
    regions: dict[str, list[Edge]] = {}
    for part in parts:
        source, target = str(part.fields.get("from", "")), str(part.fields.get("to", ""))
        if not _has_known_ends(part, source, target, owners, report):
            continue
        if _is_stage_order(part, source, target, stages, report):
            continue
        source = stages[source][0] if source in stages else source
        target = stages[target][0] if target in stages else target
        if _check_connection(part, source, target, owners, report):
            owner = owners[source]
            edge = Edge(part.path, source, target, part.fields.get("when"))
            regions.setdefault(owner.path if owner is not None else "", []).append(edge)
    return regions


def _has_known_ends(part: Part, source: str, target: str, owners: Mapping[str, Any], report: Report) -> bool:
    for key, end in (("from", source), ("to", target)):
        if end and end not in owners:
            add_problem(report, join(part.path, key), f"unknown node {end!r}", did_you_mean(end, owners))
    # An end without a name was reported when the document was read.
    return bool(source and target) and source in owners and target in owners


def _is_stage_order(
    part: Part, source: str, target: str, stages: Mapping[str, tuple[str, int]], report: Report
) -> bool:
    """Return True for an edge between two stages of one pipeline, which adds nothing to their order."""

    # An edge that contradicts the order or has a condition is a problem.
    if source not in stages or target not in stages:
        return False
    (pipeline, source_index), (target_pipeline, target_index) = stages[source], stages[target]
    if pipeline != target_pipeline:
        return False
    if source == target:
        add_problem(report, part.path, f"these nodes wait for each other: {source} -> {source}")
    elif source_index > target_index:
        message = f"{source!r} comes after {target!r} in the stages of the pipeline {pipeline!r}"
        add_problem(report, part.path, f"{message}; change the order of its stages")
    elif "when" in part.fields:
        message = f"the stages of the pipeline {pipeline!r} run in their order, without conditions between them"
        add_problem(report, join(part.path, "when"), message)
    return True


def _check_connection(part: Part, source: str, target: str, owners: Mapping[str, Part | None], report: Report) -> bool:
    """Return True if an edge connects two different nodes of one region; report it otherwise."""
    if source == target:
        add_problem(report, part.path, f"these nodes wait for each other: {source} -> {source}")
        return False
    if owners[source] is owners[target]:
        return True
    # One end at least is in a loop: name the loop there instead.
    key, id = ("from", source) if owners[source] is not None else ("to", target)
    owner = owners[id]
    assert owner is not None
    message = (
        f"{id!r} is in the body of the loop {owner.id!r}, but this edge leads into or out of the body; name the loop "
        "instead of the node"
    )
    add_problem(report, join(part.path, key), message, owner.id)
    return False


def node_entries(
    ids: list[str],
    edges: list[Edge],
    may_skip: Callable[[str], bool],
    condition: Callable[[Edge], Expr],
    report: Report,
) -> dict[str, NodeEntry]:
    """Return how each node of a region is reached."""
    incoming: dict[str, list[Edge]] = {id: [] for id in ids}
    for edge in edges:
        incoming[edge.target].append(edge)
    uncertain: set[str] = set()  # nodes that may not end well
    entries: dict[str, NodeEntry] = {}
    for id in _topological_order(ids, incoming, report):
        entries[id] = _entry(id, incoming[id], uncertain, condition)
        if entries[id].gate is not None or may_skip(id):
            uncertain.add(id)
    return entries


def _entry(id: str, edges: list[Edge], uncertain: set[str], condition: Callable[[Edge], Expr]) -> NodeEntry:
    predecessors = tuple(dict.fromkeys(edge.source for edge in edges))
    terms: list[Expr] = []  # the node runs if one of them holds
    always = not edges
    conditions: list[Node] = []
    for edge in edges:
        source = _ended_well(edge.source) if edge.source in uncertain else None
        if edge.when is not None:
            # A condition is a node of its own, so that it has its own place and sees what all predecessors wrote.
            hidden = f"{edge.source}->{id}"
            if conditions:
                hidden += f"#{len(conditions)}"
            conditions.append(
                Node(
                    id=hidden,
                    op=Compute(value=Lit(True)),
                    after=frozenset(predecessors),
                    gate=source,
                    when=condition(edge),
                    meta=Meta(source=edge.path, labels=CONDITION_LABELS, hidden=True),
                )
            )
            terms.append(_ended_well(hidden))
        elif source is None:
            always = True
        else:
            terms.append(source)
    return NodeEntry(
        predecessors=predecessors,
        gate=None if always else any_of(terms),
        label=" or ".join(edge.source if edge.when is None else f"{edge.source}: {edge.when}" for edge in edges),
        conditions=tuple(conditions),
        after=frozenset((*predecessors, *(node.id for node in conditions))),
    )


def _ended_well(id: str) -> Expr:
    return Fn("==", (Ref("status", (id,)), OK))


def _topological_order(ids: list[str], incoming: Mapping[str, list[Edge]], report: Report) -> list[str]:
    """Return the ids in an order in which they could run, without those in cycles, and report each cycle."""
    waits = {id: {edge.source for edge in incoming[id]} for id in ids}
    successors: dict[str, list[str]] = {}
    for id, sources in waits.items():
        for source in sources:
            successors.setdefault(source, []).append(id)
    ready = [id for id in ids if not waits[id]]
    for id in ready:  # grows while it is read
        for successor in successors.get(id, ()):
            waits[successor].discard(id)
            if not waits[successor]:
                ready.append(successor)

    stuck = [id for id in ids if waits[id]]
    if stuck:
        needs = {id: {edge.source for edge in incoming[id]} for id in stuck}
        for cycle in cycles(stuck, needs):
            names = [*cycle, cycle[0]]
            edge = next(edge for edge in incoming[names[1]] if edge.source == names[0])
            add_problem(report, edge.path, f"these nodes wait for each other: {' -> '.join(names)}")
    return ready


# --- the input --------------------------------------------------------------------------------

_STATE_KEYS = frozenset(("merge", "default"))
"""The keys of a state field that do not belong into the schema of the input."""


def input_and_seeds(
    document: ExperienceDocument, body: Graph, state: Mapping[str, Channel]
) -> tuple[Json, tuple[str, ...]]:
    """Return the schema of the input, declared or inferred, and the state fields that begin with a member of it."""
    declared = document.fields.get("inputSchema")
    if declared is not None:
        return _with_state_types(document, declared, state), seeded_fields(declared, state)
    schema, early = _infer_input(document, body)
    return schema, tuple(name for name in state if name in early)


def _infer_input(document: ExperienceDocument, body: Graph) -> tuple[Json, set[str]]:
    """Return the schema of what the graph reads, and the fields that it reads before it writes them."""
    members: set[str] = set()
    for ref in _all_refs(body):
        if ref.root == "input":
            if not ref.path or not isinstance(ref.path[0], str):
                return None, set()  # the graph reads the whole input, which may be anything
            members.add(ref.path[0])
    early = set(_read_before_written(body, frozenset()))
    properties: dict[str, Json] = {}
    for name, declared in document.schema.items():
        if name in early:
            schema = {key: value for key, value in declared.items() if key not in _STATE_KEYS}
            if schema.get("type") == ANY:
                del schema["type"]
            properties[name] = schema
    properties |= {name: {} for name in sorted(members - properties.keys())}
    return ({"type": "object", "properties": properties} if properties else None), early


def seeded_fields(schema: Json, state: Mapping[str, Channel]) -> tuple[str, ...]:
    """Return the state fields that begin with a member of an input with this declared schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ()
    return tuple(name for name in state if name in properties)


def _with_state_types(document: ExperienceDocument, schema: Json, state: Mapping[str, Channel]) -> Json:
    """Return the schema of the input in which each member has the type of the state field that it begins."""
    fields = seeded_fields(schema, state)
    if not isinstance(schema, dict) or not fields:
        return schema
    properties = dict(schema["properties"])
    for name in fields:
        member, takes = properties[name], accepted_by(state[name])
        kinds = Sub(schema, member).kinds()
        if takes is None or not kinds & ~takes.kinds():
            continue
        if kinds == ALL:  # it declares no type of its own
            properties[name] = {**(member if isinstance(member, dict) else {}), **of_kinds(takes.kinds())}
            continue
        expected = describe_kinds(takes.kinds() & ~NULL)
        message = f"is {describe_kinds(kinds)}, but sets the state field {name!r}, which takes {expected}"
        add_problem(document.problems, f"inputSchema.properties.{name}", message)
    return {**schema, "properties": properties}


def _read_before_written(body: Graph, outer_writes: AbstractSet[str]) -> Iterator[str]:
    """Yield the fields that nodes read although no node before them, nor any outside (`outer_writes`), writes them."""
    reads = {node.id: _all_reads(node) for node in body.nodes}
    known = _known_before(body, reads)
    for node in body.nodes:
        available = known.get(node.id, frozenset()) | (reads[node.id] & outer_writes)
        for inner in bodies(node):
            yield from _read_before_written(inner, available)
        yield from _own_reads(node) - available


def _own_reads(node: Node) -> set[str]:
    """Return the fields that a node reads outside of the regions in it."""
    reads = set(node.meta.reads)
    for _, part in node_parts(node):
        if not isinstance(part, Graph):
            reads.update(str(ref.path[0]) for ref in refs(part) if ref.root == "state" and ref.path)
    return reads


def _all_reads(node: Node) -> set[str]:
    """Return the fields that a node and the regions in it read."""
    return _own_reads(node).union(*(_all_reads(inner) for body in bodies(node) for inner in body.nodes))


def _known_before(body: Graph, reads: Mapping[str, AbstractSet[str]]) -> dict[str, set[str]]:
    """Return, for each node, which of the fields that it reads the nodes before it in its region write."""

    # Fields are bits of an integer, since the sets of a long chain of writers would grow with its square. A node in a
    # cycle, which is a problem by itself, is missing.
    writes = {node.id: _writes_of(node) for node in body.nodes}
    both = set[str]().union(*reads.values()) & set[str]().union(*writes.values())
    bits = {name: 1 << i for i, name in enumerate(both)}

    # Walk the nodes in topological order and hand the mask of written fields on to the successors.
    successors: dict[str, list[str]] = {}
    for id, needs in body.needs.items():
        for needed in needs:
            successors.setdefault(needed, []).append(id)
    waits = {id: sum(needed in writes for needed in body.needs.get(id, ())) for id in writes}
    masks = dict.fromkeys((id for id, count in waits.items() if not count), 0)
    ready = list(masks)
    known: dict[str, set[str]] = {}
    while ready:
        id = ready.pop()
        mask = masks.pop(id)
        known[id] = {name for name in reads[id] if mask & bits.get(name, 0)}
        for name in writes[id]:
            mask |= bits.get(name, 0)
        for successor in successors.get(id, ()):
            masks[successor] = masks.get(successor, 0) | mask
            waits[successor] -= 1
            if not waits[successor]:
                ready.append(successor)
    return known


def _writes_of(node: Node) -> frozenset[str]:
    """Return the fields that a node and the regions in it write."""
    return frozenset(node.meta.writes).union(*(_writes_of(inner) for body in bodies(node) for inner in body.nodes))


def _all_refs(body: Graph) -> Iterator[Ref]:
    for node in body.nodes:
        for _, part in node_parts(node):
            yield from _all_refs(part) if isinstance(part, Graph) else refs(part)
    if body.result is not None:
        yield from refs(body.result)
