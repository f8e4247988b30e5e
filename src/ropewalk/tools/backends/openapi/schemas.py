"""Converts the schemas of an OpenAPI document to JSON Schema 2020-12.

Each target of a `$ref` is converted once and becomes an entry of `$defs`. The dialect of 3.0 and of Swagger is
rewritten: `nullable`, boolean `exclusiveMinimum`, `type: file`. Arguments lack `readOnly` properties, and results lack
`writeOnly` ones. A pattern that cannot run in linear time becomes `x-pattern`, which models see and nobody checks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

from ....errors import InvalidTool
from ....fast_dataclass import dataclass
from ....schema_drafts import is_modern, modern_schema
from ....values import Json
from .references import Part, References

_DATA_KEYWORDS: Final = frozenset(("enum", "const", "default", "example", "examples"))
_SCHEMA_MAPS: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_SCHEMA_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SUBSCHEMAS: Final = frozenset(
    ("additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "items", "unevaluatedItems",
     "unevaluatedProperties", "contentSchema", "additionalItems")
)  # fmt: skip
_DROPPED: Final = frozenset(
    ("discriminator", "xml", "externalDocs", "nullable", "$id", "$schema", "$anchor", "$dynamicAnchor", "$defs",
     "definitions", "$vocabulary")
)  # fmt: skip
MAX_OUTPUT_VALUES: Final = 3_000
"""Values of the definitions of an answer; the rest of a larger schema accepts anything."""
_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class _Definition:
    """A converted target of a reference."""

    schema: Json
    # The names of the definitions that it needs.
    needs: tuple[str, ...]
    # The number of values in it.
    size: int


class Schemas:
    """The schemas of one document."""

    # An invalid one raises InvalidTool for the operation that needs it.

    def __init__(self, references: References) -> None:
        self._references = references
        self._names: dict[tuple[str, str], str] = {}
        self._targets: dict[str, Part] = {}
        self._converted: dict[tuple[str, bool], _Definition] = {}
        self.is_cut = False
        """Whether the last schema of an answer was too large."""

    def convert(self, source: Any, file: str, *, for_input: bool) -> Json:
        """Convert a schema; references become `#/$defs/...`, whose targets `with_definitions` adds."""
        if isinstance(source, bool):
            return source
        if not isinstance(source, dict):
            raise InvalidTool(f"a schema must be an object, not {type(source).__name__}")
        file = self._references.inside(source, file)
        converted: dict[str, Json] = {}
        for key, value in source.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                converted["$ref"] = f"#/$defs/{self._name(value, file)}"
            elif key in _DROPPED or (key.startswith("x-") and key != "x-nullable"):
                continue
            elif key in _DATA_KEYWORDS:
                converted[key] = value
            elif key in _SCHEMA_MAPS and isinstance(value, dict):
                converted[key] = {
                    # Somebody's mistake, such as `description` among the properties, restricts nothing.
                    name: self.convert(inner if isinstance(inner, (dict, bool)) else {}, file, for_input=for_input)
                    for name, inner in value.items()
                }
            elif key in _SUBSCHEMAS and isinstance(value, (dict, bool)):
                converted[key] = self.convert(value, file, for_input=for_input)
            elif key in _SCHEMA_LISTS and isinstance(value, list):
                converted[key] = [self.convert(inner, file, for_input=for_input) for inner in value]
            elif key == "pattern" and isinstance(value, str) and not _is_linear(value):
                converted["x-pattern"] = value
            else:
                converted[key] = value
        self._hide(source, converted, file, "readOnly" if for_input else "writeOnly")
        return _convert_dialect(converted, nullable=True in (source.get("nullable"), source.get("x-nullable")))

    def with_definitions(self, schema: dict[str, Json], *, for_input: bool) -> dict[str, Json]:
        """Return a converted schema with every definition that it needs under `$defs`."""
        definitions: dict[str, Json] = {}
        pending, values = list(dict.fromkeys(_definition_names(schema))), 0
        self.is_cut = False
        # Breadth first: what a large schema of an answer loses is far from its top.
        for name in pending:
            definition = self._definition(name, for_input)
            values += definition.size
            if not for_input and values > MAX_OUTPUT_VALUES:
                definitions[name], self.is_cut = {}, True
                continue
            definitions[name] = definition.schema
            pending.extend(needed for needed in definition.needs if needed not in pending)
        closed = {**schema, "$defs": definitions} if definitions else schema
        if is_modern(closed):
            return closed
        # Somebody's mistake, such as `required: true`: keep the rest.
        repaired = modern_schema(closed).schema
        if repaired is None:
            raise InvalidTool("its schema is not a valid JSON Schema")
        return repaired

    def _definition(self, name: str, for_input: bool) -> _Definition:
        known = self._converted.get((name, for_input))
        if known is None:
            value, file = self._targets[name]
            schema = self.convert(value, file, for_input=for_input)
            known = _Definition(schema, tuple(dict.fromkeys(_definition_names(schema))), _count(schema))
            self._converted[name, for_input] = known
        return known

    def _name(self, ref: str, file: str) -> str:
        place = self._references.place(ref, file)
        name = self._names.get(place)
        if name is None:
            target = self._references.target(ref, file)
            base = _UNSAFE_CHARACTERS.sub("_", _short(place[1]) or self._references.name_for(place)) or "root"
            name, count = base, 2
            while name in self._targets:
                name, count = f"{base}_{count}", count + 1
            self._names[place], self._targets[name] = name, target
        return name

    def _hide(self, source: dict[str, Any], converted: dict[str, Json], file: str, flag: str) -> None:
        """Take out the properties with a flag, and never require them."""
        hidden = set(self._flagged(source, file, flag, 0))
        if not hidden:
            return
        for part in (converted, *(p for p in converted.get("allOf", ()) if isinstance(p, dict))):
            required, properties = part.get("required"), part.get("properties")
            if isinstance(required, list):
                part["required"] = [name for name in required if name not in hidden]
                if not part["required"]:
                    del part["required"]
            # A closed object keeps them, so that one which was read can be written back.
            is_closed = part.get("additionalProperties", True) is not True or "unevaluatedProperties" in part
            if isinstance(properties, dict) and not is_closed:
                part["properties"] = {n: inner for n, inner in properties.items() if n not in hidden}

    def _flagged(self, source: Any, file: str, flag: str, depth: int) -> Iterator[str]:
        """Yield the names of the properties with a flag, those of `allOf` included."""
        if not isinstance(source, dict) or depth > 8:
            return
        properties = source.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if isinstance(inner, dict) and (inner.get(flag) is True or self._target_has(inner, file, flag)):
                yield name
        branches = source.get("allOf")
        for branch in branches if isinstance(branches, list) else ():
            if isinstance(branch, dict):
                part = self._references.follow(branch, file)
                yield from self._flagged(part.value, part.file, flag, depth + 1)

    def _target_has(self, schema: dict[str, Any], file: str, flag: str) -> bool:
        if not isinstance(schema.get("$ref"), str):
            return False
        value = self._references.follow(schema, file).value
        return isinstance(value, dict) and value.get(flag) is True


def _short(pointer: str) -> str:
    """Return the name of a component, or a whole pointer."""
    for start in ("/components/schemas/", "/definitions/", "/$defs/"):
        if pointer.startswith(start) and "/" not in pointer[len(start) :]:
            return pointer[len(start) :].replace("~1", "/").replace("~0", "~")
    return pointer.strip("/")


def _definition_names(schema: Json) -> Iterator[str]:
    """Yield the names of the definitions that a converted schema refers to."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str) and ref.startswith("#/$defs/"):
                yield ref[len("#/$defs/") :]
            stack.extend(value for key, value in node.items() if key not in _DATA_KEYWORDS)
        elif isinstance(node, list):
            stack.extend(node)


def _count(value: Json) -> int:
    count, stack = 0, [value]
    while stack:
        node = stack.pop()
        count += 1
        if isinstance(node, (dict, list)):
            stack.extend(node.values() if isinstance(node, dict) else node)
    return count


@functools.lru_cache(4096)
def _is_linear(pattern: str) -> bool:
    """Return True if the checker of schemas can run a pattern."""
    from ....errors import UnsupportedSchema
    from ....schema import check_pattern

    try:
        check_pattern(pattern)
    except UnsupportedSchema:
        return False
    return True


def _convert_dialect(schema: dict[str, Json], *, nullable: bool) -> dict[str, Json]:
    """Rewrite the dialect of OpenAPI 3.0: boolean exclusive limits, `nullable` and files."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if schema.get("type") == "file":
        schema["type"] = "string"
    schema.pop("x-nullable", None)
    if not nullable:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
