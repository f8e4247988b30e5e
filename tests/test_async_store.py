"""A slow store holds up nobody else: every public async function leaves the event loop free while it asks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import toolchain
from ropewalk.api.composite import workflow_tools
from ropewalk.app.app import App
from ropewalk.errors import NothingToUndo
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore

HELD = 20.0  # seconds in which a loop that nothing holds comes around, however busy the machine is
ASKED = (
    "put_definition", "get_definition", "list_definitions", "delete_definition", "list_versions", "get_run",
    "list_runs", "history", "waits", "request_stop", "orphans", "send", "signals", "prune", "take_turn",
)  # fmt: skip
CHAIN = {"name": "c", "nodes": [{"id": "x", "type": "tool", "tool": "t"}]}
WAITING = {"kind": "chain", "name": "w", "nodes": [{"id": "ask", "type": "wait", "approval": "?"}]}
FAILING = {"kind": "chain", "name": "f", "nodes": [{"id": "x", "type": "tool", "tool": "bad"}]}
COMPOSITION = {"id": "k", "name": "k", "nodes": [{"id": "x", "type": "tool", "tool": "t"}]}


def slow(kind: type[Any]) -> type[Any]:
    """The kind of store, whose plain methods take a while once `slow` is set."""

    def waits(name: str) -> Callable[..., Any]:
        plain = getattr(kind, name)

        def method(self: Any, *args: Any, **more: Any) -> Any:
            if self.slow:
                self.asked.add(name)
                before, end = self.beats, time.monotonic() + HELD
                while self.beats == before and time.monotonic() < end:
                    time.sleep(0.001)
                if self.beats == before:
                    self.held.add(name)
            return plain(self, *args, **more)

        return method

    return type(f"Slow{kind.__name__}", (kind,), {**{name: waits(name) for name in ASKED}, "slow": False})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made = slow(MemoryStore)(durable=True) if request.param == "memory" else slow(SqliteStore)(tmp_path / "s.db")
    made.asked, made.held, made.beats = set(), set(), 0
    yield made
    made.slow = False
    made.close()


async def t() -> int:
    """One."""
    return 1


async def bad() -> int:
    """Fails."""
    raise RuntimeError("boom")


@contextlib.asynccontextmanager
async def beating(store: Any) -> AsyncIterator[None]:
    """Count in the store how often the loop came around: during a slow query many times, unless the query holds it."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(0)
            store.beats += 1

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()


async def undo_nothing(app: App) -> None:
    with contextlib.suppress(NothingToUndo):
        await app.runs.undo("done")


async def watch(app: App) -> None:
    async for _ in app.runs.watch("done"):
        pass


async def stopped(app: App) -> None:
    """The details of a run that was stopped while it waited without a process: its definition is run once more."""
    await app.chains.get_execution_details("stopped")


async def ended(app: App) -> None:
    row = await asyncio.to_thread(app.store.get_run, "stopped")
    assert row is not None
    await app.runs.ended(row)


CALLS: dict[str, Callable[[App], Awaitable[Any]]] = {
    "app.run": lambda app: app.run("c"),
    "app.validate": lambda app: app.validate("c"),
    "app.preview": lambda app: app.preview("c"),
    "chains.create_chain": lambda app: app.chains.create_chain({**CHAIN, "id": "c2"}),
    "chains.execute_chain": lambda app: app.chains.execute_chain("c"),
    "chains.get_chain": lambda app: app.chains.get_chain("c"),
    "chains.list_chains": lambda app: app.chains.list_chains(),
    "chains.delete_chain": lambda app: app.chains.delete_chain("c"),
    "chains.get_execution_status": lambda app: app.chains.get_execution_status("done"),
    "chains.get_execution_details": stopped,
    "chains.list_executions": lambda app: app.chains.list_executions(),
    "chains.stop_execution": lambda app: app.chains.stop_execution("waiting"),
    "chains.clone_chain": lambda app: app.chains.clone_chain("c", {"name": "d"}),
    "chains.export_chain": lambda app: app.chains.export_chain("c"),
    "chains.import_chain": lambda app: app.chains.import_chain(CHAIN),
    "compositions.create_composition": lambda app: app.compositions.create_composition({**COMPOSITION, "id": "k2"}),
    "compositions.execute_composition": lambda app: app.compositions.execute_composition("k"),
    "compositions.get_composition": lambda app: app.compositions.get_composition("k"),
    "compositions.list_compositions": lambda app: app.compositions.list_compositions(),
    "compositions.delete_composition": lambda app: app.compositions.delete_composition("k"),
    "compositions.compose_tools": lambda app: app.compositions.compose_tools(["t"], {"name": "n"}),
    "compositions.create_validation_chain": lambda app: app.compositions.create_validation_chain(
        [{"schema": {"type": "object"}}]
    ),
    "compositions.create_transform_pipeline": lambda app: app.compositions.create_transform_pipeline(
        [{"type": "SORT", "config": {}}]
    ),
    "runs.arguments": lambda app: app.runs.arguments("done"),
    "runs.retry": lambda app: app.runs.retry("done", ["x"]),
    "runs.undo": undo_nothing,
    "runs.fork": lambda app: app.runs.fork("done"),
    "runs.watch": watch,
    "runs.ended": ended,
    "resume": lambda app: app.resume("failed"),
    "toolchain.execute_chain": lambda app: toolchain.execute_chain("c"),
    "toolchain.execute_composition": lambda app: toolchain.execute_composition("k"),
}


def workflow(tool: str, /, **arguments: Any) -> Callable[[App], Awaitable[Any]]:
    """A call of one of the tools with which an agent makes and runs workflows."""

    async def call(app: App) -> None:
        tools = {each.name: each for each in workflow_tools(app, allow=["t"], session="mine")}
        await tools[tool].handler(**arguments)  # type: ignore[misc]

    return call


STEPS = [{"tool": "t"}]
CALLS |= {
    "workflow_tools.create_workflow": workflow("create_workflow", name="new", steps=STEPS),
    "workflow_tools.run_workflow": workflow("run_workflow", name="w", input={}),
    "workflow_tools.list_workflows": workflow("list_workflows"),
}


def public() -> set[str]:
    """Every public coroutine function, or async generator, of these."""
    app = App("memory")
    found = set()
    for name, what in (("chains", app.chains), ("compositions", app.compositions), ("runs", app.runs)):
        for attribute in dir(what):
            value = getattr(what, attribute)
            if attribute[0] != "_" and (inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)):
                found.add(f"{name}.{attribute}")
    found |= {
        f"toolchain.{name}" for name in toolchain.__all__ if inspect.iscoroutinefunction(getattr(toolchain, name))
    }
    return found


def test_every_public_async_function_is_watched() -> None:
    assert public() <= set(CALLS)
    assert {"runs.retry", "runs.fork", "runs.undo", "runs.arguments", "runs.watch"} <= public()


@pytest.mark.parametrize("what", CALLS)
def test_a_slow_store_holds_up_nobody_else(store: Store, what: str) -> None:
    async def test() -> None:
        app = App(store, tools=[t, bad])
        toolchain.configure(app)
        await app.chains.create_chain({**CHAIN, "id": "c"})
        await app.compositions.create_composition(COMPOSITION)
        await app.run({"kind": "chain", **CHAIN}, run_id="done")
        await app.run(FAILING, run_id="failed")
        for name in ("waiting", "stopped"):
            await app.run(WAITING, run_id=name, park=True)
        app.runs.stop("stopped")
        await workflow("create_workflow", name="w", steps=STEPS)(app)
        slowed: Any = store
        async with beating(slowed):
            slowed.slow = True
            await CALLS[what](app)
            slowed.slow = False
        assert not slowed.held, "these queries held the loop"
        assert slowed.asked, "the store was asked"

    asyncio.run(test())
