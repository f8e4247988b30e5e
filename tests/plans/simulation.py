"""A host with a clock of its own, for tests: tools are a function, time is virtual, and a run can be cut and resumed.

    world = Simulation(tools, answer)
    outcome, rows = world.run(text)
    outcome, rows = world.run(text, rows=rows[:5])   # resume after a kill

`answer(tool, arguments)` returns a result or raises; `delay(number, tool, arguments)` says how many seconds a call
takes, by the number of the call in the run. The same delays on a virtual loop of asyncio (`virtual_loop.py`) give the
same order. A step that was in progress at a cut ends when it would have ended without the cut.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ropewalk.plans import messages as m
from ropewalk.plans.program import Program
from ropewalk.plans.rows import KEPT_SECONDS, Row, digests_of
from ropewalk.plans.session import Outcome, Session, failure_of

START = 1_000_000.0
SEED = 7


class Cut(Exception):
    """The process was killed, as the test wanted."""


def usual_delay(number: int, tool: str, arguments: Mapping[str, Any]) -> float:
    """Return between 10 and 60 ms, never twice the same."""
    return 0.01 * (number * 7 % 5 + 1) + 0.0001 * (number % 89)


class Simulation:
    """A world for programs.

    Attributes:
        calls: Every call that was begun, as (tool, arguments).
        performed: Every call that ended with a result, as (tool, arguments).
        paths: The paths of `performed`.
        printed: The texts that were logged.
        now: The seconds since the epoch.

    Args:
        tools: The tools with their parameters.
        answer: Returns what a tool gives, or raises.
        delay: How long a call takes.
        answers: What persons answer, by the text of the question.
        late: Whether calls that the program cancelled end with a result all the same.
    """

    def __init__(
        self,
        tools: Mapping[str, Sequence[str] | None],
        answer: Callable[[str, dict[str, Any]], Any],
        delay: Callable[[int, str, Mapping[str, Any]], float] = usual_delay,
        answers: Mapping[str, Any] | None = None,
        late: bool = False,
    ) -> None:
        self.tools, self.answer, self.delay = tools, answer, delay
        self.answers = {} if answers is None else answers
        self.calls: list[tuple[str, Any]] = []
        self.performed: list[tuple[str, Any]] = []
        self.paths: list[str] = []
        self.printed: list[str] = []
        self.now = START
        self._late = late
        self._number = 0
        self._dues: dict[str, float] = {}
        self._numbers: dict[str, int] = {}

    def run(
        self,
        text: str | Program,
        inputs: dict[str, Any] | None = None,
        rows: list[Row] | None = None,
        cut_after: int | None = None,
    ) -> tuple[Outcome, list[Row]]:
        """Run a program.

        Args:
            text: The program.
            inputs: Its inputs.
            rows: The journal so far; it is copied.
            cut_after: Raise Cut as soon as there are so many rows.

        Returns:
            The outcome and all rows.
        """
        program = text if isinstance(text, Program) else Program(text, self.tools, list(inputs or ()))
        if program.problems:
            return Outcome("invalid", problems=tuple(problem.to_json() for problem in program.problems)), []
        self._events: list[tuple[float, int, m.Request]] = []
        self._begun: list[tuple[m.Request, float | None]] = []
        self._gone: set[str] = set()
        self.rows = list(rows or ())
        if not rows:
            self._dues.clear()
            self._numbers.clear()
        self._cut = cut_after
        session = self.session = Session(self.rows, self, SEED, digests_of(program.text))
        machine, messages = program.start(inputs or {}, session.seed, session.read)
        try:
            session.take(messages)
            while session.outcome is None:
                if (delivery := session.next()) is not None:
                    session.take(machine.deliver(delivery))
                    continue
                self._start()
                if not self._events:
                    return Outcome("waiting", waits=session.waits()), self.rows
                self._end_next(session)
        finally:
            machine.close()
        self._start()  # those that the end of the program cancelled at once
        return session.outcome, self.rows

    def _start(self) -> None:
        """Begin calls, in the order of their requests."""
        begun, self._begun = self._begun, []
        for request, due in begun:
            if isinstance(request, m.Question):
                if request.text in self.answers:
                    self._number += 1
                    due = self.now + usual_delay(len(self.calls), "", {})
                    heapq.heappush(self._events, (round(due, 6), self._number, request))
                continue
            self._number += 1
            if isinstance(request, m.Call):
                arguments = json.loads(request.arguments)
                self.calls.append((request.tool, arguments))
                number = self._numbers.setdefault(request.path, len(self._numbers) + 1)
                due = self.now + self.delay(number, request.tool, arguments)
            assert due is not None
            if isinstance(request, m.Call) or request.seconds < KEPT_SECONDS:
                due = self._dues.setdefault(request.path, due)
            heapq.heappush(self._events, (round(due, 6), self._number, request))

    def _end_next(self, session: Session) -> None:
        due, _, request = heapq.heappop(self._events)
        self.now = max(due, self.now)
        self._dues.pop(request.path, None)
        if request.path in self._gone and not (self._late and isinstance(request, m.Call)):
            return
        if isinstance(request, m.Timer):
            session.end(request.path, True, "null")
        elif isinstance(request, m.Question):
            session.end(request.path, True, json.dumps(self.answers[request.text]))
        else:
            arguments = json.loads(request.arguments)
            try:
                value = json.dumps(self.answer(request.tool, arguments))
            except Exception as error:  # noqa: BLE001 - tools raise anything
                session.end(request.path, False, failure_of(error))
            else:
                self.performed.append((request.tool, arguments))
                self.paths.append(request.path)
                session.end(request.path, True, value)

    # --- the ports of a session ------------------------------------------------------------------

    def begin(self, request: m.Request, due: float | None) -> None:
        self._begun.append((request, due))

    def abort(self, path: str) -> None:
        self._gone.add(path)

    def clock(self, name: str) -> float:
        return self.now if name == "now" else self.now - START

    def log(self, text: str) -> None:
        self.printed.append(text)

    def take(self, offer: Row, path: str) -> None:
        """Do nothing: the row of the step has the value of the offer."""

    def recorded(self, call: m.Call) -> str | None:
        """Return None: there is no other run."""
        return None

    def commit(self, row: Row) -> None:
        if self._cut is not None and len(self.rows) >= self._cut:
            raise Cut
