"""Schemas as MCP clients need them: an object at the root, of results too.

The protocol before 2026-07-28 allows nothing but objects as structured content, so a value that is no object is
wrapped as `{"result": value}`. Its clients drop a root `$ref`, `oneOf`, `anyOf` or `allOf` without a word, so they
are shown the object that all the branches fit. The app checks what comes against the schema itself.
"""

from __future__ import annotations

from typing import Any, Final

from ...values import Json

_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_PLACES: tuple[str, ...] = ("$defs", "definitions")
_MOST_STEPS: Final = 16


def shown_input(schema: dict[str, Json], *, choices: bool = False) -> dict[str, Json]:
    """The schema of arguments with `type: object` at its root; without `choices` nothing there that clients drop."""
    if choices:
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    root = _followed(schema)
    if not any(choice in root for choice in _CHOICES):
        return root if root.get("type") == "object" else {**root, "type": "object"}
    shown: dict[str, Any] = {key: value for key, value in root.items() if key not in _CHOICES}
    properties: dict[str, Json] = dict(shown.get("properties") or {})
    required = set(shown.get("required") or ())
    for choice in _CHOICES:
        branches = [_followed(b, root) for b in root.get(choice, ()) if isinstance(b, dict)]
        for branch in branches:
            for name, value in (branch.get("properties") or {}).items():
                known = properties.get(name, value)
                properties[name] = known if known == value else {"anyOf": _alternatives(known, value)}
        needs = [set(branch.get("required") or ()) for branch in branches]
        if needs:
            required |= set.union(*needs) if choice == "allOf" else set.intersection(*needs)
    shown |= {"type": "object", "properties": properties}
    return {**shown, "required": sorted(required)} if required else shown


def is_object(schema: Json) -> bool:
    """Whether everything that fits is an object, as far as the root says."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def shown_output(schema: dict[str, Json] | None) -> dict[str, Json]:
    """The schema of structured content: of the value where it is an object, else of the wrapped one."""
    if schema is not None and is_object(schema):
        return schema
    moved = {key: schema[key] for key in _PLACES if schema is not None and key in schema}
    inner = {key: value for key, value in (schema or {}).items() if key not in (*moved, "$schema")}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **moved}


def shown_value(schema: dict[str, Json] | None, value: Json) -> dict[str, Json]:
    """The structured content for a value of that schema."""
    return value if is_object(schema) and isinstance(value, dict) else {"result": value}


def _followed(schema: dict[str, Any], root: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema behind a `$ref` to a place of the same document; what cannot be followed stays."""
    for _ in range(_MOST_STEPS):
        way = schema.get("$ref")
        if not isinstance(way, str) or not way.startswith("#/"):
            return schema
        found: Any = root or schema
        for part in way[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            return schema
        kept = {key: (root or schema)[key] for key in _PLACES if key in (root or schema)}
        schema = {**kept, **{key: value for key, value in schema.items() if key != "$ref"}, **found}
    return schema


def _alternatives(known: Json, value: Json) -> list[Json]:
    before = known["anyOf"] if isinstance(known, dict) and set(known) == {"anyOf"} else [known]
    return before if value in before else [*before, value]
