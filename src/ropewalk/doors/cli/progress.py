"""Progress of a run on standard error: live on a terminal, plain lines otherwise.

The result goes to standard output, so a pipe gets the result and nothing else. To add a display,
give it `take(event)` and use it as a context manager.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Protocol

from ...events import Event
from ...source import visible
from .tally import Tally, line


class Progress(Protocol):
    """Something that follows a run."""

    tally: Tally

    def take(self, event: Event) -> None: ...
    def __enter__(self) -> Progress: ...
    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None: ...


def progress(quiet: bool = False) -> Progress:
    """The display that fits where standard error goes; `quiet` only counts."""
    if quiet:
        return Counting()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from .live import Live

        return Live()
    return PlainLines()


class Counting:
    """Follows and shows nothing."""

    def __init__(self) -> None:
        self.tally = Tally()

    def take(self, event: Event) -> None:
        self.tally.take(event)

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        return None


class PlainLines(Counting):
    """One line per node that ends, and per attempt that fails."""

    def take(self, event: Event) -> None:
        ended = self.tally.take(event)
        if ended is not None:
            sys.stderr.write(line(ended) + "\n")
        elif event.kind == "attempt.failed":
            data = event.data or {}
            sys.stderr.write(visible(f"! {event.path}  attempt failed: {data.get('message', '')}") + "\n")
