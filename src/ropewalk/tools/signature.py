"""A function read as a tool: what it is called, what it takes, what it gives.

Derived from the signature, the type hints and the docstring; nothing is called. Refused: positional-only
and `*args` parameters (a call has named arguments only), and hints that cannot be resolved.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, Final, NewType

from ..errors import InvalidTool
from ..frozen import dataclass
from ..values import Json, is_json
from .hints import Convert, HintReader, Shape
from .raw import UnusableResult
from .reading import reading

IdempotencyKey = NewType("IdempotencyKey", str)
"""The hint of a parameter that is given the idempotency key of the call: the same text when a call that a crash cut
off, or an attempt that failed, is made again. It is no argument of the tool."""

KEY: Final = "__ropewalk_key__"
"""The attribute of a handler that names this parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a function says about itself; `reads`, `more` (of what has no parameter of its own) and `write` convert
    between JSON and its types, `key` names the parameter that is given the idempotency key."""

    name: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None
    reads: dict[str, Convert]
    more: Convert | None
    write: Convert | None
    key: str | None


def describe(function: Callable[..., Any]) -> Described:
    """Read a function; InvalidTool names the parameter that cannot be a tool's."""
    if not callable(function):
        raise InvalidTool(f"a tool is a function or a Tool, not {type(function).__qualname__}")
    target = _underlying(function)
    name = getattr(target, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(_hinted(target), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise InvalidTool(f"tool {name!r}: its type hints cannot be read: {error}") from error
    description, texts = _documented(inspect.getdoc(target))
    reader = HintReader()
    properties: dict[str, Json] = {}
    shapes: dict[str, Shape] = {}
    required: list[str] = []
    more: Shape | None = None
    key = None
    for parameter in signature.parameters.values():
        place = f"tool {name!r}: parameter {parameter.name!r}"
        if parameter.kind is parameter.VAR_KEYWORD:
            members, needed, more = _more(hints.get(parameter.name, Any), reader, place)
            shapes |= members
            properties |= {member: shape.schema for member, shape in members.items()}
            required += needed
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
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if more is None or more.schema:
        schema["additionalProperties"] = False if more is None else more.schema
    output = _output(function, hints, f"tool {name!r}: its result")
    return Described(
        name=name,
        description=description,
        input_schema=_with_definitions(schema, reader),
        output_schema=output.schema if output else None,
        reads={given: shape.read for given, shape in shapes.items() if shape.read},
        more=more.read if more else None,
        write=output.write if output else None,
        key=key,
    )


def _more(hint: Any, reader: HintReader, place: str) -> tuple[dict[str, Shape], list[str], Shape | None]:
    """What `**more` takes: the members of `Unpack[...]`, those that have to be there, or the Shape of each argument."""
    if typing.get_origin(hint) is typing.Unpack:
        return *reader.members(typing.get_args(hint)[0], place), None
    shape = reader.shape(hint, place)
    return {}, [], replace(shape, read=_whole) if shape.read is None and _is_whole(hint) else shape


def _whole(value: Json) -> Json:
    """JSON Schema calls 2.0 an integer, too. That of a parameter by name is made one where arguments are checked."""
    return int(value) if type(value) is float and value.is_integer() else value


def schema_of(hint: Any, place: str) -> dict[str, Json]:
    """The JSON Schema of a type hint; InvalidTool naming `place` where there is none."""
    reader = HintReader()
    return _with_definitions(reader.shape(hint, place).schema, reader)


def schema_of_fields(hints: dict[str, Any], place: str) -> dict[str, Json]:
    """The schema of an object with these members and no others; one that may be None may be left out."""
    reader = HintReader()
    properties = {name: reader.shape(hint, f"{place} {name!r}").schema for name, hint in hints.items()}
    required = [name for name, hint in hints.items() if type(None) not in typing.get_args(hint)]
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    return _with_definitions(schema, reader)


def _documented(text: str | None) -> tuple[str, dict[str, str]]:
    if not text:
        return "", {}
    from .docstring import read_docstring

    return read_docstring(text)


def adapt(function: Callable[..., Any], described: Described) -> Callable[..., Any]:
    """The handler: the function itself, or one that converts where the hints ask for it; marked with its KEY."""
    reads, more = described.reads, described.more
    if not reads and more is None and described.write is None and described.key is None:
        return function
    known = [*described.input_schema["properties"], described.key]
    handler = _converting(function, reading(described.name, reads, more, known), described.write)
    if described.key is not None:
        setattr(handler, KEY, described.key)
    return handler


def _converting(
    function: Callable[..., Any], given: Callable[[dict[str, Json]], dict[str, Any]], write: Convert | None
) -> Callable[..., Any]:
    if is_async_generator(function):

        @functools.wraps(function)
        async def stream(**args: Json) -> AsyncIterator[Any]:
            async for item in function(**given(args)):
                yield item

        return stream
    if is_async(function):

        @functools.wraps(function)
        async def call(**args: Json) -> Any:
            return _written(await function(**given(args)), write)

        return call

    @functools.wraps(function)
    def plain(**args: Json) -> Any:
        return _written(function(**given(args)), write)

    return plain


def _written(value: Any, write: Convert | None) -> Any:
    """Convert a result. The function ran, so what goes wrong here is no failure of the call."""
    if write is None:
        return value
    try:
        return write(value)
    except Exception as error:
        raise UnusableResult(f"{type(value).__qualname__} cannot be converted to JSON: {error}", value) from error


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def is_async_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an async generator."""
    return inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(type(function).__call__)


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a generator that is not async."""
    return inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(type(function).__call__)


def whole_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters whose hint is `int`, or `int | None` and the like, and which a float is not meant for."""
    try:
        hints = typing.get_type_hints(_hinted(_underlying(function)))
    except (AttributeError, NameError, TypeError):
        return ()  # it may have any schema, and hints of any kind
    names = [name for name, hint in hints.items() if name != "return" and _is_whole(hint)]
    if not names:
        return ()
    parameters = inspect.signature(function).parameters.values()
    more = [parameter.name for parameter in parameters if parameter.kind is parameter.VAR_KEYWORD]
    return tuple(name for name in names if name not in more)


def _is_whole(hint: Any) -> bool:
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return int in kinds and float not in kinds


def _underlying(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.unwrap(function)


def _hinted(target: Any) -> Any:
    return target if hasattr(target, "__annotations__") and not inspect.isclass(target) else target.__call__


def _property(shape: Shape, parameter: inspect.Parameter, text: str | None) -> dict[str, Json]:
    found = dict(shape.schema)
    if text and "description" not in found:
        found["description"] = text
    if parameter.default is not parameter.empty and is_json(parameter.default):
        found["default"] = parameter.default
    return found


def _output(function: Callable[..., Any], hints: dict[str, Any], place: str) -> Shape | None:
    if "return" not in hints or is_async_generator(function):
        return None
    reader = HintReader()
    shape = reader.shape(hints["return"], place)
    return Shape(_with_definitions(shape.schema, reader), None, shape.write)


def _with_definitions(schema: dict[str, Json], reader: HintReader) -> dict[str, Json]:
    """Definitions belong at the root, where `#/$defs/...` looks for them."""
    found: dict[str, Json] = dict(reader.definitions)

    def lift(node: Json) -> Json:
        if isinstance(node, list):
            return [lift(item) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$defs"), dict):
            found.update(node["$defs"])
        return {key: lift(item) for key, item in node.items() if key != "$defs"}

    lifted: dict[str, Json] = lift(schema)
    return {**lifted, "$defs": {name: lift(item) for name, item in found.items()}} if found else lifted
