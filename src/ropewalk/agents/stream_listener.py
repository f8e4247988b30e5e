"""StreamListener: passes on the events of a conversation, so that an interface can show them at once.

The functions of `loop.py` take an `on_event` function. Two sources report what happens: the tool of the model
(`turn.py`), and the engine, which runs the other tools. StreamListener passes both on as one stream, and writes the log
`ropewalk.tools`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ..events import Event
from ..ops import MODEL
from .turn import Listener


class RunningTool(NamedTuple):
    """A tool call in progress: the id of the tool, and when it began, in seconds since the epoch."""

    tool: str
    began: float


class StreamListener:
    """Merges the events of the engine and of the model's tool into one stream of events."""

    # Types: `text` and `thinking` (each has a `text`), `broken_off` (the `text` and `thinking` of an interrupted
    # answer, which no longer count), `turn`, `tool_use` (a requested call), `tool_started`, and `tool_finished` (with
    # `ms`, `error` if the call failed, and `at` if its place is known). An exception of the listener is logged and does
    # not change the conversation.

    def __init__(self, on_event: Listener | None, log: logging.Logger) -> None:
        self._on_event, self._log = on_event, log
        self._running: dict[str, RunningTool] = {}  # by the path of the node

    @property
    def listener(self) -> Listener | None:
        """The function that takes the model's events; None if nobody listens."""
        return self._report if self._on_event is not None else None

    @property
    def watcher(self) -> Callable[[Event], None] | None:
        """The function that takes the engine's events; None if nobody listens."""
        return self._on_engine_event if self._on_event is not None or self._log.isEnabledFor(logging.INFO) else None

    def _on_engine_event(self, event: Event) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if event.kind == "wait.started" and data.get("approval") is not None:
            self._report({"type": "approval", "path": event.path, "text": str(data["approval"])})
        if event.kind == "wait.started" and data.get("question") is not None:
            self._report({"type": "question", "event": str(data["event"]), "question": data["question"]})
        if any(event.path.startswith(f"{path}/") for path in self._running):
            return  # inside a flow called as a tool: the model did not request this call
        if event.kind == "node.started" and data.get("tool") and data["tool"] != MODEL:
            self._running[event.path] = RunningTool(str(data["tool"]), event.at)
            self._log.info("tool called: %s [%s/%s]", data["tool"], event.run_id, event.path)
            self._report({"type": "tool_started", "tool": data["tool"], "path": event.path})
        elif event.path in self._running and event.kind in ("node.finished", "node.recovered", "node.failed"):
            tool, began = self._running.pop(event.path)
            ms = round((event.at - began) * 1000, 3)
            error = data.get("message") if event.kind != "node.finished" else None
            if error is None:
                self._log.info("tool %s [%s/%s] completed in %.0f ms", tool, event.run_id, event.path, ms)
            else:
                self._log.warning("tool %s [%s/%s] failed after %.0f ms: %s", tool, event.run_id, event.path, ms, error)
            at = {"at": data["at"]} if error is not None and data.get("at") else {}
            self._report({"type": "tool_finished", "tool": tool, "path": event.path, "ms": ms, "error": error, **at})

    def _report(self, event: dict[str, Any]) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:  # noqa: BLE001 - must not fail the conversation
            self._log.exception("the listener raised on %s", event.get("type"))
