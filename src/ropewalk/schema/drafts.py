"""JSON Schemas of older drafts, rewritten as draft 2020-12.

Tools are published with schemas of every draft, and with mistakes. `modern_schema` keeps what a schema means: tuples,
`definitions`, boolean limits, `dependencies` and `nullable` get the words of draft 2020-12. A keyword that no draft
allows and a reference to nothing are dropped, so the result accepts at least what the original accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from ..errors import UnsupportedSchema
from ..frozen import dataclass
from ..values import Json
from . import Schema, compile_schema

Path: TypeAlias = tuple[str | int, ...]
_MAPS: Final = {
    "properties": "properties",
    "patternProperties": "patternProperties",
    "dependentSchemas": "dependentSchemas",
    "$defs": "$defs",
    "definitions": "$defs",
}
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE: Final = ("additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_SINGLE_TOO: Final = ("unevaluatedItems", "unevaluatedProperties", "contentSchema")
_NOTES: Final = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
_DROPPED: Final = ("$schema", "$vocabulary", "$recursiveAnchor", "$dynamicAnchor", "$anchor", "nullable")
_DATA: Final = ("enum", "const", "default", "examples")
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_OTHER_TYPES: Final = {
    "str": "string", "text": "string", "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer", "bool": "boolean", "list": "array", "tuple": "array",
    "dict": "object", "map": "object", "none": "null", "nil": "null",
}  # fmt: skip
_SIBLINGS_IGNORED: Final = ("draft-03", "draft-04", "draft-06", "draft-07")
_KNOWN: Final = "json-schema.org/"
_DEEPEST: Final = 200
_MOST_REPAIRS: Final = 100


@dataclass(frozen=True, slots=True)
class Modern:
    """A schema in draft 2020-12.

    `schema` is None when no repair makes it valid. `lost` names every keyword that was dropped, with its place
    (`.properties.n.type`). `old` is True when the original uses words of an older draft.
    """

    schema: dict[str, Any] | None
    lost: tuple[str, ...]
    old: bool


def modern_schema(schema: Mapping[str, Json]) -> Modern:
    """Rewrite a schema as draft 2020-12.

    Args:
        schema: The schema of any draft, as an object. It is not changed.

    Returns:
        The new schema, what it could not keep, and whether the original uses words of an older draft.
    """
    writer = _Writer(schema)
    made = writer.schema(schema, (), 0)
    if not isinstance(made, dict):
        return Modern(None, tuple(writer.lost), writer.old)
    repaired = _repair(made, writer.lost)
    return Modern(repaired, tuple(dict.fromkeys(writer.lost)), writer.old)


def compile_any_draft(schema: Json) -> Schema:
    """Compile a schema, also one of a draft before draft-07 or one that mixes the words of several drafts.

    Args:
        schema: The schema, an object or a boolean.

    Returns:
        The compiled schema; of an older draft, that of its conversion.

    Raises:
        UnsupportedSchema: It is not a schema, or cannot be converted without a loss.
    """
    try:
        return compile_schema(schema)
    except UnsupportedSchema:
        dialect = schema.get("$schema", _KNOWN) if isinstance(schema, dict) else ""
        modern = modern_schema(schema) if isinstance(schema, dict) and _KNOWN in str(dialect) else None
        if modern is None or modern.schema is None or modern.lost:
            raise
        return compile_schema(modern.schema)


def refs_in(node: Any) -> Iterator[str]:
    """Give every `$ref` of a schema."""
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for key, inner in node.items():
            if key not in _DATA:
                yield from refs_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from refs_in(inner)


def resolves(ref: str, root: Mapping[str, Any]) -> bool:
    """Return True when a reference inside of a schema leads to something."""
    at: Any = root
    for step in ref.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and step.isdecimal() and int(step) < len(at):
            at = at[int(step)]
        elif isinstance(at, Mapping) and step in at:
            at = at[step]
        else:
            return False
    return True


class _Writer:
    """Writes one schema again; references are read against the whole of the original."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self.root = root
        self.lost: list[str] = []
        self.old = False  # a word of an older draft was found
        dialect = str(root.get("$schema") or "")
        self._siblings_count = not any(draft in dialect for draft in _SIBLINGS_IGNORED)
        self._anchors: dict[str, str] | None = None
        both = root.get("$defs"), root.get("definitions")
        names = [set(one) for one in both if isinstance(one, Mapping)]
        self._twice = names[0] & names[1] if len(names) == 2 else set()

    def schema(self, node: Any, path: Path, depth: int) -> Any:
        """One schema inside the original, at a place."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping) or depth > _DEEPEST:
            self._lose(path, "is not a schema" if depth <= _DEEPEST else "is nested too deep")
            return True
        made: dict[str, Any] = {}
        for key, value in node.items():
            made.update(self._keyword(key, value, node, (*path, key), depth + 1))
        self._require(node, made)
        if "$ref" in made and not self._siblings_count:
            # Before 2019-09 keywords next to a reference had no meaning.
            made = {key: value for key, value in made.items() if key in ("$ref", "$defs", *_NOTES)}
        return _with_null(made) if node.get("nullable") is True and path else made

    def _keyword(self, key: str, value: Any, node: Mapping[str, Any], path: Path, depth: int) -> dict[str, Any]:
        if key in _DROPPED:
            return {}
        if key in ("$id", "id") and isinstance(value, str):
            return {}
        if key in ("$ref", "$recursiveRef", "$dynamicRef"):
            return self._reference(value, path)
        if key in _MAPS:
            return self._map(key, value, node, path, depth)
        if key in _LISTS:
            return self._list(key, value, path, depth)
        if key == "items" and isinstance(value, list):
            self.old = True
            return self._list("prefixItems", value, path, depth)
        if key == "additionalItems":
            self.old = True
            return {"items": self.schema(value, path, depth)} if isinstance(node.get("items"), list) else {}
        if key == "items" or key in _SINGLE or key in _SINGLE_TOO:
            return {key: self.schema(value, path, depth)}
        if key == "dependencies":
            return self._dependencies(value, path, depth)
        if key in ("exclusiveMinimum", "exclusiveMaximum", "minimum", "maximum"):
            return self._limit(key, value, node)
        if key == "type":
            return self._type(value, path, depth)
        if key == "divisibleBy":
            self.old = True
            return {"multipleOf": value}
        if key == "required" and isinstance(value, bool):
            self.old = True
            return {}  # of draft-03: the object around it says so now
        if key == "required" and isinstance(value, list):
            return {key: list(dict.fromkeys(name for name in value if isinstance(name, str)))}
        return {key: value}

    def _lose(self, path: Path, why: str) -> None:
        self.lost.append(f"{place_of(path)} {why}")

    def _map(self, key: str, value: Any, node: Mapping[str, Any], path: Path, depth: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._lose(path, "is not an object of schemas")
            return {}
        made = {
            self._name(key, str(name), path): self.schema(inner, (*path, str(name)), depth)
            for name, inner in value.items()
        }
        if key == "definitions":
            self.old = True
            other = node.get("$defs")
            if isinstance(other, Mapping):
                made = {**self._map("$defs", other, {}, (*path[:-1], "$defs"), depth)["$defs"], **made}
        elif key == "$defs" and isinstance(node.get("definitions"), Mapping):
            return {}  # written together with `definitions`
        return {_MAPS[key]: made}

    def _name(self, key: str, name: str, path: Path) -> str:
        """The name of a definition; of two with one name, that under `definitions` gets a new one."""
        return f"{name}_" if key == "definitions" and len(path) == 1 and name in self._twice else name

    def _list(self, key: str, value: Any, path: Path, depth: int) -> dict[str, Any]:
        if not isinstance(value, list) or not value:
            if value != []:
                self._lose(path, "is not a list of schemas")
            return {}
        return {key: [self.schema(inner, (*path, i), depth) for i, inner in enumerate(value)]}

    def _dependencies(self, value: Any, path: Path, depth: int) -> dict[str, Any]:
        self.old = True
        if not isinstance(value, Mapping):
            self._lose(path, "is not an object")
            return {}
        names = {name: [one] if isinstance(one, str) else one for name, one in value.items()
                 if isinstance(one, (list, str))}  # fmt: skip
        schemas = {name: self.schema(one, (*path, name), depth) for name, one in value.items() if name not in names}
        return {
            **({"dependentRequired": names} if names else {}),
            **({"dependentSchemas": schemas} if schemas else {}),
        }

    def _limit(self, key: str, value: Any, node: Mapping[str, Any]) -> dict[str, Any]:
        """A limit; in draft-04 `exclusiveMinimum: true` says that `minimum` itself is outside."""
        strict = "exclusive" + key.capitalize()
        if key.startswith("exclusive"):
            if not isinstance(value, bool):
                return {key: value}
            self.old = True
            bound = node.get("minimum" if key == "exclusiveMinimum" else "maximum")
            return {key: bound} if value and _is_number(bound) else {}
        return {} if node.get(strict) is True and _is_number(value) else {key: value}

    def _type(self, value: Any, path: Path, depth: int) -> dict[str, Any]:
        listed = value if isinstance(value, list) else [value]
        if any(isinstance(one, Mapping) for one in listed):  # of draft-03: a schema among the types
            self.old = True
            forms = [self.schema(one if isinstance(one, Mapping) else {"type": one}, path, depth) for one in listed]
            return {"anyOf": forms}
        known = [_OTHER_TYPES.get(str(one).lower(), one) for one in listed]
        if "any" in known and not any(one not in (*_TYPES, "any") for one in known):
            self.old = True
            return {}
        fine = [one for one in dict.fromkeys(map(str, known)) if one in _TYPES]
        if len(fine) < len(set(map(str, known))) or not fine:
            self._lose(path, f"is {value!r}, which is not a JSON type")
            return {}
        return {"type": fine if isinstance(value, list) and len(fine) > 1 else fine[0]}

    def _require(self, node: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Collect `required: true` of properties, as draft-03 writes it."""
        properties = node.get("properties")
        if not isinstance(properties, Mapping):
            return
        needed = [name for name, one in properties.items() if isinstance(one, Mapping) and one.get("required") is True]
        if needed:
            there = made.get("required")
            made["required"] = list(dict.fromkeys([*(there if isinstance(there, list) else ()), *needed]))

    # --- references -----------------------------------------------------------------------------

    def _reference(self, value: Any, path: Path) -> dict[str, Any]:
        target = self._target(value) if isinstance(value, str) else None
        if target is None:
            self._lose(path, f"is {value!r}, which is not in the schema")
            return {}
        if path[-1] != "$ref":
            self.old = True
        return {"$ref": target}

    def _target(self, ref: str) -> str | None:
        """The reference as it is written in the new schema; None when it leads nowhere."""
        base, _, fragment = ref.partition("#")
        own = str(self.root.get("$id") or self.root.get("id") or "").partition("#")[0]
        if base and base != own:
            pointer = self._anchor(base)
            return self._pointer(pointer + fragment) if pointer is not None else None
        if not fragment:
            return "#"
        if fragment.startswith("/"):
            return self._pointer(fragment)
        pointer = self._anchor(fragment)
        return None if pointer is None else self._pointer(pointer)

    def _anchor(self, name: str) -> str | None:
        """The pointer to the schema with this name: an anchor, or an id."""
        if self._anchors is None:
            self._anchors = dict(_anchors(self.root, "", 0))
        return self._anchors.get(name)

    def _pointer(self, pointer: str) -> str | None:
        """A pointer into the original as one into the new schema."""
        from urllib.parse import unquote

        at: Any = self.root
        kind = "schema"
        made: list[str] = []
        for raw in pointer.split("/")[1:]:
            step = unquote(raw).replace("~1", "/").replace("~0", "~")
            if isinstance(at, list):
                inner = at[int(step)] if step.isdecimal() and int(step) < len(at) else None
            else:
                inner = at.get(step) if isinstance(at, Mapping) else None
            if inner is None:
                return None
            name, kind = self._step(step, kind, at, inner, not made)
            if name is None:
                return None
            made.append(name)
            at = inner
        return "#" + "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in made)

    def _step(self, step: str, kind: str, at: Any, inner: Any, top: bool) -> tuple[str | None, str]:
        """One step of a pointer: its new name, and what is there."""
        if kind == "definitions":
            return (f"{step}_" if step in self._twice else step), "schema"
        if kind != "schema":
            return step, "schema"
        if step in _MAPS:
            return _MAPS[step], "definitions" if step == "definitions" and top else "map"
        if step == "items" and isinstance(inner, list):
            return "prefixItems", "list"
        if step == "additionalItems":
            return "items", "schema"
        if step == "dependencies":
            return "dependentSchemas", "map"
        return step, "list" if step in _LISTS else "schema"


def _anchors(node: Any, pointer: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        return
    if isinstance(node, Mapping):
        for key in ("$anchor", "$dynamicAnchor", "$id", "id"):
            if isinstance(node.get(key), str) and (pointer or key not in ("$id", "id")):
                yield node[key].removeprefix("#"), pointer
        for key, inner in node.items():
            if key not in _DATA:
                yield from _anchors(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}", depth + 1)
    elif isinstance(node, list):
        for i, inner in enumerate(node):
            yield from _anchors(inner, f"{pointer}/{i}", depth + 1)


def _with_null(made: dict[str, Any]) -> dict[str, Any]:
    """The schema, also for null: what `nullable: true` of OpenAPI 3.0 means."""
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made = {**made, "enum": [*made["enum"], None]}
    kind = made.get("type")
    if isinstance(kind, (str, list)):
        kinds = [kind] if isinstance(kind, str) else kind
        return {**made, "type": list(dict.fromkeys([*kinds, "null"]))}
    notes = {key: value for key, value in made.items() if key in _NOTES}
    rest = {key: value for key, value in made.items() if key not in notes}
    return {**notes, "anyOf": [rest, {"type": "null"}]} if rest else made


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --- the meta-schema ------------------------------------------------------------------------------


@cache
def _meta() -> Any:
    import jsonschema_rs as native

    return native.Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def _repair(schema: dict[str, Any], lost: list[str]) -> dict[str, Any] | None:
    """Drop every keyword that the meta-schema refuses; None when that does not end."""
    for _ in range(_MOST_REPAIRS):
        try:
            errors = [list(error.instance_path) for error in _meta().iter_errors(schema)]
        except (ValueError, RecursionError):
            return None
        if not errors:
            return schema
        if not all(errors):
            return None
        # The deepest first, so that no place is gone when its turn comes.
        for path in sorted({tuple(path) for path in errors}, key=lambda one: (-len(one), str(one))):
            if _drop(schema, path):
                lost.append(f"{place_of(path)} is not valid there")
    return None


def _drop(schema: Any, path: Path) -> bool:
    *around, last = path
    at: Any = schema
    try:
        for step in around:
            at = at[step]
        del at[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def place_of(path: Path) -> str:
    """A place in a schema in words: `.properties.n.type`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path) or "it"
