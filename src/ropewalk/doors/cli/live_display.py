"""The progress of a run on a terminal: the nodes that ended last, the nodes that run now, and a bar.

It redraws at most ten times a second and shows only a few lines, so a graph of 10,000 nodes costs no more than one of
ten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...events import Event
from ...source.document import escape_invisible
from .output import duration, first_line, notify
from .progress_counts import (
    MARKS,
    MAX_PATH,
    EndedNode,
    RunCounts,
    printed_lines,
    repeats_message,
    unattended_message,
)

_REDRAW_SECONDS = 0.1
_ROWS = 6
_STYLE = {"finished": "green", "reused": "cyan", "recovered": "yellow", "failed": "red", "skipped": "dim"}


class LiveDisplay:
    """Shows a run on a terminal; the last picture stays."""

    def __init__(self) -> None:
        self.tally = RunCounts()
        self._ended_nodes: list[EndedNode] | None = []
        self._console = Console(stderr=True, highlight=False)
        self._live = RichLive(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._redraw_timer: asyncio.TimerHandle | None = None
        self._began = time.monotonic()
        self._is_over = self._is_paused = False
        self._note = ""

    def take(self, event: Event) -> None:
        ended = self.tally.take(event)
        if event.kind == "run.unattended":
            self._note = unattended_message(event)
        if event.kind == "node.log":
            for text in printed_lines(event):
                self._console.print(Text(f"{event.path}: {text}"), soft_wrap=True)
        if event.kind == "call.repeated":
            notify(repeats_message(event), logging.WARNING)
        if event.kind in ("run.started", "run.finished", "run.waiting"):
            self._note = ""
        if ended is not None and self._ended_nodes is not None:
            self._ended_nodes.append(ended)
            if len(self._ended_nodes) > _ROWS * 3:
                self._ended_nodes = None  # too many to list at the end; the counts remain
        if self._redraw_timer is None and not self._is_over and not self._is_paused:
            self._schedule()

    def _schedule(self) -> None:
        try:
            self._redraw_timer = asyncio.get_running_loop().call_later(_REDRAW_SECONDS, self._redraw)
        except RuntimeError:  # this event came outside of a loop; the next one draws
            self._redraw_timer = None

    def _redraw(self) -> None:
        if self._is_over or self._is_paused:
            return
        self._live.update(self._render(), refresh=True)
        self._schedule()

    def _render(self) -> Group:
        tally = self.tally
        rows = (
            list(tally.last)[-_ROWS:]
            if not self._is_over
            else (self._ended_nodes if self._ended_nodes is not None else tally.failures)
        )
        parts: list[Text | Table] = [_ended_line(e) for e in rows]
        if not self._is_over:
            now = time.time()
            for path, at in list(tally.running.items())[:_ROWS]:
                phase = tally.phases.get(path)
                label = escape_invisible(first_line(f"{phase}: {path}" if phase else path, MAX_PATH))
                parts.append(Text.assemble(("… ", "cyan"), label, (f"  {duration(max(0.0, now - at))}", "dim")))
            if len(tally.running) > _ROWS:
                parts.append(Text(f"  and {len(tally.running) - _ROWS:,} more running", style="dim"))
        if self._note:
            parts.append(Text(self._note, style="yellow"))
        return Group(*parts, self._render_bar())

    def _render_bar(self) -> Table:
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
        if self._redraw_timer is not None:
            self._redraw_timer.cancel()
        self._is_paused = True
        self._live.update(self._render(), refresh=True)
        self._live.stop()
        try:
            yield
        finally:
            self._is_paused = False
            self._live.start()
            self._schedule()

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        self._is_over = True
        if self._redraw_timer is not None:
            self._redraw_timer.cancel()
        self._live.update(self._render(), refresh=True)
        self._live.stop()


def _ended_line(ended: EndedNode) -> Text:
    style = _STYLE[ended.how]
    return Text.assemble(
        (f"{MARKS[ended.how]} ", style),
        (escape_invisible(f"{ended.phase}: ") if ended.phase else "", "dim"),
        escape_invisible(first_line(ended.path, MAX_PATH)),
        (f"  {escape_invisible(ended.note)}", style if ended.how == "failed" else "dim"),
    )
