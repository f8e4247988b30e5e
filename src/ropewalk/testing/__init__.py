"""Parts for tests of flows, chains and agents: scripted tools, a scripted model, shuffled timing, a store that dies.

They are real parts, not mocks: ScriptedTools goes through the same pipeline as every tool, DyingStore
is a real store up to the write at which it dies. There is no fake clock: delays here are real, so
script events (`held`, `called`) instead of times. To add a behaviour, add a function that makes a Step.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..claude.scripted import ScriptedModel as ScriptedModel
from ..claude.scripted import results_in as results_in
from ..claude.scripted import wants as wants
from ..frozen import dataclass
from ..tools.bound import DEFAULT_TIMEOUT, Bound, Rules, bind_route
from ..tools.executor import ExecutorCaller
from ..tools.local import maybe_await
from ..tools.route import Args, OnProgress, Route
from ..tools.tool import Tool, parse_tool_id
from ..values import Json, closest, fresh
from .death import DyingStore as DyingStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one call does: wait `after` seconds (`hold`: until released, `hang`: for ever), then
    fail with `error`, or give `value`, or what `make(args)` gives."""

    value: Json = None
    error: Exception | None = None
    make: Callable[..., Any] | None = None
    after: float = 0.0
    hold: bool = False
    hang: bool = False


def gives(value: Json, *, after: float = 0.0) -> Step:
    """A call that gives `value`, a fresh copy each time."""
    return Step(value=value, after=after)


def fails(error: str | Exception, *, after: float = 0.0) -> Step:
    """A call that raises `error`; a text becomes a RuntimeError."""
    return Step(error=RuntimeError(error) if isinstance(error, str) else error, after=after)


def hangs() -> Step:
    """A call that ends only by being cancelled."""
    return Step(hang=True)


def held(value: Json = None) -> Step:
    """A call that gives `value` once the test calls `tools.release(name)`."""
    return Step(value=value, hold=True)


@dataclass(frozen=True, slots=True)
class Turns:
    """One step per call; the last one stays."""

    steps: tuple[Step, ...]


def in_turn(*steps: Any) -> Turns:
    """One behaviour per call, the last one for every further call: `in_turn(fails("busy"), 3)`."""
    return Turns(tuple(_step(step) for step in steps))


@dataclass(slots=True)
class ScriptedCall:
    """One call as it came: `status` is running, done, failed or cancelled; `key` the idempotency
    key where the caller passes one."""

    tool: str
    args: Args
    key: str | None = None
    status: str = "running"


class ScriptedTools:
    """Tools that do what a script says, and remember what was asked of them. One event loop each.

    The script maps a tool's name to a value, a function of the arguments by name, an exception, or
    a step from `gives`, `fails`, `hangs`, `held`, `in_turn`. It is an executor (`app.run(...,
    executor=tools)`), a caller of the engine (`bind`), and `tools()` gives Toolbox tools. With `keys`,
    the engine passes idempotency keys, as to a remote tool; else it calls them as local ones.
    """

    version = 0

    def __init__(
        self,
        script: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        keys: bool = False,
        **more: Any,
    ) -> None:
        self.script = {
            name: step if isinstance(step, Turns) else Turns((_step(step),))
            for name, step in {**(script or {}), **more}.items()
        }
        self.calls: list[ScriptedCall] = []
        self.running = self.peak = 0
        self._rules, self._keys = Rules(timeout=timeout), keys
        self._released: dict[str, int] = {}
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def __call__(self, name: str, params: Args) -> Json:
        return await self._run(name, params, None)

    def bind(self, tool_id: str) -> Bound:
        """The tool for the engine, checked like any other."""

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._run(tool_id, args, key)

        route = Route(send=send, direct=None if self._keys else lambda **args: self._run(tool_id, args, None))
        return bind_route(tool_id, None, None, route, self._rules)

    def tools(self, schemas: Mapping[str, dict[str, Json]] | None = None) -> list[Tool]:
        """Tools for a Toolbox or an App; `schemas` are input schemas by name, else every object fits."""
        return [self._tool(name, (schemas or {}).get(name)) for name in self.script]

    def count(self, name: str) -> int:
        """How often `name` was called."""
        return sum(call.tool == name for call in self.calls)

    async def called(self, name: str, times: int = 1) -> None:
        """Wait until `name` has been called so often."""
        await self._until(lambda: self.count(name) >= times)

    def release(self, name: str, calls: int = 1) -> None:
        """Let so many `held` calls of `name`, waiting or still to come, go on."""
        self._released[name] = self._released.get(name, 0) + calls
        self._changed()

    def _tool(self, name: str, schema: dict[str, Json] | None) -> Tool:
        async def handler(**args: Json) -> Any:
            return await self._run(name, args, None)

        id = parse_tool_id(name)
        description = "Does what a test's script says."
        return Tool(id.name, description, schema or {"type": "object"}, None, id.namespace, id.version, handler=handler)

    async def _run(self, name: str, args: Args, key: str | None) -> Any:
        turns = self.script.get(name)
        if turns is None:
            near = closest(name, self.script)
            raise LookupError(f"no tool {name!r} in the script" + (f"; did you mean {near!r}?" if near else ""))
        step = turns.steps[min(self.count(name), len(turns.steps) - 1)]
        call = ScriptedCall(name, fresh(args), key)
        self.calls.append(call)
        self.running += 1
        self.peak = max(self.peak, self.running)
        self._changed()
        try:
            value = await self._do(name, step, args)
        except asyncio.CancelledError:
            call.status = "cancelled"
            raise
        except BaseException:
            call.status = "failed"
            raise
        else:
            call.status = "done"
            return value
        finally:
            self.running -= 1
            self._changed()

    async def _do(self, name: str, step: Step, args: Args) -> Any:
        if step.hang:
            await asyncio.get_running_loop().create_future()
        if step.hold:
            await self._until(lambda: self._released.get(name, 0) > 0)
            self._released[name] -= 1
        if step.after:
            await asyncio.sleep(step.after)
        if step.error is not None:
            raise _again(step.error)
        return fresh(step.value) if step.make is None else await maybe_await(step.make(**args))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((holds, told))
            await told

    def _changed(self) -> None:
        for waiting in [one for one in self._waiting if one[1].done() or one[0]()]:
            self._waiting.remove(waiting)
            if not waiting[1].done():
                waiting[1].set_result(None)


def _step(given: Any) -> Step:
    if isinstance(given, Step):
        return given
    if isinstance(given, Turns):
        raise TypeError("in_turn stands for a whole tool; it cannot be one of its turns")
    if isinstance(given, Exception):
        return Step(error=given)
    return Step(make=given) if callable(given) else Step(value=given)


def _again(error: Exception) -> Exception:
    """The same error once more: one that has been raised holds on to all it went through."""
    try:
        return copy.copy(error)
    except Exception:  # noqa: BLE001 - an exception class of the user's own that cannot be copied
        return error.with_traceback(None)


# --- timing ----------------------------------------------------------------------------------


class Shuffled:
    """The same tools under other timing: each call lets the event loop do other things a seeded
    random number of times, at most `most`, before it begins and again before it answers.

    `tools` is an executor or a caller of the engine, and so is this. What a flow gives must not
    depend on `seed`.
    """

    def __init__(self, tools: Any, seed: int, *, most: int = 3) -> None:
        self.inner = tools if hasattr(tools, "bind") else ExecutorCaller(tools)
        self._tools, self._random, self._most = tools, random.Random(seed), most

    @property
    def version(self) -> int:
        return int(self.inner.version)

    async def __call__(self, name: str, params: Args) -> Json:
        return await self._around(lambda: maybe_await(self._tools(name, params)))

    def bind(self, tool_id: str) -> Bound:
        """The tool of the same name, at another pace."""
        bound: Bound = self.inner.bind(tool_id)

        async def call(
            args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
        ) -> Json:
            return await self._around(lambda: bound.call(args, key, timeout, on_progress))

        direct = bound.direct
        if direct is not None:
            handler = direct.handler
            direct = replace(direct, handler=lambda **args: self._around(lambda: handler(**args)))
        return replace(bound, call=call, direct=direct)

    async def _around(self, call: Callable[[], Awaitable[Any]]) -> Any:
        await self._pause()
        try:
            return await call()
        finally:
            await self._pause()

    async def _pause(self) -> None:
        for _ in range(self._random.randint(0, self._most)):
            await asyncio.sleep(0)


def interleavings(tools: Any, count: int = 20) -> Iterator[Shuffled]:
    """`tools` under `count` different timings, the same ones each time; run the flow with each."""
    for seed in range(count):
        yield Shuffled(tools, seed)
