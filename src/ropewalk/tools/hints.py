"""Type hints as JSON Schemas, and the conversions a hint asks for.

str int float bool None, list, dict[str, ...], Optional and Union, Literal, Enum, TypedDict, dataclass,
Annotated; `object` and `Any` are the schema `{}`. Any other hint is handed to pydantic, imported then
only. Refused: dict keys that are not strings, and hints pydantic does not know. To add a kind of
hint, add a branch to `_Reader.shape`.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from ..errors import InvalidTool
from ..frozen import dataclass
from ..schema import Schema, compile_schema
from ..values import Json
from .models import to_json

Convert: TypeAlias = Callable[[Any], Any]

_SCALARS: dict[Any, dict[str, Json]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    list: {"type": "array"},
    dict: {"type": "object"},
}
_LISTS = (list, Sequence)
_DICTS = (dict, Mapping)


@dataclass(frozen=True, slots=True)
class Shape:
    """A hint's schema; `read` makes the Python value of a JSON one, `write` the JSON value of a
    Python one; None where nothing needs converting."""

    schema: dict[str, Json]
    read: Convert | None = None
    write: Convert | None = None


class HintReader:
    """Reads the hints of one function; `definitions` collects what recursive types need."""

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}
        self._open: dict[Any, str] = {}
        self._recursive: set[Any] = set()
        self._readers: dict[Any, Convert | None] = {}

    def shape(self, hint: Any, place: str) -> Shape:
        """The Shape of one hint; InvalidTool naming `place` where there is none."""
        if isinstance(hint, typing.Hashable) and hint in _SCALARS:
            return Shape(dict(_SCALARS[hint]))
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._annotated(args, place)
        if origin in _LISTS or origin is typing.Sequence:
            return self._list(args[0], place)
        if origin in _DICTS:
            return self._dict(args, place)
        if origin is Union or origin is types.UnionType:
            return self._union(args, place)
        if origin is Literal:
            return Shape({"enum": [a.value if isinstance(a, enum.Enum) else a for a in args]})
        if origin is None and isinstance(hint, type):
            if issubclass(hint, enum.Enum):
                return Shape({"enum": [member.value for member in hint]}, hint, to_json)
            if typing.is_typeddict(hint) or dataclasses.is_dataclass(hint):
                return self._named(hint, place)
        return _by_pydantic(hint, place)

    def _annotated(self, args: tuple[Any, ...], place: str) -> Shape:
        texts = [extra for extra in args[1:] if isinstance(extra, str)]
        if any(not isinstance(extra, str) for extra in args[1:]):
            return _by_pydantic(Annotated[args], place)
        inner = self.shape(args[0], place)
        return dataclasses.replace(inner, schema={**inner.schema, "description": " ".join(texts)})

    def _list(self, item: Any, place: str) -> Shape:
        inner = self.shape(item, f"{place}[]")
        read = inner.read
        return Shape(
            {"type": "array", "items": inner.schema},
            None if read is None else lambda value: [read(one) for one in value],
            inner.write,
        )

    def _dict(self, args: tuple[Any, ...], place: str) -> Shape:
        if args[0] is not str:
            raise InvalidTool(f"{place}: keys of a JSON object are strings; use dict[str, ...]")
        inner = self.shape(args[1], f"{place}.*")
        read = inner.read
        return Shape(
            {"type": "object", "additionalProperties": inner.schema} if inner.schema else {"type": "object"},
            None if read is None else lambda value: {key: read(one) for key, one in value.items()},
            inner.write,
        )

    def _union(self, args: tuple[Any, ...], place: str) -> Shape:
        shapes = [self.shape(arg, place) for arg in args]
        kinds = [shape.schema.get("type") for shape in shapes]
        if all(set(shape.schema) == {"type"} for shape in shapes):
            schema: dict[str, Json] = {"type": kinds}
        else:
            schema = {"anyOf": [shape.schema for shape in shapes]}
        write = to_json if any(shape.write for shape in shapes) else None
        if not any(shape.read for shape in shapes):
            return Shape(schema, None, write)
        definitions = self.definitions
        compiled: list[tuple[Schema, Convert | None]] = []

        def read(value: Json) -> Any:
            if not compiled:  # at the first call: recursive definitions are complete only then
                compiled.extend((compile_schema({**one.schema, "$defs": definitions}), one.read) for one in shapes)
            for schema, convert in compiled:
                if schema.is_valid(value):
                    return convert(value) if convert else value
            return value

        return Shape(schema, read, write)

    def _named(self, hint: Any, place: str) -> Shape:
        if hint in self._open:
            self._recursive.add(hint)
            return Shape({"$ref": f"#/$defs/{self._open[hint]}"}, lambda value: self._read(hint, value), to_json)
        name = hint.__name__
        while name in self.definitions or name in self._open.values():
            name += "_"
        self._open[hint] = name
        if dataclasses.is_dataclass(hint):
            shape = self._dataclass(hint, place)
        else:
            shape = self._typed_dict(hint, place)
        del self._open[hint]
        self._readers[hint] = shape.read
        if hint in self._recursive:
            self.definitions[name] = shape.schema
            return dataclasses.replace(shape, schema={"$ref": f"#/$defs/{name}"})
        return shape

    def _read(self, hint: Any, value: Json) -> Any:
        read = self._readers[hint]
        return read(value) if read else value

    def _typed_dict(self, hint: Any, place: str) -> Shape:
        shapes, required = self.members(hint, place)
        reads = {key: shape.read for key, shape in shapes.items() if shape.read}
        return Shape(
            _object(shapes, required),
            (lambda value: {k: reads[k](v) if k in reads else v for k, v in value.items()}) if reads else None,
            to_json if any(shape.write for shape in shapes.values()) else None,
        )

    def members(self, hint: Any, place: str) -> tuple[dict[str, Shape], list[str]]:
        """The members of a TypedDict, and the names of those that have to be there."""
        fields = typing.get_type_hints(hint, include_extras=True)
        shapes = {key: self.shape(_bare(inner), f"{place}.{key}") for key, inner in fields.items()}
        return shapes, [key for key, inner in fields.items() if _is_required(hint, key, inner)]

    def _dataclass(self, hint: Any, place: str) -> Shape:
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [f for f in dataclasses.fields(hint) if f.init]
        shapes = {f.name: self.shape(hints[f.name], f"{place}.{f.name}") for f in fields}
        missing = dataclasses.MISSING
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        reads = {key: shape.read for key, shape in shapes.items() if shape.read}

        def read(value: dict[str, Json]) -> Any:
            return hint(**{k: reads[k](v) if k in reads else v for k, v in value.items()})

        return Shape(_object(shapes, required), read, to_json)


def _object(shapes: dict[str, Shape], required: list[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {key: shape.schema for key, shape in shapes.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _is_required(hint: Any, key: str, inner: Any) -> bool:
    """Postponed annotations hide NotRequired from the TypedDict itself: look at the resolved hint first."""
    marker = get_origin(inner)
    if marker is typing.NotRequired or marker is typing.Required:
        return marker is typing.Required
    return key in hint.__required_keys__


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (typing.Required, typing.NotRequired) else hint


def _by_pydantic(hint: Any, place: str) -> Shape:
    try:
        import pydantic
    except ImportError as error:
        raise InvalidTool(
            f"{place}: the type {hint!r} has no JSON Schema here; use a plain type, or install pydantic"
        ) from error
    try:
        adapter = pydantic.TypeAdapter(hint)
        schema = adapter.json_schema()
    except Exception as error:  # its own errors, and those of the code of types
        raise InvalidTool(f"{place}: the type {hint!r} has no JSON Schema: {error}") from error
    inner = schema.pop("$defs", None)
    if inner:
        schema = {"$defs": inner, **schema}
    return Shape(schema, adapter.validate_python, lambda value: adapter.dump_python(value, mode="json"))
