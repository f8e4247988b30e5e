"""Rewrite JSON Schemas of older drafts as draft 2020-12.

Tools are published with schemas of every draft, and with mistakes. `modern_schema` keeps the meaning of a schema: it
rewrites tuples, `definitions`, boolean limits, `dependencies` and `nullable`. Invalid keywords and references without a
target are dropped, so the result accepts at least what the original accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from .errors import UnsupportedSchema
from .fast_dataclass import dataclass
from .schema import Schema, compile_schema
from .values import Json

Path: TypeAlias = tuple[str | int, ...]
_SCHEMA_MAPS: Final = {
    "properties": "properties",
    "patternProperties": "patternProperties",
    "dependentSchemas": "dependentSchemas",
    "$defs": "$defs",
    "definitions": "$defs",
}
_SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SUBSCHEMAS: Final = ("additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_NEWER_SUBSCHEMAS: Final = ("unevaluatedItems", "unevaluatedProperties", "contentSchema")
_ANNOTATIONS: Final = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
_DROPPED: Final = ("$schema", "$vocabulary", "$recursiveAnchor", "$dynamicAnchor", "$anchor", "nullable")
_DATA_KEYWORDS: Final = ("enum", "const", "default", "examples")
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_TYPE_ALIASES: Final = {
    "str": "string", "text": "string", "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer", "bool": "boolean", "list": "array", "tuple": "array",
    "dict": "object", "map": "object", "none": "null", "nil": "null",
}  # fmt: skip
_SIBLINGS_IGNORED: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
_SCHEMA_HOST: Final = "json-schema.org/"
_MAX_DEPTH: Final = 200
_MAX_REPAIRS: Final = 100


@dataclass(frozen=True, slots=True)
class Modern:
    """A schema in draft 2020-12."""

    # The schema; None if no repair makes it valid.
    schema: dict[str, Any] | None
    # Every keyword that was dropped: its place (`.properties.n.type`) and the reason.
    lost: tuple[str, ...]
    # True if the original has keywords of an older draft.
    uses_old_keywords: bool


def modern_schema(schema: Mapping[str, Json]) -> Modern:
    """Rewrite a schema as draft 2020-12."""
    writer = _Rewriter(schema)
    rewritten = writer.schema(schema, (), 0)
    if not isinstance(rewritten, dict):
        return Modern(None, tuple(writer.lost), writer.uses_old_keywords)
    repaired = _repair(rewritten, writer.lost)
    return Modern(repaired, tuple(dict.fromkeys(writer.lost)), writer.uses_old_keywords)


def compile_any_draft(schema: Json) -> Schema:
    """Compile a schema of any draft, or one that mixes several drafts."""
    try:
        return compile_schema(schema)
    except UnsupportedSchema:
        dialect = schema.get("$schema", _SCHEMA_HOST) if isinstance(schema, dict) else ""
        modern = modern_schema(schema) if isinstance(schema, dict) and _SCHEMA_HOST in str(dialect) else None
        if modern is None or modern.schema is None or modern.lost:
            raise
        return compile_schema(modern.schema)


def refs_in(node: Any) -> Iterator[str]:
    """Yield every `$ref` of a schema."""
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for key, inner in node.items():
            if key not in _DATA_KEYWORDS:
                yield from refs_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from refs_in(inner)


def resolves(ref: str, root: Mapping[str, Any]) -> bool:
    """Return True if a reference within a schema has a target."""
    node: Any = root
    for step in ref.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, Mapping) and step in node:
            node = node[step]
        else:
            return False
    return True


class _Rewriter:
    """Rewrites a schema."""

    # References are resolved in the complete original.

    def __init__(self, root: Mapping[str, Json]) -> None:
        self.root = root
        self.lost: list[str] = []
        self.uses_old_keywords = False
        dialect = str(root.get("$schema") or "")
        self._siblings_count = not any(draft in dialect for draft in _SIBLINGS_IGNORED)
        self._anchors: dict[str, str] | None = None
        definitions = root.get("$defs"), root.get("definitions")
        names = [set(schemas) for schemas in definitions if isinstance(schemas, Mapping)]
        self._duplicate_names = names[0] & names[1] if len(names) == 2 else set()

    def schema(self, node: Any, path: Path, depth: int) -> Any:
        """Rewrite a schema at a place of the original."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            self._record_loss(path, "is not a schema" if depth <= _MAX_DEPTH else "is nested too deep")
            return True
        rewritten: dict[str, Any] = {}
        for key, value in node.items():
            rewritten.update(self._keyword(key, value, node, (*path, key), depth + 1))
        self._collect_required(node, rewritten)
        if "$ref" in rewritten and not self._siblings_count:
            # Before 2019-09, keywords next to a reference were ignored.
            rewritten = {key: value for key, value in rewritten.items() if key in ("$ref", "$defs", *_ANNOTATIONS)}
        return _with_null(rewritten) if node.get("nullable") is True and path else rewritten

    def _keyword(self, key: str, value: Any, node: Mapping[str, Any], path: Path, depth: int) -> dict[str, Any]:
        """Rewrite one keyword; the result has zero or more keywords."""
        if key in _DROPPED:
            return {}
        if key in ("$id", "id") and isinstance(value, str):
            return {}
        if key in ("$ref", "$recursiveRef", "$dynamicRef"):
            return self._reference(value, path)

        # Keywords that hold schemas.
        if key in _SCHEMA_MAPS:
            return self._schema_map(key, value, node, path, depth)
        if key in _SCHEMA_LISTS:
            return self._schema_list(key, value, path, depth)
        if key == "items" and isinstance(value, list):
            self.uses_old_keywords = True
            return self._schema_list("prefixItems", value, path, depth)
        if key == "additionalItems":
            self.uses_old_keywords = True
            return {"items": self.schema(value, path, depth)} if isinstance(node.get("items"), list) else {}
        if key == "items" or key in _SUBSCHEMAS or key in _NEWER_SUBSCHEMAS:
            return {key: self.schema(value, path, depth)}

        # Keywords with another form in older drafts.
        if key == "dependencies":
            return self._dependencies(value, path, depth)
        if key in ("exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum"):
            return self._limit(key, value, node)
        if key == "type":
            return self._type(value, path, depth)
        if key == "divisibleBy":
            self.uses_old_keywords = True
            return {"multipleOf": value}
        if key == "required" and isinstance(value, bool):
            self.uses_old_keywords = True
            return {}  # draft-03: `_collect_required` puts it into the enclosing object
        if key == "required" and isinstance(value, list):
            return {key: list(dict.fromkeys(name for name in value if isinstance(name, str)))}
        return {key: value if key in _DATA_KEYWORDS else self._unknown(value, path)}

    def _unknown(self, value: Any, path: Path) -> Any:
        """Rewrite the references within an unknown keyword, such as OpenAPI's `components`: others may point there."""
        if isinstance(value, list):
            return [self._unknown(inner, (*path, i)) for i, inner in enumerate(value)]
        if not isinstance(value, Mapping) or len(path) > _MAX_DEPTH:
            return value
        rewritten: dict[str, Any] = {}
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                rewritten.update(self._reference(inner, (*path, key)))
            else:
                rewritten[key] = inner if key in _DATA_KEYWORDS else self._unknown(inner, (*path, key))
        return rewritten

    def _record_loss(self, path: Path, why: str) -> None:
        self.lost.append(f"{place_text(path)} {why}")

    def _schema_map(self, key: str, value: Any, node: Mapping[str, Any], path: Path, depth: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._record_loss(path, "is not an object of schemas")
            return {}
        rewritten = {
            self._definition_name(key, str(name), path): self.schema(inner, (*path, str(name)), depth)
            for name, inner in value.items()
        }
        if key == "definitions":
            self.uses_old_keywords = True
            newer = node.get("$defs")
            if isinstance(newer, Mapping):
                rewritten = {**self._schema_map("$defs", newer, {}, (*path[:-1], "$defs"), depth)["$defs"], **rewritten}
        elif key == "$defs" and isinstance(node.get("definitions"), Mapping):
            return {}  # written together with `definitions`
        return {_SCHEMA_MAPS[key]: rewritten}

    def _definition_name(self, key: str, name: str, path: Path) -> str:
        """Return the new name of a definition; a duplicate under `definitions` is renamed."""
        return f"{name}_" if key == "definitions" and len(path) == 1 and name in self._duplicate_names else name

    def _schema_list(self, key: str, value: Any, path: Path, depth: int) -> dict[str, Any]:
        if not isinstance(value, list) or not value:
            if value != []:
                self._record_loss(path, "is not a list of schemas")
            return {}
        return {key: [self.schema(inner, (*path, i), depth) for i, inner in enumerate(value)]}

    def _dependencies(self, value: Any, path: Path, depth: int) -> dict[str, Any]:
        self.uses_old_keywords = True
        if not isinstance(value, Mapping):
            self._record_loss(path, "is not an object")
            return {}

        # A list of names and a schema are separate keywords now.
        names: dict[str, Any] = {}
        schemas: dict[str, Any] = {}
        for name, dependency in value.items():
            if isinstance(dependency, (list, str)):
                names[name] = [dependency] if isinstance(dependency, str) else dependency
            else:
                schemas[name] = self.schema(dependency, (*path, name), depth)
        return {
            **({"dependentRequired": names} if names else {}),
            **({"dependentSchemas": schemas} if schemas else {}),
        }

    def _limit(self, key: str, value: Any, node: Mapping[str, Any]) -> dict[str, Any]:
        """Rewrite a limit: in draft-04, `exclusiveMinimum: true` excludes the `minimum` itself."""
        strict = "exclusive" + key.capitalize()
        if key.startswith("exclusive"):
            if not isinstance(value, bool):
                return {key: value}
            self.uses_old_keywords = True
            bound = node.get("minimum" if key == "exclusiveMinimum" else "maximum")
            return {key: bound} if value and _is_number(bound) else {}
        return {} if node.get(strict) is True and _is_number(value) else {key: value}

    def _type(self, value: Any, path: Path, depth: int) -> dict[str, Any]:
        kinds = value if isinstance(value, list) else [value]
        if any(isinstance(kind, Mapping) for kind in kinds):  # draft-03: a schema among the types
            self.uses_old_keywords = True
            alternatives = [
                self.schema(kind if isinstance(kind, Mapping) else {"type": kind}, path, depth) for kind in kinds
            ]
            return {"anyOf": alternatives}
        renamed = [_TYPE_ALIASES.get(str(kind).lower(), kind) for kind in kinds]
        if "any" in renamed and not any(kind not in (*_TYPES, "any") for kind in renamed):
            self.uses_old_keywords = True
            return {}
        valid = [kind for kind in dict.fromkeys(map(str, renamed)) if kind in _TYPES]
        if len(valid) < len(set(map(str, renamed))) or not valid:
            self._record_loss(path, f"is {value!r}, which is not a JSON type")
            return {}
        return {"type": valid if isinstance(value, list) and len(valid) > 1 else valid[0]}

    def _collect_required(self, node: Mapping[str, Any], rewritten: dict[str, Any]) -> None:
        """Collect properties with `required: true`, the form of draft-03."""
        properties = node.get("properties")
        if not isinstance(properties, Mapping):
            return
        names = [
            name
            for name, schema in properties.items()
            if isinstance(schema, Mapping) and schema.get("required") is True
        ]
        if names:
            existing = rewritten.get("required")
            rewritten["required"] = list(dict.fromkeys([*(existing if isinstance(existing, list) else ()), *names]))

    # --- references -----------------------------------------------------------------------------

    def _reference(self, value: Any, path: Path) -> dict[str, Any]:
        target = self._new_reference(value) if isinstance(value, str) else None
        if target is None:
            self._record_loss(path, f"is {value!r}, which is not in the schema")
            return {}
        if path[-1] != "$ref":
            self.uses_old_keywords = True
        return {"$ref": target}

    def _new_reference(self, ref: str) -> str | None:
        """Return a reference for the new schema; None if it has no target."""
        base, _, fragment = ref.partition("#")
        own_id = str(self.root.get("$id") or self.root.get("id") or "").partition("#")[0]
        if base and base != own_id:
            pointer = self._anchor_pointer(base)
            return self._new_pointer(pointer + fragment) if pointer is not None else None
        if not fragment:
            return "#"
        if fragment.startswith("/"):
            return self._new_pointer(fragment)
        pointer = self._anchor_pointer(fragment)
        return None if pointer is None else self._new_pointer(pointer)

    def _anchor_pointer(self, name: str) -> str | None:
        """Return the pointer to the schema with this anchor or id."""
        if self._anchors is None:
            self._anchors = dict(_anchors(self.root, "", 0))
        return self._anchors.get(name)

    def _new_pointer(self, pointer: str) -> str | None:
        """Translate a pointer into the original to one into the new schema; None if it has no target."""
        from urllib.parse import unquote

        node: Any = self.root
        kind = "schema"
        steps: list[str] = []

        # Follow the original step by step, and write each step with its new name.
        for raw in pointer.split("/")[1:]:
            step = unquote(raw).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list):
                inner = node[int(step)] if step.isdecimal() and int(step) < len(node) else None
            else:
                inner = node.get(step) if isinstance(node, Mapping) else None
            if inner is None:
                return None
            name, kind = self._new_step(step, kind, node, inner, not steps)
            if name is None:
                return None
            steps.append(name)
            node = inner
        return "#" + "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in steps)

    def _new_step(self, step: str, kind: str, at: Any, inner: Any, top: bool) -> tuple[str | None, str]:
        """Return the new name of a step of a pointer, and the kind of place that it leads to."""
        if kind == "definitions":
            return (f"{step}_" if step in self._duplicate_names else step), "schema"
        if kind != "schema":
            return step, "schema"
        if step in _SCHEMA_MAPS:
            return _SCHEMA_MAPS[step], "definitions" if step == "definitions" and top else "map"
        if step == "items" and isinstance(inner, list):
            return "prefixItems", "list"
        if step == "additionalItems":
            return "items", "schema"
        if step == "dependencies":
            return "dependentSchemas", "map"
        return step, "list" if step in _SCHEMA_LISTS else "schema"


def _anchors(node: Any, pointer: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(node, Mapping):
        for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
            if isinstance(node.get(key), str) and (pointer or key not in ("$id", "id")):
                yield node[key].removeprefix("#"), pointer
        for key, inner in node.items():
            if key not in _DATA_KEYWORDS:
                yield from _anchors(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}", depth + 1)
    elif isinstance(node, list):
        for i, inner in enumerate(node):
            yield from _anchors(inner, f"{pointer}/{i}", depth + 1)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also accepts null, the meaning of `nullable: true` in OpenAPI 3.0."""
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    kind = schema.get("type")
    if isinstance(kind, (str, list)):
        kinds = [kind] if isinstance(kind, str) else kind
        return {**schema, "type": list(dict.fromkeys([*kinds, "null"]))}
    notes = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    keywords = {key: value for key, value in schema.items() if key not in notes}
    return {**notes, "anyOf": [keywords, {"type": "null"}]} if keywords else schema


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --- the meta-schema ------------------------------------------------------------------------------


@cache
def _meta_validator() -> Any:
    import jsonschema_rs as native

    return native.Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def is_modern(schema: dict[str, Any]) -> bool:
    """Return True if every keyword of a schema is valid in draft 2020-12."""
    return bool(_meta_validator().is_valid(schema))


def _repair(schema: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    """Drop every keyword that the meta-schema refuses; None if that does not make the schema valid."""
    for _ in range(_MAX_REPAIRS):
        try:
            errors = [list(error.instance_path) for error in _meta_validator().iter_errors(schema)]
        except (ValueError, RecursionError):
            return None
        if not errors:
            return schema
        if not all(errors):
            return None
        # Deepest first, so that the paths of the others stay valid.
        for path in sorted({tuple(path) for path in errors}, key=lambda path: (-len(path), str(path))):
            if _delete_at(schema, path):
                lost.append(f"{place_text(path)} is not valid there")
    return None


def _delete_at(schema: Any, path: Path) -> bool:
    *parents, last = path
    node: Any = schema
    try:
        for step in parents:
            node = node[step]
        del node[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def place_text(path: Path) -> str:
    """Write a place in a schema: `.properties.n.type`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path) or "it"
