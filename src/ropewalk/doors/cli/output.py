"""Text for people (columns, durations, sizes, times) and the log of a command on standard error.

With `--log json`, standard error is JSON lines and nothing else. So a command never writes there by
itself: it calls `notify` for a message of its own, and `logging` for the rest.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ...errors import ConfigError, raised_at
from ...events import Event
from ...source.document import escape_invisible
from ...telemetry.logs import END_EVENTS, RedactingFormatter, RunLocation, RunLog, log_as_json
from ...tools.output import uncaptured
from ..remedies import given_options

if TYPE_CHECKING:
    from ...app.app import App


def columns(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Render a table with a heading; every column is as wide as its longest cell, the last one is not padded."""
    cells = [list(head), *([escape_invisible(str(c)).replace("\n", " ") for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def duration(seconds: float | None) -> str:
    """Render a duration in the unit that fits; None is "-"."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def size(bytes: int) -> str:
    """Render a number of bytes in the unit that fits."""
    amount = float(bytes)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def moment(at: float | None) -> str:
    """Render seconds since the epoch as a local time; None is "-"."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "-"


def time_of_day(at: float) -> str:
    """Render seconds since the epoch as a local time of the day with milliseconds."""
    return datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3]


def first_line(text: str, limit: int = 72) -> str:
    """Return the first line of a text, cut to `limit` characters, with an ellipsis for what is missing."""
    line, _, rest = text.strip().partition("\n")
    line = line.strip() + (" …" if rest else "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


Form: TypeAlias = Literal["text", "json"]


Level: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVEL: Final = "ROPEWALK_LOG_LEVEL"
_LOGGER_FORMATS = (("ropewalk.modules", "%(line)s"), ("ropewalk.workers", "%(asctime)s %(message)s"))
"""Loggers shown from level `info`, with their format: what JavaScript tools print, and workers."""
_MAX_CAUSE: Final = 500  # characters
_LOGGER: Final = "ropewalk.cli"
_json_handler: logging.Handler | None = None  # set while standard error is JSON lines


def configure_logging(form: Form, level: Level | None = None) -> None:
    """Configure the log of the process; later calls have no effect."""
    global _json_handler
    root = logging.getLogger()
    if any(isinstance(handler, _TextHandler) for handler in root.handlers) or _json_handler is not None:
        return
    minimum = _minimum_level(level)
    if form == "json":
        _json_handler = log_as_json(level=logging.INFO if minimum is None else minimum)
        logging.captureWarnings(True)
        return
    root.addHandler(_TextHandler("%(message)s", logging.WARNING if minimum is None else minimum))
    root.setLevel(min(root.level, logging.WARNING if minimum is None else minimum))
    for name, format in _LOGGER_FORMATS:
        log = logging.getLogger(name)
        log.addHandler(_TextHandler(format, logging.INFO if minimum is None else minimum))
        log.setLevel(logging.INFO if minimum is None else minimum)
        log.propagate = False


def log_events(app: App) -> None:
    """Log the events of all runs of `app`, if standard error is JSON lines."""
    if _json_handler is not None:
        app.watch(RunLog().take)


def notify_failed_runs(app: App) -> None:
    """Write a line for each run of `app` that fails, unless the events of all runs are logged."""
    if _json_handler is None:
        app.watch(FailedRuns().take)


class FailedRuns:
    """Writes a line for each run that fails."""

    def __init__(self) -> None:
        self._failures: dict[str, Event] = {}  # the last failed node of each run in progress

    def take(self, event: Event) -> None:
        """Handle an event of a run."""
        if event.kind == "node.failed":
            self._failures[event.run_id] = event
        if event.kind not in END_EVENTS:
            return
        failed = self._failures.pop(event.run_id, None)
        status = event.data.get("status") if isinstance(event.data, dict) else None
        if event.kind == "run.finished" and status in ("failed", "timeout"):
            data: Any = failed.data if failed is not None else {}
            cause = "" if failed is None else f" at {failed.path}: {first_line(str(data.get('message')), _MAX_CAUSE)}"
            show = f"`ropewalk runs show {event.run_id}{given_options()}`"
            text = f"run {event.run_id} {status}{cause}{raised_at(data)}; see {show}"
            notify(escape_invisible(text), logging.ERROR)


def requested_log_format(words: Sequence[str]) -> Form:
    """Return the log format that a command line asks for, even if it cannot be parsed."""
    line = " ".join(words).replace("--log=", "--log ")
    return "json" if "--log json" in line else "text"


def notify(text: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a message of the command to standard error, whatever the configured level."""
    if _json_handler is None:
        with uncaptured():
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
    else:
        extra = {"location": RunLocation(), "fields": fields}
        _json_handler.handle(
            logging.getLogger(_LOGGER).makeRecord(_LOGGER, level, "", 0, text.strip(), (), None, extra=extra)
        )


def logs_json() -> bool:
    """Return True if standard error is JSON lines."""
    return _json_handler is not None


def _minimum_level(level: str | None) -> int | None:
    name = level or os.environ.get(LEVEL)
    if not name:
        return None
    if name.lower() not in get_args(Level):
        raise ConfigError(f"{LEVEL}={name}: one of {', '.join(get_args(Level))}")
    return logging.getLevelNamesMapping()[name.upper()]


class _TextHandler(logging.StreamHandler):  # type: ignore[type-arg]
    def __init__(self, format: str, level: int) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(RedactingFormatter(format))
        self.setLevel(level)


def with_place(text: str, error: Any) -> str:
    """Return the text of an error after the line that defines what failed, unless the text names the line."""
    place = error.get("place") if isinstance(error, dict) else None
    return text if not place or f"{place}:" in text else f"{place}: {text}"
