"""A line for each run that fails, for the consoles of servers and workers, and for the log of a mounted app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import raised_at
from ..events import Event
from ..source.document import escape_invisible
from ..telemetry.logs import END_EVENTS
from .remedies import given_options

_MAX_CAUSE: Final = 500  # characters


def first_line(text: str, limit: int = 72) -> str:
    """Return the first line of a text, cut to `limit` characters, with an ellipsis for what is missing."""
    line, _, rest = text.strip().partition("\n")
    line = line.strip() + (" …" if rest else "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


class FailedRuns:
    """Writes a line for each run that fails."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._failures: dict[str, Event] = {}  # the last failed node of each run in progress

    def take(self, event: Event) -> None:
        """Handle an event of a run."""
        if event.kind == "node.failed":
            self._failures[event.run_id] = event
        if event.kind not in END_EVENTS:
            return
        failed = self._failures.pop(event.run_id, None)
        ending = event.data if isinstance(event.data, dict) else {}
        status = ending.get("status")
        if event.kind == "run.finished" and status in ("failed", "timeout"):
            data: Any = failed.data if failed is not None else {}
            message = data.get("message") or ending.get("message")  # the latter if no step failed
            where = "" if failed is None else f" at {failed.path}"
            cause = f"{where}: {first_line(str(message), _MAX_CAUSE)}" if message else where
            show = f"`ropewalk runs show {event.run_id}{given_options()}`"
            self._emit(escape_invisible(f"run {event.run_id} {status}{cause}{raised_at(data)}; see {show}"))
