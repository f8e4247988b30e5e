"""JSON Schemas of the notations' documents, for editors.

They are generated from the tables of fields that the readers use, so that both always agree. A schema cannot express
the meaning of references and ids; only the reader checks those.

Editors complete what is in `properties`. So these have each key once, with its description. Other spellings of keys,
and what one type of node requires or refuses, are in `patternProperties`, which editors check and do not offer.

To add a notation, add a function to `_GENERATED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final

from ..duration import PATTERN
from ..state import REDUCERS
from ..values import Json
from . import agent, composite, runchain
from . import fields as f
from .budget import check_budget
from .chain import read as chain
from .composition import read as composition
from .descriptions import describe
from .experience import nodes
from .experience import read as experience
from .fields import Checker, OneOf, camel, snake
from .node_fields import (
    BACKOFFS,
    NODE_FIELDS,
    POLICIES,
    check_for_each,
    check_jump,
    check_on_error,
    check_strict,
    check_variable,
    check_wait,
    spellings,
)
from .node_types import NODE_TYPES, WORDS, node_table
from .plan import read as plan
from .undo import check_undo, check_undos

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string"}
_NOT_NULL: Final = {"not": {"type": "null"}}
_TOOL: Final = {"$ref": "#/$defs/tool"}
_TOOLS: Final = {"anyOf": [_TOOL, {"type": "array", "items": _TOOL}]}


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
_ABSENT: Final = {"not": _NOT_NULL}
"""The schema of null as the value of a key that is as good as absent; editors offer no value of it."""
DURATION: Final = {"type": ["number", "string"], "minimum": 0, "pattern": PATTERN}
_MS: Final = {**DURATION, "type": ["number", "string", "null"]}
_COUNT: Final = {"type": ["integer", "null"], "minimum": 1}


def _closed(scope: str, properties: Mapping[str, Json], others: Mapping[str, Json] | None = None) -> dict[str, Any]:
    """Return the schema of an object with described keys; `others` are keys that are accepted and not offered."""
    described = {key: {"description": describe(key, scope), **_fields(schema)} for key, schema in properties.items()}
    patterns = {f"^{key}$": schema for key, schema in (others or {}).items()}
    more = {"patternProperties": patterns} if patterns else {}
    return {"type": "object", "properties": described, **more, "additionalProperties": False}


def _fields(schema: Json) -> dict[str, Json]:
    return schema if isinstance(schema, dict) else {}


_POLICY: Final = {
    **_closed(
        "on_error",
        {
            "policy": {"anyOf": _words(POLICIES)},
            "attempts": _COUNT,
            "backoff": {"anyOf": [*_words(BACKOFFS), {"type": "null"}]},
            "delay": _MS,
            "value": {},
        },
        {"base_ms": _MS, "baseMs": _MS},
    ),
    "required": ["policy"],
}
_ON_ERROR: Final[dict[str, Any]] = {"anyOf": [*_words(POLICIES), _POLICY]}
_FOR_EACH: Final = {
    **_closed("for_each", {"items": {}, "concurrency": _COUNT}, {"source": {}}),
    "oneOf": [{"required": ["items"]}, {"required": ["source"]}],
}
_WAIT: Final = {
    **_closed("wait", {"event": _TEXT, "approval": _TEXT, "timeout": _MS}),
    "oneOf": [{"required": ["event"]}, {"required": ["approval"]}],
}
_NAME: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
_UNDO: Final[dict[str, Json]] = {
    "anyOf": [_TOOL, {**_closed("undo", {"tool": _TOOL, "args": {"type": "object"}}), "required": ["tool"]}]
}
_CHECKER_SCHEMAS: Final[dict[Checker, dict[str, Json]]] = {
    f.anything: {},
    f.text: _TEXT,
    f.name: {**_TEXT, "pattern": "\\S"},
    check_variable: {"anyOf": [_VARIABLE, {"type": "array", "items": _VARIABLE, "minItems": 1, "maxItems": 1}]},
    check_on_error: _ON_ERROR,
    check_jump: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}, _POLICY]},
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
    check_budget: _closed(
        "budget",
        {
            "calls": {"type": ["integer", "null"], "minimum": 0},
            "tokens": {"type": ["integer", "null"], "minimum": 0},
            "seconds": {"type": ["number", "string", "null"], "exclusiveMinimum": 0, "pattern": PATTERN},
            "cost": {"type": ["number", "null"], "minimum": 0},
        },
    ),
    agent.check_content: {"type": ["string", "array"]},
    agent.check_messages: {"anyOf": [{"type": "array"}, {**_TEXT, "pattern": "^\\$"}]},
    agent.check_flag_or_names: {"anyOf": [{"type": "boolean"}, *_TOOLS["anyOf"]]},
    agent.check_cache: {"anyOf": [{"type": "boolean"}, _closed("cache", {"ttl": DURATION})]},
    agent.check_choice: {"type": "object"},
    agent.check_positive_number: {"type": "number", "exclusiveMinimum": 0},
    check_undos: {"type": "object", "additionalProperties": _UNDO},
    check_undo: _UNDO,
}
"""The schema of the values that each checker accepts."""


def schema_of(kind: str, tools: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON Schema of the documents of one kind; editors complete ids of tools, given with descriptions."""
    schema = _GENERATED[kind]()
    tool: dict[str, Any] = {**_TEXT, "pattern": "\\S"}
    if tools:
        known: Json = {"enum": list(tools), "enumDescriptions": list(tools.values())}
        tool = {"anyOf": [known, tool]}
    definitions = {**schema.get("$defs", {}), "tool": tool}
    return {"$schema": _DRAFT, "title": f"Ropewalk {kind}", **schema, "$defs": definitions}


def _chain() -> dict[str, Any]:
    return _with_nodes("chain", chain.CHAIN_FIELDS)


def _composition() -> dict[str, Any]:
    return _with_nodes("composition", composition.FIELDS)


def _with_nodes(kind: str, fields: Mapping[str, Checker]) -> dict[str, Any]:
    """Return the schema of a document with typed nodes."""
    arm = _object("branch", {"condition": f.condition, "nodes": f.anything}, {"nodes": _NODES}, ("condition", "nodes"))
    own_schemas = {
        "branches": {"type": "array", "items": arm, "minItems": 1},
        "sources": {"type": "array", "minItems": 1},
        "nodes": _NODES,
        "tool": _TOOL,
    }
    table = node_table(kind)
    node = _node(kind, table.fields, own_schemas, table.needs, table.only_for, table.others, others_of=table.others_of)
    top = {"kind": {"const": kind}, "nodes": {"type": "array", "items": _NODE, "minItems": 1}}
    return {**_object(kind, fields, top, ("nodes",)), "$defs": {"node": node}}


def _composite() -> dict[str, Any]:
    mapping = {"type": ["object", "string"]}
    others = spellings("composite")
    step = _object("composite step", composite.STEP_FIELDS, {"tool": _TOOL, "inputMapping": mapping}, (), others)
    waits = [_set(key, {"const": "wait"}) for key in ("kind", "type")]
    step["anyOf"] = [_set("tool"), *waits]
    steps: Json = {"type": "array", "items": step}
    schema = _object("composite", composite.FIELDS, {"kind": {"const": "composite"}, "steps": steps}, ("name", "steps"))
    has_steps: Json = {"patternProperties": {"^steps$": {"minItems": 1}}}
    return {**schema, "anyOf": [has_steps, _set("kind", {"const": "composite"})]}


def _runchain() -> dict[str, Any]:
    step = _object("runchain step", runchain.STEP_FIELDS, {"toolId": _TOOL}, ("toolId",))
    own_schemas: dict[str, Json] = {"kind": {"const": "runchain"}, "steps": {"type": "array", "items": step}}
    return _object("runchain", runchain.FIELDS, own_schemas, ("steps",))


def _plan() -> dict[str, Any]:
    own_schemas: dict[str, Json] = {
        "kind": {"const": "plan"},
        "code": _TEXT,
        "parallel": _checker_schema(f.one_of(plan.PARALLEL)),
        "tools": {"type": "object", "additionalProperties": {"type": "object"}},
    }
    return _object("plan", plan.FIELDS, own_schemas, ("code",))


def _agent() -> dict[str, Any]:
    own_schemas: dict[str, Json] = {
        "kind": {"const": "agent"},
        "tools": _TOOLS,
        "output_schema": {"type": ["object", "boolean"]},
    }
    schema = _object("agent", agent.FIELDS, own_schemas, ())
    return {**schema, "oneOf": [_set("prompt"), _set("messages")]}


def _experience() -> dict[str, Any]:
    others = spellings("experience")
    own_schemas = {"source": {"$ref": "#/$defs/source"}, "tool": _TOOL, "tools": _TOOLS}
    fields = {key: checker for key, checker in nodes.NODE.items() if key not in nodes.OTHERS}
    only_for = {key: kinds for key, kinds in nodes.ONLY_FOR.items() if key in fields}
    node = _node("experience", fields, own_schemas, {}, only_for, {**others, **nodes.OTHERS}, key="kind")
    for kind, rule in zip(nodes.KINDS, node["allOf"], strict=False):
        _add_needs_and_writes(rule["then"], kind)
    pipeline = {"stages": {**_list({"anyOf": [_TEXT, _NODE]}), "minItems": 1}}
    lists = {name: _list(schema) for name, schema in (
        ("nodes", _NODE),
        ("edges", _object("edge", experience.EDGE, {}, ("from", "to"))),
        ("loops", _object("loop", experience.LOOP, {"body": _SOME_NAMES}, ("id", "body"))),
        ("pipelines", _object("pipeline", experience.PIPELINE, pipeline, ("id", "items", "stages"))),
    )}  # fmt: skip
    lists["nodes"]["minItems"] = 1
    state: Json = {"schema": {"type": "object", "additionalProperties": {"$ref": "#/$defs/field"}}}
    variables: Json = {**_TEXT, "pattern": _NAME}
    env: Json = {"anyOf": [variables, {"type": "array", "items": variables}]}
    top = {
        "kind": {"const": "experience"},
        "phases": _list(_object("phase", experience.PHASE, {}, ("id",))),
        "runtime": _object("runtime", experience.RUNTIME, {"env": env}, ()),
        "state": _object("state", experience.STATE, state, ("schema",)),
        "graph": _object("graph", experience.GRAPH, lists, ("nodes",)),
    }
    schema = _object("experience", experience.DOCUMENT, top, ("name", "version", "state", "graph"))
    return {**schema, "$defs": {"node": node, "field": _state_field(), "source": {"oneOf": list(_sources())}}}


def _add_needs_and_writes(then: dict[str, Any], kind: str) -> None:
    """Add to the rule of a kind what its nodes need, and how many fields of the state they write."""
    then["required"] = list(nodes.NEEDED.get(kind, ()))
    for key in then["required"]:
        if key != "value":
            then["patternProperties"][f"^{key}$"] = _NOT_NULL
    if kind == "wait":
        then["oneOf"] = [{"required": [a], "patternProperties": {f"^{a}$": _TEXT, f"^{b}$": _NULL}}
                         for a, b in (("event", "approval"), ("approval", "event"))]  # fmt: skip
    least, most = nodes.WRITES.get(kind, (0, 1 if kind in nodes.MODELS else None))
    names = list(_spelled("writes", spellings("experience")))
    if least:
        then["anyOf"] = [_set(name) for name in names]
    if most is None:
        return
    one: Json = {
        "anyOf": [
            {"type": ["string", "null"] if most else "null"},
            {"type": "array", "minItems": least, "maxItems": most},
        ]
    }
    limited: Json = {"patternProperties": {_pattern(names): one}}
    several: dict[str, tuple[tuple[str, Json], ...]] = {"experience": (("state_scope", {"const": "shared"}),)}
    for model in nodes.MODELS:
        several[model] = (("output_schema", _NOT_NULL), ("schema", _NOT_NULL), ("output_format", {"const": "json"}))
    more = [_set(name, value) for key, value in several.get(kind, ()) for name in dict.fromkeys((key, camel(key)))]
    then.setdefault("allOf", []).append({"anyOf": [limited, *more]})


def _state_field() -> dict[str, Any]:
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
        alternatives.append({**_closed("field", properties), "patternProperties": keywords, **rest})
    return {"oneOf": alternatives}


def _sources() -> Iterator[dict[str, Json]]:
    """Yield the schema of each form of the source of a dataset."""
    for kind, keys in nodes.SOURCES.items():
        more = {key: nodes.SOURCE[key] for key in keys}
        needed = (nodes.NEEDS[kind],) if kind in nodes.NEEDS else ()
        yield _object("source", {kind: f.name, **more}, {}, (kind, *needed))
        for place in ("uri", "url"):
            typed: Json = {"const": kind}
            yield _object("source", {"type": f.name, place: f.name, **more}, {"type": typed}, ("type", place, *needed))


def _list(item: Json) -> dict[str, Json]:
    return {"type": "array", "items": item}


_SOME_NAMES: Final = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_NODE: Final = {"$ref": "#/$defs/node"}
_NODES: Final = {"anyOf": [{"type": "array", "items": _NODE}, _NODE]}
_GENERATED: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "agent": _agent, "chain": _chain, "composite": _composite, "composition": _composition,
    "experience": _experience, "plan": _plan, "runchain": _runchain,
}  # fmt: skip


def _object(
    scope: str,
    fields: Mapping[str, Checker],
    own_schemas: Mapping[str, Json],
    needed: tuple[str, ...],
    others: Mapping[str, str] = MappingProxyType({}),
    only_for: Collection[str] = (),
) -> dict[str, Any]:
    """Return the schema of a closed object; `others` are further names of its fields, and `only_for` is not offered."""
    properties: dict[str, Json] = {}
    patterns: dict[str, Json] = {}
    twice: list[Json] = []
    known = {*fields}
    for key in fields:
        schema = _field(key, fields, own_schemas, needed)
        about = _describe(key, scope)
        if key in only_for:
            patterns[_pattern([key])] = {}  # the rule of each type has its schema
        else:
            properties[key] = {**_text("description", about), **schema}
        names = [name for name in _spelled(key, others) if name not in known]
        known.update(names)
        if names:
            patterns[_pattern(names)] = {"description": f"Another name of {key}. {about}".strip(), **schema}
        twice += [{"not": {"required": list(pair)}} for pair in combinations((key, *names), 2)]
    closed: dict[str, Any] = {"type": "object", "properties": properties, "required": list(needed)}
    if patterns:
        closed["patternProperties"] = patterns
    return {**closed, "additionalProperties": False, **({"allOf": twice} if twice else {})}


def _field(
    key: str, fields: Mapping[str, Checker], own_schemas: Mapping[str, Json], needed: Collection[str] = ()
) -> dict[str, Json]:
    """Return the schema of the value of a key."""
    schema = _fields(own_schemas[key]) if key in own_schemas else _checker_schema(fields[key])
    return schema if not schema or key in needed else {"anyOf": [schema, _ABSENT]}


def _text(keyword: str, text: str) -> dict[str, Json]:
    return {keyword: text} if text else {}


def _describe(key: str, scope: str, node_type: str = "") -> str:
    """Return the description of a key; `scope` names the object that has it, or the format of a document or a node."""
    if not scope.endswith((" node", " step")):
        return describe(key, scope, *(("document",) if scope in _GENERATED else ()))
    notation = scope.rpartition(" ")[0]
    known = NODE_TYPES.get(node_type)
    if known is not None and key in known.descriptions:
        return known.descriptions[key]
    # In compositions one word names the arguments and the data.
    meant = [own for own, word in WORDS.get(notation, {}).items() if word == key]
    key = next((own for own in meant if known is None or own in known.fields), key)
    common = {item.word(notation): item.about for item in NODE_FIELDS.values()}
    own = describe(key, f"{notation} {node_type} node", scope) or common.get(key, "")
    return own or ("" if notation == "experience" else describe(key, "node"))


def _pattern(names: Iterable[str]) -> str:
    """Return the pattern of some keys."""
    return f"^({'|'.join(map(re.escape, names))})$"


def _set(key: str, schema: Json = None) -> dict[str, Json]:
    """Return the schema of an object with a key whose value is not null, or has a schema."""
    return {"required": [key], "patternProperties": {f"^{key}$": _NOT_NULL if schema is None else schema}}


def _spelled(key: str, others: Mapping[str, str]) -> dict[str, None]:
    """Return every spelling of a key."""
    words = (key, *(other for other, own in others.items() if own == key))
    return dict.fromkeys(name for word in words for name in (word, camel(word), snake(word)))


def _node(
    notation: str,
    fields: Mapping[str, Checker],
    own_schemas: Mapping[str, Json],
    needed: Mapping[str, tuple[str, ...]],
    only_for: Mapping[str, tuple[str, ...]],
    others: Mapping[str, str],
    key: str = "type",
    others_of: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the schema of a node; `key` names its type."""
    types = fields[key]
    assert isinstance(types, OneOf)
    rules: list[Json] = []
    # One rule per type: its forbidden fields are null, and one of its needed fields is set.
    for word in types.words:
        own = others_of.get(word, others)
        forbidden = [each for each, kinds in only_for.items() if word not in kinds]
        names = [name for each in forbidden for name in _spelled(each, own) if name == each or name not in fields]
        no_key = {**_NULL, "errorMessage": f"nodes of the {key} {word} do not have this key"}
        then: dict[str, Any] = {"properties": {}, "patternProperties": {_pattern(names): no_key}}
        bodies = NODE_TYPES[word].bodies if word in NODE_TYPES else ()
        for each in (each for each, kinds in only_for.items() if word in kinds):
            value = {"anyOf": [_NODES, _ABSENT]} if each in bodies else _field(each, fields, own_schemas)
            then["properties"][each] = {**_text("description", _describe(each, f"{notation} node", word)), **value}
        spelled = dict.fromkeys(name for each in needed.get(word, ()) for name in _spelled(each, own))
        alternatives = [_set(name) for name in spelled]
        if alternatives:
            then["allOf"] = alternatives if len(alternatives) == 1 else [{"anyOf": alternatives}]
        is_of_type = {"required": [key], "patternProperties": {f"^{key}$": _word_schema(word)}}
        rules.append({"if": is_of_type, "then": then})
    schema = _object(f"{notation} node", fields, own_schemas, ("id", key), others, only_for)
    return {**schema, "allOf": [*rules, *schema.get("allOf", ())]}


def _checker_schema(checker: Checker) -> dict[str, Json]:
    if isinstance(checker, OneOf):
        return {"anyOf": _words(checker.words)}
    return _CHECKER_SCHEMAS[checker]
