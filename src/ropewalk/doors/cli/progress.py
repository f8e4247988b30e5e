"""Progress of a run on standard error: live on a terminal, plain lines otherwise.

The result goes to standard output, so a pipe gets the result and nothing else. To add a display,
give it `take(event)` and use it as a context manager.
"""

from __future__ import annotations

import logging
import os
import sys
from types import TracebackType
from typing import Final, Protocol

import orjson

from ...events import Event
from ...source import visible
from .logs import tell, tells_json
from .streams import Unwritten
from .table import first_line
from .tally import ENDS, Tally, attempt_failed, is_new_wait, line, repeats, unattended, waits_for

MOST_TOLD: Final = 100
"""So many nodes are told one by one; of more than that only those that fail, and of those so many, too."""


class Progress(Protocol):
    """Something that follows a run."""

    tally: Tally

    def take(self, event: Event) -> None: ...
    def __enter__(self) -> Progress: ...
    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None: ...


def progress(quiet: bool = False, watch: bool = False) -> Progress:
    """The display that fits where standard error goes; `quiet` only counts, `watch` tells every event."""
    if watch:
        return Watching(as_json=quiet)
    if quiet:
        return Counting()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from .live import Live

        return Live()
    return PlainLines()


class Counting:
    """Follows, and shows nothing but that nobody executes the run."""

    def __init__(self) -> None:
        self.tally = Tally()

    def take(self, event: Event) -> None:
        self.tally.take(event)
        if event.kind == "run.unattended":
            tell(unattended(event), logging.WARNING)
        elif event.kind == "call.repeated":
            tell(repeats(event), logging.WARNING)

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        return None


class Watching(Counting):
    """Every event: a line on standard error, or with `as_json` an object on standard output."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json
        self._lost = False

    def take(self, event: Event) -> None:
        super().take(event)
        if self.as_json:
            from .dispatch import json_line

            try:
                if not self._lost:
                    json_line(event.to_dict())
            except (
                BrokenPipeError,
                Unwritten,
            ):  # the run goes on; its result meets this again, and whoever prints tells
                self._lost = True
        else:
            data = "" if event.data is None else orjson.dumps(event.data).decode()
            if tells_json():
                tell(event.kind, runId=event.run_id, node=event.path, data=event.data)
                return
            sys.stderr.write(first_line(visible(f"{event.kind}  {event.path}  {data}".rstrip()), 200) + "\n")


class PlainLines(Counting):
    """One line per node that ends, and per attempt that fails; of many nodes only those that fail, and how many."""

    def __init__(self) -> None:
        super().__init__()
        self._left = {"ok": MOST_TOLD, "failed": MOST_TOLD}
        self._next = 0

    def take(self, event: Event) -> None:
        super().take(event)
        if event.kind in ENDS:
            if self._may("failed" if event.kind == "node.failed" else "ok"):
                sys.stderr.write(line(self.tally.last[-1]) + "\n")
            elif self.tally.done >= self._next:
                sys.stderr.write(self._so_far() + "\n")
                self._next = 2 * self.tally.done
        elif is_new_wait(event) and self._may("ok"):
            sys.stderr.write(waits_for(event) + "\n")
        elif event.kind == "attempt.failed" and self._may("failed"):
            sys.stderr.write(attempt_failed(event) + "\n")

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        if min(self._left.values()) < 0:
            sys.stderr.write(f"{self._so_far()}; --watch tells each\n")

    def _may(self, what: str) -> bool:
        self._left[what] -= 1
        return self._left[what] >= 0

    def _so_far(self) -> str:
        counts = self.tally.counts
        more = "".join(f", {counts[how]:,} {how}" for how in ("failed", "recovered", "skipped") if counts[how])
        return f"… {self.tally.done:,} nodes done{more}"
