"""The logs of the steps of a run: what their tools print and log, bounded, redacted, journaled and reported.

A step keeps its first and its last lines. While it runs, new lines are reported as events `node.log` at most ten times
a second, and its journal entry of the kind `log` is written at growing intervals, the last time at the end of the run.
A run whose tools print nothing has no `StepLogs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import Any, Final, NamedTuple

from ..config.secrets import process_redaction
from ..errors import RopewalkError
from ..journal.protocol import LOG, Entry
from ..source.document import escape_invisible
from ..tools.output import ECHO, SETTLE
from ..values import Json
from .frame import NodeSlot

_LONGEST_LINE: Final = 10_000
"""Characters of a line."""
_EVENT_SECONDS: Final = 0.1
_STEPS_PER_RUN: Final = 100
"""A run keeps at most the characters of this many full steps."""
_NO_CONTEXT: Final = Context()
"""Without a current step: who handles an event may print, and would report that again."""


class LogLine(NamedTuple):
    """A line of a step: when, from which stream (stdout, stderr, log, server), its level, and its text."""

    at: float
    stream: str
    level: str
    text: str

    def to_dict(self) -> dict[str, Json]:
        """Convert the line to JSON."""
        line: dict[str, Json] = {"at": round(self.at, 3), "stream": self.stream, "text": self.text}
        return {**line, "level": self.level} if self.level else line


class StepLogs:
    """The logs of the steps of one run, by path."""

    def __init__(self, run: Any) -> None:
        self._run, self._lock = run, threading.RLock()  # a new step takes room for what it restores
        self._steps: dict[str, StepLog] = {}
        self._room = run.log_limits.characters * _STEPS_PER_RUN

    def of(self, path: str, node_slot: NodeSlot) -> StepLog:
        """Return the log of a step."""
        step = self._steps.get(path)
        if step is None:
            with self._lock:
                step = self._steps.setdefault(path, StepLog(self._run, self, path, node_slot))
        return step

    def take(self, size: int) -> bool:
        """Take room for a line, and return True; return False if the run keeps no more lines."""
        with self._lock:
            if size > self._room:
                return False
            self._room -= size
            return True

    def give_back(self, size: int) -> None:
        """Give back the room of a line that is left out."""
        with self._lock:
            self._room += size

    def report(self, path: str) -> None:
        """Report new lines of a step that ends now, also one without a newline at its end."""
        if (step := self._steps.get(path)) is not None:
            step.end()

    def entries(self) -> list[Entry]:
        """Return a journal entry for each step."""
        return [step.entry() for step in list(self._steps.values())]

    def close(self) -> None:
        """Report and journal what is left."""
        for read in SETTLE:
            read()
        for step in list(self._steps.values()):
            step.close()


class StepLog:
    """The log of one step; implements `tools.output.Output`."""

    def __init__(self, run: Any, logs: StepLogs, path: str, node_slot: NodeSlot) -> None:
        self._run, self._logs, self._path, self._node = run, logs, path, node_slot
        self._limits = run.log_limits
        self._lock = threading.Lock()
        self._first: list[LogLine] = []
        self._last: deque[LogLine] = deque()
        self._sizes = [0, 0]  # characters of the first lines, and of the last
        self._left_out = 0
        self._partial: dict[str, tuple[float, str]] = {}  # by stream: the beginning of a line, and when it came
        self._has_new_partial = False
        self._began = time.time()
        self._count = self._reported = self._reported_first = self._written = 0
        self._write_after = self._began
        self._interval = 2 * _EVENT_SECONDS
        self._longest_interval = 5.0 if run.begun is None else self._interval
        self._is_scheduled = False
        self._restore()

    def _restore(self) -> None:
        """Begin with what an earlier execution of the step has journaled."""
        entry = self._run.log.past.get((self._path, LOG))
        data: Any = None if entry is None else entry.data
        if data:
            for line in data["lines"]:
                self._keep(LogLine(line["at"], line["stream"], line.get("level", ""), line["text"]))
            self._left_out += data.get("leftOut", 0)
            self._reported, self._reported_first = self._count, len(self._first)
            self._written = self._count

    def write(self, stream: str, text: str) -> None:
        """Add a piece of what a stream prints; each newline in it ends a line."""
        with self._lock:
            now = time.time()
            began, before = self._partial.pop(stream, (now, ""))
            *lines, rest = (before + text).split("\n")
            if rest:
                self._partial[stream] = now if lines else began, rest[: _LONGEST_LINE + 1]
                self._has_new_partial = True
            for line in lines:
                self._keep(LogLine(now, stream, "", line))
        if lines and ECHO:
            self._echo(lines)
        self._schedule()

    def _echo(self, lines: list[str]) -> None:
        """Pass lines on, each with the run that people know and the path in it, without secrets."""
        run_id, call = self._run.outermost()
        place = f"{run_id} {call}/{self._path}" if call else f"{run_id} {self._path}"
        redaction = process_redaction()
        texts = (redaction.text(str(self._run.redact(line.removesuffix("\r")))) for line in lines)
        text = "".join(f"{place}: {escape_invisible(each)}\n" for each in texts)
        for echo in ECHO:
            echo(text)

    def add(self, stream: str, text: str, level: str = "") -> None:
        """Add a whole text, which may have several lines."""
        with self._lock:
            now = time.time()
            for line in text.removesuffix("\n").split("\n"):
                self._keep(LogLine(now, stream, level, line))
        self._schedule()

    def _keep(self, line: LogLine) -> None:
        text = line.text
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]}… (the rest of this line is left out)"
            line = line._replace(text=text)
        self._count += 1
        lines, size = self._limits.lines // 2, self._limits.characters // 2
        if not self._logs.take(len(text)):
            self._left_out += 1
        elif not self._last and len(self._first) < lines and self._sizes[0] + len(text) <= size:
            self._first.append(line)
            self._sizes[0] += len(text)
        else:
            self._last.append(line)
            self._sizes[1] += len(text)
        while len(self._last) > lines or self._sizes[1] > size:
            dropped = len(self._last.popleft().text)
            self._sizes[1] -= dropped
            self._logs.give_back(dropped)
            self._left_out += 1

    def _shown(self, lines: Iterable[LogLine]) -> list[dict[str, Json]]:
        """Return lines as JSON, without secrets: only here, because most lines of a flood are dropped before."""
        redaction, shown = process_redaction(), list[dict[str, Json]]()
        for line in lines:
            text = redaction.text(str(self._run.redact(line.text.removesuffix("\r"))))
            shown.append(line._replace(text=text.encode("utf-8", "replace").decode()).to_dict())
        return shown

    # --- reporting, on the loop of the run

    def _schedule(self) -> None:
        loop = self._run.loop
        if self._run.begun is not None:
            self._journal_early()
        with self._lock:
            if self._is_scheduled or loop.is_closed():
                return
            self._is_scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop was closed just now
            loop.call_soon_threadsafe(self._flush, context=_NO_CONTEXT.copy())

    def _journal_early(self) -> None:
        """Journal at once what a tool prints that keeps the loop, because it may end the process."""
        now = time.time()
        if now < self._write_after or asyncio._get_running_loop() is not self._run.loop:
            return
        self._write_after = now + self._interval
        self._journal()
        if (write_early := getattr(self._run.log, "write_early", None)) is not None:
            write_early(is_urgent=True)

    def _flush(self) -> None:
        with self._lock:
            if not self._run.playing or (self._written == self._count and not self._has_new_partial):
                self._is_scheduled = False
                return
        self.report()
        now = time.time()
        if now >= self._write_after:
            self._journal()
            self._write_after, self._interval = now + self._interval, min(self._longest_interval, 2 * self._interval)
        self._run.loop.call_later(_EVENT_SECONDS, self._flush, context=_NO_CONTEXT.copy())

    def report(self) -> None:
        """Report what is new."""
        with self._lock:
            fresh = self._count - self._reported
            if not fresh:
                return
            lines = self._first[self._reported_first :]
            rest = min(fresh - len(lines), len(self._last))
            numbers = [*range(self._reported_first + 1, len(self._first) + 1)]
            numbers += range(self._count - rest + 1, self._count + 1)
            lines += list(self._last)[len(self._last) - rest :]
            self._reported, self._reported_first = self._count, len(self._first)
        if self._run.watcher is not None:
            shown = zip(numbers, self._shown(lines), strict=True)
            data: dict[str, Json] = {"lines": [{"number": number, **line} for number, line in shown]}
            if fresh > len(lines):
                data["leftOut"] = fresh - len(lines)
            self._run.report("node.log", self._path, self._node.name, data)

    def end(self) -> None:
        """End unfinished lines, and report what is left."""
        for stream in list(self._partial):
            self.write(stream, "\n")
        self.report()

    def close(self) -> None:
        """End unfinished lines, and report and journal what is left."""
        self.end()
        self._journal()

    def _journal(self) -> None:
        if self._written != self._count or self._has_new_partial:
            self._written, self._has_new_partial = self._count, False
            with contextlib.suppress(RopewalkError):  # the log of a step is no reason for a run to fail
                self._run.log.append(self.entry()).add_done_callback(_retrieve)

    def entry(self) -> Entry:
        """Return the journal's entry of the log so far."""
        with self._lock:
            # An unfinished line, too: its step may never end it, and the next entry replaces this one.
            partial = (LogLine(at, stream, "", text) for stream, (at, text) in self._partial.items())
            data: dict[str, Json] = {"lines": [*self._shown((*self._first, *self._last, *partial))]}
            if self._left_out:
                data["leftOut"] = self._left_out
                data["after"] = len(self._first)
        return Entry(self._path, LOG, self._node.id, data, "", self._began, time.time())


def _retrieve(future: Any) -> None:
    if not future.cancelled():
        future.exception()
