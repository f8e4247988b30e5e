"""Tools, their backends, and the plain data that calls exchange: results, stream events, summaries.

A Tool is a checked, frozen definition. It refuses names outside `[A-Za-z0-9_.-]`, input schemas that do
not describe an object, and definitions that are not JSON. JSON forms use camelCase keys and refuse
unknown ones, so that a misspelt key is an error instead of being ignored.

Hints are annotations such as `readOnlyHint`. An MCP server describes its own tools, so its hints count
only if the project sets `trust = "hints"` for it; `counted_annotations` drops the others on entry.

To make a Tool from a Python function, use `@tool`. To add a kind of backend, register it
(`backends/kinds.py`). To add a kind of result, add a frozen dataclass here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, overload

from ..argument_checks import wrong_type
from ..duration import read_duration
from ..errors import ConfigError, InvalidInput, InvalidTool, InvalidToolId, InvalidValue, Problem, ToolError, message_of
from ..fast_dataclass import dataclass
from ..values import Json, check_json, did_you_mean, digest
from .backends.kinds import backend_kind, registered_kinds
from .signature import adapt, describe, is_generator
from .undo import TOOL_ATTRIBUTE, read_undo

Handler: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Callable[..., Any])

_PART_PATTERN: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MAX_TAGS: Final = 20
OWNER: Final = "_toolbox"
"""The attribute of a registered Tool that refers to its toolbox, weakly."""
_MAX_TAG_LENGTH: Final = 64


class ToolId(NamedTuple):
    """The parts of a canonical tool id; `str()` gives the id back."""

    namespace: str | None
    name: str
    version: str | None = None

    def __str__(self) -> str:
        return ":".join(part for part in self if part is not None)


def strict_patterns(strict_output: bool | Sequence[str]) -> list[str]:
    """Return the setting `strict_output` as patterns of the ids of tools."""
    if isinstance(strict_output, bool):
        return ["*"] if strict_output else []
    if not isinstance(strict_output, (list, tuple)) or not all(isinstance(name, str) for name in strict_output):
        raise wrong_type("strict_output", "true, false or a list of patterns of tool ids", strict_output)
    return list(strict_output)


def parse_tool_id(text: str) -> ToolId:
    """Split a tool id into its parts.

    Args:
        text: `name`, `namespace:name` or `namespace:name:version`.

    Returns:
        The parts.

    Raises:
        InvalidToolId: The text has another form, or a part has characters that are not allowed.
    """
    if not isinstance(text, str):
        raise InvalidToolId(repr(text), "validate_tool_id", f"a tool id must be a string, not {type(text).__name__}")
    if not text:
        raise InvalidToolId(text, "validate_tool_id", "empty tool id")
    parts = text.split(":")
    if len(parts) > 3:
        raise InvalidToolId(text, "validate_tool_id", "a tool id has at most three parts: namespace:name:version")
    for part in parts:
        problem = _part_problem(part)
        if problem:
            raise InvalidToolId(text, "validate_tool_id", problem)
    if len(parts) == 1:
        return ToolId(None, text)
    return ToolId(*parts)


def normalise_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalise tags and keep the first 20 different ones, in their order."""

    # A normal tag is in lower case, has `-` for white space, no other special characters, and at most 64 characters.
    if not isinstance(tags, Iterable) or isinstance(tags, (str, bytes, Mapping)):
        raise InvalidTool(f"tags must be a list of strings, not {_type_name(tags)}")
    unique: dict[str, None] = {}
    for tag in tags:
        if not isinstance(tag, str):
            raise InvalidTool(f"a tag must be a string, not {type(tag).__name__}")
        text = re.sub(r"\s+", "-", tag.strip().lower())
        text = re.sub(r"[^a-z0-9_.-]", "", text)[:_MAX_TAG_LENGTH]
        if text:
            unique[text] = None
    return tuple(unique)[:_MAX_TAGS]


@dataclass(frozen=True, slots=True)
class ToolBackend:
    """One way to run a tool: a local handler, a provider's tool, an MCP server, or a kind of your own.

    Attributes:
        kind: `local`, `provider`, `mcp`, or a kind added with `register_backend`.
        server_name: The MCP server (mcp).
        provider_id: The HTTP provider (provider).
        tool_id: The tool's name at the server, provider or source, if it differs from the name here.
        name: The name of the registered handler (local).
        source: The name of the `[backends.NAME]` table (kinds of your own).
    """

    kind: str
    server_name: str | None = None
    provider_id: str | None = None
    tool_id: str | None = None
    name: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        try:
            required = backend_kind(self.kind).required
        except ConfigError as error:
            raise InvalidTool(str(error)) from None
        for field_name in required:
            if not getattr(self, field_name):
                raise InvalidTool(f"a {self.kind} backend needs {field_name}")

    @classmethod
    def local(cls, name: str) -> ToolBackend:
        """Return the backend for a Python handler.

        Args:
            name: The name under which the handler is registered.

        Returns:
            The backend.
        """
        return cls("local", name=name)

    @classmethod
    def provider(cls, provider_id: str, tool_id: str) -> ToolBackend:
        """Return the backend for a tool of an HTTP provider.

        Args:
            provider_id: The provider.
            tool_id: The tool's name at the provider.

        Returns:
            The backend.
        """
        return cls("provider", provider_id=provider_id, tool_id=tool_id)

    @classmethod
    def mcp(cls, server_name: str, tool_id: str | None = None) -> ToolBackend:
        """Return the backend for a tool of an MCP server.

        Args:
            server_name: The server.
            tool_id: The tool's name at the server; None if it is the tool's name here.

        Returns:
            The backend.
        """
        return cls("mcp", server_name=server_name, tool_id=tool_id)


@dataclass(frozen=True, eq=False)
class Tool:
    """A tool's definition, checked and copied on creation. Two tools are equal if their definitions are.

    Attributes:
        name: 1 to 128 characters of `[A-Za-z0-9_.-]`, as are `namespace` and `version`.
        input_schema: The JSON Schema of the arguments; it describes an object.
        output_schema: The JSON Schema of the result, or None.
        annotations: The hints of MCP, and `timeout` in seconds.
        icons: The `icons` of MCP, as the server sent them.
        meta: The `_meta` of MCP, as the server sent it.
        handler: The function that a Toolbox registers with the tool.
        backend: The backend that a Toolbox registers with the tool.
        undo: The tool that takes a call back: a function, the id of a tool, or an object of `tool` and `args`.
        aliases: Other ids under which a Toolbox finds the tool.

    Raises:
        InvalidTool: A part of the definition is invalid; the text names it.
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
    undo: Any = field(default=None, kw_only=True, repr=False)
    aliases: Sequence[str] = field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        label = f"tool {self.name!r}"
        for part_name in ("name", "namespace", "version"):
            part = getattr(self, part_name)
            if part is None and part_name != "name":
                continue
            problem = _part_problem(part) if isinstance(part, str) else f"must be a string, not {_type_name(part)}"
            if problem:
                raise InvalidTool(f"{label}: {part_name}: {problem}")
        if not isinstance(self.description, str):
            raise InvalidTool(f"{label}: description must be a string, not {_type_name(self.description)}")
        # Copies, so that the caller's later changes do not reach a frozen definition.
        self._set("input_schema", _object_schema(self.input_schema, f"{label}: input_schema"))
        for member in ("output_schema", "annotations", "meta"):
            value = getattr(self, member)
            if value is not None:
                self._set(member, _json_object(value, f"{label}: {member}"))
        if self.icons is not None:
            if not isinstance(self.icons, (list, tuple)):
                raise InvalidTool(f"{label}: icons must be a list of objects, not {_type_name(self.icons)}")
            self._set("icons", tuple(_json_object(icon, f"{label}: icons[{i}]") for i, icon in enumerate(self.icons)))
        try:
            # One string is one tag, not a list of letters.
            self._set("tags", normalise_tags((self.tags,) if isinstance(self.tags, str) else self.tags))
        except InvalidTool as error:
            raise InvalidTool(f"{label}: {error}") from None
        if self.backend is not None:
            check_backend(self.backend, label)
        self._set("undo", read_undo(self.undo, label))
        seconds = read_duration(self.timeout)
        if seconds != self.timeout:
            self._set("annotations", {**(self.annotations or {}), "timeout": seconds})
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and seconds > 0):
            raise InvalidTool(f"{label}: annotations.timeout must be a number of seconds above 0, not {seconds!r}")

    def _set(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)

    @cached_property
    def id(self) -> str:
        """`name`, `namespace:name` or `namespace:name:version`; without a namespace the version is left out."""
        return str(ToolId(self.namespace, self.name, self.version if self.namespace else None))

    @property
    def display_name(self) -> str:
        """The name to show to people: the annotation `title`, or the name."""
        title = (self.annotations or {}).get("title")
        return title if isinstance(title, str) and title else self.name

    @property
    def has_side_effects(self) -> bool:
        """False only if the annotation `readOnlyHint` is true."""
        return (self.annotations or {}).get("readOnlyHint") is not True

    @property
    def timeout(self) -> float | None:
        """Seconds a call of this tool may take: the annotation `timeout`, or None."""
        return (self.annotations or {}).get("timeout")

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the definition; it changes if any part of the definition does."""
        return digest(self.to_dict())

    async def execute(self, args: Mapping[str, Any] | None = None, context: Any = None) -> ToolExecutionResult:
        """Call the tool in the toolbox that it is registered in. A failure is in the result, not raised.

        Args:
            args: The arguments.
            context: For composite tools, which pass it to each step; other tools ignore it.

        Returns:
            The output, or the error.
        """
        toolbox = self.__dict__.get(OWNER, lambda: None)()
        if toolbox is None:
            return ToolExecutionResult(False, error=f"tool {self.id} is in no toolbox; register it in one")
        try:
            return ToolExecutionResult(True, await toolbox.call(self.id, dict(args or {})))
        except ToolError as error:
            return ToolExecutionResult(False, error=error.reason, details=error)

    def to_dict(self) -> dict[str, Json]:
        """Return the definition as JSON with the keys of MCP.

        Returns:
            A new object; absent values are left out.
        """
        return _without_none(
            {
                "name": self.name,
                "namespace": self.namespace,
                "version": self.version,
                "description": self.description,
                "inputSchema": self.input_schema,
                "outputSchema": self.output_schema,
                "tags": list(self.tags) or None,
                "annotations": self.annotations,
                "icons": list(self.icons) if self.icons else None,
                "_meta": self.meta,
            }
        )

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
    timeout: float | str | None = None,
    input_schema: dict[str, Json] | None = None,
    output_schema: dict[str, Json] | None = None,
    undo: Handler | str | Mapping[str, Any] | None = None,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **definition: Any) -> Any:
    """Make a function a tool: the schemas come from its type hints, the texts from its docstring.

    Args:
        function: The function, if the decorator is used without parentheses.
        **definition: Parts of the definition that replace the derived ones; `timeout` is in seconds, or text
            such as "10s". `undo` is the tool
            that takes a call back: a function, the id of a tool, or an object of `tool` and `args`.

    Returns:
        The function itself, unchanged and callable as before.

    Raises:
        InvalidTool: A parameter, a type hint or a part of the definition cannot be a tool's.
    """
    if function is None:
        return lambda wrapped: tool_from(wrapped, definition, mark=True) and wrapped
    tool_from(function, definition, mark=True)
    return function


def tool_from(function: Handler, definition: dict[str, Any] | None = None, *, mark: bool = False) -> Tool:
    """Return the Tool of a callable, including its handler."""

    # `definition`: Parts of the definition that replace the derived ones; `timeout` is in seconds.
    decorated = tool_of(function)
    if decorated is not None and not definition:
        return decorated
    if is_generator(function):
        raise InvalidTool(
            f"{getattr(function, '__name__', function)} is a plain generator, and its values would be lost; "
            "make it async (async def with yield) to stream, or return a list"
        )

    # Parts that the user passes replace those that the function's hints and docstring give.
    derived = describe(function)
    fields: dict[str, Any] = {
        "name": derived.name,
        "description": derived.description,
        "input_schema": derived.input_schema,
        "output_schema": derived.output_schema,
        **_without_none(definition or {}),
    }
    seconds = fields.pop("timeout", None)
    if seconds is not None:
        fields["annotations"] = {**(fields.get("annotations") or {}), "timeout": seconds}
    new_tool = Tool(**fields, handler=adapt(function, derived))
    if mark:
        setattr(function, TOOL_ATTRIBUTE, new_tool)
    return new_tool


def tool_of(function: object) -> Tool | None:
    """Return the Tool of a function that `@tool` decorated; None for anything else."""
    decorated = getattr(function, TOOL_ATTRIBUTE, None)
    return decorated if isinstance(decorated, Tool) else None


def check_backend(backend: object, label: str) -> None:
    """Raise InvalidTool unless `backend` is a ToolBackend; `label` begins the message."""
    if not isinstance(backend, ToolBackend):
        raise InvalidTool(f"{label}: its backend is {_type_name(backend)}, not a ToolBackend")


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _part_problem(part: str) -> str | None:
    if not part:
        return "empty part"
    if len(part) > 128:
        return f"a part has {len(part)} characters; at most 128 are allowed"
    if not _PART_PATTERN.fullmatch(part):
        return f"{part!r} has characters outside [A-Za-z0-9_.-]"
    return None


def _json_object(value: Any, place: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise InvalidTool(f"{place} must be an object, not {_type_name(value)}")
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


def _type_name(value: Any) -> str:
    return type(value).__qualname__


_FIELDS_BY_KEY: Final = {
    "name": "name",
    "namespace": "namespace",
    "version": "version",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "tags": "tags",
    "annotations": "annotations",
    "icons": "icons",
    "_meta": "meta",
}


def read(data: Any, place: str, known: Collection[str], required: Collection[str] = ()) -> Mapping[str, Json]:
    """Check the keys of a JSON object and return it."""

    # `required`: The keys that it must have.
    if not isinstance(data, Mapping):
        message = f"must be an object, not {type(data).__name__}"
        raise InvalidInput([Problem(path=place, message=message)])
    problems = [
        Problem(path=f"{place}.{key}", message="unknown key", suggestion=did_you_mean(key, known))
        for key in data
        if key not in known
    ]
    problems += [Problem(path=f"{place}.{key}", message="required") for key in required if key not in data]
    if problems:
        raise InvalidInput(problems)
    return data


def backend_to_dict(backend: ToolBackend) -> dict[str, Json]:
    """Return a backend as JSON."""
    fields = {key: getattr(backend, name) for key, name in backend_kind(backend.kind).fields.items()}
    return {"kind": backend.kind, backend.kind: _without_none(fields)}


def backend_from_dict(data: Json) -> ToolBackend:
    """Rebuild a backend from the JSON of `backend_to_dict`."""
    kind: Any = data.get("kind") if isinstance(data, Mapping) else None
    known = registered_kinds()
    fields: dict[str, str] = {}
    if isinstance(kind, str):
        with suppress(ConfigError):  # the ToolBackend below refuses an unknown kind
            fields = dict(backend_kind(kind).fields)
            known = (*known, kind)
    document = read(data, "backend", ("kind", *known), ("kind",))
    inner = read(document.get(kind, {}) if fields else {}, f"backend.{kind}", fields)
    return ToolBackend(kind, **{fields[key]: value for key, value in inner.items()})


def tool_from_dict(data: Json) -> Tool:
    """Rebuild a tool, without a handler, from the JSON of `Tool.to_dict`."""
    document = read(data, "tool", _FIELDS_BY_KEY, ("name", "inputSchema"))
    fields: dict[str, Any] = {_FIELDS_BY_KEY[key]: value for key, value in document.items()}
    return Tool(**{"description": "", **fields})


def result_to_json(value: Any) -> Json:
    """Convert a raw MCP result to JSON."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", by_alias=True, exclude_none=True)
    return None if value is None else check_json(value, "mcpResult")


def error_to_dict(error: BaseException) -> dict[str, Json]:
    """Return an error as JSON."""
    payload: dict[str, Json] = {"kind": type(error).__name__, "message": message_of(error)}
    for key, attribute in (("toolId", "tool_id"), ("op", "op"), ("ran", "ran")):
        value = getattr(error, attribute, None)
        if value not in (None, False):
            payload[key] = value
    return payload


class RecordedError(Exception):
    """An error rebuilt from JSON."""

    # `kind`: The name of its original class.
    # `data`: The complete JSON object.

    def __init__(self, data: Mapping[str, Json]) -> None:
        self.kind = str(data.get("kind", "Exception"))
        self.data = dict(data)
        super().__init__(str(data.get("message", "")))


def error_from_dict(data: Json) -> RecordedError | None:
    """Rebuild an error from the JSON of `error_to_dict`."""
    return None if data is None else RecordedError(read(data, "error", ("kind", "message", "toolId", "op", "ran")))


class StreamEventKind(StrEnum):
    """The kinds of stream events; each equals its text."""

    PROGRESS = "progress"
    CHUNK = "chunk"
    DONE = "done"
    ERROR = "error"


StreamKind: TypeAlias = StreamEventKind | Literal["progress", "chunk", "done", "error"]
STREAM_KINDS: frozenset[str] = frozenset(("progress", "chunk", "done", "error"))


@dataclass(frozen=True, slots=True)
class ToolExecutionResult:
    """The report of an executor: `output` if `success`, otherwise the text `error`."""

    success: bool
    output: Json = None
    error: str | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished call.

    Attributes:
        structured: The result as one JSON value.
        mcp_result: The raw result of an MCP tool, with the parts that are not text; None for other tools.
        warnings: What is unusual about the result: a value that had to be changed, or one that does not fit the tool's
            own output schema.
    """

    tool: Tool
    backend: ToolBackend
    structured: Json = None
    mcp_result: Any = None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Json]:
        """Return the result as JSON.

        Returns:
            `{tool, backend, structured, mcpResult, warnings}`; absent values are left out.
        """
        return _without_none(
            {
                # Results of a user's own executor have neither tool nor backend.
                "tool": self.tool.to_dict() if self.tool is not None else None,
                "backend": backend_to_dict(self.backend) if self.backend is not None else None,
                "structured": self.structured,
                "mcpResult": result_to_json(self.mcp_result),
                "warnings": list(self.warnings) or None,
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> RunResult:
        """Rebuild a result from the JSON of `to_dict`.

        Args:
            data: The JSON.

        Returns:
            The result; an MCP result stays JSON.

        Raises:
            InvalidInput: A key is unknown or missing.
            InvalidTool: The definition of the tool or the backend is invalid.
        """
        document: Any = read(data, "result", ("tool", "backend", "structured", "mcpResult", "warnings"))
        tool = document.get("tool")
        backend = document.get("backend")
        return cls(
            None if tool is None else tool_from_dict(tool),  # type: ignore[arg-type]
            None if backend is None else backend_from_dict(backend),  # type: ignore[arg-type]
            document.get("structured"),
            document.get("mcpResult"),
            tuple(document.get("warnings") or ()),
        )


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. The last event of a stream is always a `done` or an `error`.

    Attributes:
        data: The payload, JSON.
        error: The exception of an `error` event.
    """

    kind: StreamKind
    tool_id: str = ""
    data: Json = None
    error: BaseException | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the event as JSON.

        Returns:
            `{kind, toolId, data, error}`; absent values are left out.
        """
        return _without_none(
            {
                "kind": str(self.kind),
                "toolId": self.tool_id or None,
                "data": self.data,
                "error": error_to_dict(self.error) if self.error is not None else None,
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> StreamEvent:
        """Rebuild an event from the JSON of `to_dict`.

        Args:
            data: The JSON.

        Returns:
            The event; its error is a RecordedError.

        Raises:
            InvalidInput: A key is unknown or missing, or the kind is unknown.
        """
        document: Any = read(data, "event", ("kind", "toolId", "data", "error"), ("kind",))
        kind = document["kind"]
        if kind not in STREAM_KINDS:
            message = f"must be one of {', '.join(sorted(STREAM_KINDS))}"
            raise InvalidInput([Problem(path="event.kind", message=message)])
        error = error_from_dict(document.get("error"))
        return cls(kind, document.get("toolId", ""), document.get("data"), error)


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """The progress of a call: `progress` of `total` (0 or None if the total is unknown)."""

    progress: float
    total: float | None = None
    message: str | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the progress as JSON: `{progress, total, message}`; an unknown total and no message are left out."""
        fields = {"progress": self.progress, "total": self.total or None, "message": self.message or None}
        return _without_none(fields)
