"""Python itself as the judge of the machine: a program runs with asyncio on a loop whose time is virtual."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import datetime
import io
import json
import random
import re
import textwrap
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ropewalk.expr.python.failures import ToolError
from ropewalk.plans.program import Program

from .oracle import Data, as_data
from .simulation import SEED, START, Cut, Simulation, usual_delay

MOST_ROWS = 5_000
"""How many rows a program may have; a random one may never end."""


class _Answers(dict[str, Any]):
    """The answer of a person or another system to every question."""

    def __contains__(self, question: object) -> bool:
        return True

    def __missing__(self, question: str) -> dict[str, Any]:
        return {"approved": True, "by": "ann", "note": None, "name": question}


ANSWERS = _Answers()


class _Approval(Data):
    """An answer that is true when it approves."""

    def __bool__(self) -> bool:
        return self["approved"] is True


class Deadlock(Exception):
    """Nothing that the loop waits for can happen."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to its next timer when it has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-12
        self._timers = 0
        self.is_over = False  # True after a deadlock, when the runner cancels what is left
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._listed)

    def _listed(self, loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """Make a task, and list it."""
        self._tasks.append(asyncio.Task(coroutine, loop=loop, **options))
        return self._tasks[-1]

    def cancel_tasks(self) -> None:
        """Cancel the tasks that are left, in the order in which they came."""
        # A runner of asyncio does so in the order of a set, which is chance.
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, *arguments: Any, **named: Any) -> asyncio.TimerHandle:
        """Make a timer that is due at an instant of its own, as no two are in the world; the order is kept."""
        self._timers += 1
        return super().call_at(round(when, 6) + self._timers * 1e-10, *arguments, **named)

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            live = [handle for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
            if not live:
                self.is_over = True
                raise Deadlock("every task waits for another one; nothing can wake them")
            self._now = max(self._now, min(handle.when() for handle in live))
        super()._run_once()  # type: ignore[misc]


def run_python(
    text: str,
    inputs: Mapping[str, Any],
    tools: Mapping[str, Sequence[str] | None],
    answer: Callable[[str, dict[str, Any]], Any],
    delay: Callable[[int, str, Mapping[str, Any]], float] = usual_delay,
) -> dict[str, Any]:
    """Execute a program with asyncio; return `result` or `error` and `message`, with `calls` and `printed`."""
    calls: list[tuple[str, Any]] = []
    kinds: dict[tuple[str, ...], type[Exception]] = {}
    loop = VirtualLoop()

    def make(tool: str) -> Any:
        async def call(*values: Any, **named: Any) -> Any:
            arguments = json.loads(json.dumps(dict(zip(tools[tool] or (), values, strict=False)) | named))
            calls.extend([(tool, arguments)] if not loop.is_over else [])
            await asyncio.sleep(delay(len(calls), tool, arguments))
            try:
                return as_data(json.loads(json.dumps(answer(tool, dict(arguments)))))
            except Exception as error:  # noqa: BLE001 - tools raise anything
                bases = tuple(kind for kind in type(error).__mro__[:1] if kind is not Exception)
                kind = kinds.setdefault(bases, type("ToolError", (ToolError, *bases), {}))
                raise kind(str(error), tool) from None

        return call

    chance = random.Random(SEED)

    async def ask(text: str) -> _Approval:
        await asyncio.sleep(usual_delay(len(calls), "", {}))
        return _Approval(ANSWERS[text])

    def now(zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(START + loop.time(), zone)

    tree = ast.parse(text)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Return(tree.body[-1].value)
    space: dict[str, Any] = {"__name__": "__main__", "asyncio": asyncio, "json": json, "ToolError": ToolError}
    space |= {"math": __import__("math"), "re": __import__("re")} | {name: make(name) for name in tools}
    space |= {"now": now, "uuid": lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4))}
    space |= {"approve": ask, "wait_for": ask}
    body = textwrap.indent(ast.unparse(tree), "    ") or "    pass"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Programs do not inherit `from __future__ import annotations` of this module.
        exec(compile(f"async def main({', '.join(inputs)}):\n{body}", "main", "exec", dont_inherit=True), space)
        printed = io.StringIO()
        outcome: dict[str, Any]
        try:
            with contextlib.redirect_stdout(printed):
                value = _run(loop, space["main"](**{name: as_data(item) for name, item in inputs.items()}))
            outcome = _as_outcome(value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - programs raise anything
            outcome = {
                "error": type(error).__name__,
                "message": re.sub(r"__main__\.main\.<locals>\.\S+ |main\.<locals>\.", "", str(error)),
            }
    return {**outcome, "calls": calls, "printed": printed.getvalue()}


def _run(loop: VirtualLoop, coroutine: Any) -> Any:
    """Return what a coroutine returns, when the tasks that it leaves have ended."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        loop.set_exception_handler(lambda loop, context: None)
        try:
            return runner.run(coroutine)
        finally:
            loop.cancel_tasks()


def _as_outcome(value: Any) -> dict[str, Any]:
    try:
        return {"result": json.loads(json.dumps(value).replace("main.<locals>.", ""))}
    except (RecursionError, TypeError, ValueError):
        return {"unlike": "JSON"}


def run_machine(
    text: str,
    inputs: Mapping[str, Any],
    tools: Mapping[str, Sequence[str] | None],
    answer: Callable[[str, dict[str, Any]], Any],
) -> dict[str, Any]:
    """Run a program on the machine, with the same parts as `run_python`."""
    world = Simulation(tools, answer, answers=ANSWERS)
    try:
        outcome, _ = world.run(Program(text, tools, list(inputs), function=True), dict(inputs), cut_after=MOST_ROWS)
    except Cut:  # the world's budget of calls
        return {"refused": ({"line": 1, "message": f"the program makes more than {MOST_ROWS:,} calls"},)}
    if outcome.status == "invalid":
        return {"refused": outcome.problems}
    ended: dict[str, Any] = {"result": outcome.result}
    if outcome.status == "stopped" and ("JSON" in outcome.message or "nested" in outcome.message):
        ended = {"unlike": "JSON"}
    elif outcome.status == "stopped":  # in Python it may run for ever
        return {"refused": ({"line": outcome.line, "message": outcome.message},)}
    elif outcome.status != "completed":
        ended = {"error": outcome.error, "message": outcome.message}
    return {**ended, "calls": world.calls, "printed": outcome.printed}


def compared(
    text: str,
    tools: Mapping[str, Sequence[str] | None],
    answer: Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    fresh: Callable[[], Callable[..., Any]] | None = None,
) -> list[str] | None:
    """Return what differs between Python and the machine; None if it refuses the program or stops it at a limit.

    `fresh` makes an `answer` for each of the two runs, for tools that remember.
    """
    machine = run_machine(text, inputs or {}, tools, fresh() if fresh else answer)
    if "refused" in machine:
        return None
    python = run_python(text, inputs or {}, tools, fresh() if fresh else answer)
    different = [
        f"{part}: Python {python.get(part)!r}, machine {machine.get(part)!r}"
        for part in ("result", "unlike", "error", "message", "calls", "printed")
        if json.dumps(python.get(part)).replace("main.<locals>.", "") != json.dumps(machine.get(part))
    ]
    # A value that is not JSON stops a program of the machine where it is an argument or the result.
    return None if different and "unlike" in machine else different
