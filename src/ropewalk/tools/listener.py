"""The listener of a running call: progress, chunks of a streamed result, and events of runs that the call starts.

A plain progress callback gets only progress. To report something else, add a method to `Listener`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

from ..events import Event
from ..values import Json
from .tool import ProgressEvent

MISFIT: Final = "the result does not fit the tool's own output schema"
"""How the warning about such a result begins."""


def broken_schemas(warnings: Iterable[str]) -> str:
    """Return a text that names the calls whose warnings say that they broke their tools' schemas; "" for none."""
    calls = [call for call, mark, _ in (text.partition(f": {MISFIT}") for text in warnings) if mark]
    return f"the answer of {', '.join(calls[:3])} does not fit the tool's own output schema" if calls else ""


class Listener:
    """Gets reports about one call while it runs."""

    # Every tool accepts one as its progress callback.
    # No method may raise.

    # Gets the events of runs that the call starts; None ignores them.
    watcher: Callable[[Event], None] | None = None

    def __call__(self, event: ProgressEvent) -> None:
        """Handle the progress of the call."""
        raise NotImplementedError

    def chunk(self, data: Json) -> None:
        """Handle one chunk of a streamed result."""
        raise NotImplementedError


class RunProgress:
    """Turns the events of a run into progress: one step when a node starts, and one when it ends."""

    def __init__(self, report: Callable[[ProgressEvent], Any], *, counted: bool = False) -> None:
        self._report, self._counted = report, counted
        self._nodes = self._done = 0
        self._started: set[str] = set()
        self._inner_events: dict[str, int] = {}  # the number of events from inside each running node

    def take(self, event: Event) -> None:
        """Report one event of a node; ignore the others."""
        path = event.path or event.node
        if event.kind in ("run.started", "run.resumed"):
            self._nodes = int(_data(event).get("nodes") or 0)
        elif event.kind in _EVENT_TEXTS:
            message = f"{path}: {_EVENT_TEXTS[event.kind](_data(event))}"
            outer = path.partition("/")[0]
            if self._counted and outer != path:
                self._inner_events[outer] = self._inner_events.get(outer, 0) + 1
            elif event.kind in STREAMED:
                self._inner_events[path] = self._inner_events.get(path, 0) + 1
            else:
                self._step(event.kind, path)
            self._report(ProgressEvent(self._steps(), 2 * self._nodes if self._counted else None, message))

    def _step(self, kind: str, path: str) -> None:
        self._inner_events.pop(path, None)
        if kind == "node.started":
            self._started.add(path)
            self._done += 1
        else:
            # A skipped node does not start. Workers report a node only when it has ended.
            self._done += 1 if path in self._started else 2
            self._started.discard(path)

    def _steps(self) -> float:
        return self._done + sum(1 - 1 / (count + 1) for count in self._inner_events.values())


STREAMED: Final = ("node.progress", "node.chunk")
_MAX_CHUNK_LENGTH: Final = 200  # characters of a chunk in a message


def _data(event: Event) -> dict[str, Any]:
    return event.data if isinstance(event.data, dict) else {}


def _reason_text(data: dict[str, Any]) -> str:
    reason = data.get("message") or data.get("reason")
    return f" ({reason})" if reason else ""


def _progress_text(data: dict[str, Any]) -> str:
    done, total, message = data.get("progress"), data.get("total"), data.get("message")
    number = f"{done:g} of {total:g}" if total else f"{done:g}" if isinstance(done, (int, float)) else ""
    return f"{message} ({number})" if message and number else str(message or number)


def _chunk_text(data: dict[str, Any]) -> str:
    chunk = data.get("chunk")
    text = chunk if isinstance(chunk, str) else orjson.dumps(chunk).decode()
    return text if len(text) <= _MAX_CHUNK_LENGTH else text[: _MAX_CHUNK_LENGTH - 1] + "…"


_EVENT_TEXTS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "node.started": lambda data: "started",
    "node.finished": lambda data: "done",
    "node.failed": lambda data: "failed" + _reason_text(data),
    "node.skipped": lambda data: "skipped" + _reason_text(data),
    "node.progress": _progress_text,
    "node.chunk": _chunk_text,
}
