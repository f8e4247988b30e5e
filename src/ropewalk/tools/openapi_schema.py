"""The schemas of an OpenAPI document as plain JSON Schema 2020-12.

References to `#/components/schemas/X` become `#/$defs/X`, with what they need beside them; the dialect of
3.0 (`nullable`, boolean `exclusiveMinimum`) is rewritten. Refused: references out of the document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from orjson import JSONDecodeError

from ..errors import ConfigError, InvalidFlow, InvalidTool, InvalidValue, NotFound, Problem
from ..values import Json, parsed

_SCHEMAS: Final = "#/components/schemas/"
_DEPTH: Final = 50
_DATA: Final = frozenset(("enum", "const", "default", "example", "examples"))
_NAMED: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))


class Components:
    """Resolves the references of one document; InvalidTool is for the operation that needs one that leads nowhere."""

    def __init__(self, document: dict[str, Json]) -> None:
        self._document = document

    def resolve(self, value: Any) -> dict[str, Any]:
        """A path item, parameter, body or response with its reference followed."""
        for _ in range(_DEPTH):
            if not isinstance(value, dict):
                raise InvalidTool(f"an object was expected, not {type(value).__name__}")
            ref = value.get("$ref")
            if not isinstance(ref, str):
                return value
            value = self._target(ref)
        raise InvalidTool("its references go round in circles")

    def parameter_schema(self, parameter: dict[str, Any]) -> Json:
        """The schema of a parameter with its description."""
        inner = parameter.get("schema")
        if inner is None:
            media: Any = next(iter((parameter.get("content") or {}).values()), {})
            inner = media.get("schema", {})
        schema = self.schema(inner)
        text = parameter.get("description")
        return {"description": text, **schema} if isinstance(text, str) and isinstance(schema, dict) else schema

    def schema(self, given: Any) -> Json:
        """A schema with its references renamed to `#/$defs/...`; `closed` adds what they name."""
        if isinstance(given, bool):
            return given
        if not isinstance(given, dict):
            raise InvalidTool(f"a schema is an object, not {type(given).__name__}")
        made: dict[str, Json] = {}
        for key, value in given.items():
            if key == "$ref" and isinstance(value, str):
                made[key] = f"#/$defs/{_pointer_name(value)}"
            elif key in _DATA:
                made[key] = value
            elif key in _NAMED and isinstance(value, dict):
                made[key] = {name: self.schema(inner) for name, inner in value.items()}
            elif isinstance(value, dict) and key not in ("discriminator", "xml", "externalDocs"):
                made[key] = self.schema(value)
            elif isinstance(value, list) and key in ("allOf", "anyOf", "oneOf", "prefixItems"):
                made[key] = [self.schema(inner) for inner in value]
            elif key not in ("discriminator", "xml", "externalDocs", "nullable"):
                made[key] = value
        return _modern(made, nullable=given.get("nullable") is True)

    def closed(self, schema: dict[str, Json]) -> dict[str, Json]:
        """The schema with every definition it needs under `$defs`, directly or through others."""
        needed: dict[str, Json] = {}
        waiting = sorted(_names(schema))
        while waiting:
            name = waiting.pop()
            if name in needed:
                continue
            needed[name] = self.schema(self._target(_SCHEMAS + name))
            waiting.extend(_names(needed[name]) - needed.keys())
        return {**schema, "$defs": needed} if needed else schema

    def _target(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            raise InvalidTool(f"the reference {ref!r} leaves the document; put it inside")
        found: Any = self._document
        for part in unquote(ref[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise InvalidTool(f"the reference {ref!r} names nothing")
            found = found[key]
        return found


def as_document(source: Json | Path, place: str) -> dict[str, Json]:
    """The document from an object, the path of a JSON or YAML file, or its text; ConfigError says what is wrong."""
    from ..source import load

    try:
        found = load(source).data if isinstance(source, (str, Path)) else source
    except (InvalidFlow, NotFound) as error:
        raise _unread(error, place) from error
    return _object(found, place)


def fetched(body: bytes, address: str, place: str) -> dict[str, Json]:
    """The document that is at an address, JSON or YAML; ConfigError says where in it what is wrong."""
    from ..source import decoded, load

    try:
        return _object(parsed(body), place)
    except (JSONDecodeError, InvalidValue):
        pass  # YAML, or what is read again for where it is wrong
    try:
        text = decoded(body, address)
        form = "json" if text.lstrip("\ufeff \t\r\n").startswith("{") else "yaml"
        return _object(load(text, name=address, form=form).data, place)
    except InvalidFlow as error:
        raise _unread(error, place) from error


def _unread(error: InvalidFlow | NotFound, place: str) -> ConfigError:
    if isinstance(error, NotFound):
        return ConfigError(f"{place}: {error}")
    return ConfigError([Problem(path="", message=f"{place}: {one}", place=one.place) for one in error.problems])


def _object(found: Json, place: str) -> dict[str, Json]:
    if not isinstance(found, dict):
        raise ConfigError(f"{place}: the document is {type(found).__name__}, not an object")
    return found


def _pointer_name(ref: str) -> str:
    if ref.startswith(_SCHEMAS) and "/" not in ref[len(_SCHEMAS) :]:
        return ref[len(_SCHEMAS) :]
    if ref.startswith("#/$defs/"):
        return ref[len("#/$defs/") :]
    raise InvalidTool(f"the reference {ref!r} is not to #/components/schemas/...")


def _names(schema: Json) -> set[str]:
    """The definitions a converted schema refers to."""
    found: set[str] = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if isinstance(ref, str) and ref.startswith("#/$defs/"):
                found.add(unquote(ref[len("#/$defs/") :]))
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return found


def _modern(schema: dict[str, Json], *, nullable: bool) -> dict[str, Json]:
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)
    if not nullable:
        return schema
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
