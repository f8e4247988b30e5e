"""Compiled JSON Schemas: what fits, and everything that does not, with its place.

Drafts 2020-12 (the default) and draft-07. Refused: other drafts, fetching a `$ref` from anywhere,
patterns a linear engine cannot run (look-around, back-references), schemas nested past the limit
or whose references unfold past one. `format` is an annotation and never enforced. Schemas are
copied when compiled and never changed. A value given here must have passed `values.check_json`:
the native code recurses as deep as the value does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..errors import InvalidValue, Problem, UnsupportedSchema
from ..values import Json, check_json, closest, digest, is_json

if TYPE_CHECKING:
    import jsonschema_rs as native

    from .defaults import Defaults

DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS: Final = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
}
_MOST_PROBLEMS: Final = 200
_MOST_TEXT: Final = 300
_PATTERN_BYTES: Final = 2 << 20
_KEPT: Final = 1024
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")
_NOTES: Final = frozenset(("type", "title", "description", "$schema", "$id", "$comment", "$defs", "definitions",
                           "examples", "default", "deprecated"))  # fmt: skip
_NAMING: Final = frozenset(("type", "title", "description", "properties", "required", "additionalProperties"))
_REMARKS: Final = frozenset(("title", "description", "default"))


class Schema:
    """One compiled schema, safe to share between threads.

    `is_valid(value)` is the native predicate itself, or that of a schema which only asks for names.
    `open` is true when every JSON object fits, so that a caller may leave the check out.
    """

    __slots__ = ("_defaults", "_native", "is_valid", "open", "source")

    def __init__(self, source: Json) -> None:
        self.source = source
        self.open = _is_open(source)
        self._defaults: tuple[Defaults | None] | None = None
        named = _by_names(source)
        self._native = None if named is not None else _compile(source)
        self.is_valid: Callable[[Json], bool] = named or self._validator().is_valid

    def _validator(self) -> native.Validator:
        if self._native is None:
            self._native = _compile(self.source)
        return self._native

    @property
    def defaults(self) -> Defaults | None:
        """What it says of values that are not given; None when it has no `default`, which is found out once."""
        if self._defaults is None:
            self._defaults = (_defaults(self.source),)
        return self._defaults[0]

    def filled(self, value: Json) -> Json:
        """The value with the declared defaults of properties that are not there; the same one where none is missing."""
        known = self.defaults
        return value if known is None else known.fill(value)

    def problems(self, value: Json, place: str = "value") -> list[Problem]:
        """Every way in which `value` does not fit, each with its JSON path below `place`; [] when it fits.

        At most 200 are listed; a last one then says that there are more.
        """
        if self.is_valid(value):
            return []
        found: list[Problem] = []
        for error in self._validator().iter_errors(value):
            if len(found) >= _MOST_PROBLEMS:
                found.append(Problem(path=place, message=f"more than {_MOST_PROBLEMS} problems"))
                break
            found.extend(self._explain(error, place))
        return found

    def _explain(self, error: native.ValidationError, place: str) -> Iterator[Problem]:
        import jsonschema_rs as native

        where = place + "".join(map(segment, error.instance_path))
        keyword = error.kind.name
        if isinstance(error.kind, native.ValidationErrorKind.AdditionalProperties):
            known = _known_properties(self.source, error.schema_path)
            for name in error.kind.unexpected:
                yield Problem(path=where + segment(name), message="unknown property", keyword=keyword,
                              suggestion=closest(name, known))  # fmt: skip
            return
        suggestion = None
        if isinstance(error.kind, native.ValidationErrorKind.Enum) and isinstance(error.instance, str):
            options = [option for option in error.kind.options if isinstance(option, str)]
            suggestion = closest(error.instance, options)
        yield Problem(path=where, message=_short(error.message), keyword=keyword, suggestion=suggestion)

    def __repr__(self) -> str:
        return f"Schema({_short(repr(self.source))})"


_compiled: OrderedDict[str, Schema] = OrderedDict()
_lock = threading.Lock()


def compile_schema(schema: Json) -> Schema:
    """The compiled form of a JSON Schema (an object or a boolean); the same one for equal schemas.

    Raises UnsupportedSchema when it is of another draft, nested too deep, refers to something
    outside itself, or is not a schema.
    """
    if not isinstance(schema, (dict, bool)):
        raise UnsupportedSchema(f"a schema is an object or a boolean, not {type(schema).__name__}")
    try:
        key = digest(check_json(schema, "schema"))
    except InvalidValue as error:
        raise UnsupportedSchema(str(error)) from error
    with _lock:
        known = _compiled.get(key)
        if known is not None:
            _compiled.move_to_end(key)
            return known
    made = Schema(orjson.loads(orjson.dumps(schema)))
    with _lock:
        _compiled[key] = made
        while len(_compiled) > _KEPT:
            _compiled.popitem(last=False)
    return made


def misfits(schema: Json) -> list[tuple[str, str]]:
    """Each `default` that does not fit: where in the schema (".properties.n.default"), and what is wrong."""
    compiled = compile_schema(schema)
    try:
        known = compiled.defaults
    except UnsupportedSchema as wrong:
        return [("", str(wrong).removeprefix("schema: "))]
    return [] if known is None else list(known.misfits(compile_schema(known.relaxed(schema)).problems))


def relaxed(schema: Json) -> Json:
    """The schema of what may be left out: a property that has a default is required of nobody who gives a value."""
    known = compile_schema(schema).defaults
    return schema if known is None else known.relaxed(schema)


def flaws(schema: Json) -> list[tuple[str, str]]:
    """Everything for which a schema cannot be compiled, and where in it (".items.type"); [] when it can."""
    try:
        compile_schema(schema)
    except UnsupportedSchema as wrong:
        place, found, message = str(wrong).partition(": ")
        inside = bool(found) and place.startswith("schema")
        return _misspelt(schema) or [(place.removeprefix("schema"), message) if inside else ("", str(wrong))]
    return []


def _misspelt(schema: Json) -> list[tuple[str, str]]:
    """What its draft does not have, in the order of the schema; [] where that is not what is wrong."""
    if not isinstance(schema, dict) or not is_json(schema):
        return []
    import jsonschema_rs as native

    try:
        draft = _draft_of(schema)
        uri = next(uri for uri, kind in _DRAFTS.items() if kind == draft)
        meta = getattr(native, draft)({"$ref": f"http{'s' if '2020' in uri else ''}://{uri}"})
        errors = list(islice(meta.iter_errors(schema), _MOST_PROBLEMS))
    except (UnsupportedSchema, ValueError, RecursionError):
        return []  # too deep, of another draft: what is told of it then
    errors.sort(key=lambda error: _order(schema, error.instance_path))
    return [("".join(map(segment, error.instance_path)), _advice(error)) for error in errors]


def _order(value: Json, path: list[str | int]) -> list[int]:
    """Where in a value a path leads, to be compared."""
    found = []
    for part in path:
        found.append(list(value).index(part) if isinstance(value, dict) else int(part))
        value = value[part]
    return found


def _defaults(schema: Json) -> Defaults | None:
    if not isinstance(schema, dict) or b'"default":' not in orjson.dumps(schema):
        return None
    from .defaults import defaults_of  # most schemas have none

    return defaults_of(schema)


def _compile(schema: Json) -> native.Validator:
    import jsonschema_rs as native  # 5 ms, and there are flows that need none

    from .unfolding import Unfolding

    kind: type[native.Validator] = getattr(native, _draft_of(schema))
    if isinstance(schema, dict):
        Unfolding(schema).check()
    try:
        return kind(
            schema,
            retriever=_refuse,
            validate_formats=False,
            pattern_options=native.RegexOptions(size_limit=_PATTERN_BYTES),
        )
    except native.ValidationError as error:
        where = "schema" + "".join(map(segment, error.instance_path))
        raise UnsupportedSchema(f"{where}: {_advice(error)}") from error
    except (native.ReferencingError, ValueError, RecursionError) as error:
        raise UnsupportedSchema(f"schema: {_short(str(error))}") from error


def _by_names(schema: Json) -> Callable[[Json], bool] | None:
    """The predicate of an object schema that only says which names there are, None for any other.

    The schemas of functions without type hints are like that. Nothing in them can be wrong, and the
    answer is as quick as the native one, which is then imported only to tell what does not fit.
    """
    if not _says_only(schema, _NAMING) or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    more = schema.get("additionalProperties", True)
    if type(properties) is not dict or type(required) is not list or type(more) is not bool:
        return None
    if not all(type(name) is str for name in required) or len(set(required)) != len(required):
        return None
    if not all(_says_only(inner, _REMARKS) for inner in properties.values()):
        return None
    needed, names = tuple(required), None if more else frozenset(properties)

    def is_valid(value: Json) -> bool:
        if type(value) is not dict:
            return False
        for name in needed:
            if name not in value:
                return False
        if names is not None:
            for name in value:
                if name not in names:
                    return False
        return True

    return is_valid


def _says_only(schema: Json, allowed: frozenset[str]) -> bool:
    """Whether a schema has no other keywords than these, and the remarks among them are text."""
    if type(schema) is not dict or not allowed.issuperset(schema):
        return False
    return type(schema.get("title", "")) is str and type(schema.get("description", "")) is str


def _draft_of(schema: Json) -> str:
    named = schema.get("$schema", DEFAULT_DRAFT) if isinstance(schema, dict) else DEFAULT_DRAFT
    if not isinstance(named, str):
        raise UnsupportedSchema("schema.$schema: must be the URI of a draft, as a string")
    bare = named.removeprefix("https://").removeprefix("http://").rstrip("#")
    kind = _DRAFTS.get(bare)
    if kind is None:
        raise UnsupportedSchema(f"schema.$schema: {_short(named)!r} is not supported; use 2020-12 or draft-07")
    return kind


def _refuse(uri: str) -> Any:
    raise ValueError(f"fetching {uri} is refused; put the schema under $defs")


def _advice(error: native.ValidationError) -> str:
    text = _short(error.message)
    if error.schema_path[-1:] == ["anyOf"] and error.instance_path[-1:] == ["type"]:
        given = error.instance if isinstance(error.instance, list) else [error.instance]
        named = next((one for one in given if one not in _TYPES), error.instance)
        near = closest(named, _TYPES) if isinstance(named, str) else None
        hint = f"; did you mean {near}?" if near else ""
        return f"{_short(str(orjson.dumps(named), 'utf-8'))} is no type; there are {', '.join(_TYPES)}{hint}"
    if 'is not a "regex"' in text:
        return f"{text} that runs in linear time (look-around and back-references cannot, nor may it be very large)"
    return text


def _is_open(schema: Json) -> bool:
    if isinstance(schema, bool):
        return schema
    if not _NOTES.issuperset(schema.keys() - {"properties", "additionalProperties"}):
        return False
    kind = schema.get("type", "object")
    return (
        (kind == "object" or (isinstance(kind, list) and "object" in kind))
        and not schema.get("properties")
        and schema.get("additionalProperties", True) is True
    )


def _known_properties(schema: Json, path: list[str | int]) -> list[str]:
    """Property names declared beside the keyword at `path`; [] where a reference stands between."""
    for part in path[:-1]:
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return []
    found = schema.get("properties") if isinstance(schema, dict) else None
    return list(found) if isinstance(found, dict) else []


def segment(part: str | int) -> str:
    """One step of a place in a value: `.name`, `[3]`, `['a key']`."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f"[{_short(part)!r}]"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
