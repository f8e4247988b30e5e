"""What happens in a run, as data: one vocabulary for journal, progress, traces and pages.

run.started  node.ready  node.started  node.finished  node.recovered  node.failed  node.skipped  attempt.failed
timer.set  wait.started  signal.received  branch.taken  items.listed  state.write
run.queued  run.unattended  run.resumed  run.retried  run.waiting  run.interrupted  run.finished
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from .frozen import dataclass
from .values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    `path` names the node instance (`each[3]/fetch`, `@2` for the second attempt; empty for the
    run itself), `node` its id, `at` is wall-clock seconds since the epoch, `data` depends on `kind`.
    """

    run_id: str
    kind: str
    at: float
    path: str = ""
    node: str = ""
    data: Json = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "runId": self.run_id,
            "kind": self.kind,
            "at": self.at,
            "path": self.path,
            "node": self.node,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True)
class Brief:
    """A watcher that needs to hear of the run itself only; what happens in it need not be looked for."""

    take: Callable[[Event], None]

    def __call__(self, event: Event) -> None:
        self.take(event)
