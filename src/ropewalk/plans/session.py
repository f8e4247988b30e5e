"""The host's side of a run: it replays rows, commits new ones, and decides what is called.

A session knows no event loop and no machine. It takes the messages of a machine, says what to deliver next, and reaches
the world by its `Ports`, so that the same code hosts a program of the process, of a child, or of a test with a clock of
its own.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..fast_dataclass import dataclass
from ..values import Json
from . import messages as m
from .rows import DELIVERED, KEPT_SECONDS, Diverged, Offers, Row, line_of, read_start, start_row


class Ports(Protocol):
    """How a session reaches the world."""

    def begin(self, request: m.Request, due: float | None) -> None:
        """Begin a step; `due` is when a timer fires or a question fails, in seconds since the epoch."""
        # `Session.end` takes the result.

    def abort(self, path: str) -> None:
        """Stop a step that no task waits for; `Session.end` takes a result that comes later."""

    def clock(self, name: str) -> float:
        """Return the seconds that a clock shows: `now` or `monotonic`."""

    def log(self, text: str) -> None:
        """Log a text that the program printed."""

    def commit(self, row: Row) -> None:
        """Store a row."""

    def take(self, offer: Row, path: str) -> None:
        """Note that a step takes an offer; its row is committed next."""

    def recorded(self, call: m.Call) -> str | None:
        """Return the result of a call that another run made, as JSON; its row is committed next."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, or that it waits."""

    # status: `completed`, `failed`, `stopped` at a limit, `invalid`, or `waiting`.
    # result: The result of the program.
    # error: The class of the exception.
    # message: Its text.
    # line: The line that raised it, from 1.
    # failed: The paths of the failed steps that it comes from.
    # printed: Everything that the program printed.
    # waits: The questions that a waiting run has.
    # problems: The problems of an invalid text.

    status: str
    result: Json = None
    error: str = ""
    message: str = ""
    line: int = 0
    failed: tuple[str, ...] = ()
    printed: str = ""
    waits: tuple[m.Question, ...] = ()
    problems: tuple[dict[str, Json], ...] = ()


class Session:
    """One attempt to run a program to its end."""

    # rows: The journal so far; new rows are appended to it.
    # ports: The world.
    # seed: Decides what `random` gives; a new run has this one, another one that of its journal.
    # digests: What a program's helpers, constants and transforms are, by name.
    # offers: Offers in addition to those among the rows.
    # redact: Returns arguments as JSON without secrets, as rows have them.

    def __init__(
        self,
        rows: list[Row],
        ports: Ports,
        seed: int = 0,
        digests: Mapping[str, str] | None = None,
        offers: Sequence[Row] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        self.rows, self.ports, self._redact = rows, ports, redact
        self.outcome: Outcome | None = None
        self._logged = max((json.loads(row.arguments) for row in rows if row.kind == "printed"), default=0)
        self._printed: list[str] = []
        self._replay = Replay(rows, offers)
        self._open: dict[str, m.Request] = {}
        self._unbegun: dict[str, m.Request] = {}
        self._known = 0  # how many rows the program knows
        self._after: dict[str, int] = {}  # by path: how many it knew when it requested the step
        self._running: set[str] = set()
        self._aborted: dict[str, m.Request] = {}
        self._ended: deque[tuple[int, Row]] = deque()
        self._is_replayed = False
        if not any(row.kind == "start" for row in rows):
            self._commit(start_row(seed, digests or {}))
        start = read_start(next(row for row in rows if row.kind == "start"))
        self.seed: int = start["seed"]

    # --- what the machine says -------------------------------------------------------------------

    def take(self, messages: Sequence[m.Message]) -> None:
        """Take the messages of one turn of the machine."""
        self._log([message.text for message in messages if isinstance(message, m.Printed)])
        for message in messages:
            if isinstance(message, (m.Call, m.Timer, m.Question)):
                self._open[message.path] = self._unbegun[message.path] = message
                self._after[message.path] = self._known
                self._check(message)
            elif isinstance(message, m.Cancel):
                self._cancel(message.path)
            elif isinstance(message, m.Ended) and self.outcome is None:
                self._finish(message)

    def _check(self, request: m.Request) -> None:
        """Raise Diverged if another step was recorded at the path of a request."""
        self._replay.timers.pop(request.path, None)
        recorded = self._replay.expected.get(request.path)
        if recorded is not None and recorded.key != (row := self._row(request)).key:
            raise Diverged(request.path, _described(recorded), _described(row))

    def _cancel(self, path: str) -> None:
        if self._replay.is_over and path not in self._running:
            self._begin_open()  # a call begins when it is requested, as in Python, also if it is cancelled at once
        request = self._open.pop(path, None)
        self._unbegun.pop(path, None)
        self._replay.cancelled.add(path)
        if request is None or path not in self._running:
            return
        self._running.discard(path)
        if isinstance(request, m.Call):
            self._commit(self._row(request, "cancelled"))
            self._aborted[path] = request
        self.ports.abort(path)

    def _log(self, texts: list[str]) -> None:
        """Record and log what the program printed, unless an earlier attempt did."""
        self._printed += texts
        new = "".join(self._printed[self._logged :])
        if new:
            self._logged = len(self._printed)
            self._commit(Row("", "printed", "", json.dumps(self._logged), "ok", json.dumps(new)))
            self.ports.log(new)

    def _finish(self, ended: m.Ended) -> None:
        if ended.status == "unexpected":
            raise Diverged("", ended.message, None)
        self._replay.finish()
        for path in [*self._running]:
            self._cancel(path)
        self.outcome = Outcome(
            status=ended.status,
            result=json.loads(ended.result),
            error=ended.error,
            message=ended.message,
            line=ended.line,
            failed=tuple(ended.failed),
            printed="".join(self._printed),
            problems=tuple(ended.problems),
        )

    def read(self, clock: m.Clock) -> m.Reading:
        """Return what a clock shows, which is recorded."""
        seconds = self._replay.reading(clock)
        if seconds is None:
            seconds = self.ports.clock(clock.name)
            self._commit(Row(clock.path, "clock", clock.name, "null", "ok", json.dumps(seconds)))
        return m.Reading(seconds)

    # --- what the world says ---------------------------------------------------------------------

    def end(self, path: str, ok: bool, value: str) -> None:
        """Commit the end of a step: its result as JSON, or its failure."""
        late = self._aborted.pop(path, None)
        if late is not None:
            assert isinstance(late, m.Call)
            self._commit(self._row(late, "late" if ok else "late_failed", value))
            return
        if path not in self._running:
            return
        self._running.discard(path)
        self._commit_ended(self._row(self._open[path], "ok" if ok else "failed", value))

    def stop(self, path: str) -> None:
        """End the run by a step that failed; the program cannot catch that."""
        texts = [json.loads(row.value) for row in self.rows if row.kind == "printed"]
        line = line_of(path)
        self.outcome = Outcome("failed", error="ToolError", line=line, failed=(path,), printed="".join(texts))

    def forget(self, path: str) -> None:
        """Note that an aborted call never ended."""
        self._aborted.pop(path, None)

    @property
    def replayed(self) -> int:
        """The number of recorded rows that are still to be delivered again."""
        return len(self._replay)

    def ahead(self) -> Iterator[m.Delivery] | None:
        """Return the recorded deliveries after the last one; None if that one was new."""
        # The program may cancel some of them.
        return (_delivery_of(row) for row in self._replay.ahead()) if self._is_replayed else None

    def next(self) -> m.Delivery | None:
        """Return what to deliver to the blocked machine; None if the run has ended or waits for the world."""
        # After None, `outcome` tells which. A step of the world ends with `end`; then call this again.
        while self.outcome is None:
            numbered = self._replay.next(self._open)
            self._is_replayed = numbered is not None
            if numbered is None:
                if not self._ended:
                    self._begin_open()
                if not self._ended:
                    return None
                numbered = self._ended.popleft()
            number, row = numbered
            self._known = number + 1
            self._after.pop(row.path, None)
            if self._open.pop(row.path, None) is not None:
                self._unbegun.pop(row.path, None)
                return _delivery_of(row)
        return None

    def _begin_open(self) -> None:
        """Take offers for the steps that are open, and begin the others."""
        offers = self._replay.offers
        unbegun, self._unbegun = self._unbegun, {}
        for path, request in unbegun.items():
            value: str | None
            offer = offers.take(path, self._row(request, "ok").key) if offers else None
            if offer is not None:
                self.ports.take(offer, path)
                value = offer.value
            else:
                value = self.ports.recorded(request) if isinstance(request, m.Call) else None
            if value is not None:
                self._commit_ended(replace(self._row(request, "ok", value), taken=offer is not None))
                continue
            self._running.add(path)
            self.ports.begin(request, self._due(request))

    def _due(self, request: m.Request) -> float | None:
        """Return when a timer fires, or until when a question waits; None for no limit."""
        seconds = None if isinstance(request, m.Call) else request.seconds
        due = self._replay.dues.get(request.path)
        if due is None and seconds is not None:
            due = self.ports.clock("now") + seconds
            if seconds >= KEPT_SECONDS:
                self._commit(self._row(request, "due", json.dumps(due)))
        return due

    def waits(self) -> tuple[m.Question, ...]:
        """Return the open questions, if nothing but them is awaited; else none."""
        for request in self._open.values():
            if not isinstance(request, m.Question):
                return ()
        return tuple(self._open.values())  # type: ignore[arg-type]

    def _commit_ended(self, row: Row) -> None:
        self._ended.append((len(self.rows), row))
        self._commit(row)

    def _row(self, request: m.Request, status: str = "", value: str = "null") -> Row:
        row = _row_of(request, status, value, self._after.get(request.path, 0))
        return row if self._redact is str else replace(row, arguments=self._redact(row.arguments))

    def _commit(self, row: Row) -> None:
        self.rows.append(row)
        self.ports.commit(row)


def _delivery_of(row: Row) -> m.Delivery:
    return m.Delivery(row.path, row.status == "ok", row.value)


def _row_of(request: m.Request, status: str, value: str, after: int) -> Row:
    if isinstance(request, m.Call):
        return Row(request.path, "call", request.tool, request.arguments, status, value, after)
    if isinstance(request, m.Timer):
        return Row(request.path, "timer", request.name, json.dumps(request.seconds), status, value, after)
    return Row(request.path, "question", request.name, json.dumps(request.text), status, value, after)


class Replay:
    """The recorded rows of a run, which are delivered again in their order."""

    # cancelled: The paths of the steps that the program has cancelled.
    # expected: The recorded steps that are delivered again or were cancelled, by path.
    # dues: When recorded timers are due, by path.
    # timers: Their rows, until the program requests them.
    # offers: The results that the program may ask for.

    def __init__(self, rows: Sequence[Row], offers: Sequence[Row] = ()) -> None:
        self.cancelled: set[str] = set()
        self.dues = {row.path: json.loads(row.value) for row in rows if row.status == "due"}
        self.offers = Offers([*rows, *offers])
        self._rows: deque[tuple[int, Row]] = deque()
        self._clocks = deque(row for row in rows if row.kind == "clock")
        self.expected: dict[str, Row] = {}
        self.timers = {row.path: row for row in rows if row.status == "due"}
        self._is_finished = False
        for number, row in enumerate(rows):
            if row.kind in ("call", "timer", "question") and row.status in (*DELIVERED, "cancelled"):
                self._rows.append((number, row))
                self.expected[row.path] = row
                if row.taken:
                    self.offers.take(row.path, row.key)

    def next(self, open_steps: dict[str, m.Request]) -> tuple[int, Row] | None:
        """Return the next recorded delivery, with the number of its row; None after the last one."""
        rows = self._rows
        while rows:
            number, row = rows.popleft()
            if row.path in self.cancelled:
                continue
            if row.status == "cancelled" or row.path not in open_steps:
                raise Diverged(row.path, _described(row), None)
            return number, row
        if not self._is_finished:
            self.finish()  # before anything new begins
        return None

    def __len__(self) -> int:
        return len(self._rows)

    def ahead(self) -> Iterator[Row]:
        """Yield the recorded deliveries that come next."""
        return (row for _, row in self._rows if row.status in DELIVERED and row.path not in self.cancelled)

    @property
    def is_over(self) -> bool:
        """Return True if every recorded row was delivered or skipped."""
        return all(row.path in self.cancelled for _, row in self._rows)

    def reading(self, clock: m.Clock) -> float | None:
        """Return what a clock showed; None if it was not recorded."""
        if not self._clocks:
            return None
        row = self._clocks.popleft()
        if (row.path, row.name) != (clock.path, clock.name):
            raise Diverged(clock.path, f"the clock {row.name} at {row.path}", f"the clock {clock.name}")
        seconds: float = json.loads(row.value)
        return seconds

    def finish(self) -> None:
        """Raise Diverged if the program ended, or waits, without asking for a recorded step."""
        self._is_finished = True
        for row in (*(row for _, row in self._rows), *self._clocks, *self.timers.values()):
            if row.path not in self.cancelled:
                raise Diverged(row.path, _described(row), None)


def _described(row: Row) -> str:
    return f"{row.name} {row.arguments}" + (" (cancelled)" if row.status == "cancelled" else "")


Perform = Callable[[str, dict[str, Json]], Any]


def failure_of(error: BaseException) -> str:
    """Return the failure of a tool as JSON."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind not in (object, BaseException)]
    return json.dumps({"type": type(error).__name__, "message": str(error), "classes": names})
