"""The events of runs: one vocabulary for journal, progress, traces and the web UI.

run.started  node.ready  node.started  node.finished  node.recovered  node.failed  node.skipped  attempt.failed
call.repeated  node.progress  node.chunk  node.printed  node.log  node.warned
timer.set  wait.started  signal.received  branch.taken  items.listed  state.write
run.queued  run.unattended  run.resumed  run.retried  run.waiting  run.interrupted  run.finished  run.outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice
from typing import Any, Final

import orjson

from .fast_dataclass import dataclass
from .values import Json, fresh

LARGEST_VALUE: Final = 10_000
"""Maximum characters of JSON of a value in an event; an event has only the beginning of a larger value."""
PREVIEW: Final = 1_000
"""Characters of JSON in the preview of a larger value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a run.

    `path` names the node instance (`each[3]/fetch`, `@2` for the second attempt; empty for the run itself) and `node`
    its id. `at` is in seconds since the epoch. `data` depends on `kind`.
    """

    run_id: str
    kind: str
    at: float
    path: str = ""
    node: str = ""
    data: Json = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        """Convert the event to JSON.

        Returns:
            An object with the keys `runId`, `kind`, `at`, `path`, `node` and `data`.
        """
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
    """A watcher that needs only the events of the run itself, not those of its nodes."""

    take: Callable[[Event], None]

    def __call__(self, event: Event) -> None:
        self.take(event)


def bounded(name: str, value: Json) -> dict[str, Json]:
    """Show a value in the data of an event, bounded in size."""
    length, preview = 0, list[str]()
    for text in _pieces(value):
        length += len(text)
        preview.append(text)
        if length > LARGEST_VALUE:
            return {name: "".join(islice(preview, PREVIEW))[:PREVIEW], "truncated": True}
    return {name: fresh(value)}


def _pieces(value: Json) -> Iterator[str]:
    """Yield the JSON of a value piece by piece, so that the rest of a large value costs nothing."""
    if type(value) is dict:
        yield "{"
        for i, (key, item) in enumerate(value.items()):
            yield f"{',' if i else ''}{_scalar(key)}:"
            yield from _pieces(item)
        yield "}"
    elif type(value) is list:
        yield "["
        for i, item in enumerate(value):
            if i:
                yield ","
            yield from _pieces(item)
        yield "]"
    else:
        yield _scalar(value)


def _scalar(value: Json) -> str:
    # Escaping makes a text only longer, so its beginning shows whether it is too large.
    return orjson.dumps(value[: LARGEST_VALUE + 1] if type(value) is str else value).decode()
