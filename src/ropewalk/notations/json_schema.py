"""JSON Schemas of the notations' documents, for editors.

Some are files in this folder. The others are generated from the tables of fields that the readers use, so that both
always agree. A schema cannot express the meaning of references and ids; only the reader checks those.

To add a notation, write `KIND.schema.json` in this folder, or add a function to `_GENERATED`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import orjson

from ..values import Json
from . import composite, runchain
from . import composite as composite_steps
from . import fields as f
from .budget import check_budget
from .chain import read as chain
from .composition import read as composition
from .fields import Checker, OneOf, camel, snake
from .node_fields import (
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
from .undo import check_undo

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
_MS: Final = {"type": ["number", "null"], "minimum": 0}
_COUNT: Final = {"type": ["integer", "null"], "minimum": 1}
_ON_ERROR: Final[dict[str, Any]] = {
    "anyOf": [
        *_words(POLICIES),
        {
            "type": "object",
            "properties": {
                "policy": {"anyOf": _words(POLICIES)},
                "attempts": _COUNT,
                "backoff": {"anyOf": [*_words(("linear", "exponential")), {"type": "null"}]},
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
    f.count: {"type": "integer", "minimum": 0},
    f.positive: {"type": "integer", "minimum": 1},
    check_budget: {
        "type": "object",
        "properties": {
            "calls": {"type": "integer", "minimum": 0},
            "tokens": {"type": "integer", "minimum": 0},
            "seconds": {"type": "number", "exclusiveMinimum": 0},
            "cost": {"type": "number", "minimum": 0},
        },
        "additionalProperties": False,
    },
    check_undo: {
        "anyOf": [
            {**_TEXT, "minLength": 1},
            {
                "type": "object",
                "properties": {"tool": {**_TEXT, "minLength": 1}, "args": {"type": "object"}},
                "required": ["tool"],
                "additionalProperties": False,
            },
        ]
    },
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
    node = _node(table.fields, own_schemas, table.needs, table.only_for, table.others)
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


_NODE: Final = {"$ref": "#/$defs/node"}
_NODES: Final = {"anyOf": [{"type": "array", "items": _NODE}, _NODE]}
_GENERATED: Final[Mapping[str, Callable[[], dict[str, Json]]]] = {
    "chain": _chain, "composite": _composite, "composition": _composition,
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
    for key, checker in fields.items():
        schema = own_schemas[key] if key in own_schemas else _checker_schema(checker)
        if key == "kind" and kind is not None:
            schema = {"const": kind}
        for name in dict.fromkeys((key, camel(key), snake(key))):
            properties[name] = schema if not schema or key in needed else {"anyOf": [schema, {"type": "null"}]}
    properties |= {
        name: properties[key]
        for other, key in others.items()
        for name in (other, camel(other), snake(other))
        if key in properties and name not in properties
    }
    return {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}


def _node(
    fields: Mapping[str, Checker],
    own_schemas: Mapping[str, Json],
    needed: Mapping[str, tuple[str, ...]],
    only_for: Mapping[str, tuple[str, ...]],
    others: Mapping[str, str],
) -> dict[str, Json]:
    """Return the schema of a node."""
    types = fields["type"]
    assert isinstance(types, OneOf)
    rules: list[Json] = []
    # One rule per type: its forbidden fields are null, and one of its needed fields is set.
    for word in types.words:
        forbidden = [key for key, kinds in only_for.items() if word not in kinds]
        then: dict[str, Json] = {"properties": {k: {"type": "null"} for key in forbidden for k in {key, snake(key)}}}
        bodies = NODE_TYPES[word].bodies if word in NODE_TYPES else ()
        then["properties"] |= {key: {"anyOf": [_NODES, {"type": "null"}]} for key in bodies}
        keys = needed.get(word, ())
        keys = (*keys, *(other for other, key in others.items() if key in keys))
        spelled = dict.fromkeys(name for key in keys for name in (key, camel(key), snake(key)))
        alternatives = [{"required": [key], "properties": {key: _NOT_NULL}} for key in spelled]
        if alternatives:
            then["allOf"] = alternatives if len(alternatives) == 1 else [{"anyOf": alternatives}]
        rules.append({"if": {"properties": {"type": _word_schema(word)}, "required": ["type"]}, "then": then})
    return {**_object(fields, own_schemas, None, ("id", "type"), others), "allOf": rules}


_NOT_NULL: Final = {"not": {"type": "null"}}


def _checker_schema(checker: Checker) -> dict[str, Json]:
    if isinstance(checker, OneOf):
        return {"anyOf": _words(checker.words)}
    return _CHECKER_SCHEMAS[checker]
