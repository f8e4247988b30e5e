"""Export inferred types as self-contained JSON Schemas; referenced schemas are copied into `$defs`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from ..expr.ast import Lit
from ..values import Json
from .types import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Either,
    Sub,
    Type,
    Values,
    kind_of_value,
    kinds_of,
    reference_target,
)

_NAMES: Final = {
    OBJECT: "object", ARRAY: "array", STRING: "string", NUMBER: "number", INTEGER: "integer", BOOLEAN: "boolean",
    NULL: "null",
}  # fmt: skip
_BY_NAME: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
_DATA: Final = frozenset(("const", "enum", "default", "examples", "required", "type", "dependentRequired"))
_LEFT_OUT: Final = frozenset(("$defs", "definitions", "$schema"))
_NAMING: Final = frozenset(("$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "extends"))
"""Keywords that name a schema or change how references resolve; a copy elsewhere would lose their meaning."""
_DIALECTS: Final = ("2020-12", "2019-09", "draft-07", "draft-06")
_MAX_PARTS: Final = 5_000  # parts of schemas; beyond that only kinds are given


class _NotCopyable(Exception):
    """A schema that cannot be copied to another place."""


class Exporter:
    """Convert types to one JSON Schema."""

    # `$defs` holds the schemas that its parts refer to.

    def __init__(self) -> None:
        self.defs: dict[str, Any] = {}
        self._names: dict[tuple[int, str], str] = {}
        self._roots: list[Json] = []  # kept, so that no other has the same id
        self._remaining_parts = _MAX_PARTS

    def schema(self, value_type: Type, optional: Collection[str] = ()) -> dict[str, Json]:
        """Return the JSON Schema of a type."""
        schema = self._schema_of(value_type, optional)
        return {**schema, "$defs": self.defs} if self.defs and schema else schema

    def _schema_of(self, value_type: Type, optional: Collection[str] = ()) -> dict[str, Any]:
        kind = type(value_type)
        if value_type is None or not kinds_of(value_type):
            return {}
        if kind is dict:
            return _object({key: self._schema_of(inner) for key, inner in value_type.items()}, optional)
        if kind is list:
            return self._list(value_type)
        if kind is Each:
            return _array(self._schema_of(value_type.item))
        if kind is Values:
            item = self._schema_of(value_type.item)
            return {"type": "object", "additionalProperties": item} if item else {"type": "object"}
        if kind is Either:
            return any_of(map(self._schema_of, value_type.of))
        if kind is Sub:
            return self._copy_schema(value_type)
        if kind is Lit:
            return self._literal(value_type.value)
        return of_kinds(kinds_of(value_type))

    def _literal(self, value: Json) -> dict[str, Any]:
        if type(value) is dict:
            return _object({key: self._literal(inner) for key, inner in value.items()}, ())
        if type(value) is list:
            return self._list([Lit(item) for item in value])
        return of_kinds(kind_of_value(value))

    def _list(self, items: Iterable[Type]) -> dict[str, Any]:
        schemas = [self._schema_of(item) for item in items]
        return _array(any_of(schemas)) if schemas else {"type": "array"}

    # --- schemas of others ----------------------------------------------------------------------

    def _copy_schema(self, sub: Sub) -> dict[str, Any]:
        """Return a declared schema with its references copied to `$defs`, or only its kinds if that is impossible."""
        names, defs = dict(self._names), dict(self.defs)
        try:
            dialect = sub.root.get("$schema") if type(sub.root) is dict else None
            if dialect is not None and not any(name in str(dialect) for name in _DIALECTS):
                raise _NotCopyable
            schema = self._copy_part(sub.root, sub.node)
        except (_NotCopyable, RecursionError):
            self._names, self.defs = names, defs
            return of_kinds(sub.kinds())
        return schema if type(schema) is dict else {}

    def _copy_part(self, root: Json, node: Json) -> Json:
        # Copying stops where a schema is too large or its meaning depends on the place that it is in.
        self._remaining_parts -= 1
        if self._remaining_parts < 0:
            raise _NotCopyable
        if type(node) is not dict:
            return node
        if not _NAMING.isdisjoint(node):
            raise _NotCopyable
        schema: dict[str, Any] = {}
        # Each keyword decides whether its value is a schema, a map of schemas, a list of schemas, or data.
        for word, value in node.items():
            if word == "$ref":
                schema[word] = self._reference(root, value)
            elif word in _DATA:
                schema[word] = value
            elif word in _BY_NAME and type(value) is dict:
                schema[word] = {name: self._copy_part(root, inner) for name, inner in value.items()}
            elif type(value) is list:
                if word == "items":  # of older dialects: one schema per place
                    raise _NotCopyable
                schema[word] = [self._copy_part(root, inner) for inner in value]
            elif word not in _LEFT_OUT:
                schema[word] = self._copy_part(root, value)
        return schema

    def _reference(self, root: Json, ref: Json) -> str:
        if type(ref) is not str or not (ref == "#" or ref.startswith("#/")):
            raise _NotCopyable
        key = (id(root), ref)
        name = self._names.get(key)
        if name is None:
            self._roots.append(root)
            name = self._unused_name(ref.rpartition("/")[2].replace("#", "") or "root")
            self._names[key] = name
            self.defs[name] = {}
            self.defs[name] = self._copy_part(root, reference_target(root, ref))
        return f"#/$defs/{name}"

    def _unused_name(self, name: str) -> str:
        base = "".join(char if char.isalnum() or char in "_.-" else "_" for char in name)
        name, count = base, 1
        while name in self.defs:
            count += 1
            name = f"{base}_{count}"
        return name


def of_kinds(bits: int) -> dict[str, Any]:
    """Return the schema that allows the given kinds of values."""
    if bits == ALL:
        return {}
    if bits & NUMBER:
        bits &= ~INTEGER
    names = [name for bit, name in _NAMES.items() if bits & bit]
    return {"type": names[0] if len(names) == 1 else names}


def any_of(schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a schema that allows every value that one of these schemas allows, merged where possible."""
    distinct: list[dict[str, Any]] = []
    for schema in schemas:
        if not schema:
            return {}
        if schema not in distinct:
            distinct.append(schema)
    # Schemas that name only types are merged into one list of types.
    plain = [name for schema in distinct if set(schema) == {"type"} for name in _types(schema)]
    rest = [schema for schema in distinct if set(schema) != {"type"}]
    if plain:
        names = [name for name in _NAMES.values() if name in plain]
        if "number" in names and "integer" in names:
            names.remove("integer")
        # A single other schema takes null into its own type, which reads better than `anyOf`.
        if names == ["null"] and len(rest) == 1 and type(rest[0].get("type")) is str and _can_add_null(rest[0]):
            return {**rest[0], "type": [rest[0]["type"], "null"]}
        rest.append({"type": names[0] if len(names) == 1 else names})
    return rest[0] if len(rest) == 1 else {"anyOf": rest}


def _can_add_null(schema: dict[str, Any]) -> bool:
    """Return True if adding null to `type` makes the schema allow null and nothing else."""
    return {"const", "enum", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "nullable"}.isdisjoint(schema)


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema["type"]
    return list(types) if type(types) is list else [types]


def _object(properties: dict[str, Any], optional: Collection[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    required = [name for name in properties if name not in optional]
    return {**schema, "required": required} if required else schema


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items} if items else {"type": "array"}
