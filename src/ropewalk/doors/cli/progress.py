"""Progress of a run on standard error: live on a terminal, plain lines otherwise.

The result goes to standard output, so a pipe gets the result and nothing else. To add a display,
give it `take(event)` and use it as a context manager.

The live display: a bar, what runs now, what ended last. Redrawn ten times a second at most,
and never larger than a few lines, so a graph of 10,000 nodes costs no more than one of ten.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Final, Protocol

import orjson
from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...events import Event
from ...source.document import visible
from .main import OutputError
from .output import duration, first_line, logs_json, notify
from .progress_counts import (
    ENDS,
    MARKS,
    MAX_PATH,
    Ended,
    RunCounts,
    attempt_failed,
    is_new_wait,
    line,
    repeats,
    unattended,
    waits_for,
)

MAX_LINES: Final = 100
"""The number of nodes, and of failed nodes, that get a line each. Of the rest only counts are shown."""


class Progress(Protocol):
    """A display of the events of a run."""

    tally: RunCounts

    def take(self, event: Event) -> None: ...
    def paused(self) -> AbstractContextManager[None]: ...
    def __enter__(self) -> Progress: ...
    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None: ...


def progress(quiet: bool = False, watch: bool = False) -> Progress:
    """Return the display that fits standard error.

    Args:
        quiet: Only count the events.
        watch: Print every event.
    """
    if watch:
        return Watching(as_json=quiet)
    if quiet:
        return Counting()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Live()
    return PlainLines()


class Counting:
    """Counts the events, and shows only warnings."""

    def __init__(self) -> None:
        self.tally = RunCounts()

    def take(self, event: Event) -> None:
        self.tally.take(event)
        if event.kind == "run.unattended":
            notify(unattended(event), logging.WARNING)
        elif event.kind == "call.repeated":
            notify(repeats(event), logging.WARNING)

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which a question has the terminal; lines may come between."""
        return nullcontext()

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        return None


class Watching(Counting):
    """Prints every event: a line on standard error, or with `as_json` an object on standard output."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json
        self._lost = False

    def take(self, event: Event) -> None:
        super().take(event)
        if self.as_json:
            from .main import json_line

            try:
                if not self._lost:
                    json_line(event.to_dict())
            except (
                BrokenPipeError,
                OutputError,
            ):  # the run continues; printing its result fails in the same way and is reported
                self._lost = True
        else:
            data = "" if event.data is None else orjson.dumps(event.data).decode()
            if logs_json():
                notify(event.kind, runId=event.run_id, node=event.path, data=event.data)
                return
            sys.stderr.write(first_line(visible(f"{event.kind}  {event.path}  {data}".rstrip()), 200) + "\n")


class PlainLines(Counting):
    """Prints a line for each node that ends and each attempt that fails, up to a limit, and then counts."""

    def __init__(self) -> None:
        super().__init__()
        self._lines_left = {"ok": MAX_LINES, "failed": MAX_LINES}
        self._next = 0

    def take(self, event: Event) -> None:
        super().take(event)
        if event.kind in ENDS:
            if self._has_room("failed" if event.kind == "node.failed" else "ok"):
                sys.stderr.write(line(self.tally.last[-1]) + "\n")
            elif self.tally.done >= self._next:
                sys.stderr.write(self._so_far() + "\n")
                self._next = 2 * self.tally.done
        elif is_new_wait(event) and self._has_room("ok"):
            sys.stderr.write(waits_for(event) + "\n")
        elif event.kind == "attempt.failed" and self._has_room("failed"):
            sys.stderr.write(attempt_failed(event) + "\n")

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        if min(self._lines_left.values()) < 0:
            sys.stderr.write(f"{self._so_far()}; --watch shows each one\n")

    def _has_room(self, what: str) -> bool:
        self._lines_left[what] -= 1
        return self._lines_left[what] >= 0

    def _so_far(self) -> str:
        counts = self.tally.counts
        more = "".join(f", {counts[how]:,} {how}" for how in ("failed", "recovered", "skipped") if counts[how])
        return f"… {self.tally.done:,} nodes done{more}"


_REDRAW_SECONDS = 0.1
_ROWS = 6
_STYLE = {"finished": "green", "reused": "cyan", "recovered": "yellow", "failed": "red", "skipped": "dim"}


class Live:
    """Shows a run on a terminal; the last picture stays."""

    def __init__(self) -> None:
        self.tally = RunCounts()
        self._all: list[Ended] | None = []
        self._console = Console(stderr=True, highlight=False)
        self._live = RichLive(
            console=self._console, auto_refresh=False, redirect_stderr=False, vertical_overflow="crop"
        )
        self._tick: asyncio.TimerHandle | None = None
        self._began = time.monotonic()
        self._is_over = self._is_paused = False
        self._note = ""

    def take(self, event: Event) -> None:
        ended = self.tally.take(event)
        if event.kind == "run.unattended":
            self._note = unattended(event)
        if event.kind == "call.repeated":
            notify(repeats(event), logging.WARNING)
        if event.kind in ("run.started", "run.finished", "run.waiting"):
            self._note = ""
        if ended is not None and self._all is not None:
            self._all.append(ended)
            if len(self._all) > _ROWS * 3:
                self._all = None  # too many to list at the end; the counts remain
        if self._tick is None and not self._is_over and not self._is_paused:
            self._schedule()

    def _schedule(self) -> None:
        try:
            self._tick = asyncio.get_running_loop().call_later(_REDRAW_SECONDS, self._redraw)
        except RuntimeError:  # this event came outside of a loop; the next one draws
            self._tick = None

    def _redraw(self) -> None:
        if self._is_over or self._is_paused:
            return
        self._live.update(self._picture(), refresh=True)
        self._schedule()

    def _picture(self) -> Group:
        tally = self.tally
        rows = (
            list(tally.last)[-_ROWS:] if not self._is_over else (self._all if self._all is not None else tally.failures)
        )
        parts: list[Text | Table] = [_ended(e) for e in rows]
        if not self._is_over:
            now = time.time()
            for path, at in list(tally.running.items())[:_ROWS]:
                phase = tally.phases.get(path)
                label = visible(first_line(f"{phase}: {path}" if phase else path, MAX_PATH))
                parts.append(Text.assemble(("… ", "cyan"), label, (f"  {duration(max(0.0, now - at))}", "dim")))
            if len(tally.running) > _ROWS:
                parts.append(Text(f"  and {len(tally.running) - _ROWS:,} more running", style="dim"))
        if self._note:
            parts.append(Text(self._note, style="yellow"))
        return Group(*parts, self._bar())

    def _bar(self) -> Table:
        tally = self.tally
        total = max(tally.total, tally.done + len(tally.running), 1)
        failed = tally.counts["failed"]
        label = f"{tally.done:,}/{total:,}" + (f"  {failed:,} failed" if failed else "")
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=total, completed=tally.done, width=30, complete_style="red" if failed else "cyan")
        grid.add_row(bar, label, Text(duration(time.monotonic() - self._began), style="dim"))
        return grid

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing, so that a question has the terminal."""
        if self._tick is not None:
            self._tick.cancel()
        self._is_paused = True
        self._live.update(self._picture(), refresh=True)
        self._live.stop()
        try:
            yield
        finally:
            self._is_paused = False
            self._live.start()
            self._schedule()

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        self._is_over = True
        if self._tick is not None:
            self._tick.cancel()
        self._live.update(self._picture(), refresh=True)
        self._live.stop()


def _ended(ended: Ended) -> Text:
    style = _STYLE[ended.how]
    return Text.assemble(
        (f"{MARKS[ended.how]} ", style),
        (visible(f"{ended.phase}: ") if ended.phase else "", "dim"),
        visible(first_line(ended.path, MAX_PATH)),
        (f"  {visible(ended.note)}", style if ended.how == "failed" else "dim"),
    )
