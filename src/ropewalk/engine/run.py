"""One execution of a program: its input, its step records, and its ending.

A `Run` keeps flat step records in memory (see `region.py` and the constants of `frame.py`). For a
store without a journal, `entries` turns these records into journal entries when somebody asks.
The steps of a durable run contain the code that writes its journal: `compile/durable.py` for calls and decisions,
`compile/events.py` for failures and skips, `compile/waits.py` for waits.

To add a fact about an ended run, add a field to `Ending` and fill it in `Run._ending`.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..errors import ExpressionError, InvalidValue, NodeFailed, Problem, RunStopped, RunTimeout, SchemaMismatch
from ..events import Event
from ..fast_dataclass import dataclass
from ..ir import Node
from ..journal.past import keys_of, latest_start
from ..journal.protocol import BEGUN, LOG, WARNING, Entry, Log
from ..redaction import Redaction
from ..tools.listener import MISFIT, broken_schemas
from ..tools.output import CURRENT, LOG_LIMITS, RunOutput
from ..values import Json, copy_json
from .compile.durable import FailedAttempt, PastAttempt, attempt_from_entry, failure_to_json
from .compile.program import Program
from .frame import (
    DEAD,
    FIRST,
    RECORD_CLOCKS,
    RECORD_FRAME,
    RECORD_ITERATIONS,
    RECORD_NODES,
    REGION,
    SKIPPED,
    STATE,
    TASK_DEADLINE,
    Frame,
    NodeSlot,
    Outcome,
    frame_of_iteration,
    path_of,
    status_in,
    value_in,
)
from .timeouts import RECANCEL_AFTER, TaskDeadline, clock, deadline_timer_of, interrupt_inside, pending_cancellation

if TYPE_CHECKING:
    from .begun_calls import BegunCalls
    from .step_logs import StepLog, StepLogs
    from .waits import Waits

Watcher = Callable[[Event], None]
MOST_WARNINGS = 100
MOST_STEPS = 3  # steps at fault that an error names one by one
"""Warnings that a result lists."""
TURN = 0.01  # seconds; after at most two of these, a run lets other tasks use the loop when a node ends
_OF_NO_NODE = ("skip", "ending", "offer", BEGUN, LOG, WARNING)
_NODE_ENDS = ("node.finished", "node.failed", "node.recovered")
_PATH_SUFFIXES = r"@\d+|\[[^\]]*\]"  # attempts, arms and iterations in a path


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a run ended, with every secret replaced by its reference."""

    run_id: str
    status: str
    """completed, partial, failed, stopped, timeout or waiting."""
    value: Json = None
    """The value of the flow; None unless the status is completed or partial."""
    state: dict[str, Json] = field(default_factory=dict)
    """The channels."""
    printed: str = ""
    """What the programs of the flow printed."""
    outputs: dict[str, Json] = field(default_factory=dict)
    """The values of the decided nodes of the main region, by node id."""
    failures: list[NodeFailed] = field(default_factory=list)
    """Every reported failure; the last one ended a failed run."""
    skipped: frozenset[str] = frozenset()
    """The nodes that did not run. Empty where the value of the flow lists the values of its nodes."""
    error: Exception | None = None
    started: float = 0.0
    """Wall-clock seconds."""
    duration: float = 0.0
    """Seconds of execution, those of earlier processes included."""
    ran: Callable[[], set[str]] = set
    """Returns the ids of the nodes that ran or failed, also in earlier processes."""
    calls: Callable[[], Iterable[tuple[Node, Json]]] = tuple
    """Returns every tool call that gave a value, with its node; one per iteration."""
    warnings: Sequence[str] = ()
    """What is unusual about the results of its calls, also of those in earlier processes."""


AddPlaces: TypeAlias = Callable[[dict[str, Json]], Awaitable[None]]
_PLACED: Final = ("failed", "partial", "timeout")
"""How runs end whose errors have places. A run that somebody stopped has none."""


class Run(TaskDeadline):
    """An execution in progress, which frames and steps reach through `frame[RUN]`."""

    # It is also the `TaskDeadline` of its task, and the `Timer` of its own timeout, due at `when`.

    __slots__ = (
        "allowed",
        "attempts",
        "begun",
        "deadline_timer",
        "ending",
        "errors",
        "failed_calls",
        "frame",
        "halted",
        "held_events",
        "id",
        "input",
        "listener",
        "log",
        "log_limits",
        "logs",
        "loop",
        "mono",
        "output_cell",
        "parent",
        "playing",
        "printed",
        "program",
        "records",
        "round",
        "secrets",
        "spent",
        "stack_bytes",
        "state",
        "stopping",
        "timeouts",
        "turn",
        "undo_clock",
        "undos",
        "waiting",
        "waits",
        "wall",
        "warned",
        "watcher",
        "when",
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        run_id: str,
        input: Json,
        log: Log,
        *,
        state: Mapping[str, Json] | None = None,
        spent: float = 0.0,
        watcher: Watcher | None = None,
        listener: Watcher | None = None,
        parent: Run | None = None,
    ) -> None:
        self.program, self.id, self.input, self.log, self.watcher = program, run_id, input, log, watcher
        self.listener = listener  # watches this run only, and takes the events of the runs inside it
        self.state, self.spent, self.parent = state, spent, parent
        self.records: list[list[Any]] = []  # one flat step record per region instance, see region.py
        self.errors: list[NodeFailed] = []
        self.attempts: list[tuple[str, FailedAttempt]] = []  # the node's name and each failed attempt of it
        self.failed_calls: list[tuple[NodeFailed, Entry]] = []  # of a run without a journal
        self.undos: list[Entry] = []  # of a run without a journal: how its calls can be undone
        self.undo_clock = 0.0
        self.warned: dict[str, Entry] = {}  # the warnings about the results of calls, by path
        self.stack_bytes = 0  # of the stacks of failures so far
        self.allowed: frozenset[str] = frozenset()
        self.secrets: Redaction | None = None
        self.log_limits = LOG_LIMITS
        self.logs: StepLogs | None = None
        self.printed: list[str] = []  # by the programs of the flow
        self.held_events: list[Event] | None = None  # those that wait for the commit of the last step
        self.playing = False
        self.ending = False  # True: no further node starts
        self.turn, self.round = 0.0, -1  # when to call `give_way`, and the iteration of the loop at the last call
        self.stopping = self.timeouts = 0  # cancellations of the task by `stop` and by `expire`
        self.loop = asyncio.get_running_loop()
        self.waiting: asyncio.Future[Any] | None = None
        self.wall, self.mono = time.time(), clock()
        self.halted: float | None = None  # since when the run only waits, or has ended
        if log.past:
            self.wall = max(self.wall, latest_start(log.past))
        self.frame: Frame | None = None
        self.begun: BegunCalls | None = None  # of a run that has lost a process
        self.waits: Waits | None = None
        if program.waits:
            from .waits import Waits  # imported only by runs of flows that wait

            self.waits = Waits(self)

    def outermost(self) -> tuple[str, str]:
        """Return the id of the run that people resume, and the path of its node that contains this run."""

        # The path is "" for a run that is not part of another run.
        run, call, parent = self, "", self.parent
        while parent is not None:
            call = run.id.removeprefix(f"{parent.id}/")
            run, parent = parent, parent.parent
        return run.id, call

    def now(self) -> float:
        """Return wall-clock seconds that never go back, not even behind the times in the journal."""

        # A clock that somebody sets back would otherwise lengthen every pause.
        return max(time.time(), self.wall + clock() - self.mono)

    def elapsed(self) -> float:
        """Return seconds of execution so far, those of earlier owners included; waiting does not count."""
        # Another thread may ask: read `halted` before `spent`, since `Waits` lowers `spent` before it clears `halted`.
        halted = self.halted
        return self.spent + (clock() if halted is None else halted) - self.mono

    def ended(self) -> asyncio.Future[Any]:
        """Return a future that gets the result when the run is over."""
        if self.waiting is None:
            self.waiting = self.loop.create_future()
        return self.waiting

    def allow(self, names: frozenset[str], known: Redaction | None) -> None:
        """Let the run read secrets, and redact all of them from now on."""

        # A result may contain a secret before the flow reads it, so reading comes too late for redaction.
        from ..config.secrets import MIN_LENGTH, remember_secrets  # imported only by flows that read secrets

        self.allowed, self.secrets = names, Redaction() if known is None else known
        values = {name: os.environ.get(name, "") for name in sorted(names)}
        remember_secrets(values.values())  # the logs of this process redact them, too
        for name, value in values.items():
            if len(value) >= MIN_LENGTH:
                self.secrets.add(value, f"$secret.{name}")

    def secret(self, name: str) -> str:
        """Read a secret from the environment, and redact it from now on."""
        if name not in self.allowed or self.secrets is None:
            from ..config.secrets import refusal_message

            raise ExpressionError(refusal_message(name))
        value = os.environ.get(name)
        if value is None:
            raise ExpressionError(f"$secret.{name}: the environment variable {name} is not set")
        self.secrets.add(value, f"$secret.{name}")
        return value

    def output_of(self, path: str, node_slot: NodeSlot) -> StepLog | None:
        """Return the log of a step; None if the run is over."""
        if not self.playing:
            return None
        if self.logs is None:
            from .step_logs import StepLogs  # imported only by runs whose tools print

            self.logs = StepLogs(self)
        return self.logs.of(path, node_slot)

    def redact(self, value: Json) -> Json:
        """Return the value with every known secret replaced by its reference."""
        return self.secrets.value(value) if self.secrets else value

    def past_attempt(self, path: str) -> PastAttempt | None:
        """Return the journaled failure of an attempt; None if an earlier execution did not record one."""
        entry = self.log.past.get((path, "attempt"))
        return None if entry is None else attempt_from_entry(entry)

    def add_failed_attempt(self, node_slot: NodeSlot, count: int, attempt: FailedAttempt) -> None:
        """Keep a failed attempt of a node for the record of the run, and report it."""
        path = attempt.path
        self.attempts.append((node_slot.name, attempt))
        if self.watcher is not None:
            failure = attempt.failure
            data = {**failure.event_data(), "attempt": count, "due": attempt.due}
            data |= {"replayed": True} if (path, "attempt") in self.log.past else {}
            self.report("attempt.failed", path, node_slot.name, data)

    def add_failed_call(self, frame: Frame, node_slot: NodeSlot, failure: NodeFailed) -> None:
        """Keep a failed call of a run without a journal."""
        if self.program.durable:
            return  # its entry is in the journal
        now, shift = clock(), self.wall - self.mono
        deadline: TaskDeadline = frame[TASK_DEADLINE]
        running = (each.at() for each in (deadline, *(deadline.helpers or ())))
        started = (since for node, since in running if node is node_slot)
        entry = Entry(failure.path, "call_failed", node_slot.id, None, "", next(started, now) + shift, now + shift)
        self.failed_calls.append((failure, entry))

    def warn(self, path: str, node: str, tool: str, warnings: Sequence[str]) -> None:
        """Record the warnings about the result of a call, here and in the runs around this one."""

        # Before the result itself: a process that dies in between makes the call again, and the warnings with it.
        now, data = self.now(), {"tool": tool, "warnings": [self.redact(warning) for warning in warnings]}
        entry = self.warned[path] = Entry(path, WARNING, node, data, "", now, now)
        if self.program.durable:
            self.log.append(entry)
        self.report("node.warned", path, node, data)
        if self.parent is not None:
            call = self.id.removeprefix(f"{self.parent.id}/")
            self.parent.warn(f"{call}/{path}", call.rpartition("/")[2], tool, data["warnings"])

    def warn_of_call(self, tool: str, key: str, warnings: Sequence[str]) -> bool:
        """Record the warnings about the result of the call with an idempotency key."""
        if not self.playing:
            return False
        path = key.removeprefix(f"{self.id}/")
        self.warn(path, path.rpartition("/")[2].partition("@")[0], tool, warnings)
        return True

    def _warning_entries(self) -> dict[str, Entry]:
        """Return the entries of the warnings of this run, those of earlier processes included, by path."""
        past = self.log.past
        earlier = [key for keys in keys_of(past) for key in keys if key[1] == WARNING] if past else ()
        return {path: past[path, kind] for path, kind in earlier} | self.warned

    def warnings(self) -> list[str]:
        """Return the warnings as texts, a bounded number of them."""
        texts = [
            f"{path} (tool {entry.data['tool']}): {warning}"
            for path, entry in self._warning_entries().items()
            for warning in entry.data["warnings"]
        ]
        more = len(texts) - MOST_WARNINGS
        return texts if more <= 0 else [*texts[:MOST_WARNINGS], f"{more:,} more warnings"]

    def mismatch(self, place: str, problems: Sequence[Problem]) -> SchemaMismatch:
        """Return the error of a value that does not fit a schema; it names the calls that broke their own schemas."""
        redacted = [replace(problem, message=self.redact(problem.message)) for problem in problems]
        broken = broken_schemas(self.warnings()) if redacted else ""
        if broken:
            redacted[-1] = replace(redacted[-1], message=f"{redacted[-1].message}; {broken}")
        return SchemaMismatch(place, redacted, steps=self._broken_steps() if broken else ())

    def _broken_steps(self) -> tuple[str, ...]:
        """Return the steps of this run whose answers broke the schemas of their tools: a few paths, or the nodes."""
        steps: dict[str, str] = {}
        for path, entry in self._warning_entries().items():
            if any(text.startswith(MISFIT) for text in entry.data["warnings"]):
                node, parts = entry.node.partition("@")[0], re.sub(r"@\d+", "", path).split("/")
                # What a flow did that a node called has a path that begins with that of the node.
                own = next((at for at, part in enumerate(parts) if part == node), len(parts) - 1)
                steps["/".join(parts[: own + 1])] = node
        return tuple(steps if len(steps) <= MOST_STEPS else dict.fromkeys(steps.values()))

    def disown(self, path: str) -> None:
        """Drop the failures inside a node instance that failed itself: its own failure replaces them."""

        # A resumed run does not enter this node again, so it would not have these failures either.
        if self.errors:
            inside = (path + "/", path + "[")
            self.errors = [error for error in self.errors if not error.path.startswith(inside)]

    def report(self, kind: str, path: str = "", node: str = "", data: Json = None) -> None:
        """Emit an event to the watcher; an error of the watcher does not break the run."""
        if self.watcher is not None:
            if self.logs is not None and kind in _NODE_ENDS:
                self.logs.report(path)
            event = Event(run_id=self.id, kind=kind, at=self.now(), path=path, node=node, data=data)
            if self.held_events is None:
                self.emit(self.watcher, event)
            else:
                self.held_events.append(event)

    def ends_with(self, committed: asyncio.Future[None]) -> bool:
        """Let the ending commit the last step of the run; return False if the step has to be awaited."""

        # A log that knows nothing of it would not tell the ending that the step was refused.
        if committed.done() or not hasattr(self.log, "finish_after"):
            return False
        self.log.finish_after(committed)
        self.held_events = []
        return True

    def emit_held_events(self, *, committed: bool) -> None:
        """Emit the events of a last step that is committed, and drop them otherwise."""
        held, self.held_events = self.held_events, None
        if held and committed and self.watcher is not None:
            for event in held:
                self.emit(self.watcher, event)

    def emit(self, watcher: Watcher, event: Event) -> None:
        """Pass an event to a watcher."""

        # An error of the watcher goes to the exception handler of the event loop.
        token = CURRENT.set(None)  # what it prints does not belong to the step
        try:
            watcher(event)
        except Exception as exc:  # noqa: BLE001 - reported to the handler of the loop, never to the run
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the watcher of run {self.id} raised an exception at event {event.kind}", "exception": exc}
            )
        finally:
            CURRENT.reset(token)

    # --- running ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancel the steps in progress, so that the run ends as stopped."""

        # Call it on the loop of the run.
        if self.playing:
            self.stopping += 1
            self.ending, self.turn = True, 0.0
            interrupt_inside(self)
            # A tool may swallow the cancellation, so it gets another one.
            self.loop.call_later(RECANCEL_AFTER, self.stop)

    def expire(self) -> None:
        """End the run because its timeout is over; no further node starts, even if a tool swallows the cancellation."""
        self.timeouts += 1
        self.ending, self.turn = True, 0.0
        interrupt_inside(self)

    async def give_way(self) -> None:
        """Let the event loop run other tasks."""

        # Called between nodes, when `turn` is over.
        # Without this, a run whose tools never suspend would keep the loop: no deadline and no stop would reach it.
        if not self.ending:
            before, self.round = self.round, self.deadline_timer.round()
            now = clock()
            self.turn = now + TURN
            if self.round != before:
                return  # a tool has suspended since the last call, so the loop has run already
            if self.deadline_timer.when <= now:
                self.deadline_timer.look()
        await asyncio.sleep(0)
        if self.ending:
            raise asyncio.CancelledError  # a tool swallowed the first one

    def begins(self, node: str, at: float) -> float:
        """Record the current node of a durable run, for people who look from outside."""
        elapsed = at - self.mono
        self.log.touch(node, self.spent + elapsed)
        return max(time.time(), self.wall + elapsed)

    def _begin(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        TaskDeadline.__init__(self, task)
        self.deadline_timer = deadline_timer_of(self.loop)
        self.deadline_timer.add(self, self.program.shortest_timeout, self.mono)
        self.playing, self.turn = True, self.mono + TURN
        self.log.on_stop = self.stop
        # The timeout covers all processes of the run, so the time that they spent counts.
        limit = self.program.flow.timeout
        if limit is not None:
            self.when = self.mono + max(0.0, limit - self.spent)
            self.deadline_timer.set(self)
        if self.waits is not None:
            self.waits.begin()

    async def execute(self) -> Ending:
        """Run the program to its end and return how it ended, failures included."""
        self._begin()
        program, task, deadline_timer, waits = self.program, self.task, self.deadline_timer, self.waits
        limit = program.flow.timeout
        frame = self.frame = self._open()
        value: Json = None
        status = ""
        error: Exception | None = None
        cancelled: asyncio.CancelledError | None = None
        self.output_cell = RunOutput(self)
        token = CURRENT.set(self.output_cell)
        try:
            value = (await program.play(frame)).value
            status = "partial" if self.errors else "completed"
        except NodeFailed as exc:
            status, error = "failed", exc
            self.errors.append(exc)
        except (ExpressionError, InvalidValue) as exc:
            # Nodes raise NodeFailed, so this comes from the result expression of the flow.
            status, error = "failed", ExpressionError(f"result: {exc}")
            error.__cause__ = exc
        except asyncio.CancelledError as exc:
            cancelled = exc
        finally:
            with suppress(ValueError):  # a coroutine that is closed from outside is in another context
                CURRENT.reset(token)
            self.output_cell.source = None
            if self.logs is not None:
                self.logs.close()
            self.playing, self.log.on_stop = False, None
            self.halted = self.halted or clock()
            if self.ending:
                cancelled = await pending_cancellation() or cancelled
            # The task of the caller must not keep the cancellations that this run made itself.
            parked = waits is not None and bool(waits.parked)
            own_cancellations = self.stopping + self.timeouts + parked
            for _ in range(own_cancellations):
                task.uncancel()
            if limit is not None:
                deadline_timer.unset(self)
            self.forgive()
            deadline_timer.remove(self)
            if waits is not None:
                await waits.end()
        # Parking, stopping and the timeout are endings; a cancellation by the caller is not.
        if cancelled is not None and (not own_cancellations or task.cancelling() > self.before):
            raise cancelled
        if parked:
            status = "waiting"
        elif self.stopping:
            status, error = "stopped", RunStopped(self.id)
        elif self.timeouts:
            status, error = "timeout", RunTimeout(self.id, limit or 0.0)
        return self._ending(frame, status, value, error)

    def broken_off(self) -> Ending | None:
        """Return the ending of a run whose caller was cancelled; None if it had not begun."""
        if self.frame is None:
            return None
        return self._ending(self.frame, "stopped", None, RunStopped(self.id))

    def _open(self) -> Frame:
        program = self.program
        region = program.region
        # Copied: who receives the result may change it.
        state = {name: copy_json(c.initial) for name, c in program.flow.state.items() if c.present}
        if self.state:
            state.update(self.state)
        if program.flow.seeds and type(self.input) is dict:
            state.update((name, self.input[name]) for name in program.flow.seeds if name in self.input)
        log: list[Any] | None = [] if region.writes else None
        return [None, self, region, 1, None, None, None, state, log, self, "", *([None] * (region.size - FIRST))]

    def _ending(self, frame: Frame, status: str, value: Json, error: Exception | None) -> Ending:
        finished = status in ("completed", "partial")
        state, main = frame[STATE], self.program.main
        outputs: dict[str, Json] = {}
        skipped: set[str] = set()
        if finished and self.program.lists_nodes:
            # The value of the flow has the values of all nodes already.
            if type(value) is dict:
                outputs = value
        else:
            decided: Iterable[tuple[NodeSlot, Frame]]
            if finished and main is self.program.region:
                # A finished region has decided all its nodes: no need to go through the records.
                decided = zip(main.node_slots.values(), repeat(frame))
            else:
                decided = self._decided()
            for node_slot, inner in decided:
                if node_slot.node.meta.hidden:
                    continue
                slot = inner[node_slot.slot]
                outputs[node_slot.id] = value_in(slot)
                if slot is SKIPPED or slot is DEAD:
                    skipped.add(node_slot.id)
        if not finished:
            # In loop mode, the frame of the last iteration has the state.
            frames = [record[RECORD_FRAME] for record in self.records]
            iterations = [inner for inner in frames if inner[REGION] is main and main.sequential]
            state = self.program.folded(frame, iterations[-1][STATE] if iterations else state)
        return Ending(
            run_id=self.id,
            status=status,
            value=self.redact(value),
            state=self.redact(state),
            printed=str(self.redact("".join(self.printed))),
            outputs=self.redact(outputs),
            failures=self.errors,
            skipped=frozenset(skipped),
            error=error,
            started=self.wall,
            duration=self.elapsed(),
            ran=self.ran,
            calls=self.calls,
            warnings=self.warnings(),
        )

    def ran(self) -> set[str]:
        """Return the ids of the nodes that ran or failed, also in earlier processes."""
        ids = {
            node_slot.id
            for node_slot, inner, _, _ in self.steps()
            if status_in(inner[node_slot.slot]) in ("ok", "failed")
        }
        # A resumed run does not enter a finished node again: only the journal knows what ran inside it.
        for keys in keys_of(self.log.past):
            ids |= _ids_in(path for path, kind in keys if kind not in _OF_NO_NODE)
        # A failure names the nodes inside a node that failed.
        paths = [failed.path for failed in self.errors]
        paths += [attempt.failure.path for _, attempt in self.attempts]
        ids |= _ids_in(paths)
        # A node with a region inside may still be running.
        for record in self.records:
            owner = record[RECORD_FRAME][REGION].owner
            while owner is not None:
                ids.add(owner.id)
                owner = owner.region.owner
        return ids

    def _decided(self) -> Iterator[tuple[NodeSlot, Frame]]:
        """Yield every decided node of the main region; in loop mode, of the last iteration that decided any."""
        main = self.program.main
        for record in reversed(self.records):
            if record[RECORD_FRAME][REGION] is not main:
                continue
            nodes = record[RECORD_NODES]
            if nodes is None:
                decided = record[2::3]  # the record of a graph: node, start, end
            else:
                finished_count = len(record) - RECORD_CLOCKS - 1  # clock readings after nodes, of all iterations
                decided = nodes[: finished_count and (finished_count - 1) % len(nodes) + 1]
            if decided:
                yield from zip(decided, repeat(record[RECORD_FRAME]))
                return

    def steps(self) -> Iterator[tuple[NodeSlot, Frame, float, float]]:
        """Yield every decided node instance, its frame, and the clock readings of its start and end."""
        for record in list(self.records):  # a copy: another thread may ask while the run adds records
            frame, nodes = record[RECORD_FRAME], record[RECORD_NODES]
            if nodes is None:
                # The record of a graph: node, start, end.
                for i in range(2, len(record) - 2, 3):
                    yield record[i], frame, record[i + 1], record[i + 2]
                continue
            # The record of a line: each node starts at the clock reading at which the node before it ended.
            times, rounds = record[RECORD_CLOCKS:], record[RECORD_ITERATIONS]
            for i in range(len(times) - 1):
                if rounds is not None and not i % len(nodes):
                    frame = frame_of_iteration(record[RECORD_FRAME], rounds, i // len(nodes))
                yield nodes[i % len(nodes)], frame, times[i], times[i + 1]

    def calls(self) -> Iterator[tuple[Node, Json]]:
        """Yield every tool call that gave a value, with its node."""
        for node_slot, frame, _, _ in self.steps():
            if node_slot.tool is not None and type(frame[node_slot.slot]) is not Outcome:
                yield node_slot.node, self.redact(frame[node_slot.slot])

    def position(self) -> str | None:
        """Return the id of the node that the task of the run executes; None between nodes."""
        node_slot = self.at()[0] if self.frame is not None else None
        if node_slot is None or node_slot.node.meta.hidden:
            return None
        return node_slot.id

    def entries(self) -> list[Entry]:
        """Return the journal so far, made from the step records; see `entries`."""
        return entries(self)


async def rendered(writer: Any, ending: Ending) -> dict[str, Json]:
    """Return an ending in the words of its notation, with the warnings of the run and the places of its errors."""
    # `writer`: A Job or a FlowSource.
    result: dict[str, Json] = writer.render(ending)
    if ending.warnings:
        result = {**result, "warnings": [*result.get("warnings", ()), *ending.warnings]}
    if writer.add_places is not None and ending.status in _PLACED:
        await writer.add_places(result)
    return result


def _ids_in(paths: Iterable[str]) -> set[str]:
    """Return the ids of all nodes on these paths."""
    plain = re.sub(_PATH_SUFFIXES, "", "\0".join(paths)).split("\0")
    return set[str]().union(*(path.split("/") for path in set(plain) if path))


def entries(run: Run) -> list[Entry]:
    """Return the journal of a run whose store keeps none, made from its step records."""
    shift = run.wall - run.mono  # from a reading of the clock to wall-clock seconds
    journal: list[Entry] = []
    for node_slot, frame, start, end in run.steps():
        if node_slot.node.meta.hidden:
            continue
        value = frame[node_slot.slot]
        kind: str = "call" if node_slot.tool is not None else "node"
        data: Any = value
        if type(value) is Outcome:
            if value.status == "failed":
                kind, data = "node", value.value
            else:
                kind, data = "skip", {"reason": value.status}
        path, data = path_of(frame, node_slot), run.redact(data)
        journal.append(Entry(path, kind, node_slot.id, data, "", start + shift, end + shift))
    attempts = {attempt.path: attempt.to_entry(name) for name, attempt in run.attempts}
    journal += attempts.values()
    for failure, failed in run.failed_calls:
        times = attempts.get(failed.path, failed)  # an attempt begins later than its node
        journal.append(replace(failed, data=failure_to_json(failure), started=times.started, ended=times.ended))
    journal += [*run.undos, *run.warned.values()]
    journal += run.logs.entries() if run.logs is not None else ()
    if run.waits is not None:
        journal += run.waits.waiting()
    journal.sort(key=lambda entry: entry.ended)
    return journal
