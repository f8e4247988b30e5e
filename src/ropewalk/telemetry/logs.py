"""Logs as JSON lines: the events of runs, and every other record of the program with the run that it belongs to.

The logger `ropewalk.runs` logs the events. Any other record that is made within a run (by a tool or a library) gets the
run, the flow and the node, and the trace if there is one. Secrets that this process has used, or that its environment
contains, are replaced by `***`.

Arguments and results are not logged; the journal has them. The program decides where the lines go.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TextIO

import orjson

from ..config.secrets import ProcessSecrets
from ..events import Event
from ..fast_dataclass import dataclass
from ..source.document import escape_invisible, escape_json
from ..values import Json

if TYPE_CHECKING:
    from ..app.app import App

_START_EVENTS: Final = ("run.started", "run.resumed")
END_EVENTS: Final = ("run.finished", "run.waiting", "run.interrupted")
_WARNING_EVENTS: Final = ("attempt.failed", "node.failed", "run.interrupted")
_DEBUG_EVENTS: Final = (
    "node.ready", "node.started", "node.skipped", "node.progress", "node.chunk", "node.log", "state.write",
    "items.listed", "branch.taken",
)  # fmt: skip
_LOGGED_KEYS: Final = (
    "status", "ms", "message", "kind", "at", "attempt", "tool", "reason", "event", "approval", "handled",
)  # fmt: skip
_NOISY_LIBRARIES: Final = frozenset(
    ("anthropic", "asyncio", "dbos", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "opentelemetry", "urllib3")
)
"""Libraries that log every request at the level INFO."""
_KEY_NAMES: Final = {"message": "error", "kind": "errorKind", "ms": "durationMs"}

log = logging.getLogger("ropewalk.runs")


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The place in a run to which a log record belongs."""

    run_id: str = ""
    flow: str = ""
    node: str = ""
    trace: str = ""


_NO_LOCATION: Final = RunLocation()
_current_location: ContextVar[RunLocation] = ContextVar("ropewalk_where", default=_NO_LOCATION)


def log_as_json(app: App | None = None, stream: TextIO | None = None, *, level: int = logging.INFO) -> logging.Handler:
    """Log as JSON lines, including the runs of an app from now on.

    Args:
        app: The app; None logs only what programs and libraries log.
        stream: Where to write; None is standard error.
        level: The lowest level; that of the root logger is lowered to it. Libraries that log every request log only
            warnings, unless the level is DEBUG or their loggers have a level.

    Returns:
        The handler, which is added to the root logger.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    if level > logging.DEBUG:
        handler.addFilter(_is_relevant)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(root.level, level))
    if app is not None:
        app.watch(RunLog().take)
    return handler


def _is_relevant(record: logging.LogRecord) -> bool:
    """Return False for records below WARNING of noisy libraries, unless their logger has a level."""
    library = record.name.partition(".")[0]
    return record.levelno >= logging.WARNING or library not in _NOISY_LIBRARIES or logging.getLogger(library).level != 0


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object, with secrets masked."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets = ProcessSecrets(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as one line of JSON."""
        line: dict[str, Any] = {
            "time": _iso_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        location: RunLocation = getattr(record, "location", None) or _current_location.get()
        line |= {"runId": location.run_id, "flow": location.flow, "node": location.node}
        line["traceId"], line["spanId"] = _trace_ids() if not hasattr(record, "location") else (location.trace, "")
        line["traceId"] = line["traceId"] or location.trace
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        present = {key: value for key, value in line.items() if value not in (None, "")}
        return escape_json(orjson.dumps(self._secrets.redaction.value(_as_json(present))).decode())


class RedactingFormatter(logging.Formatter):
    """Formats a record as plain text without control characters, with secrets masked."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self._secrets = ProcessSecrets(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record, with known secrets masked."""
        return escape_invisible(self._secrets.redaction.text(super().format(record)))


class RunLog:
    """Logs the events of runs and keeps the current location."""

    # Each event arrives in the task of its node.

    def __init__(self) -> None:
        self._runs: dict[str, tuple[RunLocation, RunLocation]] = {}
        self._tools: dict[tuple[str, str], str] = {}  # of the nodes in progress, by run id and path

    def take(self, event: Event) -> None:
        """Handle an event of a run."""
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if event.kind in _START_EVENTS:
            run = RunLocation(event.run_id, str(data.get("name") or ""), "", _trace_ids()[0])
            self._runs[event.run_id] = (run, _current_location.get())
            _current_location.set(run)
        run, previous = self._runs.get(event.run_id, (RunLocation(event.run_id), _current_location.get()))
        if data.get("replayed"):
            return  # recorded earlier, not executed now

        # Other records of this task belong to the node while it runs, then to the run, then to what was before.
        location = RunLocation(run.run_id, run.flow, event.path, run.trace)
        node = (event.run_id, event.path)
        if event.kind == "node.started":
            _current_location.set(location)
            if data.get("tool"):
                self._tools[node] = str(data["tool"])
        elif event.kind in ("node.finished", "node.recovered", "node.failed"):
            _current_location.set(run)
            data = {"tool": self._tools.pop(node, ""), **data}
        if event.kind in END_EVENTS:
            _current_location.set(previous)
            self._runs.pop(event.run_id, None)
            for unfinished in [key for key in self._tools if key[0] == event.run_id]:
                del self._tools[unfinished]
        level = _level(event, data)
        if log.isEnabledFor(level):
            fields = {_KEY_NAMES.get(key, key): data[key] for key in _LOGGED_KEYS if key in data}
            if "stack" in data and log.isEnabledFor(logging.DEBUG):
                fields["stack"] = data["stack"]
            if event.kind in _START_EVENTS:
                fields["notation"] = fields.pop("errorKind", "")
            log.log(level, event.kind, extra={"location": location, "fields": fields})


def _level(event: Event, data: dict[str, Any]) -> int:
    if event.kind in _DEBUG_EVENTS:
        return logging.DEBUG
    if event.kind == "run.finished" and data.get("status") in ("failed", "timeout"):
        return logging.ERROR
    return logging.WARNING if event.kind in _WARNING_EVENTS else logging.INFO


def _trace_ids() -> tuple[str, str]:
    """Return the ids of the current trace and span in hex; empty texts without a trace."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return "", ""
    context = tracing.get_current_span().get_span_context()
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else ("", "")


def _as_json(value: Any) -> Json:
    """Convert a value to JSON; values that JSON cannot express become texts."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _iso_time(at: float) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{seconds}.{int(at % 1 * 1000):03d}Z"
