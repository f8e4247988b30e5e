"""What a tool is: its name, its schemas, and the backends that can run it.

A Tool is a checked, frozen definition. Refused here: names outside `[A-Za-z0-9_.-]`, input schemas
that are not of an object, definitions that are not JSON. To make one from a Python function, use
`@tool`; to add a kind of backend, add it to `BackendKind` and to `dispatch.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

from ..errors import InvalidTool, InvalidToolId, InvalidValue
from ..frozen import dataclass
from ..values import Json, check_json, closest, digest
from .signature import adapt, describe, is_generator

BackendKind: TypeAlias = Literal["local", "provider", "mcp"]
Handler: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

_PART: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_KINDS: Final = ("local", "provider", "mcp")
_MOST_TAGS: Final = 20
_LONGEST_TAG: Final = 64
_MARK: Final = "__ropewalk_tool__"


class ToolId(NamedTuple):
    """The parts of a canonical tool id; `str()` gives the id back."""

    namespace: str | None
    name: str
    version: str | None = None

    def __str__(self) -> str:
        return ":".join(part for part in self if part is not None)


def parse_tool_id(text: str) -> ToolId:
    """The parts of `name`, `namespace:name` or `namespace:name:version`; InvalidToolId for all else."""
    if not isinstance(text, str):
        raise InvalidToolId(repr(text), "validate_tool_id", f"a tool id is a string, not {type(text).__name__}")
    if not text:
        raise InvalidToolId(text, "validate_tool_id", "empty tool id")
    parts = text.split(":")
    if len(parts) > 3:
        raise InvalidToolId(text, "validate_tool_id", "a tool id has at most three parts: namespace:name:version")
    for part in parts:
        complaint = _part_complaint(part)
        if complaint:
            raise InvalidToolId(text, "validate_tool_id", complaint)
    if len(parts) == 1:
        return ToolId(None, text)
    return ToolId(*parts)


def normalise_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags trimmed, in lower case, white space as `-`, other characters dropped, no repeats, at
    most 20 of 64 characters; in the order given."""
    if not isinstance(tags, Iterable) or isinstance(tags, (str, bytes, Mapping)):
        raise InvalidTool(f"tags must be a list of strings, not {_type(tags)}")
    found: dict[str, None] = {}
    for tag in tags:
        if not isinstance(tag, str):
            raise InvalidTool(f"a tag is a string, not {type(tag).__name__}")
        text = re.sub(r"[^a-z0-9_.-]", "", re.sub(r"\s+", "-", tag.strip().lower()))[:_LONGEST_TAG]
        if text:
            found[text] = None
    return tuple(found)[:_MOST_TAGS]


@dataclass(frozen=True, slots=True)
class ToolBackend:
    """One way to run a tool: an MCP server, a provider's tool, or a local handler.

    local: `name` is the handler's. provider: `provider_id` and `tool_id` there. mcp: `server_name`,
    and `tool_id` where the server's own name of the tool is not the tool's name here.
    """

    kind: BackendKind
    server_name: str | None = None
    provider_id: str | None = None
    tool_id: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InvalidTool(f"backend kind {self.kind!r} is not one of {', '.join(_KINDS)}{_hint(self.kind, _KINDS)}")
        needed = {"local": ("name",), "provider": ("provider_id", "tool_id"), "mcp": ("server_name",)}[self.kind]
        for what in needed:
            if not getattr(self, what):
                raise InvalidTool(f"a {self.kind} backend needs {what}")

    @classmethod
    def local(cls, name: str) -> ToolBackend:
        """The Python handler registered as `name`."""
        return cls("local", name=name)

    @classmethod
    def provider(cls, provider_id: str, tool_id: str) -> ToolBackend:
        """The tool `tool_id` of the HTTP provider `provider_id`."""
        return cls("provider", provider_id=provider_id, tool_id=tool_id)

    @classmethod
    def mcp(cls, server_name: str, tool_id: str | None = None) -> ToolBackend:
        """The tool of this name (or of the name `tool_id`) on an MCP server."""
        return cls("mcp", server_name=server_name, tool_id=tool_id)


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool's definition, checked and copied when made; InvalidTool says what is wrong.

    `annotations` are MCP's hints plus ours: `timeout`, in seconds. `handler` and `backend` say what
    a Toolbox registers with it. `icons` and `meta` are MCP's `icons` and `_meta`, kept as its server sent them.
    Two tools are equal when their definitions are.
    """

    name: str
    description: str
    input_schema: dict[str, Json]
    output_schema: dict[str, Json] | None = None
    namespace: str | None = None
    version: str | None = None
    tags: Sequence[str] = ()
    annotations: dict[str, Json] | None = None
    icons: Sequence[dict[str, Json]] | None = field(default=None, kw_only=True, repr=False)
    meta: dict[str, Json] | None = field(default=None, kw_only=True, repr=False)
    handler: Handler | None = field(default=None, kw_only=True, repr=False)
    backend: ToolBackend | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        label = f"tool {self.name!r}"
        for what in ("name", "namespace", "version"):
            part = getattr(self, what)
            if part is None and what != "name":
                continue
            complaint = _part_complaint(part) if isinstance(part, str) else f"must be a string, not {_type(part)}"
            if complaint:
                raise InvalidTool(f"{label}: {what}: {complaint}")
        if not isinstance(self.description, str):
            raise InvalidTool(f"{label}: description must be a string, not {_type(self.description)}")
        self._keep("input_schema", _object_schema(self.input_schema, f"{label}: input_schema"))
        if self.output_schema is not None:
            self._keep("output_schema", _json_object(self.output_schema, f"{label}: output_schema"))
        if self.annotations is not None:
            self._keep("annotations", _json_object(self.annotations, f"{label}: annotations"))
        if self.meta is not None:
            self._keep("meta", _json_object(self.meta, f"{label}: meta"))
        if self.icons is not None:
            if not isinstance(self.icons, (list, tuple)):
                raise InvalidTool(f"{label}: icons must be a list of objects, not {_type(self.icons)}")
            self._keep("icons", tuple(_json_object(icon, f"{label}: icons[{i}]") for i, icon in enumerate(self.icons)))
        try:
            self._keep("tags", normalise_tags((self.tags,) if isinstance(self.tags, str) else self.tags))
        except InvalidTool as error:
            raise InvalidTool(f"{label}: {error}") from None
        if self.backend is not None:
            check_backend(self.backend, label)
        limit = self.timeout
        if limit is not None and not (isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit > 0):
            raise InvalidTool(f"{label}: annotations.timeout must be a number of seconds above 0, not {limit!r}")

    def _keep(self, what: str, value: Any) -> None:
        object.__setattr__(self, what, value)

    @cached_property
    def id(self) -> str:
        """`name`, `namespace:name` or `namespace:name:version` (a version alone stays out of the id)."""
        return str(ToolId(self.namespace, self.name, self.version if self.namespace else None))

    @property
    def display_name(self) -> str:
        """What to show to people: the annotation `title`, else the name."""
        title = (self.annotations or {}).get("title")
        return title if isinstance(title, str) and title else self.name

    @property
    def has_side_effects(self) -> bool:
        """False only where the annotation `readOnlyHint` says so."""
        return (self.annotations or {}).get("readOnlyHint") is not True

    @property
    def timeout(self) -> float | None:
        """Seconds a call of this tool may take, where the annotation `timeout` says so."""
        return (self.annotations or {}).get("timeout")

    @cached_property
    def fingerprint(self) -> str:
        """A stable name of the whole definition; it changes when anything in it does."""
        return digest(self.to_dict())

    def to_dict(self) -> dict[str, Json]:
        """The definition as JSON, in MCP's spelling; what is absent is left out."""
        return {
            key: value
            for key, value in (
                ("name", self.name),
                ("namespace", self.namespace),
                ("version", self.version),
                ("description", self.description),
                ("inputSchema", self.input_schema),
                ("outputSchema", self.output_schema),
                ("tags", list(self.tags) or None),
                ("annotations", self.annotations),
                ("icons", list(self.icons) if self.icons else None),
                ("_meta", self.meta),
            )
            if value is not None
        }

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Tool) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    namespace: str | None = None,
    version: str | None = None,
    tags: Sequence[str] = (),
    annotations: dict[str, Json] | None = None,
    timeout: float | None = None,
    input_schema: dict[str, Json] | None = None,
    output_schema: dict[str, Json] | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **definition: Any) -> Any:
    """Make a function a tool: the schemas come from its type hints, the texts from its docstring.

    The function itself is given back, unchanged and callable as before. What is passed here wins
    over what is derived; `timeout` is in seconds.
    """
    if function is None:
        return lambda wrapped: tool_from(wrapped, definition, mark=True) and wrapped
    tool_from(function, definition, mark=True)
    return function


def tool_from(function: Handler, definition: dict[str, Any] | None = None, *, mark: bool = False) -> Tool:
    """The Tool of a callable, its handler included; the one `@tool` made where it was used."""
    made = getattr(function, _MARK, None)
    if isinstance(made, Tool) and not definition:
        return made
    if is_generator(function):
        raise InvalidTool(
            f"{getattr(function, '__name__', function)} is a plain generator, whose values nobody would get; "
            "make it async (async def with yield), which streams, or return a list"
        )
    given = {key: value for key, value in (definition or {}).items() if value is not None}
    derived = describe(function)
    seconds = given.pop("timeout", None)
    if seconds is not None:
        given["annotations"] = {**(given.get("annotations") or {}), "timeout": seconds}
    fields: dict[str, Any] = {
        "name": derived.name,
        "description": derived.description,
        "input_schema": derived.input_schema,
        "output_schema": derived.output_schema,
    }
    made = Tool(**{**fields, **given}, handler=adapt(function, derived))
    if mark:
        setattr(function, _MARK, made)
    return made


def tool_of(function: object) -> Tool | None:
    """The Tool that `@tool` made of a function; None for anything else."""
    made = getattr(function, _MARK, None)
    return made if isinstance(made, Tool) else None


def check_backend(given: object, label: str) -> None:
    """Raise InvalidTool for what is no backend."""
    if not isinstance(given, ToolBackend):
        raise InvalidTool(f"{label}: its backend is {_type(given)}, not a ToolBackend")


def _part_complaint(part: str) -> str | None:
    if not part:
        return "empty part"
    if len(part) > 128:
        return f"part of {len(part)} characters; at most 128"
    if not _PART.fullmatch(part):
        return f"{part!r} has characters outside [A-Za-z0-9_.-]"
    return None


def _json_object(value: Any, place: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise InvalidTool(f"{place} must be an object, not {_type(value)}")
    try:
        copied: dict[str, Json] = check_json(value, place)
    except InvalidValue as error:
        raise InvalidTool(str(error)) from error
    return copied


def _object_schema(value: Any, place: str) -> dict[str, Json]:
    schema = _json_object(value, place)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise InvalidTool(f"{place} must be the schema of an object, not of {kind!r}")
    return schema


def _hint(word: Any, known: Iterable[str]) -> str:
    near = closest(word, known) if isinstance(word, str) else None
    return f"; did you mean {near}?" if near else ""


def _type(value: Any) -> str:
    return type(value).__qualname__
