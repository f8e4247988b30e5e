"""The JSON Schema of a notation's documents, for editors: of some a file here, of the others made from the tables of
fields that their readers go by, so that both say the same.

To add a notation, write a `KIND.schema.json` beside this file, or a line in _MADE. What only the reader knows (what
references mean, which ids there are) is not said here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

import orjson

from ..values import Json
from . import chain, composite, composite_steps, composition, runchain_document
from . import fields as f
from .fields import Checker, OneOf, camel, snake

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string"}
_OF: Final[dict[Checker, dict[str, Json]]] = {
    f.anything: {},
    f.text: _TEXT,
    f.name: {**_TEXT, "pattern": "\\S"},
    f.variable: {**_TEXT, "pattern": r"^[^$.\[\]{}]*[^\s$.\[\]{}][^$.\[\]{}]*$"},
    f.condition: {"anyOf": [{**_TEXT, "pattern": "\\S"}, {"type": "boolean"}]},
    f.truth: {"type": "boolean"},
    f.mapping: {"type": "object"},
    f.names: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    f.number: {"type": "number", "minimum": 0},
    f.count: {"type": "integer", "minimum": 0},
    f.positive: {"type": "integer", "minimum": 1},
}
"""What each checker of a field takes."""


def schema_of(kind: str) -> dict[str, Any]:
    """The JSON Schema of the documents of one kind."""
    made = _MADE.get(kind)
    if made is not None:
        return {"$schema": _DRAFT, "title": f"Ropewalk {kind}", **made()}
    found = files(__package__).joinpath(f"{kind}.schema.json").read_bytes()
    return orjson.loads(found)  # type: ignore[no-any-return]


def _chain() -> dict[str, Json]:
    lists = dict.fromkeys(chain.BODIES, _NODES)
    needed = {**{kind: (key,) for kind, key in chain.NEEDED.items()}, "transform": ("transform", "input")}
    node = _node(chain.NODE_FIELDS, lists, needed, chain.ONLY_FOR)
    top = {"nodes": {"type": "array", "items": _NODE, "minItems": 1}}
    return {**_object(chain.CHAIN_FIELDS, top, "chain", ("nodes",)), "$defs": {"node": node}}


def _composition() -> dict[str, Json]:
    arm = _object({"condition": f.condition, "nodes": f.anything}, {"nodes": _NODES}, None, ("condition", "nodes"))
    own = {"branches": {"type": "array", "items": arm, "minItems": 1}, "sources": {"type": "array", "minItems": 1}}
    needed = {kind: (key,) for kind, key in composition.NEEDED.items()}
    node = _node(composition.NODE_FIELDS, own, needed, composition.ONLY_FOR)
    top = {"nodes": {"type": "array", "items": _NODE, "minItems": 1}}
    return {**_object(composition.FIELDS, top, "composition", ("nodes",)), "$defs": {"node": node}}


def _composite() -> dict[str, Json]:
    mapping = {"type": ["object", "string"]}
    step = _object(composite_steps.FIELDS, {"tool": _OF[f.name], "inputMapping": mapping}, None, ("tool",))
    made = _object(composite.FIELDS, {"steps": {"type": "array", "items": step}}, "composite", ("name", "steps"))
    some: Json = {"properties": {"steps": {"minItems": 1}}}
    return {**made, "anyOf": [some, {"required": ["kind"], "properties": {"kind": {"const": "composite"}}}]}


def _runchain() -> dict[str, Json]:
    step = _object(runchain_document.STEP_FIELDS, {"toolId": _OF[f.name]}, None, ("toolId",))
    return _object(runchain_document.FIELDS, {"steps": {"type": "array", "items": step}}, "runchain", ("steps",))


_NODE: Final = {"$ref": "#/$defs/node"}
_NODES: Final = {"anyOf": [{"type": "array", "items": _NODE}, _NODE]}
_MADE: Final[Mapping[str, Callable[[], dict[str, Json]]]] = {
    "chain": _chain, "composite": _composite, "composition": _composition,
    "runchain": _runchain,
}  # fmt: skip


def _object(
    fields: Mapping[str, Checker], own: Mapping[str, Json], kind: str | None, needed: tuple[str, ...]
) -> dict[str, Json]:
    """A closed object with these fields in either spelling; null counts as absent where it is not `needed`. `own` are
    fields of which more is known than their checker says."""
    properties: dict[str, Json] = {}
    for key, checker in fields.items():
        takes = own.get(key, _takes(checker))
        if key == "kind" and kind is not None:
            takes = {"const": kind}
        for name in dict.fromkeys((key, camel(key), snake(key))):
            properties[name] = takes if not takes or key in needed else {"anyOf": [takes, {"type": "null"}]}
    return {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}


def _node(
    fields: Mapping[str, Checker],
    own: Mapping[str, Json],
    needed: Mapping[str, tuple[str, ...]],
    only_for: Mapping[str, tuple[str, ...]],
) -> dict[str, Json]:
    """A node: `needed` are the fields of which its type needs one, `only_for` the types that a field is for."""
    types = fields["type"]
    assert isinstance(types, OneOf)
    rules: list[Json] = []
    for word in types.words:
        none = [key for key, kinds in only_for.items() if word not in kinds]
        then: dict[str, Json] = {"properties": {k: {"type": "null"} for key in none for k in {key, snake(key)}}}
        one = [{"required": [key], "properties": {key: _GIVEN}} for key in needed.get(word, ())]
        if one:
            then["allOf"] = one if len(one) == 1 else [{"anyOf": one}]
        rules.append({"if": {"properties": {"type": _word(word)}, "required": ["type"]}, "then": then})
    return {**_object(fields, own, None, ("id", "type")), "allOf": rules}


_GIVEN: Final = {"not": {"type": "null"}}


def _takes(checker: Checker) -> dict[str, Json]:
    if isinstance(checker, OneOf):
        any_case = "|".join(str(_word(word)["pattern"])[1:-1] for word in checker.words)
        return {"anyOf": [{"enum": list(checker.words)}, {**_TEXT, "pattern": f"^({any_case})$"}]}
    return _OF[checker]


def _word(word: str) -> dict[str, Json]:
    """A word in any letter case, as its reader takes it."""
    letters = ("[-_]" if c == "_" else f"[{c}{c.upper()}]" if c.isalpha() else c for c in word)
    return {**_TEXT, "pattern": f"^\\s*{''.join(letters)}\\s*$"}
