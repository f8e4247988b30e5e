"""What calls give back: results, stream events, progress. Plain data, no behaviour.

To add a kind of result, add a frozen dataclass here; nothing in this file calls anything.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ..frozen import dataclass
from ..values import Json
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


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. A `done` or an `error` is always the last; `error` holds the
    exception of an error event; `data` is the payload, JSON."""

    kind: StreamKind
    tool_id: str = ""
    data: Json = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """How far something is: `progress` of `total` (0 or None where the total is unknown)."""

    progress: float
    total: float | None = None
    message: str | None = None
