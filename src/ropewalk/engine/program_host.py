"""The host of a program in a run: its calls run regions, and its rows are entries of the journal.

A row is an entry of the kind `row` at `plan[row-12]`, where `plan` is the node of the program. The step of the main
task at line 14, column 12, the third time, is the region instance `plan[0-14:12.3]`. How a failed program ended is an
entry of this kind at `plan`: a retry repeats the failed steps that it names. The result of a call is recorded once, as
the entry of the call; its row, which has no value, is appended in the same turn, so both are one commit. The value of a
failed step is its whole failure, of which the program gets a part. No step begins before every row so far is committed,
because a resumed program must get the same in the same order.

A retry offers the calls that succeeded and are not replayed: entries of this kind at `plan[offer-3]`. The program takes
an offer at the same step, else at one with the same tool and arguments.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from ..errors import Action, ExpressionError, JournalConflict, NodeFailed
from ..events import bounded
from ..expr.python.failures import failure_record
from ..fast_dataclass import dataclass
from ..ir import Frame
from ..journal.past import load
from ..journal.protocol import Entry
from ..ops import Program as ProgramOp
from ..plans import messages as m
from ..plans.player import LocalPlayer, Player, play
from ..plans.program import Program
from ..plans.rows import Diverged, Row, digests_of, line_of, step_key
from ..plans.session import Outcome, Session
from ..tools.output import CURRENT
from ..values import Json
from .budgets import ends_run
from .compile.durable import failure_from_json, failure_to_json, wait_until
from .compile.waits import answer_of, receive
from .frame import KEY, RUN, NodeSlot, path_of
from .stack_trace import trace_in_program
from .timeouts import TaskDeadline, TaskGroup, clock, deadline_of_task, deadline_timer_of

ROW: Final = "row"
_FAILED: Final = ("failed", "late_failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """A program and what it may call, compiled for a flow."""

    # program: Compiled to run in this process; None for one that runs in children.
    # bodies: The region of each tool, by its name in the program.
    # nodes: The last node of that region, which calls the tool; None in an empty region.
    # calls: The node in that region whose entry is the result of the call; None if the value of the region is another.
    # durable: Whether its rows are journaled.

    op: ProgramOp
    program: Program | None
    bodies: Mapping[str, Any]
    nodes: Mapping[str, NodeSlot | None]
    calls: Mapping[str, str | None]
    durable: bool


class ProgramHost:
    """Hosts one run of a program: the ports of its session, and a task for each step in progress."""

    # It is also the task group of these tasks, so that a timeout or a stop of the run reaches them.

    def __init__(self, plan: ProgramPlan, node_slot: NodeSlot, frame: Frame, inputs: dict[str, Json]) -> None:
        self._plan, self._node_slot, self._frame, self._inputs = plan, node_slot, frame, inputs
        self._run: Any = frame[RUN]
        self._path = path_of(frame, node_slot)
        self._deadline: TaskDeadline = deadline_of_task()
        self._session: Session
        self._rows = 0
        self._committed: asyncio.Future[None] | None = None
        self._has_entry = False  # True while the result of the next row is in the entry of its call
        self._begun: list[tuple[m.Request, float | None]] = []
        self._late: set[str] = set()  # the steps that were aborted before they began
        self._unreported: list[tuple[str, str, Json]] = []  # events of rows: kind, path, data
        self._tasks: dict[str, TaskDeadline] = {}
        self._aborted: set[asyncio.Task[None]] = set()
        self._steps: dict[str, str] = {}  # the path of a step by its key in frames
        self._failures: dict[str, NodeFailed] = {}
        self._offered: dict[int, tuple[Entry, Entry | None]] = {}  # the entry of an offer and the undo of its call
        self._error: BaseException | None = None
        self._has_news = False
        self.waiter: asyncio.Future[None] | None = None
        self.handle = None  # no task is about to start: see `Waits.is_idle`
        self.closing = False
        self.outer: TaskGroup | None = None

    async def run(self) -> Json:
        """Run the program to its end and return its result."""
        self.outer, self._deadline.task_group = self._deadline.task_group, self
        if self._run.waits is not None:
            self._run.waits.groups.add(self)
        try:
            rows, offers = await self._recorded(), await self._recorded_offers()
            digests = digests_of(self._plan.op.text)
            redact = str if self._run.secrets is None else self._redact
            self._session = Session(rows, self, random.getrandbits(63), digests, offers=offers, redact=redact)
            used_up = (row.path for row in rows if row.status in _FAILED and ends_run(self._failures[row.path]))
            if (path := next(used_up, None)) is not None:
                self._session.stop(path)  # the process died before the run ended
            outcome = self._session.outcome or await play(self._session, self._player(), self)
            if self._begun:
                await self.commits()
                self._start()  # the calls that the end of the program cancelled at once
            return await self._end(outcome)
        except Diverged as error:
            raise self._conflict(error) from None
        finally:
            await self._close()

    def _conflict(self, diverged: Diverged) -> JournalConflict:
        """Return the error of a program that does not fit its rows; it names the line."""
        line, places = line_of(diverged.path), self._plan.op.places
        where = f"line {line}: " if line else ""
        if 0 < line <= len(places):
            where = f"{trace_in_program(places[line - 1], '', None, self._run).at}: "
        error = JournalConflict(self._run.id, "", f"{where}{diverged}")
        error.path = self._path
        return error if self._run.parent else error.with_remedy(Action.FORK, run_id=self._run.id)

    def _player(self) -> Player:
        op, session, program = self._plan.op, self._session, self._plan.program
        if program is not None:
            return LocalPlayer(program, self._inputs, session.seed, session.read)
        from ..plans.boundary.pool import pool  # imported only where a program is contained
        from ..plans.child_machine import ChildMachine

        tools = {tool.name: None if tool.parameters is None else [*tool.parameters] for tool, _ in op.tools}
        begin = m.Begin(op.text, tools, json.dumps(self._inputs), session.seed, op.function, [*op.reads])
        return ChildMachine(begin, session.seed, session.read, pool())

    async def _end(self, outcome: Outcome) -> Json:
        if outcome.printed:
            self._run.printed.append(outcome.printed)
            await self.commits()
        if outcome.status == "completed":
            return outcome.result
        if self._plan.durable:
            now, failed_keys = self._run.now(), [step_key(path) for path in outcome.failed]
            data = {"line": outcome.line, "error": outcome.error, "failed": failed_keys}
            await self._run.log.append(Entry(self._path, ROW, self._node_slot.id, data, "", now, now))
        is_of_step = outcome.error in ("ToolError", "Rejected", "TimeoutError") and outcome.failed
        failed = self._failures.get(outcome.failed[0]) if is_of_step else None
        line, places = outcome.line, self._plan.op.places
        place = places[line - 1] if 0 < line <= len(places) else None
        if failed is not None:
            if place is not None:
                failed.trace = trace_in_program(place, failed.message, failed.trace, self._run)
            raise failed
        if outcome.error == "Rejected":
            node, message = self._node_slot.name, outcome.message
            path = f"{self._place(outcome.failed[0])}/approve" if outcome.failed else self._path
            raise NodeFailed(path, message, node=node, tool=None, kind="Rejected", retryable=False)
        text = f"{outcome.error}: {outcome.message}"
        if place is None:
            raise ExpressionError(f"line {line}: {text}")
        trace = trace_in_program(place, text, None, self._run)
        error = ExpressionError(f"{trace.at}: {text}")
        error.__dict__["trace"] = trace  # where the failure of the node finds it
        raise error

    # --- the journal ------------------------------------------------------------------------------

    async def _recorded(self) -> list[Row]:
        """Return the rows that earlier processes recorded."""
        past, rows = self._run.log.past, list[Row]()
        while past:
            entry = await self._past(f"{self._path}[row-{len(rows)}]", ROW)
            if entry is None:
                break
            path, kind, name, arguments, status, after, *value = entry.data
            if not value:
                call = await self._past(f"{self._place(path)}/{self._plan.calls[name]}", "call")
                if call is None:
                    raise JournalConflict(self._run.id, entry.path, f"the result of the call at {path} is gone")
                value = [orjson.dumps(call.data).decode()]
            elif status in _FAILED:
                self._failures[path] = failed = failure_from_json(value[0])
                value = [json.dumps(failure_in_program(failed))]
            rows.append(Row(path, kind, name, arguments, status, value[0], after, taken=len(value) > 1))
        self._rows = len(rows)
        return rows

    async def _recorded_offers(self) -> list[Row]:
        """Return what a retry offers to the program."""
        past, offers = self._run.log.past, list[Row]()
        while past:
            entry = await self._past(f"{self._path}[offer-{len(offers)}]", ROW)
            if entry is None:
                break
            path, kind, name, arguments, status, after, value, epoch = entry.data
            offers.append(Row(path, kind, name, arguments, status, value, after))
            place = f"{self._place(path)}/{entry.node}#{epoch}"
            self._offered[id(offers[-1])] = entry, await self._past(place, "undo")
        return offers

    async def _past(self, path: str, kind: str) -> Entry | None:
        past = self._run.log.past
        if type(past) is not dict:
            await load(past, (path, kind))
        entry: Entry | None = past.get((path, kind))
        return entry

    def _place(self, path: str) -> str:
        """Return the path of the region instance of a step."""
        return f"{self._path}[{step_key(path)}]"

    def commit(self, row: Row) -> None:
        """Journal a row."""
        if self._plan.durable:
            now = self._run.now()
            data: list[Json] = [row.path, row.kind, row.name, row.arguments, row.status, row.after]
            if row.status in _FAILED:
                data.append(failure_to_json(self._failures[row.path]))
            elif row.kind == "printed":
                data.append(json.dumps(self._run.redact(json.loads(row.value))))
            elif row.taken:
                data += [row.value, True]
            elif not self._has_entry:
                data.append(row.value)
            self._has_entry = False
            entry = Entry(f"{self._path}[row-{self._rows}]", ROW, self._node_slot.id, data, "", now, now)
            self._committed = self._run.log.append(entry)
        self._rows += 1

    async def commits(self) -> None:
        """Wait until every row so far is committed."""
        while (committed := self._committed) is not None:
            await committed
            if self._committed is committed:
                self._committed = None
        unreported, self._unreported = self._unreported, []
        for kind, path, data in unreported:
            self._run.report(kind, path, self._node_slot.name, data)

    def _redact(self, arguments: str) -> str:
        return json.dumps(self._run.redact(json.loads(arguments)))

    def ended(self, frame: Frame, entry: Entry) -> None:
        """Take the result of a call that is being committed."""
        path = self._steps.get(frame[KEY])
        if path is not None:
            self._has_entry = True
            self._session.end(path, True, orjson.dumps(entry.data).decode())
            self._has_entry = False

    def take(self, offer: Row, path: str) -> None:
        """Journal the call of an offer at the step that takes it, with its undo."""
        if offer.kind != "call":
            return
        entry, undo = self._offered[id(offer)]
        place = f"{self._place(path)}/{entry.node}"
        if undo is not None:
            made: Any = undo.data
            if path != offer.path:
                made = {**made, "made": {"run": self._run.id, "path": undo.path}}
            self._run.log.append(replace(undo, path=place, data=made))
        self._append_call(offer.name, replace(entry, path=place, kind="call", data=json.loads(offer.value)))

    def recorded(self, call: m.Call) -> str | None:
        """Return the result of a call that another run of the chain made, and journal it here, too."""
        record, node_slot = getattr(self._run.program.caller, "record", None), self._plan.nodes[call.tool]
        if record is None or node_slot is None or node_slot.tool is None:
            return None
        arguments = json.loads(call.arguments)
        shown = self._run.redact(arguments) if self._run.secrets else arguments
        place, now = f"{self._place(call.path)}/{node_slot.id}", self._run.now()
        made: Entry | None = record.take(node_slot.tool, shown, f"{self._run.id}/{place}")
        if made is None:
            return None
        if self._plan.durable:
            entry = Entry(place, "call", node_slot.id, made.data, made.digest, now, now)
            if node_slot.undo is not None:
                node_slot.undo.record(self._run, entry, arguments, made.data)
            self._append_call(call.tool, entry)
        return json.dumps(made.data)

    def _append_call(self, tool: str, entry: Entry) -> None:
        self._run.log.append(entry)
        self._has_entry = self._plan.calls[tool] is not None

    # --- what the session asks for -----------------------------------------------------------------

    def begin(self, request: m.Request, due: float | None) -> None:
        """Begin a step when the rows so far are committed."""
        self._begun.append((request, due))

    def abort(self, path: str) -> None:
        """Cancel the task of a step; a call that has not begun begins first, as in Python."""
        step = self._tasks.pop(path, None)
        if step is None:
            self._late.add(path)
            return
        self._aborted.add(step.task)
        step.task.cancel()

    def clock(self, name: str) -> float:
        """Return what a clock shows."""
        now: float = self._run.now() if name == "now" else time.monotonic()
        return now

    def log(self, text: str) -> None:
        """Report what the program printed when its row is committed."""
        self._unreported.append(("node.printed", self._path, {"text": self._run.redact(text)}))

    # --- steps in progress ---------------------------------------------------------------------------

    @property
    def helpers(self) -> list[TaskDeadline]:
        return list(self._tasks.values())

    @property
    def live(self) -> int:
        """How many tasks execute steps."""
        return len(self._tasks)

    def pending(self) -> int:
        return 0

    async def wait(self) -> None:
        """Begin what was requested when the rows so far are committed, and wait until a step ends and is committed."""
        self._has_news = False
        await self.commits()
        begun = self._begun
        if len(begun) == 1 and not self._tasks and not self._late and isinstance(begun[0][0], m.Call):
            self._begun = []
            await self._perform(*begun[0], self._deadline)  # the usual case needs no task of its own
        else:
            await self._step_ends()

    async def _step_ends(self) -> None:
        self._start()
        if not self._has_news and self._error is None:
            self.waiter = self._run.loop.create_future()
            self._look()
            await self.waiter
        self.waiter = None
        if self._error is not None:
            raise self._error

    def _start(self) -> None:
        """Make tasks of the steps that were begun."""
        begun, self._begun = self._begun, []
        late, self._late = self._late, set()
        for request, due in begun:
            if request.path in late and not isinstance(request, m.Call):
                continue
            step = TaskDeadline()
            step.task = self._run.loop.create_task(self._execute(request, due, step))
            if request.path in late:
                self._aborted.add(step.task)
                self._run.loop.call_soon(step.task.cancel)  # after its first turn
            else:
                self._tasks[request.path] = step

    async def _execute(self, request: m.Request, due: float | None, step: TaskDeadline) -> None:
        """Perform a step in a task of its own."""
        CURRENT.set(step)
        timer = deadline_timer_of(self._run.loop)
        timer.add(step, self._deadline.least, clock())
        try:
            await self._perform(request, due, step)
        except asyncio.CancelledError:
            self._session.forget(request.path)
        except BaseException as error:  # noqa: BLE001 - the task of the program raises it
            self._error = error
        finally:
            timer.remove(step)
            self._tasks.pop(request.path, None)
            self._aborted.discard(step.task)
            self._wake()

    def _wake(self) -> None:
        self._has_news = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        self._look()

    def _look(self) -> None:
        if self._run.waits is not None:
            self._run.waits.look_soon()

    async def _perform(self, request: m.Request, due: float | None, step: TaskDeadline) -> None:
        """Perform a step, and tell the session how it ended."""
        path = request.path
        try:
            if isinstance(request, m.Call):
                body, key = self._plan.bodies[request.tool], step_key(path)
                self._steps[key] = path
                try:
                    outcome = await body.run(body.open(self._frame, key, orjson.loads(request.arguments), step))
                finally:
                    del self._steps[key]
                value = outcome.value
            elif isinstance(request, m.Question):
                value = await self._ask(request, due)
            else:
                await wait_until(self._run, due or 0.0)
                value = None
        except NodeFailed as failed:
            self._failures[path] = failed
            self._session.end(path, False, json.dumps(failure_in_program(failed)))
            if ends_run(failed):
                self._begun.clear()
                self._session.stop(path)
            return
        self._session.end(path, True, orjson.dumps(value).decode())

    async def _ask(self, question: m.Question, due: float | None) -> Json:
        run, slot, is_approval = self._run, self._node_slot, question.name == "approve"
        about: dict[str, Json] = {"approval" if is_approval else "event": run.redact(question.text)}
        base = place = f"{self._place(question.path)}/{question.name}"
        number = 1
        # Before a retry the program may have asked something else here.
        while (asked := await self._past(place, "wait")) is not None and not about.items() <= asked.data.items():
            number += 1
            place = f"{base}@{number}"
        started = clock()
        answer = await receive(run, slot, place, about, lambda: question.seconds, self._plan.durable, due)
        value = run.redact(answer)
        if is_approval:
            value = answer_of(value, place, slot, looked_at=True)
        # Whether the program reads a refusal shows later.
        if not is_approval or value["approved"]:
            ms = round((clock() - started) * 1000, 3)
            self._unreported.append(("node.finished", place, {"ms": ms, **bounded("output", value)}))
        return value

    async def _close(self) -> None:
        """Cancel the steps in progress, and wait for them."""
        self._deadline.task_group, self.closing = self.outer, True
        for step in self._tasks.values():
            step.task.cancel()
        tasks = [*(step.task for step in self._tasks.values()), *self._aborted]
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._run.waits is not None:
            self._run.waits.groups.discard(self)


def failure_in_program(failed: NodeFailed) -> dict[str, Json]:
    """Return a failure as the program sees it."""
    record = failure_record({"message": failed.message, "kind": failed.kind, "classes": list(failed.classes)}, "")
    return {"type": failed.kind, "message": failed.message, "classes": record["bases"]}
