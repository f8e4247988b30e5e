"""Tools as a model is told of them: names that are safe and unique, schemas that the Messages API takes.

The API refuses names outside `[A-Za-z0-9_-]` or longer than 64 characters, and input schemas with oneOf, anyOf, allOf
or $ref at their top, and schemas that are not valid draft 2020-12. Names are mapped back when a call comes; schemas are
rewritten so that everything which fits the original fits them, and the original is what a call is checked against. A
tool that the API cannot take is left out, and `Cards.notes` says why.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from ..frozen import dataclass
from ..schema.drafts import modern_schema, refs_in, resolves
from ..tools.tool import Tool, parse_tool_id
from ..values import Json
from .model import ToolDefinition

LONGEST: Final = 64
LONGEST_DESCRIPTION: Final = 20_000
"""Characters of a description that a model gets."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_DEEPEST: Final = 20


@dataclass(frozen=True, slots=True)
class Card:
    """A tool under the name that the model knows it by."""

    name: str
    tool: str
    definition: ToolDefinition
    read_only: bool


@dataclass(frozen=True, slots=True)
class Cards:
    """The tools of a conversation; `notes` say what could not be told, or only in other words."""

    cards: tuple[Card, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """The ids of tools that the API cannot take."""

    def named(self, name: Json) -> Card | None:
        """The tool of this name; None where the model has made one up."""
        return next((card for card in self.cards if card.name == name), None)

    def bare(self, name: str) -> set[str]:
        """The names of those whose id ends in this one, after the name of a server."""
        return {card.name for card in self.cards if parse_tool_id(card.tool).name == name}


def cards_of(tools: Iterable[Tool]) -> Cards:
    """Every tool with its definition, in the order given."""
    listed = list({tool.id: tool for tool in tools}.values())
    names = safe_names(listed)
    cards, notes, left_out = [], [], []
    for tool in listed:
        schema, said = input_schema(tool.input_schema)
        notes += [f"{tool.id}: {note}" for note in said]
        if schema is None:
            left_out.append(tool.id)
            continue
        hint = schema.pop("", None)
        text = "\n\n".join(text for text in (tool.description, hint) if text and text.strip()) or tool.display_name
        description, cut = _cut(text)
        notes += [f"{tool.id}: {note}" for note in cut]
        definition: ToolDefinition = {
            "name": names[tool.id],
            "description": description,
            "input_schema": schema,
        }
        cards.append(Card(names[tool.id], tool.id, definition, not tool.has_side_effects))
    return Cards(tuple(cards), tuple(notes), tuple(left_out))


def safe_names(tools: Sequence[Tool]) -> dict[str, str]:
    """A name for each id: the tool's own, with its namespace where another has the same, and with a piece of a
    digest where that is too long or still not the only one."""
    found = {tool.id: _safe(tool.name) for tool in tools}
    for spelled in (lambda tool: _safe(f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name), None):
        twice = {name for name, count in Counter(found.values()).items() if count > 1 or len(name) > LONGEST}
        for tool in tools:
            if found[tool.id] in twice:
                found[tool.id] = _marked(tool.id) if spelled is None else spelled(tool)
    return found


def checked_definition(given: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Check a definition in the words of the API.

    Args:
        given: `{name, description, input_schema}`, or a tool that the API itself runs, which has a `type`.

    Returns:
        The definition as the API accepts it, None where there is none, and what was changed.
    """
    if given.get("type") not in (None, "custom"):
        return dict(given), ()
    name, description, schema = given.get("name"), given.get("description"), given.get("input_schema")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST or _OTHER.search(name):
        return None, (f"left out: its name is not 1 to {LONGEST} letters, digits, _ or -",)
    if not isinstance(schema, Mapping):
        return None, ("left out: its input schema is not an object",)
    flat, notes = input_schema(schema)
    if flat is None:
        return None, tuple(notes)
    hint = flat.pop("", None)
    made: dict[str, Any] = {**given, "input_schema": flat}
    text = "\n\n".join(one for one in (description, hint) if isinstance(one, str) and one.strip())
    made["description"], cut = _cut(text or name)
    return made, (*notes, *cut)


def _cut(description: str) -> tuple[str, list[str]]:
    if len(description) <= LONGEST_DESCRIPTION:
        return description, []
    size = f"{len(description):,} characters"
    return description[:LONGEST_DESCRIPTION], [f"its description has {size}; the model gets {LONGEST_DESCRIPTION:,}"]


def _safe(text: str) -> str:
    return _OTHER.sub("_", text)


def _marked(tool_id: str) -> str:
    mark = hashlib.sha256(tool_id.encode()).hexdigest()[:8]
    return f"{_safe(tool_id)[: LONGEST - 9]}_{mark}"


def input_schema(schema: Mapping[str, Json]) -> tuple[dict[str, Any] | None, list[str]]:
    """The schema as the API takes it (under the key "" what it cannot say, as a sentence), and what is to be known of
    that; None where no call of the tool could be written."""
    modern = modern_schema(schema)
    if modern.schema is None:
        return None, ["left out: its input schema is not a JSON Schema"]
    notes = [f"input schema{problem}; this was left out" for problem in modern.lost]
    if modern.old and not notes:
        notes = ["its input schema is of an older draft; the model gets it in draft 2020-12"]
    flat, more = _flat(dict(modern.schema), modern.schema, _DEEPEST)
    notes += more
    if "$ref" in schema and "$ref" not in modern.schema:
        flat = None
    if flat is None or not _takes_objects(flat):
        why = "does not accept objects" if flat is not None else "refers to what is not in it"
        return None, [f"left out: its input schema {why}"]
    flat["type"] = "object"
    _complete(flat, modern.schema)
    properties = flat.get("properties")
    if isinstance(properties, dict):
        odd = [name for name in properties if not _PROPERTY.fullmatch(name)]
        required = flat.get("required") or []
        needed = [name for name in odd if isinstance(required, list) and name in required]
        if needed:
            return None, [f"left out: the model cannot be told of its argument {needed[0]!r}"]
        if odd:
            flat["properties"] = {name: inner for name, inner in properties.items() if name not in odd}
            notes.append(f"the model cannot be told of its arguments {', '.join(map(repr, odd))}")
    return flat, notes


def _takes_objects(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _complete(flat: dict[str, Any], root: Mapping[str, Any]) -> None:
    """Copy to `$defs` what references name that flattening took away."""
    for _ in range(_DEEPEST):
        missing = [ref for ref in dict.fromkeys(refs_in(flat)) if not resolves(ref, flat)]
        if not missing:
            return
        definitions = flat["$defs"] = dict(flat.get("$defs") or {})
        names: dict[str, str] = {}
        for ref in missing:
            name = "part_" + hashlib.sha256(ref.encode()).hexdigest()[:8]
            definitions[name] = _target(ref, root) or {}
            names[ref] = f"#/$defs/{name}"
        flat.update(_renamed(flat, names))


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, Mapping):
        found = {key: inner if key in ("enum", "const", "default", "examples") else _renamed(inner, names)
                 for key, inner in node.items()}  # fmt: skip
        return {**found, "$ref": names[found["$ref"]]} if _named(found) in names else found
    return [_renamed(inner, names) for inner in node] if isinstance(node, list) else node


def _named(node: Mapping[str, Any]) -> str | None:
    ref = node.get("$ref")
    return ref if isinstance(ref, str) else None


def _flat(schema: dict[str, Any], root: Mapping[str, Any], deepest: int) -> tuple[dict[str, Any] | None, list[str]]:
    """The schema without choices and references at its top."""
    notes: list[str] = []
    if "$ref" in schema:
        target = _target(schema["$ref"], root) if deepest else None
        if target is None:
            return None, notes
        inner, more = _flat(target, root, deepest - 1)
        if inner is None:
            return None, notes
        schema = _both({key: value for key, value in schema.items() if key != "$ref"}, inner)
        notes += more
    for choice in _CHOICES:
        variants = schema.pop(choice, None)
        if not isinstance(variants, list):
            continue
        flats = [_flat(dict(one), root, deepest - 1)[0] for one in variants if isinstance(one, dict) and deepest]
        known = [one for one in flats if one is not None]
        if choice == "allOf":
            for one in known:
                schema = _both(schema, one)
            continue
        schema = _both(schema, _either(known))
        said = f"Its arguments have {'exactly one' if choice == 'oneOf' else 'at least one'} of these forms: "
        forms = orjson.dumps([_form(one) for one in known]).decode()
        schema[""] = "\n".join(filter(None, (schema.get(""), said + forms)))
        notes.append(
            f"{choice} at the top of its input schema is told in words; calls are checked against the original"
        )
    if "$defs" in root and "$defs" not in schema:
        schema["$defs"] = root["$defs"]
    return schema, notes


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("", "$defs", "definitions")}


def _both(one: dict[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """What fits both schemas of objects; where they disagree about a property both are asked for."""
    found = {**other, **one}
    mine, theirs = one.get("properties") or {}, other.get("properties") or {}
    if mine or theirs:
        found["properties"] = {**theirs, **mine}
        for name in mine.keys() & theirs.keys():
            if mine[name] != theirs[name]:
                found["properties"][name] = {"allOf": [mine[name], theirs[name]]}
    required = dict.fromkeys([*(one.get("required") or ()), *(other.get("required") or ())])
    if required:
        found["required"] = list(required)
    if isinstance(one.get("additionalProperties"), bool) or isinstance(other.get("additionalProperties"), bool):
        found.pop("additionalProperties", None)  # one schema's extra properties are the other's own
    return found


def _either(variants: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What fits any of some schemas of objects: all their properties, required what all of them require."""
    properties: dict[str, list[Any]] = {}
    for variant in variants:
        for name, inner in (variant.get("properties") or {}).items():
            seen = properties.setdefault(name, [])
            if inner not in seen:
                seen.append(inner)
    found: dict[str, Any] = {}
    if properties:
        found["properties"] = {
            name: seen[0] if len(seen) == 1 else {"anyOf": seen} for name, seen in properties.items()
        }
    required = [set(variant.get("required") or ()) for variant in variants]
    shared = set.intersection(*required) if required else set()
    if shared:
        found["required"] = sorted(shared)
    return found


def _target(ref: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a reference inside the schema names."""
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    at: Any = root
    for step in ref[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list):
            at = at[int(step)] if step.isdecimal() and int(step) < len(at) else None
        else:
            at = at.get(step) if isinstance(at, Mapping) else None
    return dict(at) if isinstance(at, Mapping) else None
