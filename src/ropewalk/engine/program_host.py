"""The host of a program in a run: its calls run regions, and its rows are entries of the journal.

A row is an entry of the kind `row` at `plan[row-12]`, where `plan` is the node of the program. The step of the main
task at line 14, column 12, the third time, is the region instance `plan[0-14:12.3]`. How a failed program ended is an
entry of this kind at `plan`: a retry repeats the failed steps that it names. The result of a call is recorded once, as
the entry of the call; its row, which has no value, is appended in the same turn, so both are one commit. The value of a
failed step is its whole failure, of which the program gets a part. No step begins before every row so far is committed,
because a resumed program must get the same in the same order.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from typing import Any, Final

from ..errors import ExpressionError, JournalConflict, NodeFailed
from ..expr.python.failures import failure_record
from ..fast_dataclass import dataclass
from ..ir import Frame
from ..journal.past import load
from ..journal.protocol import Entry
from ..ops import Program as ProgramOp
from ..plans import messages as m
from ..plans.program import Program
from ..plans.rows import Diverged, Row, digests_of, step_key
from ..plans.session import Outcome, Session
from ..values import Json
from .compile.durable import failure_from_json, failure_to_json, wait_until
from .compile.waits import receive
from .frame import KEY, RUN, NodeSlot, path_of
from .timeouts import TaskDeadline, TaskGroup, clock, deadline_of_task, deadline_timer_of

ROW: Final = "row"
_FAILED: Final = ("failed", "late_failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """A program and what it may call, compiled for a flow."""

    # program: Compiled to run in this process; None for one that runs in children.
    # bodies: The region of each tool, by its name in the program.
    # calls: The node in that region whose entry is the result of the call; None if the value of the region is another.
    # durable: Whether its rows are journaled.

    op: ProgramOp
    program: Program | None
    bodies: Mapping[str, Any]
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
        self._has_entry = False  # True while the result of the row is in the entry of its call
        self._begun: list[tuple[m.Request, float | None]] = []
        self._tasks: dict[str, TaskDeadline] = {}
        self._aborted: set[asyncio.Task[None]] = set()
        self._steps: dict[str, str] = {}  # the path of a step by its key in frames
        self._failures: dict[str, NodeFailed] = {}
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
            rows = await self._recorded()
            redact = str if self._run.secrets is None else self._redact
            self._session = Session(rows, self, random.getrandbits(63), digests_of(self._plan.op.text), redact=redact)
            program = self._plan.program
            outcome = await (self._run_here(program) if program is not None else self._run_in_child())
            return await self._end(outcome)
        except Diverged as error:
            raise JournalConflict(self._run.id, self._path, str(error)) from None
        finally:
            await self._close()

    async def _run_here(self, program: Program) -> Outcome:
        session = self._session
        machine, messages = program.start(self._inputs, session.seed, session.read)
        try:
            session.take(messages)
            while session.outcome is None:
                if (delivery := session.next()) is not None:
                    session.take(machine.deliver(delivery))
                else:
                    await self._wait()
            return session.outcome
        finally:
            machine.close()

    async def _run_in_child(self) -> Outcome:
        from ..plans.boundary.pool import pool  # imported only where a program is contained
        from ..plans.child_machine import KEEP_SECONDS, ChildMachine

        op, session = self._plan.op, self._session
        tools = {tool.name: None if tool.parameters is None else [*tool.parameters] for tool, _ in op.tools}
        begin = m.Begin(op.text, tools, json.dumps(self._inputs), session.seed, op.function, [*op.reads])
        machine = ChildMachine(begin, session.seed, session.read, pool())
        try:
            session.take(await machine.start(session.replayed or None))
            while session.outcome is None:
                if (delivery := session.next()) is not None:
                    await self._commits()  # steps may have ended while the child computed
                    session.take(await machine.deliver(delivery, session.ahead()))
                else:
                    with machine.leaving_after(KEEP_SECONDS):
                        await self._wait()
            return session.outcome
        finally:
            await machine.close()

    async def _end(self, outcome: Outcome) -> Json:
        if outcome.status == "completed":
            return {"result": outcome.result, "printed": [outcome.printed]} if outcome.printed else outcome.result
        if self._plan.durable:
            now, failed_keys = self._run.now(), [step_key(path) for path in outcome.failed]
            data = {"line": outcome.line, "error": outcome.error, "failed": failed_keys}
            await self._run.log.append(Entry(self._path, ROW, self._node_slot.id, data, "", now, now))
        failed = self._failures.get(outcome.failed[0]) if outcome.error == "ToolError" and outcome.failed else None
        if failed is not None:
            raise failed
        raise ExpressionError(f"line {outcome.line}: {outcome.error}: {outcome.message}")

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
                value = [json.dumps(call.data)]
            elif status in _FAILED:
                self._failures[path] = failed = failure_from_json(value[0])
                value = [json.dumps(failure_in_program(failed))]
            rows.append(Row(path, kind, name, arguments, status, value[0], after))
        self._rows = len(rows)
        return rows

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
            elif not self._has_entry:
                data.append(row.value)
            entry = Entry(f"{self._path}[row-{self._rows}]", ROW, self._node_slot.id, data, "", now, now)
            self._committed = self._run.log.append(entry)
        self._rows += 1

    async def _commits(self) -> None:
        """Wait until every row so far is committed."""
        while (committed := self._committed) is not None:
            await committed
            if self._committed is committed:
                self._committed = None

    def _redact(self, arguments: str) -> str:
        return json.dumps(self._run.redact(json.loads(arguments)))

    def recorded(self, frame: Frame, entry: Entry) -> None:
        """Take the result of a call that is being committed."""
        path = self._steps.get(frame[KEY])
        if path is not None:
            self._has_entry = True
            self._session.end(path, True, json.dumps(entry.data))
            self._has_entry = False

    # --- what the session asks for -----------------------------------------------------------------

    def begin(self, request: m.Request, due: float | None) -> None:
        """Begin a step when the rows so far are committed."""
        self._begun.append((request, due))

    def abort(self, path: str) -> None:
        """Cancel the task of a step; a step that has not begun does not begin."""
        self._begun = [begun for begun in self._begun if begun[0].path != path]
        step = self._tasks.pop(path, None)
        if step is None:
            self._session.forget(path)
            return
        self._aborted.add(step.task)
        step.task.cancel()

    def clock(self, name: str) -> float:
        """Return what a clock shows."""
        now: float = self._run.now() if name == "now" else time.monotonic()
        return now

    def log(self, text: str) -> None:
        """Report a printed text to whoever watches the run, but not again in a replay."""
        if self._session.replayed:
            return
        self._run.report("printed", self._path, self._node_slot.name, {"text": self._run.redact(text)})

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

    async def _wait(self) -> None:
        """Begin what was requested when the rows so far are committed, and wait until a step ends and is committed."""
        self._has_news = False
        await self._commits()
        await self._step_ends()
        await self._commits()

    async def _step_ends(self) -> None:
        begun, self._begun = self._begun, []
        if len(begun) == 1 and not self._tasks and isinstance(begun[0][0], m.Call):
            await self._perform(*begun[0], self._deadline)  # the usual case needs no task of its own
            return
        for request, due in begun:
            step = TaskDeadline()
            step.task = self._run.loop.create_task(self._execute(request, due, step))
            self._tasks[request.path] = step
        if not self._has_news and self._error is None:
            self.waiter = self._run.loop.create_future()
            self._look()
            await self.waiter
        self.waiter = None
        if self._error is not None:
            raise self._error

    async def _execute(self, request: m.Request, due: float | None, step: TaskDeadline) -> None:
        """Perform a step in a task of its own."""
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
                    outcome = await body.run(body.open(self._frame, key, json.loads(request.arguments), step))
                finally:
                    del self._steps[key]
                value = outcome.value
            elif isinstance(request, m.Question):
                value = await self._ask(request)
            else:
                await wait_until(self._run, due or 0.0)
                value = None
        except NodeFailed as failed:
            self._failures[path] = failed
            self._session.end(path, False, json.dumps(failure_in_program(failed)))
            return
        self._session.end(path, True, json.dumps(value))

    async def _ask(self, question: m.Question) -> Json:
        word = "approval" if question.name == "approve" else "event"
        place = f"{self._place(question.path)}/{question.name}"
        about: dict[str, Json] = {word: self._run.redact(question.text)}
        return self._run.redact(await receive(self._run, self._node_slot, place, about, None, self._plan.durable))

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
