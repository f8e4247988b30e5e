"""Progress of a run on standard error: live on a terminal, plain lines otherwise.

`choose_display` returns the display for a command; the commands that execute runs pass it every event.
The result goes to standard output, so a pipe gets the result and nothing else. To add a display, give it `take(event)`
and make it a context manager.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Final, Protocol

import orjson

from ...events import Event
from ...source.document import escape_invisible
from .output import first_line, logs_json, notify
from .progress_counts import (
    NODE_ENDS,
    RunCounts,
    attempt_failed_line,
    is_new_wait,
    node_line,
    printed_lines,
    repeats_message,
    unattended_message,
    wait_line,
)
from .streams import OutputError

MAX_NODE_LINES: Final = 100
"""The number of nodes, and of failed nodes, that get a line each. Of the rest only counts are shown."""


class Display(Protocol):
    """A display of the events of a run."""

    tally: RunCounts

    def take(self, event: Event) -> None: ...
    def paused(self) -> AbstractContextManager[None]: ...
    def __enter__(self) -> Display: ...
    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None: ...


def choose_display(quiet: bool = False, watch: bool = False) -> Display:
    """Return the display that fits standard error."""
    if watch:
        return EveryEvent(as_json=quiet)
    if quiet:
        return WarningsOnly()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from .live_display import LiveDisplay  # a pipe does without rich

        return LiveDisplay()
    return PlainLines()


class WarningsOnly:
    """Counts the events, and shows only warnings."""

    def __init__(self) -> None:
        self.tally = RunCounts()

    def take(self, event: Event) -> None:
        self.tally.take(event)
        if event.kind == "run.unattended":
            notify(unattended_message(event), logging.WARNING)
        elif event.kind == "call.repeated":
            notify(repeats_message(event), logging.WARNING)
        elif event.kind == "node.log":
            self.show_lines(event)

    def show_lines(self, event: Event) -> None:
        """Write what the tool of a step has printed to standard error."""
        for text in printed_lines(event):
            if logs_json():
                notify(text, runId=event.run_id, node=event.path)
            else:
                sys.stderr.write(f"{event.path}: {text}\n")

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which a question has the terminal; lines may come between."""
        return nullcontext()

    def __enter__(self) -> WarningsOnly:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        return None


class EveryEvent(WarningsOnly):
    """Prints every event: a line on standard error, or with `as_json` an object on standard output."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json
        self._is_output_lost = False

    def show_lines(self, event: Event) -> None:
        """The event is printed like every other one."""

    def take(self, event: Event) -> None:
        super().take(event)
        if self.as_json:
            from .dispatch import json_line

            try:
                if not self._is_output_lost:
                    json_line(event.to_dict())
            except (
                BrokenPipeError,
                OutputError,
            ):  # the run continues; printing its result fails in the same way and is reported
                self._is_output_lost = True
        else:
            data = "" if event.data is None else orjson.dumps(event.data).decode()
            if logs_json():
                notify(event.kind, runId=event.run_id, node=event.path, data=event.data)
                return
            sys.stderr.write(first_line(escape_invisible(f"{event.kind}  {event.path}  {data}".rstrip()), 200) + "\n")


class PlainLines(WarningsOnly):
    """Prints a line for each node that ends and each attempt that fails, up to a limit, and then counts."""

    def __init__(self) -> None:
        super().__init__()
        self._lines_left = {"ok": MAX_NODE_LINES, "failed": MAX_NODE_LINES}
        self._next = 0

    def take(self, event: Event) -> None:
        super().take(event)
        if event.kind in NODE_ENDS:
            if self._has_room("failed" if event.kind == "node.failed" else "ok"):
                sys.stderr.write(node_line(self.tally.last[-1]) + "\n")
            elif self.tally.done >= self._next:
                sys.stderr.write(self._counts_line() + "\n")
                self._next = 2 * self.tally.done
        elif is_new_wait(event) and self._has_room("ok"):
            sys.stderr.write(wait_line(event) + "\n")
        elif event.kind == "attempt.failed" and self._has_room("failed"):
            sys.stderr.write(attempt_failed_line(event) + "\n")

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        if min(self._lines_left.values()) < 0:
            sys.stderr.write(f"{self._counts_line()}; --watch shows each one\n")

    def _has_room(self, what: str) -> bool:
        self._lines_left[what] -= 1
        return self._lines_left[what] >= 0

    def _counts_line(self) -> str:
        counts = self.tally.counts
        more = "".join(f", {counts[how]:,} {how}" for how in ("failed", "recovered", "skipped") if counts[how])
        return f"… {self.tally.done:,} nodes done{more}"
