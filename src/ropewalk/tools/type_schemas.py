"""JSON Schemas of type hints, and the conversion of Python objects to JSON.

Known hints are str, int, float, bool, None, list, dict[str, ...], Optional, Union, Literal, Enum, TypedDict,
dataclasses and Annotated; `object` and `Any` have the schema `{}`. Pydantic, imported on demand, handles all others.
Dict keys that are not strings, and hints that pydantic does not know, are refused. To add a kind of hint, add a
branch to `HintReader.shape`.

A result whose hint declares a model is converted by `answers.to_json`, as every other result is when it is not JSON.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from ..errors import InvalidTool
from ..fast_dataclass import dataclass
from ..schema import Schema, compile_schema
from ..values import Json

Convert: TypeAlias = Callable[[Any], Any]


def to_json(value: Any) -> Any:
    """Convert a result of a declared type to JSON."""
    from .answers import to_json as convert  # few tools return models

    return convert(value)


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
class TypeSchema:
    """The JSON Schema of a hint and its conversions; None if no conversion is needed."""

    schema: dict[str, Json]
    # Converts a JSON value to Python.
    read: Convert | None = None
    # Converts a Python value to JSON.
    write: Convert | None = None


class HintReader:
    """Converts the hints of one function; `definitions` collects the schemas of recursive types by name."""

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}
        self._open_names: dict[Any, str] = {}  # the classes being read, to notice recursion
        self._recursive: set[Any] = set()
        self._readers: dict[Any, Convert | None] = {}

    def shape(self, hint: Any, place: str) -> TypeSchema:
        """Return the schema and the conversions of a hint."""

        # Raises InvalidTool, naming `place`, if it has none.
        if isinstance(hint, typing.Hashable) and hint in _SCALARS:
            return TypeSchema(dict(_SCALARS[hint]))
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
            return TypeSchema({"enum": [arg.value if isinstance(arg, enum.Enum) else arg for arg in args]})
        if origin is None and isinstance(hint, type):
            if issubclass(hint, enum.Enum):
                return TypeSchema({"enum": [member.value for member in hint]}, hint, to_json)
            if typing.is_typeddict(hint) or dataclasses.is_dataclass(hint):
                return self._read_class(hint, place)
        return _pydantic_schema(hint, place)

    def _annotated(self, args: tuple[Any, ...], place: str) -> TypeSchema:
        texts = [extra for extra in args[1:] if isinstance(extra, str)]
        if any(not isinstance(extra, str) for extra in args[1:]):
            return _pydantic_schema(Annotated[args], place)
        inner = self.shape(args[0], place)
        return dataclasses.replace(inner, schema={**inner.schema, "description": " ".join(texts)})

    def _list(self, item: Any, place: str) -> TypeSchema:
        inner = self.shape(item, f"{place}[]")
        read = inner.read
        return TypeSchema(
            {"type": "array", "items": inner.schema},
            None if read is None else lambda value: [read(item) for item in value],
            _write_items(inner.write),
        )

    def _dict(self, args: tuple[Any, ...], place: str) -> TypeSchema:
        if args[0] is not str:
            raise InvalidTool(f"{place}: keys of a JSON object are strings; use dict[str, ...]")
        inner = self.shape(args[1], f"{place}.*")
        read = inner.read
        return TypeSchema(
            {"type": "object", "additionalProperties": inner.schema} if inner.schema else {"type": "object"},
            None if read is None else lambda value: {key: read(item) for key, item in value.items()},
            _write_items(inner.write),
        )

    def _union(self, args: tuple[Any, ...], place: str) -> TypeSchema:
        shapes = [self.shape(arg, place) for arg in args]
        # Plain types fit into one `type`; anything else needs `anyOf`.
        schema: dict[str, Json]
        if all(set(shape.schema) == {"type"} for shape in shapes):
            schema = {"type": [shape.schema["type"] for shape in shapes]}
        else:
            schema = {"anyOf": [shape.schema for shape in shapes]}
        write = to_json if any(shape.write for shape in shapes) else None
        if not any(shape.read for shape in shapes):
            return TypeSchema(schema, None, write)
        # The first member whose schema accepts the value converts it.
        definitions = self.definitions
        compiled: list[tuple[Schema, Convert | None]] = []

        def read(value: Json) -> Any:
            if not compiled:  # at the first call, when recursive definitions are complete
                for shape in shapes:
                    compiled.append((compile_schema({**shape.schema, "$defs": definitions}), shape.read))
            for schema, convert in compiled:
                if schema.is_valid(value):
                    return convert(value) if convert else value
            return value

        return TypeSchema(schema, read, write)

    def _read_class(self, hint: Any, place: str) -> TypeSchema:
        """Convert a dataclass or TypedDict; one that contains itself becomes a definition."""
        if hint in self._open_names:
            self._recursive.add(hint)
            return TypeSchema(
                {"$ref": f"#/$defs/{self._open_names[hint]}"}, lambda value: self._read(hint, value), to_json
            )
        # Two classes may have the same name.
        name = hint.__name__
        while name in self.definitions or name in self._open_names.values():
            name += "_"
        self._open_names[hint] = name
        if dataclasses.is_dataclass(hint):
            shape = self._dataclass(hint, place)
        else:
            shape = self._typed_dict(hint, place)
        del self._open_names[hint]
        self._readers[hint] = shape.read
        if hint in self._recursive:
            self.definitions[name] = shape.schema
            return dataclasses.replace(shape, schema={"$ref": f"#/$defs/{name}"})
        return shape

    def _read(self, hint: Any, value: Json) -> Any:
        read = self._readers[hint]
        return read(value) if read else value

    def _typed_dict(self, hint: Any, place: str) -> TypeSchema:
        shapes, required = self.members(hint, place)
        reads = {key: shape.read for key, shape in shapes.items() if shape.read}
        return TypeSchema(
            _object_schema(shapes, required),
            (lambda value: _read_members(value, reads)) if reads else None,
            to_json if any(shape.write for shape in shapes.values()) else None,
        )

    def members(self, hint: Any, place: str) -> tuple[dict[str, TypeSchema], list[str]]:
        """Return the members of a TypedDict, and the names of the required ones."""
        fields = typing.get_type_hints(hint, include_extras=True)
        shapes = {key: self.shape(_strip_required(inner), f"{place}.{key}") for key, inner in fields.items()}
        return shapes, [key for key, inner in fields.items() if _is_required(hint, key, inner)]

    def _dataclass(self, hint: Any, place: str) -> TypeSchema:
        hints = typing.get_type_hints(hint, include_extras=True)
        fields = [f for f in dataclasses.fields(hint) if f.init]
        shapes = {f.name: self.shape(hints[f.name], f"{place}.{f.name}") for f in fields}
        missing = dataclasses.MISSING
        required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
        reads = {key: shape.read for key, shape in shapes.items() if shape.read}
        return TypeSchema(_object_schema(shapes, required), lambda value: hint(**_read_members(value, reads)), to_json)


def _write_items(write: Convert | None) -> Convert | None:
    """Return what converts a list or dict with the conversion of its items."""
    if write is None or write is to_json:
        return write

    def convert(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [write(item) for item in value]
        if isinstance(value, dict):
            return {key: write(item) for key, item in value.items()}
        return to_json(value)  # not of the declared type, which the check of the result reports

    return convert


def _read_members(value: dict[str, Json], reads: dict[str, Convert]) -> dict[str, Any]:
    return {key: reads[key](item) if key in reads else item for key, item in value.items()}


def _object_schema(shapes: dict[str, TypeSchema], required: list[str]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {key: shape.schema for key, shape in shapes.items()},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _is_required(hint: Any, key: str, inner: Any) -> bool:
    """Return True for a required member; postponed annotations show it only in the resolved hint."""
    marker = get_origin(inner)
    if marker is typing.NotRequired or marker is typing.Required:
        return marker is typing.Required
    return key in hint.__required_keys__


def _strip_required(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (typing.Required, typing.NotRequired) else hint


def _pydantic_schema(hint: Any, place: str) -> TypeSchema:
    try:
        import pydantic
    except ImportError as error:
        raise InvalidTool(
            f"{place}: the type {hint!r} has no JSON Schema here; use a plain type, or install pydantic"
        ) from error
    try:
        adapter = pydantic.TypeAdapter(hint)
        schema = adapter.json_schema()
    except Exception as error:  # errors of pydantic, and of the types' own code
        raise InvalidTool(f"{place}: the type {hint!r} has no JSON Schema: {error}") from error
    definitions = schema.pop("$defs", None)
    if definitions:
        schema = {"$defs": definitions, **schema}
    return TypeSchema(schema, adapter.validate_python, lambda value: adapter.dump_python(value, mode="json"))
