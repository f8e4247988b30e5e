"""JSON Schemas of the notations' documents, for editors.

They are generated from the tables of fields that the readers use, so that both always agree; that of agents is a file
in this folder. A schema cannot express the meaning of references and ids; only the reader checks those.

To add a notation, add a function to `_GENERATED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

import orjson

from ..duration import PATTERN
from ..state import REDUCERS
from ..values import Json
from . import composite, runchain
from . import composite as composite_steps
from . import fields as f
from .budget import check_budget
from .chain import read as chain
from .composition import read as composition
from .experience import nodes
from .experience import read as experience
from .fields import Checker, OneOf, camel, snake
from .node_fields import (
    BACKOFFS,
    POLICIES,
    check_for_each,
    check_jump,
    check_on_error,
    check_strict,
    check_variable,
    check_wait,
    spellings,
)
from .node_types import NODE_TYPES, node_table
from .plan import read as plan
from .undo import check_undo, check_undos

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string"}


def _word_schema(word: str) -> dict[str, Json]:
    """Return the schema of a word in any letter case, as the reader accepts it."""
    letters = ("[-_]" if c == "_" else f"[{c}{c.upper()}]" if c.isalpha() else c for c in word)
    return {**_TEXT, "pattern": f"^\\s*{''.join(letters)}\\s*$"}


def _words(words: Sequence[str]) -> list[Json]:
    """Return the schemas of some words, of which a value is one."""
    any_case = "|".join(str(_word_schema(word)["pattern"])[1:-1] for word in words)
    return [{"enum": list(words)}, {**_TEXT, "pattern": f"^({any_case})$"}]


_VARIABLE: Final = {**_TEXT, "pattern": r"^[^$.\[\]{}]*[^\s$.\[\]{}][^$.\[\]{}]*$"}
_NULL: Final[dict[str, Json]] = {"type": "null"}
DURATION: Final = {"type": ["number", "string"], "minimum": 0, "pattern": PATTERN}
_MS: Final = {**DURATION, "type": ["number", "string", "null"]}
_COUNT: Final = {"type": ["integer", "null"], "minimum": 1}
_ON_ERROR: Final[dict[str, Any]] = {
    "anyOf": [
        *_words(POLICIES),
        {
            "type": "object",
            "properties": {
                "policy": {"anyOf": _words(POLICIES)},
                "attempts": _COUNT,
                "backoff": {"anyOf": [*_words(BACKOFFS), {"type": "null"}]},
                **dict.fromkeys(("delay", "base_ms", "baseMs"), _MS),
                "value": {},
            },
            "required": ["policy"],
            "additionalProperties": False,
        },
    ]
}
_FOR_EACH: Final = {
    "type": "object",
    "properties": {"items": {}, "source": {}, "concurrency": _COUNT},
    "oneOf": [{"required": ["items"]}, {"required": ["source"]}],
    "additionalProperties": False,
}
_WAIT: Final = {
    "type": "object",
    "properties": {"event": _TEXT, "approval": _TEXT, "timeout": _MS},
    "oneOf": [{"required": ["event"]}, {"required": ["approval"]}],
    "additionalProperties": False,
}
_NAME: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
_UNDO: Final[dict[str, Json]] = {
    "anyOf": [
        {**_TEXT, "minLength": 1},
        {
            "type": "object",
            "properties": {"tool": {**_TEXT, "minLength": 1}, "args": {"type": "object"}},
            "required": ["tool"],
            "additionalProperties": False,
        },
    ]
}
_CHECKER_SCHEMAS: Final[dict[Checker, dict[str, Json]]] = {
    f.anything: {},
    f.text: _TEXT,
    f.name: {**_TEXT, "pattern": "\\S"},
    check_variable: {"anyOf": [_VARIABLE, {"type": "array", "items": _VARIABLE, "minItems": 1, "maxItems": 1}]},
    check_on_error: _ON_ERROR,
    check_jump: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}, _ON_ERROR["anyOf"][-1]]},
    check_for_each: {"anyOf": [_TEXT, {"type": "array"}, _FOR_EACH]},
    check_wait: _WAIT,
    check_strict: {"const": True},
    f.condition: {"anyOf": [{**_TEXT, "pattern": "\\S"}, {"type": "boolean"}]},
    f.truth: {"type": "boolean"},
    f.mapping: {"type": "object"},
    f.names: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    f.number: {"type": "number", "minimum": 0},
    f.milliseconds: DURATION,
    f.milliseconds_or_reference: {},
    f.positive_milliseconds: DURATION,
    f.count: {"type": "integer", "minimum": 0},
    f.positive: {"type": "integer", "minimum": 1},
    nodes.identifier: {**_TEXT, "pattern": _NAME},
    nodes.output: {**_TEXT, "pattern": r"^\$?([A-Za-z0-9_.\-]|\[[^\]]*\])+$"},
    nodes.method: {
        **_TEXT,
        "pattern": f"^({'|'.join(str(_word_schema(word.lower())['pattern'])[1:-1] for word in nodes.METHODS)})$",
    },
    experience.version: {**_TEXT, "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    check_budget: {
        "type": "object",
        "properties": {
            "calls": {"type": "integer", "minimum": 0},
            "tokens": {"type": "integer", "minimum": 0},
            "seconds": {"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": PATTERN},
            "cost": {"type": "number", "minimum": 0},
        },
        "additionalProperties": False,
    },
    check_undos: {"type": "object", "additionalProperties": _UNDO},
    check_undo: _UNDO,
}
"""The schema of the values that each checker accepts."""


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of the documents of one kind."""
    generate = _GENERATED.get(kind)
    if generate is not None:
        return {"$schema": _DRAFT, "title": f"Ropewalk {kind}", **generate()}
    text = files(__package__).joinpath(f"{kind}.schema.json").read_bytes()
    return orjson.loads(text)  # type: ignore[no-any-return]


def _chain() -> dict[str, Json]:
    return _with_nodes("chain", chain.CHAIN_FIELDS)


def _composition() -> dict[str, Json]:
    return _with_nodes("composition", composition.FIELDS)


def _with_nodes(kind: str, fields: Mapping[str, Checker]) -> dict[str, Json]:
    """Return the schema of a document with typed nodes."""
    arm = _object({"condition": f.condition, "nodes": f.anything}, {"nodes": _NODES}, None, ("condition", "nodes"))
    own_schemas = {
        "branches": {"type": "array", "items": arm, "minItems": 1},
        "sources": {"type": "array", "minItems": 1},
        "nodes": _NODES,
    }
    table = node_table(kind)
    node = _node(table.fields, own_schemas, table.needs, table.only_for, table.others, others_of=table.others_of)
    top = {"nodes": {"type": "array", "items": _NODE, "minItems": 1}}
    return {**_object(fields, top, kind, ("nodes",)), "$defs": {"node": node}}


def _composite() -> dict[str, Json]:
    mapping = {"type": ["object", "string"]}
    step = _object(
        composite_steps.STEP_FIELDS,
        {"tool": _CHECKER_SCHEMAS[f.name], "inputMapping": mapping},
        None,
        (),
        spellings("composite"),
    )
    waits = [{"required": [key], "properties": {key: {"const": "wait"}}} for key in ("kind", "type")]
    step["anyOf"] = [{"required": ["tool"], "properties": {"tool": _NOT_NULL}}, *waits]
    schema = _object(composite.FIELDS, {"steps": {"type": "array", "items": step}}, "composite", ("name", "steps"))
    has_steps: Json = {"properties": {"steps": {"minItems": 1}}}
    return {**schema, "anyOf": [has_steps, {"required": ["kind"], "properties": {"kind": {"const": "composite"}}}]}


def _runchain() -> dict[str, Json]:
    step = _object(runchain.STEP_FIELDS, {"toolId": _CHECKER_SCHEMAS[f.name]}, None, ("toolId",))
    return _object(runchain.FIELDS, {"steps": {"type": "array", "items": step}}, "runchain", ("steps",))


def _plan() -> dict[str, Json]:
    parallel = _checker_schema(f.one_of(plan.PARALLEL))
    tools: Json = {"type": "object", "additionalProperties": {"type": "object"}}
    return _object(plan.FIELDS, {"code": _TEXT, "parallel": parallel, "tools": tools}, "plan", ("code",))


def _experience() -> dict[str, Json]:
    node = _node(
        nodes.NODE, {"source": {"$ref": "#/$defs/source"}}, {}, nodes.ONLY_FOR, spellings("experience"), key="kind"
    )
    for kind, rule in zip(nodes.KINDS, node["allOf"], strict=False):
        _add_needs_and_writes(rule["then"], kind)
    lists = {name: _list(schema) for name, schema in (
        ("nodes", _NODE),
        ("edges", _object(experience.EDGE, {}, None, ("from", "to"))),
        ("loops", _object(experience.LOOP, {"body": _SOME_NAMES}, None, ("id", "body"))),
        ("pipelines", _object(
            experience.PIPELINE, {"stages": {**_list({"anyOf": [_TEXT, _NODE]}), "minItems": 1}}, None,
            ("id", "items", "stages"),
        )),
    )}  # fmt: skip
    lists["nodes"]["minItems"] = 1
    fields: Json = {"type": "object", "additionalProperties": {"$ref": "#/$defs/field"}}
    variables: Json = {**_TEXT, "pattern": _NAME}
    top = {
        "phases": _list(_object(experience.PHASE, {}, None, ("id",))),
        "runtime": _object(
            experience.RUNTIME, {"env": {"anyOf": [variables, {"type": "array", "items": variables}]}}, None, ()
        ),
        "state": _object(experience.STATE, {"schema": fields}, None, ("schema",)),
        "graph": _object(experience.GRAPH, lists, None, ("nodes",)),
    }
    schema = _object(experience.DOCUMENT, top, "experience", ("name", "version", "state", "graph"))
    return {**schema, "$defs": {"node": node, "field": _state_field(), "source": {"oneOf": list(_sources())}}}


def _add_needs_and_writes(then: dict[str, Any], kind: str) -> None:
    """Add to the rule of a kind what its nodes need, and how many fields of the state they write."""
    then["required"] = list(nodes.NEEDED.get(kind, ()))
    for key in then["required"]:
        if key != "value":
            then["properties"][key] = _NOT_NULL
    if kind == "wait":
        then["oneOf"] = [{"properties": {a: _TEXT, b: {"type": "null"}}, "required": [a]}
                         for a, b in (("event", "approval"), ("approval", "event"))]  # fmt: skip
    least, most = nodes.WRITES.get(kind, (0, 1 if kind in nodes.MODELS else None))
    names = list(_spelled("writes", spellings("experience")))
    if least:
        then["anyOf"] = [{"required": [name], "properties": {name: _NOT_NULL}} for name in names]
    if most is None:
        return
    one: Json = {
        "anyOf": [
            {"type": ["string", "null"] if most else "null"},
            {"type": "array", "minItems": least, "maxItems": most},
        ]
    }
    limited: Json = {"properties": dict.fromkeys(names, one)}
    several: dict[str, tuple[tuple[str, Json], ...]] = {"experience": (("state_scope", {"const": "shared"}),)}
    for model in nodes.MODELS:
        several[model] = (("output_schema", _NOT_NULL), ("schema", _NOT_NULL), ("output_format", {"const": "json"}))
    more = [{"required": [name], "properties": {name: value}}
            for key, value in several.get(kind, ()) for name in dict.fromkeys((key, camel(key)))]  # fmt: skip
    then.setdefault("allOf", []).append({"anyOf": [limited, *more]})


def _state_field() -> dict[str, Json]:
    """Return the schema of the declaration of a state field, one alternative for each type."""
    keywords: Json = {f"^(x-.*|{'|'.join(map(re.escape, sorted(experience.KEYWORDS)))})$": {}}
    alternatives: list[Json] = []
    for kind in (*experience.TYPES, experience.ANY, None):
        merges = [name for name, reducer in REDUCERS.items() if kind is None or reducer.takes in (None, kind)]
        properties: dict[str, Json] = {"merge": {"enum": [*merges, None]}, "description": {"type": ["string", "null"]}}
        properties["default"] = {"type": list(dict.fromkeys((kind, "null")))} if kind in experience.TYPES else {}
        rest: dict[str, Json] = {"not": {"propertyNames": {"enum": list(properties)}}}  # a keyword at least
        if kind is not None:
            properties, rest = {"type": {"const": kind}, **properties}, {"required": ["type"]}
        alternatives.append({"type": "object", "properties": properties, "patternProperties": keywords,
                             "additionalProperties": False, **rest})  # fmt: skip
    return {"oneOf": alternatives}


def _sources() -> Iterator[dict[str, Json]]:
    """Yield the schema of each form of the source of a dataset."""
    for kind, keys in nodes.SOURCES.items():
        more = {key: nodes.SOURCE[key] for key in keys}
        needed = (nodes.NEEDS[kind],) if kind in nodes.NEEDS else ()
        yield _object({kind: f.name, **more}, {}, None, (kind, *needed))
        for place in ("uri", "url"):
            typed: Json = {"const": kind}
            yield _object({"type": f.name, place: f.name, **more}, {"type": typed}, None, ("type", place, *needed))


def _list(item: Json) -> dict[str, Json]:
    return {"type": "array", "items": item}


_SOME_NAMES: Final = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_NODE: Final = {"$ref": "#/$defs/node"}
_NODES: Final = {"anyOf": [{"type": "array", "items": _NODE}, _NODE]}
_GENERATED: Final[Mapping[str, Callable[[], dict[str, Json]]]] = {
    "chain": _chain, "composite": _composite, "composition": _composition, "experience": _experience,
    "plan": _plan, "runchain": _runchain,
}  # fmt: skip


def _object(
    fields: Mapping[str, Checker],
    own_schemas: Mapping[str, Json],
    kind: str | None,
    needed: tuple[str, ...],
    others: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Json]:
    """Return the schema of a closed object; `others` are further names of its fields."""
    properties: dict[str, Json] = {}
    twice: list[Json] = []
    for key, checker in fields.items():
        schema = own_schemas[key] if key in own_schemas else _checker_schema(checker)
        if key == "kind" and kind is not None:
            schema = {"const": kind}
        names = [name for name in _spelled(key, others) if name == key or name not in fields]
        names = [name for name in names if name not in properties]
        properties |= dict.fromkeys(names, schema if not schema or key in needed else {"anyOf": [schema, _NULL]})
        twice += [{"not": {"required": list(pair)}} for pair in combinations(names, 2)]
    closed = {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}
    return {**closed, "allOf": twice} if twice else closed


def _spelled(key: str, others: Mapping[str, str]) -> dict[str, None]:
    """Return every spelling of a key."""
    words = (key, *(other for other, own in others.items() if own == key))
    return dict.fromkeys(name for word in words for name in (word, camel(word), snake(word)))


def _node(
    fields: Mapping[str, Checker],
    own_schemas: Mapping[str, Json],
    needed: Mapping[str, tuple[str, ...]],
    only_for: Mapping[str, tuple[str, ...]],
    others: Mapping[str, str],
    key: str = "type",
    others_of: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, Json]:
    """Return the schema of a node; `key` names its type."""
    types = fields[key]
    assert isinstance(types, OneOf)
    rules: list[Json] = []
    # One rule per type: its forbidden fields are null, and one of its needed fields is set.
    for word in types.words:
        own = others_of.get(word, others)
        forbidden = [each for each, kinds in only_for.items() if word not in kinds]
        names = (name for each in forbidden for name in _spelled(each, own) if name == each or name not in fields)
        then: dict[str, Any] = {"properties": dict.fromkeys(names, _NULL)}
        bodies = NODE_TYPES[word].bodies if word in NODE_TYPES else ()
        then["properties"] |= {key: {"anyOf": [_NODES, _NULL]} for key in bodies}
        spelled = dict.fromkeys(name for each in needed.get(word, ()) for name in _spelled(each, own))
        alternatives = [{"required": [name], "properties": {name: _NOT_NULL}} for name in spelled]
        if alternatives:
            then["allOf"] = alternatives if len(alternatives) == 1 else [{"anyOf": alternatives}]
        rules.append({"if": {"properties": {key: _word_schema(word)}, "required": [key]}, "then": then})
    schema = _object(fields, own_schemas, None, ("id", key), others)
    return {**schema, "allOf": [*rules, *schema.get("allOf", ())]}


_NOT_NULL: Final = {"not": {"type": "null"}}


def _checker_schema(checker: Checker) -> dict[str, Json]:
    if isinstance(checker, OneOf):
        return {"anyOf": _words(checker.words)}
    return _CHECKER_SCHEMAS[checker]
