"""Compiled JSON Schemas: validate values, and list every problem with its place.

Draft 2020-12 (the default) and draft-07 are supported. Other drafts are refused, and so are remote `$ref`s, patterns
that cannot run in linear time (look-around, back-references), and schemas that are nested too deep or unfold to too
many schemas. `format` is an annotation and never enforced. Schemas are copied when compiled. Values must have passed
`values.check_json`, because the native code recurses as deep as the value does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from .errors import InvalidValue, Problem, UnsupportedSchema
from .schema_defaults import Defaults, at_pointer, defaults_of
from .values import Json, check_json, did_you_mean, digest, is_json

if TYPE_CHECKING:
    import jsonschema_rs as native

DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS: Final = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
}
_MAX_PROBLEMS: Final = 200
_MAX_TEXT_LENGTH: Final = 300
_MAX_LISTED_VALUES: Final = 10_000
"""Values in a value of which all problems are looked for."""
_MAX_LISTED_PAIRS: Final = 200_000
"""Values in a value times those in its schema, likewise."""
_MAX_PATTERN_BYTES: Final = 2 << 20
_MAX_CACHED: Final = 1024
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_ANNOTATIONS: Final = frozenset(("title", "description", "default"))
_IGNORED_KEYWORDS: Final = frozenset(
    (*_ANNOTATIONS, "type", "$schema", "$id", "$comment", "$defs", "definitions", "examples", "deprecated")
)
_NAME_KEYWORDS: Final = frozenset(("type", "title", "description", "properties", "required", "additionalProperties"))


class Schema:
    """A compiled schema, safe to share between threads."""

    # `is_valid`: A function of a JSON value that returns True if it fits: the native validator, or a faster check.
    # `open`: True if every JSON object fits, so that callers may skip the check.

    __slots__ = ("_defaults", "_native", "is_valid", "open", "source")

    def __init__(self, source: Json) -> None:
        self.source = source
        self.open = _accepts_any_object(source)
        self._defaults: tuple[Defaults | None] | None = None
        name_check = _name_check(source)
        self._native = None if name_check is not None else _compile(source)
        self.is_valid: Callable[[Json], bool] = name_check or self._validator().is_valid

    def _validator(self) -> native.Validator:
        if self._native is None:
            self._native = _compile(self.source)
        return self._native

    @property
    def defaults(self) -> Defaults | None:
        """The defaults of missing values; None if the schema has none."""

        # They are read at the first use.
        if self._defaults is None:
            self._defaults = (_read_defaults(self.source),)
        return self._defaults[0]

    def with_defaults(self, value: Json) -> Json:
        """Fill in the defaults of missing properties."""
        defaults = self.defaults
        return value if defaults is None else defaults.fill(value)

    def problems(self, value: Json, place: str = "value") -> list[Problem]:
        """Return every reason why a value does not fit."""
        if self.is_valid(value):
            return []
        problems: list[Problem] = []
        if _is_large(value, self.source):
            problems.extend(self._explain(_first_error(self._validator(), value), place))
            problems.append(Problem(path=place, message="the value is large, so only its first problem is listed"))
            return problems
        for error in self._validator().iter_errors(value):
            if len(problems) >= _MAX_PROBLEMS:
                problems.append(Problem(path=place, message=f"more than {_MAX_PROBLEMS} problems"))
                break
            problems.extend(self._explain(error, place))
        return problems

    def _explain(self, error: native.ValidationError, place: str) -> Iterator[Problem]:
        import jsonschema_rs as native

        path = place + "".join(map(place_step, error.instance_path))
        keyword = error.kind.name
        if isinstance(error.kind, native.ValidationErrorKind.AdditionalProperties):
            declared_names = _known_properties(self.source, error.schema_path)
            for name in error.kind.unexpected:
                yield Problem(path=path + place_step(name), message="unknown property", keyword=keyword,
                              suggestion=did_you_mean(name, declared_names))  # fmt: skip
            return
        suggestion = None
        if isinstance(error.kind, native.ValidationErrorKind.Enum) and isinstance(error.instance, str):
            options = [option for option in error.kind.options if isinstance(option, str)]
            suggestion = did_you_mean(error.instance, options)
        yield Problem(path=path, message=_shorten(error.message), keyword=keyword, suggestion=suggestion)

    def __repr__(self) -> str:
        return f"Schema({_shorten(repr(self.source))})"


_compiled: OrderedDict[str, Schema] = OrderedDict()
_lock = threading.Lock()


def compile_schema(schema: Json) -> Schema:
    """Compile a JSON Schema; equal schemas share one compiled form."""
    if not isinstance(schema, (dict, bool)):
        raise UnsupportedSchema(f"a schema must be an object or a boolean, not {type(schema).__name__}")
    try:
        key = digest(check_json(schema, "schema"))
    except InvalidValue as error:
        raise UnsupportedSchema(str(error)) from error
    with _lock:
        cached = _compiled.get(key)
        if cached is not None:
            _compiled.move_to_end(key)
            return cached
    compiled = Schema(orjson.loads(orjson.dumps(schema)))
    with _lock:
        _compiled[key] = compiled
        while len(_compiled) > _MAX_CACHED:
            _compiled.popitem(last=False)
    return compiled


def check_pattern(pattern: str) -> None:
    """Raise UnsupportedSchema for a pattern that cannot run in linear time."""
    _compile({"pattern": pattern})


def default_errors(schema: Json) -> list[tuple[str, str]]:
    """Find the defaults that do not fit their own schema."""
    compiled = compile_schema(schema)
    try:
        defaults = compiled.defaults
    except UnsupportedSchema as error:
        return [("", str(error).removeprefix("schema: "))]
    return [] if defaults is None else list(defaults.errors(compile_schema(defaults.relax_required(schema)).problems))


def without_required_defaults(schema: Json) -> Json:
    """Make the schema of values before their defaults are filled in."""
    defaults = compile_schema(schema).defaults
    return schema if defaults is None else defaults.relax_required(schema)


def schema_errors(schema: Json) -> list[tuple[str, str]]:
    """Find every problem of a schema."""
    try:
        compile_schema(schema)
    except UnsupportedSchema as error:
        place, separator, message = str(error).partition(": ")
        has_place = bool(separator) and place.startswith("schema")
        return _meta_schema_errors(schema) or [
            (place.removeprefix("schema"), message) if has_place else ("", str(error))
        ]
    return []


def _meta_schema_errors(schema: Json) -> list[tuple[str, str]]:
    """Return the violations of the draft's meta-schema in document order; empty if the problem is another one."""
    if not isinstance(schema, dict) or not is_json(schema):
        return []
    import jsonschema_rs as native

    try:
        draft = _draft_of(schema)
        uri = next(uri for uri, kind in _DRAFTS.items() if kind == draft)
        meta = getattr(native, draft)({"$ref": f"http{'s' if '2020' in uri else ''}://{uri}"})
        large = _is_large(schema, None)
        errors = [_first_error(meta, schema)] if large else list(islice(meta.iter_errors(schema), _MAX_PROBLEMS))
    except (UnsupportedSchema, ValueError, RecursionError):
        return []  # too deep or of another draft: the caller reports that error
    errors.sort(key=lambda error: _position_in(schema, error.instance_path))
    return [("".join(map(place_step, error.instance_path)), _explain_meta_error(error)) for error in errors]


def _position_in(value: Json, path: list[str | int]) -> list[int]:
    """Return the position of a path in a value as a list of indexes, for sorting."""
    indexes = []
    for part in path:
        indexes.append(list(value).index(part) if isinstance(value, dict) else int(part))
        value = value[part]
    return indexes


def _read_defaults(schema: Json) -> Defaults | None:
    if not isinstance(schema, dict) or b'"default":' not in orjson.dumps(schema):
        return None
    return defaults_of(schema)


def _compile(schema: Json) -> native.Validator:
    import jsonschema_rs as native  # the import takes 5 ms, and many flows need none

    kind: type[native.Validator] = getattr(native, _draft_of(schema))
    if isinstance(schema, dict):
        _ReferenceUnfolding(schema).check()
    try:
        return kind(
            schema,
            retriever=_refuse,
            validate_formats=False,
            pattern_options=native.RegexOptions(size_limit=_MAX_PATTERN_BYTES),
        )
    except native.ValidationError as error:
        where = "schema" + "".join(map(place_step, error.instance_path))
        raise UnsupportedSchema(f"{where}: {_explain_meta_error(error)}") from error
    except (native.ReferencingError, ValueError, RecursionError) as error:
        raise UnsupportedSchema(f"schema: {_shorten(str(error))}") from error


def _name_check(schema: Json) -> Callable[[Json], bool] | None:
    """Return a Python predicate for an object schema that restricts only names; None for any other schema."""

    # Schemas of functions without type hints are of this kind. The predicate is as fast as the native code, which then
    # is imported only to explain a problem.
    if not _has_only(schema, _NAME_KEYWORDS) or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    allows_others = schema.get("additionalProperties", True)
    if type(properties) is not dict or type(required) is not list or type(allows_others) is not bool:
        return None
    if not all(type(name) is str for name in required) or len(set(required)) != len(required):
        return None
    if not all(_has_only(inner, _ANNOTATIONS) for inner in properties.values()):
        return None

    # The predicate runs at every call: plain loops are faster than set operations on small objects.
    required_names, allowed_names = tuple(required), None if allows_others else frozenset(properties)

    def is_valid(value: Json) -> bool:
        if type(value) is not dict:
            return False
        for name in required_names:
            if name not in value:
                return False
        if allowed_names is not None:
            for name in value:
                if name not in allowed_names:
                    return False
        return True

    return is_valid


def _has_only(schema: Json, allowed: frozenset[str]) -> bool:
    """Return True if a schema has only the allowed keywords, with texts as title and description."""
    if type(schema) is not dict or not allowed.issuperset(schema):
        return False
    return type(schema.get("title", "")) is str and type(schema.get("description", "")) is str


def _draft_of(schema: Json) -> str:
    dialect = schema.get("$schema", DEFAULT_DRAFT) if isinstance(schema, dict) else DEFAULT_DRAFT
    if not isinstance(dialect, str):
        raise UnsupportedSchema("schema.$schema: must be a string with the URI of a draft")
    address = dialect.removeprefix("https://").removeprefix("http://").rstrip("#")
    kind = _DRAFTS.get(address)
    if kind is None:
        raise UnsupportedSchema(f"schema.$schema: {_shorten(dialect)!r} is not supported; use 2020-12 or draft-07")
    return kind


def _refuse(uri: str) -> Any:
    raise ValueError(f"remote reference {uri} is not allowed; put the schema under $defs")


def _explain_meta_error(error: native.ValidationError) -> str:
    text = _shorten(error.message)
    if error.schema_path[-1:] == ["anyOf"] and error.instance_path[-1:] == ["type"]:
        types = error.instance if isinstance(error.instance, list) else [error.instance]
        wrong_type = next((name for name in types if name not in _TYPES), error.instance)
        suggestion = did_you_mean(wrong_type, _TYPES) if isinstance(wrong_type, str) else None
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        return f"{_shorten(str(orjson.dumps(wrong_type), 'utf-8'))} is not a JSON type; use {', '.join(_TYPES)}{hint}"
    if 'is not a "regex"' in text:
        return f"{text} that runs in linear time; remove look-around and back-references, or make it smaller"
    return text


def _accepts_any_object(schema: Json) -> bool:
    if isinstance(schema, bool):
        return schema
    if not _IGNORED_KEYWORDS.issuperset(schema.keys() - {"properties", "additionalProperties"}):
        return False
    kind = schema.get("type", "object")
    return (
        (kind == "object" or (isinstance(kind, list) and "object" in kind))
        and not schema.get("properties")
        and schema.get("additionalProperties", True) is True
    )


def _known_properties(schema: Json, path: list[str | int]) -> list[str]:
    """Return the property names declared next to the keyword at `path`; empty if a reference is in between."""
    for part in path[:-1]:
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return []
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def place_step(part: str | int) -> str:
    """Write one step of a place in a value: `.name`, `[3]`, `['a key']`."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f"[{_shorten(part)!r}]"


def _is_large(value: Json, schema: Json) -> bool:
    """Return True if a value may have too many problems: the library builds all of them before the first."""
    values = _count_values(value, _MAX_LISTED_VALUES + 1)
    return (
        values > _MAX_LISTED_VALUES
        or values * _count_values(schema, _MAX_LISTED_PAIRS // values + 1) > _MAX_LISTED_PAIRS
    )


def _count_values(value: Json, limit: int) -> int:
    """Return the number of values in a value, itself included; `limit` if there are more."""
    count, pending = 0, [value]
    while pending and count < limit:
        item = pending.pop()
        count += 1
        if isinstance(item, dict):
            pending.extend(islice(item.values(), limit))
        elif isinstance(item, list):
            pending.extend(islice(item, limit))
    return count


def _first_error(validator: native.Validator, value: Json) -> native.ValidationError:
    """Return the first error of a value that does not fit, without building the others."""
    import jsonschema_rs as native

    try:
        validator.validate(value)
    except native.ValidationError as error:
        return error
    raise AssertionError("the value fits")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT_LENGTH else text[: _MAX_TEXT_LENGTH - 1] + "…"


_MAX_UNFOLDED: Final = 50_000
_IN_PLACE_SCHEMAS: Final = ("not", "if", "then", "else")
_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")


class _ReferenceUnfolding:
    """Counts the schemas that apply to one value."""

    # References can double that number at every step.

    def __init__(self, root: dict[str, Any]) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._bases: dict[int, str] = {}
        self._targets: dict[str, Any] = {"": root}
        self._sizes: dict[int, int] = {}
        stack: list[tuple[Any, str]] = [(root, "")]
        while stack:
            node, base = stack.pop()
            if isinstance(node, list):
                stack.extend((item, base) for item in node)
            elif isinstance(node, dict):
                base = self._register(node, base)
                stack.extend((item, base) for item in node.values())

    def _register(self, node: dict[str, Any], base: str) -> str:
        schema_id = node.get("$id")
        if isinstance(schema_id, str):
            from urllib.parse import urljoin

            base = urljoin(base, schema_id).rstrip("#")
            self._targets[base] = node
        for anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
            if isinstance(anchor, str):
                self._targets[f"{base}#{anchor}"] = node
        self._bases[id(node)] = base
        self._nodes.append(node)
        return base

    def check(self) -> None:
        """Raise UnsupportedSchema if validating one value could take too long."""
        try:
            largest = max(map(self._unfolded_size, self._nodes))
        except RecursionError as error:
            raise UnsupportedSchema("schema: its chain of references is too long") from error
        if largest > _MAX_UNFOLDED:
            raise UnsupportedSchema(
                f"schema: its references unfold to more than {_MAX_UNFOLDED:,} schemas for one value"
            )

    def _unfolded_size(self, node: Any) -> int:
        """Return the number of schemas that apply to the same value as `node`, including itself."""
        if not isinstance(node, dict):
            return 1
        cached = self._sizes.get(id(node))
        if cached is not None:
            return cached
        self._sizes[id(node)] = 1  # a cycle counts once
        total = 1 + sum(map(self._unfolded_size, self._applied_schemas(node)))
        self._sizes[id(node)] = min(total, _MAX_UNFOLDED + 1)
        return total

    def _applied_schemas(self, node: dict[str, Any]) -> Iterator[Any]:
        for key in _IN_PLACE_SCHEMAS:
            if key in node:
                yield node[key]
        for key in _IN_PLACE_LISTS:
            if isinstance(node.get(key), list):
                yield from node[key]
        for key in ("dependentSchemas", "dependencies"):
            if isinstance(node.get(key), dict):
                yield from node[key].values()
        for key in ("$ref", "$dynamicRef"):
            if isinstance(node.get(key), str):
                yield self._target(node[key], self._bases[id(node)])

    def _target(self, ref: str, base: str) -> Any:
        """Return the target of a reference; True if there is none, which the native code reports later."""
        from urllib.parse import unquote, urljoin

        address = ref if not base else urljoin(base, ref)
        if address in self._targets:
            return self._targets[address]
        document, _, pointer = address.partition("#")
        return at_pointer(self._targets.get(document, True), unquote(pointer))
