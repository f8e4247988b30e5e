"""The machine: tasks and turns of a program, its requests to the host, and the deliveries of the host.

It makes no call and reads no clock itself. `start` and `deliver` return messages; the last one says that every task is
blocked, or that the program ended. A delivery is taken only when every task is blocked, so the program is a
deterministic function from the sequence of deliveries to the sequence of requests.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from zoneinfo import ZoneInfo

import orjson

from ...expr.operators import OverBudget
from ...expr.python.evaluation import UNCATCHABLE
from ...expr.python.failures import CancelledError, ProgramExit, Rejected, ToolError, exception_record
from .. import messages as m
from .copies import to_text
from .evaluation import PlanEvaluation
from .futures import Coroutine, Enter, Future, Native
from .limits import MAX_FRAMES
from .steps import Steps

Turn = tuple[Callable[..., None], tuple[Any, ...]]


class Deadlock(Exception):
    """Every task waits for another task."""


class HostFailed(BaseException):
    """The host could not answer at once; `error` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Task(Future):
    """A coroutine that runs by itself, with its own list of frames."""

    # id: Which child of which task it is (`0.2`).
    # name: Its name in the program.
    # children: How many tasks it has made.
    # visits: How often it came to each place.
    # cancel_requests: How often it was asked to end.

    __slots__ = (
        "_frames",
        "_must_cancel",
        "_state",
        "_waits_for",
        "cancel_requests",
        "children",
        "id",
        "name",
        "visits",
    )

    def __init__(self, machine: Machine, id: str, coroutine: Native) -> None:
        super().__init__(machine)
        self.id = self.name = id
        self.children = self.cancel_requests = 0
        self.visits: dict[str, int] = {}
        self._frames = [coroutine]
        self._must_cancel = False
        self._waits_for: Future | None = None
        self._state: tuple[int, list[BaseException], int] = (machine.evaluation.line, [], 0)
        machine.call_soon(self._step)

    def cancel(self) -> bool:
        """Raise CancelledError in the task at its turn; what it waits for is cancelled first."""
        if self.done:
            return False
        self.cancel_requests += 1
        if self._waits_for is not None and self._waits_for.cancel():
            return True
        self._must_cancel = True
        return True

    def uncancel(self) -> int:
        """Take back one request to end, and return how many are left."""
        self.cancel_requests = max(self.cancel_requests - 1, 0)
        return self.cancel_requests

    METHODS = Future.METHODS | {
        "cancelling": lambda self, evaluation: self.cancel_requests,
        "get_name": lambda self, evaluation: self.name,
        "set_name": lambda self, evaluation, name: setattr(self, "name", str(name)),
        "uncancel": lambda self, evaluation: self.uncancel(),
    }

    def close(self) -> None:
        """Drop the frames of a task that never continues."""
        while self._frames:
            self._frames.pop().close()

    def _wake(self, future: Future) -> None:
        self._step(CancelledError() if future.cancelled else None)

    def _step(self, error: BaseException | None = None) -> None:
        """Run up to the next wait."""
        machine, evaluation = self.machine, self.machine.evaluation
        if self._must_cancel and not isinstance(error, CancelledError):
            error = CancelledError()
        self._must_cancel, self._waits_for, machine.current = False, None, self
        evaluation.line, evaluation.handling, evaluation.calls = self._state
        try:
            waits_for = run_frames(self._frames, error)
        except StopIteration as end:
            if self._must_cancel:
                super().cancel()
            else:
                self.set_result(end.value)
            return
        except CancelledError:
            super().cancel()
            return
        except UNCATCHABLE:
            raise
        except Exception as failure:  # noqa: BLE001 - programs raise anything
            exception_record(failure, evaluation.line)
            self.set_error(failure)
            return
        self._state = evaluation.line, evaluation.handling, evaluation.calls
        if waits_for is None:
            machine.call_soon(self._step)
            return
        if waits_for is self:
            machine.call_soon(self._step, RuntimeError(f"Task cannot await on itself: {self!r}"))
            return
        waits_for.add_callback(self._wake)
        self._waits_for = waits_for
        if self._must_cancel and waits_for.cancel():
            self._must_cancel = False


def run_frames(frames: list[Native], error: BaseException | None = None) -> Any:
    """Run frames until one waits, and return what it waits for; each gets the result of the one that it entered."""
    value: Any = None
    while True:
        try:
            waits_for = frames[-1].send(value) if error is None else frames[-1].throw(error)
        except StopIteration as end:
            del frames[-1]
            if not frames:
                raise
            value, error = end.value, None
        except BaseException as failure:
            del frames[-1]
            if not frames:
                raise
            value, error = None, failure
        else:
            if type(waits_for) is not Enter:
                return waits_for
            frames.append(waits_for.coroutine)
            value = error = None
            if len(frames) > MAX_FRAMES:
                raise OverBudget(f"functions call each other more than {MAX_FRAMES} deep; write a loop")


class Machine(Steps):
    """Runs one program."""

    # seed: Decides what `random` and `uuid` give.
    # read: Asks the host for a clock; it answers at once.
    # zone: Returns a time zone.

    def __init__(self, seed: int, read: Callable[[m.Clock], m.Reading], zone: Callable[[str], ZoneInfo]) -> None:
        super().__init__()
        self.zone = zone
        self.evaluation = PlanEvaluation(self)
        self.random = random.Random(seed)
        self._read = read
        self._turns: deque[Turn] = deque()
        self._tasks: list[Task] = []
        self._printed = 0
        self._is_stopping = False
        self._ended: m.Ended | None = None

    # --- tasks -----------------------------------------------------------------------------------

    def call_soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function in the next turn."""
        self._turns.append((function, arguments))

    def task_of(self, value: Any) -> Future:
        """Return a task for an awaitable; futures are returned as they are."""
        if isinstance(value, Future):
            return value
        if isinstance(value, Coroutine):
            return self.spawn(value.start())
        raise TypeError("An asyncio.Future, a coroutine or an awaitable is required")

    def spawn(self, coroutine: Native) -> Task:
        """Make a task of the current one."""
        # It begins when its maker next waits.
        parent = self.current
        parent.children += 1
        task = Task(self, f"{parent.id}.{parent.children}", coroutine)
        self._tasks.append(task)
        if len(self._tasks) % 256 == 0:
            self._tasks = [known for known in self._tasks if not known.done]
        return task

    # --- the host --------------------------------------------------------------------------------

    def start(self, coroutine: Native) -> list[m.Message]:
        """Begin the program, and return the messages up to its first wait."""
        self.main = self.current = Task(self, "0", coroutine)
        self._tasks.append(self.main)
        self.main.add_callback(self._stop)
        return self._advance()

    def deliver(self, delivery: m.Delivery) -> list[m.Message]:
        """Take a delivery, and return the messages up to the next wait."""
        if self._ended is not None or delivery.path in self.cancelled:
            return [self._ended or m.Blocked()]
        step = self.waiting.pop(delivery.path, None)
        if step is None:
            self._ended = m.Ended("unexpected", message=f"the program has not requested {delivery.path}")
            return [self._ended]
        self.evaluation.renew()
        if delivery.ok:
            step.set_result(orjson.loads(delivery.value))
        else:
            failure = json.loads(delivery.value)
            step.set_error(step_error(failure, delivery.path, self.tools_of_steps.get(delivery.path, "")))
        return self._advance()

    def _advance(self) -> list[m.Message]:
        try:
            self._turn()
        except UNCATCHABLE as error:
            self._ended = self._stopped(error)
        except HostFailed as failed:
            raise failed.error from None
        if self._ended is None and not self.waiting:
            self._ended = self._result() if self.main.done else self._deadlock()
        self._collect_printed()
        outbox, self.outbox = self.outbox, []
        if self._ended is not None:
            self.close()
        return [*outbox, self._ended or m.Blocked()]

    def _turn(self) -> None:
        """Run turns, as the event loop does, until every task is blocked."""
        turns = self._turns
        while turns:
            for _ in range(len(turns)):
                function, arguments = turns.popleft()
                function(*arguments)
            if self._is_stopping:
                # As asyncio.run does: tasks that are not done when the program ends are cancelled.
                self._is_stopping = False
                for task in self._tasks:
                    task.cancel()
            self.evaluation.step()

    def _stop(self, main: Any) -> None:
        self._is_stopping = True

    def read_clock(self, name: str) -> float:
        """Return what a clock shows."""
        try:
            return self._read(m.Clock(self.path(f"{self.evaluation.line}:{name}"), name)).seconds
        except Exception as error:  # noqa: BLE001 - no handler of the program may catch an error of the host
            raise HostFailed(error) from None

    def _collect_printed(self) -> None:
        printed = self.evaluation.printed
        for number in range(self._printed, len(printed)):
            self.outbox.append(m.Printed(number, printed[number]))
        self._printed = len(printed)

    # --- the end ---------------------------------------------------------------------------------

    def _result(self) -> m.Ended:
        try:
            return m.Ended("completed", result=to_text(self.evaluation, self.main.result()))
        except UNCATCHABLE as error:
            return self._stopped(error)
        except BaseException as error:  # noqa: BLE001 - programs raise anything
            return failed(error)

    def _stopped(self, error: BaseException) -> m.Ended:
        line = self.evaluation.line
        if isinstance(error, ProgramExit):
            if error.code is None or error.code == 0:
                return m.Ended("completed")
            return m.Ended("failed", error="SystemExit", message=str(error.code), line=line)
        if isinstance(error, MemoryError):
            error = OverBudget("the program needs too much memory; keep less in it, or in a tool")
        if isinstance(error, RecursionError):
            error = OverBudget("the values or calls are nested too deeply; write a loop")
        kind = "Limit" if isinstance(error, OverBudget) else "Refused"
        return m.Ended("stopped", error=kind, message=str(error), line=line)

    def _deadlock(self) -> m.Ended:
        message = "every task waits for another one; nothing can wake them"
        return m.Ended("failed", error="Deadlock", message=message, line=self.evaluation.line)

    def close(self) -> None:
        """Drop the tasks without executing any more of the program, not even its `finally` blocks."""
        self.evaluation.is_over = True
        for task in self._tasks:
            task.close()


_LINE: Final = "__ropewalk_record__"


def step_error(failure: dict[str, Any], path: str, tool: str) -> Exception:
    """Return the exception of a failed step; a question has no tool."""
    names = tuple(str(name) for name in failure.get("classes") or ())
    message, kind = str(failure.get("message", "")), str(failure.get("type", ""))
    error: Exception
    if not tool and "TimeoutError" in names:
        error = TimeoutError(message)
    else:
        error = (Rejected if kind == "Rejected" else ToolError)(message, tool, kind, names)
    error.__dict__["path"] = path
    return error


def failed(error: BaseException) -> m.Ended:
    """Return the end of a program by an exception."""
    line = (error.__dict__.get(_LINE) or {}).get("line") or 0
    return m.Ended("failed", "null", type(error).__name__, str(error), line, sorted(failed_steps(error)))


def failed_steps(error: BaseException) -> set[str]:
    """Return the paths of the failed steps from which an exception comes, by its cause, context or group."""
    paths: set[str] = set()
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        part = todo.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        path = part.__dict__.get("path")
        if path is not None:
            paths.add(path)
        todo += [part.__cause__, part.__context__]
        if isinstance(part, BaseExceptionGroup):
            todo += part.exceptions
    return paths
