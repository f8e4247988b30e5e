"""The live display: a bar, what runs now, what ended last. Redrawn ten times a second at most,
and never larger than a few lines, so a graph of 10,000 nodes costs no more than one of ten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...events import Event
from ...source import visible
from .logs import tell
from .table import duration, first_line
from .tally import LONGEST, MARKS, Ended, Tally, repeats, unattended

_EVERY = 0.1
_SHOWN = 6
_STYLE = {"finished": "green", "recovered": "yellow", "failed": "red", "skipped": "dim"}


class Live:
    """Follows a run on a terminal; the last picture stays."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._all: list[Ended] | None = []
        self._console = Console(stderr=True, highlight=False)
        self._live = RichLive(
            console=self._console, auto_refresh=False, redirect_stderr=False, vertical_overflow="crop"
        )
        self._tick: asyncio.TimerHandle | None = None
        self._began = time.monotonic()
        self._over = False
        self._note = ""

    def take(self, event: Event) -> None:
        ended = self.tally.take(event)
        if event.kind == "run.unattended":
            self._note = unattended(event)
        if event.kind == "call.repeated":
            tell(repeats(event), logging.WARNING)
        if event.kind in ("run.started", "run.finished", "run.waiting"):
            self._note = ""
        if ended is not None and self._all is not None:
            self._all.append(ended)
            if len(self._all) > _SHOWN * 3:
                self._all = None  # too many to list at the end: the counts say it
        if self._tick is None and not self._over:
            self._schedule()

    def _schedule(self) -> None:
        try:
            self._tick = asyncio.get_running_loop().call_later(_EVERY, self._redraw)
        except RuntimeError:  # an event outside of a loop: the next one draws
            self._tick = None

    def _redraw(self) -> None:
        if self._over:
            return
        self._live.update(self._picture(), refresh=True)
        self._schedule()

    def _picture(self) -> Group:
        tally = self.tally
        rows = (
            list(tally.last)[-_SHOWN:] if not self._over else (self._all if self._all is not None else tally.failures)
        )
        parts: list[Text | Table] = [_ended(e) for e in rows]
        if not self._over:
            now = time.time()
            for path, at in list(tally.running.items())[:_SHOWN]:
                phase = tally.phases.get(path)
                shown = visible(first_line(f"{phase}: {path}" if phase else path, LONGEST))
                parts.append(Text.assemble(("… ", "cyan"), shown, (f"  {duration(max(0.0, now - at))}", "dim")))
            if len(tally.running) > _SHOWN:
                parts.append(Text(f"  and {len(tally.running) - _SHOWN:,} more running", style="dim"))
        if self._note:
            parts.append(Text(self._note, style="yellow"))
        return Group(*parts, self._bar())

    def _bar(self) -> Table:
        tally = self.tally
        total = max(tally.total, tally.done + len(tally.running), 1)
        failed = tally.counts["failed"]
        said = f"{tally.done:,}/{total:,}" + (f"  {failed:,} failed" if failed else "")
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=total, completed=tally.done, width=30, complete_style="red" if failed else "cyan")
        grid.add_row(bar, said, Text(duration(time.monotonic() - self._began), style="dim"))
        return grid

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None) -> None:
        self._over = True
        if self._tick is not None:
            self._tick.cancel()
        self._live.update(self._picture(), refresh=True)
        self._live.stop()


def _ended(ended: Ended) -> Text:
    style = _STYLE[ended.how]
    return Text.assemble(
        (f"{MARKS[ended.how]} ", style),
        (visible(f"{ended.phase}: ") if ended.phase else "", "dim"),
        visible(first_line(ended.path, LONGEST)),
        (f"  {visible(ended.note)}", style if ended.how == "failed" else "dim"),
    )
