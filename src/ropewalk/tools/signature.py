"""Derive a tool from a Python function: its name, description, schemas and handler.

The signature, the type hints and the docstring are read; nothing is called. Positional-only and `*args`
parameters are refused, because a call has only named arguments, and so are hints that cannot be resolved.

Docstrings may have the style of Google (`Args:`), NumPy (`Parameters` underlined) or Sphinx (`:param x:`). Text
in any other form stays in the description. To support another style, add a reader next to `_read_google`.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NewType

from ..errors import InvalidTool
from ..fast_dataclass import dataclass
from ..values import Json, is_json
from .raw_result import UnusableResult
from .type_schemas import Convert, HintReader, TypeSchema

IdempotencyKey = NewType("IdempotencyKey", str)
"""The hint of a parameter that gets the idempotency key of the call. The key is the same when a call is repeated
after a crash or a failed attempt. The parameter is not an argument of the tool."""

KEY: Final = "__ropewalk_key__"
"""The attribute of a handler that names this parameter."""


_BY_NAME: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The definition of a function as a tool, and the conversions between JSON and its types."""

    name: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None
    # By parameter, the conversion of its argument.
    reads: dict[str, Convert]
    # The conversion of arguments for `**kwargs`.
    more: Convert | None
    # The conversion of the result.
    write: Convert | None
    # The conversion of a result that is JSON to its declared type.
    read_result: Convert | None
    # The parameter that gets the idempotency key.
    key: str | None


def describe(function: Callable[..., Any]) -> Described:
    """Derive the definition of a tool from a function."""
    if not callable(function):
        raise InvalidTool(f"a tool is a function or a Tool, not {type(function).__qualname__}")
    target = _unwrap(function)
    name = getattr(target, "__name__", type(function).__name__)
    # Resolve every hint first: postponed annotations fail here, not in the middle of a schema.
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(_annotated_function(target), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise InvalidTool(f"tool {name!r}: its type hints cannot be read: {error}") from error
    description, texts = read_docstring(inspect.getdoc(target))
    reader = HintReader()
    properties: dict[str, Json] = {}
    shapes: dict[str, TypeSchema] = {}
    required: list[str] = []
    more: TypeSchema | None = None
    key = None
    # Sort the parameters into arguments of the tool, `**kwargs` and the idempotency key.
    for parameter in signature.parameters.values():
        place = f"tool {name!r}: parameter {parameter.name!r}"
        if parameter.kind is parameter.VAR_KEYWORD:
            members, required_members, more = _keyword_schema(hints.get(parameter.name, Any), reader, place)
            shapes |= members
            properties |= {member: shape.schema for member, shape in members.items()}
            required += required_members
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise InvalidTool(f"{place} cannot be given by name; make it a named parameter")
        if hints.get(parameter.name) is IdempotencyKey:
            key = parameter.name
            continue
        shapes[parameter.name] = shape = reader.shape(hints.get(parameter.name, Any), place)
        properties[parameter.name] = _property(shape, parameter, texts.get(parameter.name))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema = _arguments_schema(properties, required, more)
    output = _result_schema(function, hints, f"tool {name!r}: its result")
    return Described(
        name=name,
        description=description,
        input_schema=_lift_definitions(schema, reader),
        output_schema=output.schema if output else None,
        reads={parameter: shape.read for parameter, shape in shapes.items() if shape.read},
        more=more.read if more else None,
        write=output.write if output else None,
        read_result=output.read if output else None,
        key=key,
    )


def _arguments_schema(properties: dict[str, Json], required: list[str], more: TypeSchema | None) -> dict[str, Json]:
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    # Without `**kwargs` no other arguments are valid; untyped `**kwargs` accept any.
    if more is None:
        schema["additionalProperties"] = False
    elif more.schema:
        schema["additionalProperties"] = more.schema
    return schema


def _keyword_schema(
    hint: Any, reader: HintReader, place: str
) -> tuple[dict[str, TypeSchema], list[str], TypeSchema | None]:
    """Return what `**kwargs` accepts: the members of `Unpack[...]` and the required ones, or the schema of each."""
    if typing.get_origin(hint) is typing.Unpack:
        members, required = reader.members(typing.get_args(hint)[0], place)
        return members, required, None
    shape = reader.shape(hint, place)
    if shape.read is None and _is_integer_hint(hint):
        shape = replace(shape, read=_to_integer)
    return {}, [], shape


def _to_integer(value: Json) -> Json:
    """Convert 2.0 to 2, which JSON Schema also calls an integer."""

    # Named parameters are converted by the input check.
    return int(value) if type(value) is float and value.is_integer() else value


def schema_of(hint: Any, place: str) -> dict[str, Json]:
    """Return the JSON Schema of a type hint."""

    # Raises InvalidTool, naming `place`, if it has none.
    reader = HintReader()
    return _lift_definitions(reader.shape(hint, place).schema, reader)


def reader_of(hint: Any, place: str) -> Convert | None:
    """Return what converts JSON to a type hint; None if nothing has to be converted."""
    return HintReader().shape(hint, place).read


def schema_of_fields(hints: dict[str, Any], place: str) -> dict[str, Json]:
    """Return the schema of an object with exactly these members; those that may be None are optional."""
    reader = HintReader()
    properties = {name: reader.shape(hint, f"{place} {name!r}").schema for name, hint in hints.items()}
    required = [name for name, hint in hints.items() if type(None) not in typing.get_args(hint)]
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return _lift_definitions(schema, reader)


def adapt(function: Callable[..., Any], described: Described) -> Callable[..., Any]:
    """Return the handler for a function: the function itself, or a wrapper that converts arguments and result."""

    # The attribute KEY of the handler names the parameter for the idempotency key.
    reads, more = described.reads, described.more
    if not reads and more is None and described.write is None and described.key is None:
        return function
    from .directory.rows import argument_reader  # imported only for tools whose arguments are converted

    known = [*described.input_schema["properties"], described.key]
    handler = _wrap(function, argument_reader(described.name, reads, more, known), described.write)
    if described.key is not None:
        setattr(handler, KEY, described.key)
    return handler


def _wrap(
    function: Callable[..., Any], convert: Callable[[dict[str, Json]], dict[str, Any]], write: Convert | None
) -> Callable[..., Any]:
    """Wrap a function with the conversions; the wrapper is async, or a generator, if the function is."""
    # Only the async generator has no result to convert: its items are chunks.
    if is_async_generator(function):

        @functools.wraps(function)
        async def stream(**args: Json) -> AsyncIterator[Any]:
            async for item in function(**convert(args)):
                yield item

        return stream
    if is_async(function):

        @functools.wraps(function)
        async def call_async(**args: Json) -> Any:
            return _write_result(await function(**convert(args)), write)

        return call_async

    @functools.wraps(function)
    def call(**args: Json) -> Any:
        return _write_result(function(**convert(args)), write)

    return call


def _write_result(value: Any, write: Convert | None) -> Any:
    """Convert a result."""

    # UnusableResult says that the function ran, so that the call is not repeated.
    if write is None:
        return value
    try:
        return write(value)
    except Exception as error:
        raise UnusableResult(f"{type(value).__qualname__} cannot be converted to JSON: {error}", value) from error


def with_arguments_object(handler: Callable[..., Any], schema: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a handler that takes arguments by name, also for one of `(args)` that takes all in one dict."""

    # A tool with an argument `args` of its own passes it by name, as any other argument.
    if "args" in (schema.get("properties") or ()):
        return handler
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return handler
    if len(parameters) != 1 or parameters[0].name != "args" or parameters[0].kind is not _BY_NAME:
        return handler
    return _wrap(handler, lambda args: {"args": args}, None)


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a call returns a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def is_async_generator(function: Callable[..., Any]) -> bool:
    """Return True if a call returns an async generator."""
    return inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(type(function).__call__)


def is_generator(function: Callable[..., Any]) -> bool:
    """Return True if a call returns a generator that is not async."""
    return inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(type(function).__call__)


def integer_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the parameters, except `**kwargs`, whose hint contains `int` but not `float`."""
    try:
        hints = typing.get_type_hints(_annotated_function(_unwrap(function)))
    except (AttributeError, NameError, TypeError):
        return ()  # a handler with a schema of its own may have unreadable hints
    names = [name for name, hint in hints.items() if name != "return" and _is_integer_hint(hint)]
    if not names:
        return ()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name in names:
            names.remove(parameter.name)
    return tuple(names)


def _is_integer_hint(hint: Any) -> bool:
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return int in kinds and float not in kinds


def _unwrap(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _annotated_function(target: Any) -> Any:
    return target if hasattr(target, "__annotations__") and not inspect.isclass(target) else target.__call__


def _property(shape: TypeSchema, parameter: inspect.Parameter, text: str | None) -> dict[str, Json]:
    schema = dict(shape.schema)
    if text and "description" not in schema:
        schema["description"] = text
    if parameter.default is not parameter.empty and is_json(parameter.default):
        schema["default"] = parameter.default
    return schema


def _result_schema(function: Callable[..., Any], hints: dict[str, Any], place: str) -> TypeSchema | None:
    if "return" not in hints or is_async_generator(function):
        return None
    reader = HintReader()
    shape = reader.shape(hints["return"], place)
    return TypeSchema(_lift_definitions(shape.schema, reader), shape.read, shape.write)


def _lift_definitions(schema: dict[str, Json], reader: HintReader) -> dict[str, Json]:
    """Move every definition to the root of the schema, where `#/$defs/...` refers to."""
    definitions: dict[str, Json] = dict(reader.definitions)

    def lift(node: Json) -> Json:
        if isinstance(node, list):
            return [lift(item) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$defs"), dict):
            definitions.update(node["$defs"])
        return {key: lift(item) for key, item in node.items() if key != "$defs"}

    lifted: dict[str, Json] = lift(schema)
    if definitions:
        lifted["$defs"] = {name: lift(item) for name, item in definitions.items()}
    return lifted


_SECTIONS: Final = frozenset(("args", "arguments", "parameters", "params", "returns", "return", "yields", "raises",
                              "example", "examples", "note", "notes"))  # fmt: skip
_PARAMETERS: Final = frozenset(("args", "arguments", "parameters", "params"))
_DROPPED: Final = _PARAMETERS | {"returns", "return", "yields", "raises"}
_GOOGLE_PARAMETER: Final = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_PARAMETER: Final = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX_FIELD: Final = re.compile(r"^:(\w+)(?:\s+[^:]*?)?\s*(\w+)?:\s*(.*)$")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a docstring, and the text about each parameter by its name."""
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    params: dict[str, str] = {}
    i = 0
    # Each reader starts at a section and returns the number of the line after it.
    while i < len(lines):
        line = lines[i]
        title = line.strip().rstrip(":").lower()
        section_params = params if title in _PARAMETERS else None
        if line.startswith(":") and _SPHINX_FIELD.match(line):
            i = _read_sphinx(lines, i, params)
        elif title in _SECTIONS and _is_underlined(lines, i):
            i = _read_numpy(lines, i + 2, section_params, description, title)
        elif title in _DROPPED and line.strip().endswith(":") and not line.startswith(" "):
            i = _read_google(lines, i + 1, section_params)
        else:
            description.append(line)
            i += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(description)).strip(), params


def _is_underlined(lines: list[str], i: int) -> bool:
    return i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()) is not None


def _read_google(lines: list[str], i: int, params: dict[str, str] | None) -> int:
    indent: int | None = None
    name = None
    while i < len(lines) and (not lines[i].strip() or lines[i].startswith(" ")):
        line = lines[i]
        i += 1
        if params is None or not line.strip():
            continue
        match = _GOOGLE_PARAMETER.match(line)
        depth = len(line) - len(line.lstrip())
        # A deeper line that looks like a parameter continues the text of the one before.
        if match and (indent is None or depth <= indent):
            indent, name = depth, match[2]
            params[name] = match[3].strip()
        elif name is not None:
            params[name] = f"{params[name]} {line.strip()}".strip()
    return i


def _read_numpy(lines: list[str], i: int, params: dict[str, str] | None, description: list[str], title: str) -> int:
    name = None
    if params is None and title not in _DROPPED:
        description.append(f"{title.capitalize()}:")
    while i < len(lines):
        line = lines[i]
        if line.strip().lower() in _SECTIONS and _is_underlined(lines, i):
            break
        i += 1
        if params is None:
            if title not in _DROPPED:
                description.append(line)
        elif line.strip() and not line.startswith(" "):
            match = _NUMPY_PARAMETER.match(line)
            name = match[1] if match else None
            if name:
                params[name] = ""
        elif name and line.strip():
            params[name] = f"{params[name]} {line.strip()}".strip()
    return i


def _read_sphinx(lines: list[str], i: int, params: dict[str, str]) -> int:
    match = _SPHINX_FIELD.match(lines[i])
    i += 1
    continuation: list[str] = []
    while i < len(lines) and lines[i].startswith(" ") and lines[i].strip():
        continuation.append(lines[i].strip())
        i += 1
    if match and match[1] in ("param", "parameter", "arg", "argument") and match[2]:
        params[match[2]] = " ".join([match[3].strip(), *continuation]).strip()
    return i


def hash_key(key: str) -> str:
    """Return the idempotency key to send to another system: stable, and without the run id that it contains."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
