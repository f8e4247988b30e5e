"""Who hears of a call while it runs: progress, chunks of a streamed result, and events of runs that the call starts.

A plain progress callback hears of progress only. To tell more of a call, give `Listener` a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from ..events import Event
from ..values import Json
from .result import ProgressEvent


class Listener:
    """Hears of one call while it runs; every tool takes one where it takes a progress callback.

    `watcher` takes the events of runs that the call starts; None when nobody wants them. No method may raise.
    """

    watcher: Callable[[Event], None] | None = None

    def __call__(self, event: ProgressEvent) -> None:
        """Take the progress of the call."""
        raise NotImplementedError

    def chunk(self, data: Json) -> None:
        """Take one chunk of a result that the tool gives piece by piece."""
        raise NotImplementedError


class RunProgress:
    """Turns the events of a run into progress: one step when a node starts, and one when it ends.

    `steps` is the progress so far. Events that come from inside a node of a flow whose nodes are `counted` (they run
    once each, so the total is known) are fractions of a step, so that the number always grows and stays below the
    total.
    """

    def __init__(self, tell: Callable[[ProgressEvent], Any], *, counted: bool = False) -> None:
        self._tell, self._counted = tell, counted
        self._nodes = self._done = 0
        self._begun: set[str] = set()
        self._inside: dict[str, int] = {}  # events from inside each node that runs

    def take(self, event: Event) -> None:
        """Report one event of a node; ignore the others."""
        path = event.path or event.node
        if event.kind in ("run.started", "run.resumed"):
            self._nodes = int(_data(event).get("nodes") or 0)
        elif event.kind in _SAYS:
            message = f"{path}: {_SAYS[event.kind](_data(event))}"
            outer = path.partition("/")[0]
            if self._counted and outer != path:
                self._inside[outer] = self._inside.get(outer, 0) + 1
            elif event.kind in STREAMED:
                self._inside[path] = self._inside.get(path, 0) + 1
            else:
                self._step(event.kind, path)
            self._tell(ProgressEvent(self._steps(), 2 * self._nodes if self._counted else None, message))

    def _step(self, kind: str, path: str) -> None:
        self._inside.pop(path, None)
        if kind == "node.started":
            self._begun.add(path)
            self._done += 1
        else:
            # A skipped node does not start. Workers report a node only when it has ended.
            self._done += 1 if path in self._begun else 2
            self._begun.discard(path)

    def _steps(self) -> float:
        return self._done + sum(1 - 1 / (count + 1) for count in self._inside.values())


STREAMED: Final = ("node.progress", "node.chunk")
_MESSAGE: Final = 200  # characters of a chunk in a message


def _data(event: Event) -> dict[str, Any]:
    return event.data if isinstance(event.data, dict) else {}


def _why(data: dict[str, Any]) -> str:
    why = data.get("message") or data.get("reason")
    return f" ({why})" if why else ""


def _how_far(data: dict[str, Any]) -> str:
    done, total, message = data.get("progress"), data.get("total"), data.get("message")
    number = f"{done:g} of {total:g}" if total else f"{done:g}" if isinstance(done, (int, float)) else ""
    return f"{message} ({number})" if message and number else str(message or number)


def _chunk(data: dict[str, Any]) -> str:
    chunk = data.get("chunk")
    text = chunk if isinstance(chunk, str) else orjson.dumps(chunk).decode()
    return text if len(text) <= _MESSAGE else text[: _MESSAGE - 1] + "…"


_SAYS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "node.started": lambda data: "started",
    "node.finished": lambda data: "done",
    "node.failed": lambda data: "failed" + _why(data),
    "node.skipped": lambda data: "skipped" + _why(data),
    "node.progress": _how_far,
    "node.chunk": _chunk,
}
