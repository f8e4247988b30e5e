"""Types as JSON Schemas that stand alone: what a schema refers to is copied into its own `$defs`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from ..expr.ast import Lit
from ..values import Json
from .schemas import ALL, ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING, Sub, target
from .types import Each, Either, Type, kind_of_value, kinds_of

_NAMES: Final = {
    OBJECT: "object", ARRAY: "array", STRING: "string", NUMBER: "number", INTEGER: "integer", BOOLEAN: "boolean",
    NULL: "null",
}  # fmt: skip
_BY_NAME: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
_DATA: Final = frozenset(("const", "enum", "default", "examples", "required", "type", "dependentRequired"))
_LEFT_OUT: Final = frozenset(("$defs", "definitions", "$schema"))
_NAMING: Final = frozenset(("$id", "id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "extends"))
"""Words that give a schema or a part of it another name, which a copy in another place would not have."""
_DIALECTS: Final = ("2020-12", "2019-09", "draft-07", "draft-06")
_MOST: Final = 5_000  # parts of schemas; beyond that only kinds are given


class _Unknown(Exception):
    """A schema that cannot be copied to another place."""


class Exporter:
    """Makes one schema of a type; `$defs` holds what its parts refer to."""

    def __init__(self) -> None:
        self.defs: dict[str, Any] = {}
        self._names: dict[tuple[int, str], str] = {}
        self._roots: list[Json] = []  # kept, so that no other has the same id
        self._left = _MOST

    def schema(self, known: Type, optional: Collection[str] = ()) -> dict[str, Json]:
        """Return the schema of a type; of an object, `optional` keys are not required."""
        made = self._of(known, optional)
        return {**made, "$defs": self.defs} if self.defs and made else made

    def _of(self, known: Type, optional: Collection[str] = ()) -> dict[str, Any]:
        kind = type(known)
        if known is None or not kinds_of(known):
            return {}
        if kind is dict:
            return _object({key: self._of(inner) for key, inner in known.items()}, optional)
        if kind is list:
            return self._list(known)
        if kind is Each:
            return _array(self._of(known.item))
        if kind is Either:
            return either_of(map(self._of, known.of))
        if kind is Sub:
            return self._copied(known)
        if kind is Lit:
            return self._literal(known.value)
        return of_kinds(kinds_of(known))

    def _literal(self, value: Json) -> dict[str, Any]:
        if type(value) is dict:
            return _object({key: self._literal(inner) for key, inner in value.items()}, ())
        if type(value) is list:
            return self._list([Lit(item) for item in value])
        return of_kinds(kind_of_value(value))

    def _list(self, items: Iterable[Type]) -> dict[str, Any]:
        found = [self._of(item) for item in items]
        return _array(either_of(found)) if found else {"type": "array"}

    # --- schemas of others ----------------------------------------------------------------------

    def _copied(self, sub: Sub) -> dict[str, Any]:
        """Return a declared schema, with its references into `$defs`; its kinds where that is not possible."""
        names, defs = dict(self._names), dict(self.defs)
        try:
            dialect = sub.root.get("$schema") if type(sub.root) is dict else None
            if dialect is not None and not any(name in str(dialect) for name in _DIALECTS):
                raise _Unknown
            made = self._copy(sub.root, sub.node)
        except (_Unknown, RecursionError):
            self._names, self.defs = names, defs
            return of_kinds(sub.kinds())
        return made if type(made) is dict else {}

    def _copy(self, root: Json, node: Json) -> Json:
        self._left -= 1
        if self._left < 0:
            raise _Unknown
        if type(node) is not dict:
            return node
        if not _NAMING.isdisjoint(node):
            raise _Unknown
        made: dict[str, Any] = {}
        for word, value in node.items():
            if word == "$ref":
                made[word] = self._reference(root, value)
            elif word in _DATA:
                made[word] = value
            elif word in _BY_NAME and type(value) is dict:
                made[word] = {name: self._copy(root, inner) for name, inner in value.items()}
            elif type(value) is list:
                if word == "items":  # of older dialects: one schema per place
                    raise _Unknown
                made[word] = [self._copy(root, inner) for inner in value]
            elif word not in _LEFT_OUT:
                made[word] = self._copy(root, value)
        return made

    def _reference(self, root: Json, ref: Json) -> str:
        if type(ref) is not str or not (ref == "#" or ref.startswith("#/")):
            raise _Unknown
        key = (id(root), ref)
        name = self._names.get(key)
        if name is None:
            self._roots.append(root)
            name = self._free(ref.rpartition("/")[2].replace("#", "") or "root")
            self._names[key] = name
            self.defs[name] = {}
            self.defs[name] = self._copy(root, target(root, ref))
        return f"#/$defs/{name}"

    def _free(self, name: str) -> str:
        wanted = "".join(char if char.isalnum() or char in "_.-" else "_" for char in name)
        name, count = wanted, 1
        while name in self.defs:
            count += 1
            name = f"{wanted}_{count}"
        return name


def of_kinds(bits: int) -> dict[str, Any]:
    """Return the schema of values of some kinds."""
    if bits == ALL:
        return {}
    if bits & NUMBER:
        bits &= ~INTEGER
    names = [name for bit, name in _NAMES.items() if bits & bit]
    return {"type": names[0] if len(names) == 1 else names}


def either_of(schemas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of values that fit any of these."""
    found: list[dict[str, Any]] = []
    for schema in schemas:
        if not schema:
            return {}
        if schema not in found:
            found.append(schema)
    plain = [name for schema in found if set(schema) == {"type"} for name in _types(schema)]
    rest = [schema for schema in found if set(schema) != {"type"}]
    if plain:
        names = [name for name in _NAMES.values() if name in plain]
        if "number" in names and "integer" in names:
            names.remove("integer")
        if names == ["null"] and len(rest) == 1 and type(rest[0].get("type")) is str and _may_be_widened(rest[0]):
            return {**rest[0], "type": [rest[0]["type"], "null"]}
        rest.append({"type": names[0] if len(names) == 1 else names})
    return rest[0] if len(rest) == 1 else {"anyOf": rest}


def _may_be_widened(schema: dict[str, Any]) -> bool:
    """Return True if every word of a schema but `type` holds for values of one kind only."""
    return {"const", "enum", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "nullable"}.isdisjoint(schema)


def _types(schema: dict[str, Any]) -> list[str]:
    named = schema["type"]
    return list(named) if type(named) is list else [named]


def _object(properties: dict[str, Any], optional: Collection[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object"}
    if properties:
        made["properties"] = properties
    required = [name for name in properties if name not in optional]
    return {**made, "required": required} if required else made


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items} if items else {"type": "array"}
