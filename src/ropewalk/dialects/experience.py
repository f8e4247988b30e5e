"""Experience graphs: a directory with `experience.yaml`, a declared state, nodes and edges between them.

`read` turns the document into an ExperienceDocument with every problem of its own; `experience_flow`
makes the graph. Nodes are read in `experience_nodes`. Refused here: what is no field of the document,
whatever is misspelt, and looking at files: the app does that, which knows the directory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from ..errors import InvalidFlow, Problem
from ..errors.collected import Problems, Warnings
from ..frozen import dataclass
from ..state import REDUCERS, has_type, json_type
from ..values import Json
from . import fields as f
from .experience_nodes import SCOPES, ExperienceNode, identifier, list_of, node_of
from .fields import Checker, Report, join, known_keys, object_of, say
from .nodes import is_schema

CONCURRENCY: Final = 4
MAX_ITERS: Final = 100
TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
ANY: Final = "any"
"""The type of a state field that takes every value."""


def version(value: Json, path: str, report: Report) -> Json:
    """`N.N.N`, as text."""
    if not isinstance(value, str):
        say(report, path, f"must be text such as 0.1.0, not {f.kind(value)}; put it in quotes")
    elif not re.fullmatch(r"\d+\.\d+\.\d+", value, re.ASCII):
        say(report, path, f"must be three numbers such as 0.1.0, not {value!r}")
    return value


DOCUMENT: Final[dict[str, Checker]] = {
    "name": f.name,
    "version": version,
    "description": f.text,
    "phases": f.anything,
    "runtime": f.anything,
    "state": f.anything,
    "graph": f.anything,
    "inputSchema": f.mapping,
    "state_scope": f.one_of(SCOPES),
    "files": f.mapping,
    "kind": f.text,
}
RUNTIME: Final[dict[str, Checker]] = {"concurrency": f.positive, "env": f.names}
STATE: Final[dict[str, Checker]] = {"schema": f.mapping, "store": f.name}
FIELD: Final[dict[str, Checker]] = {
    "type": f.one_of((*TYPES, ANY)),
    "merge": f.one_of(tuple(REDUCERS)),
    "default": f.anything,
    "description": f.text,
}
KEYWORDS: Final = frozenset((
    "$ref", "$defs", "$comment", "title", "examples", "deprecated", "readOnly", "writeOnly", "format", "enum",
    "const", "items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
    "additionalItems", "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
    "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "minLength",
    "maxLength", "pattern", "contentEncoding", "contentMediaType", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "unevaluatedItems",
    "unevaluatedProperties"
))  # fmt: skip
"""The keywords of JSON Schema that a state field may have besides `type`, `default` and `description`."""
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
        return str(self.fields.get("id", ""))


@dataclass(frozen=True, slots=True)
class ExperienceDocument:
    """An experience as read; `problems` is empty when it is sound so far.

    `schema` has what is declared of each state field, its JSON Schema keywords included.
    """

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
        return str(self.fields.get("name", ""))

    @property
    def members(self) -> list[ExperienceNode | Part]:
        """Everything that has an id, in the order of the document's lists."""
        return [*self.nodes, *self.loops, *self.pipelines]

    @property
    def concurrency(self) -> int:
        return int(self.fields.get("runtime", {}).get("concurrency", CONCURRENCY))

    @property
    def files(self) -> dict[str, str]:
        """The texts of the files that nodes name as prompts, skills and schemas, by path."""
        found = self.fields.get("files") or {}
        return {path: text for path, text in found.items() if isinstance(text, str)}

    @property
    def env(self) -> tuple[str, ...]:
        return tuple(self.fields.get("runtime", {}).get("env", ()))


def read(config: Mapping[str, Json]) -> ExperienceDocument:
    """Read a document; every problem is collected, none is raised but that it is no object."""
    report: Report = Problems()
    if not isinstance(config, Mapping):
        raise InvalidFlow([Problem(path="", message=f"an experience is an object, not {f.kind(config)}")])
    given = object_of(f.own(config, "", report), DOCUMENT, "", report, required=("name", "version", "state", "graph"))
    given.pop("kind", None)
    if "runtime" in given:
        given["runtime"] = object_of(given["runtime"], RUNTIME, "runtime", report)
        _env_names(given["runtime"].get("env", ()), report)
    document = ExperienceDocument(given, _schema(given, report), problems=report)
    if "inputSchema" in given and not is_schema(given["inputSchema"], "inputSchema", report):
        del given["inputSchema"]
    if isinstance(given.get("state"), Mapping) and given["state"].get("store") is not None:
        message = "is not used: the state of a run is in the store of the run; --keep-state carries it over"
        say(document.warnings, "state.store", message)
    _phases(document)
    if "graph" in given:
        _graph(document)
    return document


def _env_names(names: Json, report: Report) -> None:
    for i, name in enumerate(names):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            say(report, f"runtime.env[{i}]", f"{name!r} cannot be the name of an environment variable")


def _schema(given: dict[str, Json], report: Report) -> dict[str, dict[str, Json]]:
    if "state" not in given:
        return {}
    state = object_of(given["state"], STATE, "state", report, required=("schema",))
    found: dict[str, dict[str, Json]] = {}
    for name, value in state.get("schema", {}).items():
        path = f"state.schema.{name}"
        if not name:
            say(report, path, "a state field needs a name")
        declared = _field(value, path, report)
        found[name] = declared
        _fits(declared, path, report)
    return found


def _field(value: Json, path: str, report: Report) -> dict[str, Json]:
    """One field of the state: how it is written, and any other keyword of JSON Schema."""
    if not isinstance(value, Mapping):
        return object_of(value, FIELD, path, report)
    keywords = {key: inner for key, inner in value.items() if key in KEYWORDS or key.startswith("x-")}
    rest = {key: inner for key, inner in value.items() if key not in keywords}
    declared = object_of(rest, {**FIELD, **dict.fromkeys(KEYWORDS, f.anything)}, path, report, nulls=("default",))
    if "type" not in declared and not keywords:
        say(report, join(path, "type"), "required")
    checked = {key: inner for key, inner in keywords.items() if key != "$ref"}  # a file that nobody reads
    if checked and not is_schema(checked, path, report):
        return declared
    return {**declared, **checked}


def _fits(declared: dict[str, Json], path: str, report: Report) -> None:
    """Whether type, merge and default of a state field go together."""
    type, merge = declared.get("type"), declared.get("merge")
    takes = REDUCERS[merge].takes if merge in REDUCERS else None
    if takes is not None and type in TYPES and type != takes:
        say(report, join(path, "merge"), f"{merge} takes {takes} updates; the field is declared as type {type}")
    default = declared.get("default")
    if default is not None and type in TYPES and not has_type(default, str(type)):
        say(report, join(path, "default"), f"is {json_type(default)}; the field is declared as type {type}")
        del declared["default"]


def _phases(document: ExperienceDocument) -> None:
    report = document.problems
    seen: dict[str, str] = {}
    for path, value in list_of(document.fields.get("phases"), "phases", report):
        phase = object_of(value, PHASE, path, report, required=("id",))
        first = seen.setdefault(str(phase.get("id")), path)
        if first != path and "id" in phase:
            say(report, join(path, "id"), f"the phase {phase['id']!r} is already declared, by {first}")


def _graph(document: ExperienceDocument) -> None:
    report = document.problems
    graph = object_of(document.fields["graph"], GRAPH, "graph", report, required=("nodes",))
    for path, value in list_of(graph.get("nodes"), "graph.nodes", report):
        document.nodes.append(node_of(value, path, report))
    if "nodes" in graph and graph["nodes"] == []:
        say(report, "graph.nodes", "must be a non-empty list of nodes")
    for path, value in list_of(graph.get("edges"), "graph.edges", report):
        document.edges.append(Part(path, object_of(value, EDGE, path, report, required=("from", "to"))))
    for path, value in list_of(graph.get("loops"), "graph.loops", report):
        loop = object_of(value, LOOP, path, report, required=("id", "body"))
        if "budget" in loop:
            say(document.warnings, join(path, "budget"), "is not enforced; max_iters bounds a loop")
        document.loops.append(Part(path, loop))
    for path, value in list_of(graph.get("pipelines"), "graph.pipelines", report):
        fields = object_of(value, PIPELINE, path, report, required=("id", "items", "stages"))
        document.pipelines.append(Part(path, fields, _stages(document, fields, join(path, "stages"))))


def _stages(document: ExperienceDocument, fields: dict[str, Json], path: str) -> tuple[str, ...]:
    """The ids of a pipeline's stages; nodes that are written there join those of the graph."""
    found = []
    for place, value in list_of(fields.get("stages"), path, document.problems):
        if isinstance(value, str):
            found.append(value)
        else:
            node = node_of(value, place, document.problems, what="a node or the id of one")
            document.nodes.append(node)
            found.append(node.id)
    return tuple(found)


__all__ = ["CONCURRENCY", "MAX_ITERS", "ExperienceDocument", "ExperienceNode", "Part", "known_keys", "read"]
