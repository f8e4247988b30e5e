"""What calls give back: results, stream events, progress. Plain data, no behaviour.

To add a kind of result, add a frozen dataclass here; nothing in this file calls anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ..errors import InvalidInput, Problem
from ..frozen import dataclass
from ..values import Json
from .json_form import backend_from_dict, backend_to_dict, error_from_dict, error_to_dict, plain, read, tool_from_dict
from .tool import Tool, ToolBackend

StreamKind: TypeAlias = Literal["progress", "chunk", "done", "error"]
STREAM_KINDS: frozenset[str] = frozenset(("progress", "chunk", "done", "error"))


@dataclass(frozen=True, slots=True)
class ToolExecutionResult:
    """What a whole-tool executor reports: `output` when `success`, else the text `error`."""

    success: bool
    output: Json = None
    error: str | None = None
    details: Any = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished call. `structured` is the JSON value; `mcp_result` is the raw result where the
    tool gave an MCP one (parts that are not text stay there)."""

    tool: Tool
    backend: ToolBackend
    structured: Json = None
    mcp_result: Any = None

    def to_dict(self) -> dict[str, Json]:
        """Return the result as JSON: `{tool, backend, structured, mcpResult}`; what is absent is left out."""
        made = {
            # Results of an executor of one's own have neither.
            "tool": self.tool.to_dict() if self.tool is not None else None,
            "backend": backend_to_dict(self.backend) if self.backend is not None else None,
            "structured": self.structured,
            "mcpResult": plain(self.mcp_result),
        }
        return {key: value for key, value in made.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> RunResult:
        """Read what `to_dict` returned; an MCP result stays JSON. Raises InvalidInput or InvalidTool."""
        given: Any = read(data, "result", ("tool", "backend", "structured", "mcpResult"))
        tool, backend = given.get("tool"), given.get("backend")
        return cls(
            None if tool is None else tool_from_dict(tool),  # type: ignore[arg-type]
            None if backend is None else backend_from_dict(backend),  # type: ignore[arg-type]
            given.get("structured"),
            given.get("mcpResult"),
        )


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. A `done` or an `error` is always the last; `error` holds the
    exception of an error event; `data` is the payload, JSON."""

    kind: StreamKind
    tool_id: str = ""
    data: Json = None
    error: BaseException | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the event as JSON: `{kind, toolId, data, error}`; what is absent is left out."""
        made = {
            "kind": self.kind,
            "toolId": self.tool_id or None,
            "data": self.data,
            "error": error_to_dict(self.error) if self.error is not None else None,
        }
        return {key: value for key, value in made.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> StreamEvent:
        """Read what `to_dict` returned; the error is a RecordedError. Raises InvalidInput."""
        given: Any = read(data, "event", ("kind", "toolId", "data", "error"), ("kind",))
        if given["kind"] not in STREAM_KINDS:
            message = f"must be one of {', '.join(sorted(STREAM_KINDS))}"
            raise InvalidInput([Problem(path="event.kind", message=message)])
        return cls(given["kind"], given.get("toolId", ""), given.get("data"), error_from_dict(given.get("error")))


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """How far something is: `progress` of `total` (0 or None where the total is unknown)."""

    progress: float
    total: float | None = None
    message: str | None = None
