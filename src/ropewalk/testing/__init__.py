"""Parts for tests of flows, chains and agents: scripted tools, a scripted model, shuffled timing, a store that dies.

They are real parts, not mocks: ScriptedTools uses the same pipeline as every tool, and DyingStore is a real store
until the write at which it dies. There is no fake clock: delays are real, so script events (`held`, `called`) instead
of times. To add a behaviour, add a function that makes a Step.

`speeds` measures steps on this machine and store. Its tool returns at once, so the figures are those of Ropewalk and
the store. It never writes to the store itself: it uses another file in the same directory, or another schema of the
same Postgres database, and deletes it afterwards.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Literal

from ..agents.scripted import ScriptedModel as ScriptedModel
from ..agents.scripted import results_in as results_in
from ..agents.scripted import wants as wants
from ..app.app import App
from ..fast_dataclass import dataclass
from ..journal.address import DEFAULT, is_postgres, open_store
from ..tools.backends.local import maybe_await
from ..tools.backends.route import Args, OnProgress, Route
from ..tools.bound_call import DEFAULT_TIMEOUT, Bound, Rules, bind_route
from ..tools.runner import ExecutorCaller
from ..tools.tool import Tool, parse_tool_id
from ..values import Json, did_you_mean, fresh
from .faults import DyingStore as DyingStore
from .store_tests import check_store as check_store

if TYPE_CHECKING:
    from ..app.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The behaviour of one call of a scripted tool.

    Attributes:
        value: The result.
        error: The exception to raise instead.
        make: A function of the arguments, by name, that makes the result instead.
        after: Seconds to wait first.
        hold: Wait until the test releases the call.
        hang: Never end, except by cancellation.
    """

    value: Json = None
    error: Exception | None = None
    make: Callable[..., Any] | None = None
    after: float = 0.0
    hold: bool = False
    hang: bool = False


def gives(value: Json, *, after: float = 0.0) -> Step:
    """Return the behaviour of a call that succeeds.

    Args:
        value: The result; each call gets its own copy.
        after: Seconds to wait first.

    Returns:
        A step for the script of ScriptedTools.
    """
    return Step(value=value, after=after)


def fails(error: str | Exception, *, after: float = 0.0) -> Step:
    """Return the behaviour of a call that fails.

    Args:
        error: The exception to raise, or the text of a RuntimeError.
        after: Seconds to wait first.

    Returns:
        A step for the script of ScriptedTools.
    """
    return Step(error=RuntimeError(error) if isinstance(error, str) else error, after=after)


def hangs() -> Step:
    """Return the behaviour of a call that ends only when it is cancelled.

    Returns:
        A step for the script of ScriptedTools.
    """
    return Step(hang=True)


def held(value: Json = None) -> Step:
    """Return the behaviour of a call that succeeds when the test calls `tools.release(name)`.

    Args:
        value: The result.

    Returns:
        A step for the script of ScriptedTools.
    """
    return Step(value=value, hold=True)


@dataclass(frozen=True, slots=True)
class Turns:
    """The steps of consecutive calls; further calls repeat the last step."""

    steps: tuple[Step, ...]


def in_turn(*steps: Any) -> Turns:
    """Return behaviours for consecutive calls of a tool, such as `in_turn(fails("busy"), 3)`.

    Args:
        *steps: A value, an exception, a function or a step for each call. Further calls repeat the last one.

    Returns:
        An entry for the script of ScriptedTools.
    """
    return Turns(tuple(_step(step) for step in steps))


@dataclass(slots=True)
class ScriptedCall:
    """A recorded call of a scripted tool.

    Attributes:
        tool: The name of the tool.
        args: A copy of the arguments.
        key: The idempotency key, if the caller passed one.
        status: running, done, failed or cancelled.
    """

    tool: str
    args: Args
    key: str | None = None
    status: str = "running"


class ScriptedTools:
    """Tools that follow a script and record their calls. An instance belongs to one event loop.

    It is an executor (`app.run(..., executor=tools)`) and a caller of the engine (`bind`); `tools()` returns tools for
    a Toolbox.

    Args:
        script: Behaviours by tool name: a value, a function of the arguments by name, an exception, or a step from
            `gives`, `fails`, `hangs`, `held` or `in_turn`.
        timeout: Seconds for one call.
        keys: Pass idempotency keys, as for remote tools. By default the tools are called like local ones.
        **more: More behaviours by tool name.

    Attributes:
        calls: The calls in the order in which they began.
        running: The number of calls in progress.
        peak: The largest number of calls that were in progress at once.
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
        self._releases: dict[str, int] = {}
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def __call__(self, name: str, params: Args) -> Json:
        return await self._run(name, params, None)

    def bind(self, tool_id: str) -> Bound:
        """Return a tool for the engine, with the usual checks of results.

        Args:
            tool_id: The name of the tool in the script.

        Returns:
            The tool, ready to be called.
        """

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._run(tool_id, args, key)

        route = Route(send=send, direct=None if self._keys else lambda **args: self._run(tool_id, args, None))
        return bind_route(tool_id, None, None, route, self._rules)

    def tools(self, schemas: Mapping[str, dict[str, Json]] | None = None) -> list[Tool]:
        """Return the scripted tools for a Toolbox or an App.

        Args:
            schemas: Input schemas by tool name; tools without one accept every object.

        Returns:
            A Tool for each name of the script.
        """
        return [self._tool(name, (schemas or {}).get(name)) for name in self.script]

    def count(self, name: str) -> int:
        """Return how often a tool was called.

        Args:
            name: The name of the tool.

        Returns:
            The number of calls, including unfinished ones.

        Raises:
            LookupError: The script has no such tool.
        """
        self._turns(name)
        return self._count(name)

    def _count(self, name: str) -> int:
        return sum(call.tool == name for call in self.calls)

    async def called(self, name: str, times: int = 1) -> None:
        """Wait until a tool has been called a number of times.

        Args:
            name: The name of the tool.
            times: The number of calls, including unfinished ones.

        Raises:
            LookupError: The script has no such tool.
        """
        self._turns(name)
        await self._wait_until(
            lambda: self._count(name) >= times, lambda: f"{name!r} was called {self._count(name)} of {times} times"
        )

    def release(self, name: str, calls: int = 1) -> None:
        """Release `held` calls of a tool.

        Args:
            name: The name of the tool.
            calls: How many calls to release, whether they wait already or come later.

        Raises:
            LookupError: The script has no such tool.
        """
        self._turns(name)
        self._releases[name] = self._releases.get(name, 0) + calls
        self._wake_waiters()

    def _tool(self, name: str, schema: dict[str, Json] | None) -> Tool:
        async def handler(**args: Json) -> Any:
            return await self._run(name, args, None)

        id = parse_tool_id(name)
        description = "Follows the script of a test."
        return Tool(id.name, description, schema or {"type": "object"}, None, id.namespace, id.version, handler=handler)

    def _turns(self, name: str) -> Turns:
        """Return the behaviours of a tool; raise LookupError if the script has none."""
        turns = self.script.get(name)
        if turns is None:
            suggestion = did_you_mean(name, self.script)
            near = f"; did you mean {suggestion!r}?" if suggestion else ""
            raise LookupError(f"the script has no tool {name!r}{near} (its tools: {', '.join(self.script) or 'none'})")
        return turns

    async def _run(self, name: str, args: Args, key: str | None) -> Any:
        turns = self._turns(name)
        step = turns.steps[min(self._count(name), len(turns.steps) - 1)]

        # Waiters check their conditions whenever a call begins or ends.
        call = ScriptedCall(name, fresh(args), key)
        self.calls.append(call)
        self.running += 1
        self.peak = max(self.peak, self.running)
        self._wake_waiters()
        try:
            value = await self._perform(name, step, args)
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
            self._wake_waiters()

    async def _perform(self, name: str, step: Step, args: Args) -> Any:
        if step.hang:
            await asyncio.get_running_loop().create_future()
        if step.hold:
            await self._wait_until(
                lambda: self._releases.get(name, 0) > 0,
                lambda: f"a call of {name!r} is held; release({name!r}) ends it",
            )
            self._releases[name] -= 1
        if step.after:
            await asyncio.sleep(step.after)
        if step.error is not None:
            raise _copy_of(step.error)
        return fresh(step.value) if step.make is None else await maybe_await(step.make(**args))

    async def _wait_until(self, is_met: Callable[[], bool], why: Callable[[], str]) -> None:
        while not is_met():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((is_met, future))
            try:
                await future
            except asyncio.CancelledError as error:  # mostly by the time limit of a test, which then shows the reason
                error.add_note(why())
                raise

    def _wake_waiters(self) -> None:
        # `done` is true of waiters that were cancelled.
        for waiter in [(is_met, future) for is_met, future in self._waiters if future.done() or is_met()]:
            self._waiters.remove(waiter)
            if not waiter[1].done():
                waiter[1].set_result(None)


def _step(behaviour: Any) -> Step:
    if isinstance(behaviour, Step):
        return behaviour
    if isinstance(behaviour, Turns):
        raise TypeError("in_turn is the behaviour of a tool and cannot be one of its turns")
    if isinstance(behaviour, Exception):
        return Step(error=behaviour)
    return Step(make=behaviour) if callable(behaviour) else Step(value=behaviour)


def _copy_of(error: Exception) -> Exception:
    """Copy an exception: one that has been raised keeps its traceback alive."""
    try:
        return copy.copy(error)
    except Exception:  # noqa: BLE001 - an exception class of the user that cannot be copied
        return error.with_traceback(None)


# --- timing ----------------------------------------------------------------------------------


class Shuffled:
    """Tools with shuffled timing, to test that the result of a flow does not depend on it.

    Each call yields to the event loop a random number of times before it begins and before it answers.

    Args:
        tools: An executor or a caller of the engine; Shuffled is one as well.
        seed: The seed of the random numbers.
        most: The largest number of yields at a time.
    """

    def __init__(self, tools: Any, seed: int, *, most: int = 3) -> None:
        self.inner = tools if hasattr(tools, "bind") else ExecutorCaller(tools)
        self._tools, self._random, self._max_yields = tools, random.Random(seed), most

    @property
    def version(self) -> int:
        """The version of the tools."""
        return int(self.inner.version)

    async def __call__(self, name: str, params: Args) -> Json:
        return await self._with_pauses(lambda: maybe_await(self._tools(name, params)))

    def bind(self, tool_id: str) -> Bound:
        """Return the tool of this name with shuffled timing.

        Args:
            tool_id: The id of the tool.

        Returns:
            The tool, ready to be called.
        """
        bound: Bound = self.inner.bind(tool_id)

        async def call(
            args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
        ) -> Json:
            return await self._with_pauses(lambda: bound.call(args, key, timeout, on_progress))

        direct = bound.direct
        if direct is not None:
            handler = direct.handler
            direct = replace(direct, handler=lambda **args: self._with_pauses(lambda: handler(**args)))
        return replace(bound, call=call, direct=direct)

    async def _with_pauses(self, call: Callable[[], Awaitable[Any]]) -> Any:
        await self._pause()
        try:
            return await call()
        finally:
            await self._pause()

    async def _pause(self) -> None:
        for _ in range(self._random.randint(0, self._max_yields)):
            await asyncio.sleep(0)


def interleavings(tools: Any, count: int = 20) -> Iterator[Shuffled]:
    """Yield tools with different timings; run the flow with each of them.

    Args:
        tools: An executor or a caller of the engine.
        count: The number of timings.

    Yields:
        Tools with the seeds 0, 1, 2, ...
    """
    for seed in range(count):
        yield Shuffled(tools, seed)


Work = Callable[[], Awaitable[Any]]
_STEPS_PER_RUN: Final = 10  # of each run, where many runs are measured at once
_CHAIN_TIMEOUT: Final = 600_000  # milliseconds, enough for a slow machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A measurement.

    Attributes:
        case: The kind of flow.
        where: The place of the store, such as `memory` or `sqlite`.
        steps: The number of steps in a round.
        seconds: Seconds per step, the median of the rounds.
    """

    case: str
    where: str
    steps: int
    seconds: float


async def speeds(
    store: str | None, folder: Path, sync: Literal["normal", "full"], steps: int, rounds: int
) -> list[Speed]:
    """Measure steps with plain asyncio, in memory, and on the disk or server of a store.

    Args:
        store: The address of the store; None is a file in `folder`.
        folder: The directory of the project.
        sync: The setting `sync` of the store.
        steps: The number of steps in a round.
        rounds: How often each case is repeated.

    Returns:
        The measurements, plain asyncio first.
    """
    results = [await _measure("one after another", "plain asyncio", steps, rounds, _plain_asyncio(steps))]
    results += await _measure_store("memory", "memory", sync, steps, rounds)
    if store != "memory":
        with _empty_store_near(store, folder) as (address, where):
            results += await _measure_store(address, where, sync, steps, rounds)
    return results


async def _measure_store(
    address: str, where: str, sync: Literal["normal", "full"], steps: int, rounds: int
) -> list[Speed]:
    app = App(address, tools=[step], sync=sync)
    chain, few, wide = (
        app.load(document) for document in (_chain(steps), _chain(_STEPS_PER_RUN), _chain(steps, "parallel"))
    )
    runs = max(1, steps // _STEPS_PER_RUN)

    def run(loaded: Prepared) -> Work:
        return lambda: app.execute(loaded)

    async def together() -> None:
        await asyncio.gather(*(app.execute(few) for _ in range(runs)))

    async with app:
        return [
            await _measure("one after another", where, steps, rounds, run(chain)),
            await _measure("all at once", where, steps, rounds, run(wide)),
            await _measure(f"runs of {_STEPS_PER_RUN} steps at once", where, runs * _STEPS_PER_RUN, rounds, together),
        ]


async def _measure(case: str, where: str, steps: int, rounds: int, work: Work) -> Speed:
    await work()  # not measured: compiles the flow and opens connections
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        took.append(time.perf_counter() - began)
    return Speed(case=case, where=where, steps=steps, seconds=median(took) / steps)


async def step(x: int) -> int:
    """Return the next number."""
    return x + 1


def _plain_asyncio(steps: int) -> Work:
    async def work() -> int:
        value = 0
        for _ in range(steps):
            value = await step(value)
        return value

    return work


def _chain(steps: int, mode: str = "sequential") -> dict[str, Any]:
    values = ["$prev" if i and mode == "sequential" else i for i in range(steps)]
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": x}} for i, x in enumerate(values)]
    together = {} if mode == "sequential" else {"concurrency": steps}
    return {
        "kind": "chain",
        "name": f"bench {mode}",
        "mode": mode,
        "nodes": nodes,
        "timeout": _CHAIN_TIMEOUT,
        **together,
    }


@contextmanager
def _empty_store_near(store: str | None, folder: Path) -> Iterator[tuple[str, str]]:
    """Create an empty store in the same place as another one; yield its address and the name of the place."""
    if store is not None and is_postgres(store):
        from ..journal.postgres.session import Session, parse_target

        name = f"ropewalk_bench_{os.getpid()}"
        target_database = parse_target(store)
        address = _with_schema(store, name)
        try:
            yield address, "postgres"
        finally:
            with closing(Session(target_database)) as session:
                session.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        return
    if store is not None and "://" in store and not store.startswith("sqlite:///"):
        open_store(store)  # raises an error for an unsupported address
    file = folder / DEFAULT if store is None else Path(store.removeprefix("sqlite:///"))
    folder_of_store = file.parent.resolve()  # the parents of a path with `..` are not those of the directory
    existing = next(path for path in (folder_of_store, *folder_of_store.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(prefix=".ropewalk-bench-", dir=existing) as scratch:
        yield f"sqlite:///{Path(scratch).resolve() / 'bench.db'}", "sqlite"


def _with_schema(store: str, name: str) -> str:
    """Return the address of another schema of the same database."""
    rest, _, query = store.partition("?")
    words = [word for word in query.split("&") if word and not word.startswith("schema=")]
    return f"{rest}?{'&'.join([*words, f'schema={name}'])}"
