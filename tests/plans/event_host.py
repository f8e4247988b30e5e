"""A host of programs for tests: their calls run on the event loop of the caller."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from ropewalk.fast_dataclass import dataclass
from ropewalk.plans import messages as m
from ropewalk.plans.boundary.pool import Pool, ProgramStopped
from ropewalk.plans.child_machine import KEEP_SECONDS, ChildMachine
from ropewalk.plans.player import LocalPlayer, Player, play
from ropewalk.plans.program import Program
from ropewalk.plans.rows import Row, digests_of
from ropewalk.plans.session import Outcome, Session, failure_of
from ropewalk.values import Json

Perform: TypeAlias = Callable[[str, dict[str, Json]], Awaitable[Json]]
"""Calls a tool: its name and arguments by name; it returns JSON or raises."""
Answer: TypeAlias = Callable[[m.Question], Awaitable[Json]]
"""Answers a question of the program."""


_ENCODER: Final = json.JSONEncoder(allow_nan=False)
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The tools of a program, its journal, and who hears of it."""

    # perform: Calls a tool.
    # rows: The journal so far, to which new rows are appended; a new run has none.
    # answer: Answers questions. Without it a run that has one waits.
    # on_row: Gets each new row as it is committed.
    # log: Gets what the program prints, once.

    perform: Perform
    rows: list[Row] | None = None
    answer: Answer | None = None
    on_row: Callable[[Row], None] | None = None
    log: Callable[[str], None] | None = None


async def run(program: Program, world: World, inputs: Mapping[str, Json] | None = None) -> Outcome:
    """Run a program in this process to its end, or until it waits for an answer."""
    if program.problems:
        return Outcome("invalid", problems=tuple(problem.to_json() for problem in program.problems))
    return await _play(_Host(world, program.text), lambda session: LocalPlayer(program, inputs or {}, *session))


async def run_in_child(begin: m.Begin, world: World, pool: Pool, *, keep_seconds: float = KEEP_SECONDS) -> Outcome:
    """Run a program in children of the boundary to its end, or until it waits for an answer."""
    try:
        return await _play(_Host(world, begin.text), lambda session: ChildMachine(begin, *session, pool, keep_seconds))
    except ProgramStopped as error:
        # The attempt ends, and the rows say nothing of it, so that another attempt can continue from them.
        return Outcome("stopped", error="Limit", message=str(error))


async def _play(host: _Host, player: Callable[[tuple[int, Any]], Player]) -> Outcome:
    try:
        return await play(host.session, player((host.session.seed, host.session.read)), host)
    finally:
        await host.close()


class _Host:
    """The event loop as the world of a session."""

    def __init__(self, world: World, text: str) -> None:
        self._perform, self._answer, self._on_row, self._on_log = world.perform, world.answer, world.on_row, world.log
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None] | asyncio.TimerHandle] = {}
        self._aborted: set[asyncio.Task[None]] = set()
        self._begun: list[m.Request] = []
        self._woken: asyncio.Future[None] | None = None
        rows = world.rows if world.rows is not None else []
        self.session = Session(rows, self, random.getrandbits(63), digests_of(text))

    def begin(self, request: m.Request, due: float | None) -> None:
        """Begin a step at the next wait."""
        if isinstance(request, m.Timer):
            assert due is not None
            self._tasks[request.path] = self._loop.call_later(max(due - time.time(), 0), self._fire, request.path)
        else:
            self._begun.append(request)

    def abort(self, path: str) -> None:
        """Cancel a call or a timer."""
        self._start()
        task = self._tasks.pop(path, None)
        if isinstance(task, asyncio.Task):
            self._aborted.add(task)
            self._loop.call_soon(task.cancel)  # after its first turn, so that the call begins as in Python
        elif task is not None:
            task.cancel()

    def _start(self) -> None:
        """Make tasks of the steps that were begun."""
        begun, self._begun = self._begun, []
        for request in begun:
            if not isinstance(request, m.Question) or self._answer is not None:
                self._tasks[request.path] = self._loop.create_task(self._call(request))

    def clock(self, name: str) -> float:
        """Return what a clock shows."""
        return time.time() if name == "now" else time.monotonic()

    def log(self, text: str) -> None:
        """Pass a printed text on."""
        if self._on_log is not None:
            self._on_log(text)

    def commit(self, row: Row) -> None:
        """Pass a row on."""
        if self._on_row is not None:
            self._on_row(row)

    def take(self, offer: Row, path: str) -> None:
        """Do nothing: the row of the step has the value of the offer."""

    def recorded(self, call: m.Call) -> str | None:
        """Return None: there is no other run."""
        return None

    async def commits(self) -> None:
        """Do nothing: a row is committed as it is appended."""

    async def wait(self) -> None:
        """Wait until a step ends; end a run that waits for answers which nobody here gives."""
        questions = self.session.waits() if self._answer is None else ()
        if questions:
            self.session.outcome = Outcome("waiting", waits=questions)
            return
        if len(self._begun) == 1 and not self._tasks and isinstance(self._begun[0], m.Call):
            await self._call(self._begun.pop())  # the usual case needs no task of its own
            return
        self._start()
        self._woken = self._loop.create_future()
        await self._woken

    async def _call(self, request: m.Request) -> None:
        try:
            if isinstance(request, m.Call):
                result = await self._perform(request.tool, _DECODER.raw_decode(request.arguments)[0])
            else:
                assert isinstance(request, m.Question)
                assert self._answer is not None
                result = await self._answer(request)
            ok, value = True, _ENCODER.encode(result)
        except asyncio.CancelledError:
            self.session.forget(request.path)
            raise
        except Exception as error:  # noqa: BLE001 - tools raise anything
            ok, value = False, failure_of(error)
        self._end(request.path, ok, value)

    def _fire(self, path: str) -> None:
        self._end(path, True, "null")

    def _end(self, path: str, ok: bool, value: str) -> None:
        self._tasks.pop(path, None)
        self.session.end(path, ok, value)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def close(self) -> None:
        """Cancel what runs, and wait for calls that were cancelled, so that late results are recorded."""
        tasks = [task for task in self._tasks.values() if isinstance(task, asyncio.Task)]
        for handle in self._tasks.values():
            handle.cancel()
        await asyncio.gather(*tasks, *self._aborted, return_exceptions=True)
