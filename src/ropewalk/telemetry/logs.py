"""Logs as JSON lines: what happens in runs, and whatever else a program logs, each line with the run it belongs to.

Runs are logged by the logger `ropewalk.runs`; every other record of `logging` (of a tool, of a library) that is made
inside a run says of which run, flow and node it is. Lines carry the trace where there is one. Every secret that this
process has used, and every one that its environment names, is `***` in them.

Refused: arguments and results (a journal has them), files and rotation (where lines go is the program's to say).
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TextIO

import orjson

from ..config.secret import Known
from ..events import Event
from ..frozen import dataclass
from ..values import Json

if TYPE_CHECKING:
    from ..app import App

_BEGUN: Final = ("run.started", "run.resumed")
_ENDED: Final = ("run.finished", "run.waiting", "run.interrupted")
_WARNS: Final = ("attempt.failed", "node.failed", "run.interrupted")
_QUIET: Final = (
    "node.ready", "node.started", "node.skipped", "node.progress", "node.chunk", "state.write", "items.listed",
    "branch.taken",
)  # fmt: skip
_SAID: Final = ("status", "ms", "message", "kind", "attempt", "tool", "reason", "event", "approval", "handled")
_BENEATH: Final = frozenset(
    ("anthropic", "asyncio", "dbos", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "opentelemetry", "urllib3")
)
"""Libraries that tell of every request at the level of information."""
_AS: Final = {"message": "error", "kind": "errorKind", "ms": "durationMs"}

log = logging.getLogger("ropewalk.runs")


@dataclass(frozen=True, slots=True)
class Where:
    """The place in a run that a record is made at."""

    run_id: str = ""
    flow: str = ""
    node: str = ""
    trace: str = ""


_NOWHERE: Final = Where()
_here: ContextVar[Where] = ContextVar("ropewalk_where", default=_NOWHERE)


def log_as_json(app: App | None = None, stream: TextIO | None = None, *, level: int = logging.INFO) -> logging.Handler:
    """Log as JSON lines to `stream` (standard error), the runs of `app` from now on, too: everything from `level` on,
    of the libraries beneath only warnings unless `level` is DEBUG or their loggers say otherwise. Gives the handler,
    which stands at the root logger; that one's level is lowered to `level`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.setLevel(level)
    if level > logging.DEBUG:
        handler.addFilter(_of_interest)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(min(root.level, level))
    if app is not None:
        app.watch(RunLog().take)
    return handler


def _of_interest(record: logging.LogRecord) -> bool:
    """Whether a record is of the program, or of a library that warns, or that somebody wants to hear of."""
    library = record.name.partition(".")[0]
    return record.levelno >= logging.WARNING or library not in _BENEATH or logging.getLogger(library).level != 0


class JsonLines(logging.Formatter):
    """One JSON object per record, without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self._known = Known(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        where: Where = getattr(record, "where", None) or _here.get()
        said |= {"runId": where.run_id, "flow": where.flow, "node": where.node}
        said["traceId"], said["spanId"] = _trace() if not hasattr(record, "where") else (where.trace, "")
        said["traceId"] = said["traceId"] or where.trace
        said |= getattr(record, "said", {})
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        told = {key: value for key, value in said.items() if value not in (None, "")}
        return orjson.dumps(self._known.redaction.value(_plain(told))).decode()


class Texts(logging.Formatter):
    """Plain lines without secrets."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self._known = Known(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        return self._known.redaction.text(super().format(record))


class RunLog:
    """Takes the events of runs; every call comes in the task of the node that it is about."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[Where, Where]] = {}
        self._tools: dict[tuple[str, str], str] = {}  # of the nodes that run just now

    def take(self, event: Event) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if event.kind in _BEGUN:
            run = Where(event.run_id, str(data.get("name") or ""), "", _trace()[0])
            self._runs[event.run_id] = (run, _here.get())
            _here.set(run)
        run, before = self._runs.get(event.run_id, (Where(event.run_id), _here.get()))
        if data.get("replayed"):
            return  # it did not happen now
        where = Where(run.run_id, run.flow, event.path, run.trace)
        node = (event.run_id, event.path)
        if event.kind == "node.started":
            _here.set(where)
            if data.get("tool"):
                self._tools[node] = str(data["tool"])
        elif event.kind in ("node.finished", "node.recovered", "node.failed"):
            _here.set(run)
            data = {"tool": self._tools.pop(node, ""), **data}
        if event.kind in _ENDED:
            _here.set(before)
            self._runs.pop(event.run_id, None)
            for cut_off in [one for one in self._tools if one[0] == event.run_id]:
                del self._tools[cut_off]
        level = _level(event, data)
        if log.isEnabledFor(level):
            said = {_AS.get(key, key): data[key] for key in _SAID if key in data}
            if event.kind in _BEGUN:
                said["notation"] = said.pop("errorKind", "")
            log.log(level, event.kind, extra={"where": where, "said": said})


def _level(event: Event, data: dict[str, Any]) -> int:
    if event.kind in _QUIET:
        return logging.DEBUG
    if event.kind == "run.finished" and data.get("status") in ("failed", "timeout"):
        return logging.ERROR
    return logging.WARNING if event.kind in _WARNS else logging.INFO


def _trace() -> tuple[str, str]:
    """The trace and the span that are current, in hex; nothing where the program traces nothing."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return "", ""
    context = tracing.get_current_span().get_span_context()
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else ("", "")


def _plain(value: Any) -> Json:
    """What can be written as JSON; anything else as its text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _iso(at: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"
