"""What is heard of a conversation while it goes on: the listener's events, and the log `ropewalk.tools`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..dialects.agent_flow import MODEL
from ..events import Event
from .turn import Listener


class Hearing:
    """Turns the events of the engine and of the model's tool into one stream of events.

    Types: `text` and `thinking` (a `text` each), `broken_off` (the `text` and `thinking` told of an answer that did
    not come to its end, which do not hold: it is asked for again, or the conversation fails), `turn`, `tool_use` (as
    asked for), `tool_started`, `tool_finished` (with `ms`, and `error` where it failed). A listener that raises is
    logged, and changes nothing.
    """

    def __init__(self, on_event: Listener | None, log: logging.Logger) -> None:
        self._on_event, self._log = on_event, log
        self._tools: dict[str, tuple[str, float]] = {}

    @property
    def listener(self) -> Listener | None:
        """What the model's tool tells; None where nobody listens."""
        return self._tell if self._on_event is not None else None

    @property
    def watcher(self) -> Callable[[Event], None] | None:
        """What the engine tells; None where nobody listens."""
        return self._heard if self._on_event is not None or self._log.isEnabledFor(logging.INFO) else None

    def _heard(self, event: Event) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if any(event.path.startswith(f"{path}/") for path in self._tools):
            return  # inside a flow that is a tool: the model did not ask for it
        if event.kind == "node.started" and data.get("tool") and data["tool"] != MODEL:
            self._tools[event.path] = (str(data["tool"]), event.at)
            self._log.info("tool called: %s", data["tool"])
            self._tell({"type": "tool_started", "tool": data["tool"], "path": event.path})
        elif event.path in self._tools and event.kind in ("node.finished", "node.recovered", "node.failed"):
            tool, began = self._tools.pop(event.path)
            ms = round((event.at - began) * 1000, 3)
            error = data.get("message") if event.kind != "node.finished" else None
            if error is None:
                self._log.info("tool %s completed in %.0f ms", tool, ms)
            else:
                self._log.warning("tool %s failed after %.0f ms: %s", tool, ms, error)
            self._tell({"type": "tool_finished", "tool": tool, "path": event.path, "ms": ms, "error": error})

    def _tell(self, event: dict[str, Any]) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:  # noqa: BLE001 - logged, and never the conversation's
            self._log.exception("the listener raised on %s", event.get("type"))
