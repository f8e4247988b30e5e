"""What happens in a run, as data: one vocabulary for journal, progress, traces and pages.

run.started  node.ready  node.started  node.finished  node.recovered  node.failed  node.skipped  attempt.failed
call.repeated  node.progress  node.chunk
timer.set  wait.started  signal.received  branch.taken  items.listed  state.write
run.queued  run.unattended  run.resumed  run.retried  run.waiting  run.interrupted  run.finished  run.outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice
from typing import Any, Final

import orjson

from .frozen import dataclass
from .values import Json, fresh

LARGEST_VALUE: Final = 10_000
"""Characters of JSON that a value in an event may have; of a larger one the event shows the beginning."""
PREVIEW: Final = 1_000
"""Characters of JSON that an event shows of a value that is too large."""


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


def bounded(name: str, value: Json) -> dict[str, Json]:
    """Show a value in the data of an event, bounded in size.

    Args:
        name: The key of the value in the data, such as `output`.
        value: Any JSON value. The event gets a copy.

    Returns:
        `{name: value}` if the JSON of the value has at most 10,000 characters. Otherwise `{name: preview,
        "truncated": True}`; the preview is a string with the first 1,000 characters of the JSON.
    """
    length, shown = 0, list[str]()
    for text in _pieces(value):
        length += len(text)
        shown.append(text)
        if length > LARGEST_VALUE:
            return {name: "".join(islice(shown, PREVIEW))[:PREVIEW], "truncated": True}
    return {name: fresh(value)}


def _pieces(value: Json) -> Iterator[str]:
    """The JSON of a value piece by piece, so that the rest of a large value costs nothing."""
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
    # Escaping only makes a text longer, so the beginning is enough to know that it is too large.
    return orjson.dumps(value[: LARGEST_VALUE + 1] if type(value) is str else value).decode()
