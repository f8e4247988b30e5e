"""Stored chains and compositions have the same functions in `toolchain`, on the app, and on every store."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from postgres_server import fresh
from ropewalk import App, toolchain
from ropewalk.errors import RopewalkError
from ropewalk.journal.memory import MemoryStore

CHAIN = {"name": "c", "nodes": [{"id": "x", "type": "tool", "tool": "t"}]}
COMPOSITION = {"name": "k", "nodes": [{"id": "x", "type": "tool", "tool": "t"}]}
WAIT = {"id": "ask", "type": "wait", "approval": "?"}
CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "create_chain": [(({**CHAIN, "id": "new"},), {}), (({},), {"id": "c", "nodes": "wrong"}), ((7,), {})],
    "get_chain": [(("c",), {}), ((), {"chain_id": "c"}), (("no",), {}), (("\ud800",), {})],
    "list_chains": [((), {})],
    "clone_chain": [(("c",), {"id": "copy"}), (("c", {"id": "c"}), {}), (("no",), {})],
    "export_chain": [(("c",), {}), ((), {"chain_id": "no"})],
    "import_chain": [((b"[]",), {}), ((), {"json": "{"})],
    "execute_chain": [(("c",), {"context": {"executionId": "again"}}), (("no",), {}), (("c", {"x": 1}), {})],
    "get_execution_status": [(("done",), {}), ((), {"execution_id": "no"})],
    "get_execution_details": [(("done",), {}), (("stopped",), {}), ((), {"execution_id": "no"})],
    "list_executions": [((), {}), (("c",), {"limit": 1}), ((), {"chain_id": "no"}), ((), {"limit": -1})],
    "stop_execution": [(("done",), {}), (("no",), {}), ((), {"execution_id": "waiting"})],
    "delete_chain": [(("c",), {}), ((), {"chain_id": "c"})],
    "create_composition": [(({**COMPOSITION, "id": "new"},), {}), ((), {"nodes": []})],
    "get_composition": [(("k",), {}), ((), {"composition_id": "no"})],
    "list_compositions": [((), {})],
    "execute_composition": [(("k",), {"input": 1, "execution_id": "other"}), (("no",), {}), (("k",), {"variables": 1})],
    "compose_tools": [((["t", "t"], {"id": "two"}), {}), (("t",), {})],
    "create_validation_chain": [(([{"schema": {}}],), {"id": "v"}), ((7,), {})],
    "create_transform_pipeline": [(([{"type": "SORT", "config": {}}],), {"id": "p"}), (([],), {})],
    "delete_composition": [(("k",), {}), ((), {"composition_id": "k"})],
}
"""Of every function calls that succeed and calls that fail; the order matters."""


async def t() -> int:
    """One."""
    return 1


def face_of(app: App, name: str) -> Any:
    return app.chains if hasattr(app.chains, name) else app.compositions


def told(outcome: Any) -> Any:
    """What two calls must agree on: everything but moments."""
    if isinstance(outcome, Mapping):
        moments = ("created", "startTime", "endTime", "duration", "events", "nodes", "at")
        return type(outcome), {key: told(value) for key, value in outcome.items() if key not in moments}
    if isinstance(outcome, str) and outcome.startswith("{"):
        return told(json.loads(outcome))
    return [told(item) for item in outcome] if isinstance(outcome, list) else outcome


async def calls(app: App, find: Callable[[str], Any]) -> list[Any]:
    """The outcome of every call by one face."""
    outcomes = []
    for name, arguments in CALLS.items():
        for args, more in arguments:
            try:
                outcome = find(name)(*args, **more)
                outcome = told(await outcome if inspect.isawaitable(outcome) else outcome)
            except RopewalkError as error:
                outcome = type(error), str(error)
            outcomes.append((name, args, outcome))
    return outcomes


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def addresses(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Makes the address of a new, empty store."""
    if request.param == "memory":
        yield lambda: MemoryStore(durable=True)
    elif request.param == "sqlite":
        numbers = iter(range(9))
        yield lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    else:
        url = os.environ.get("ROPEWALK_TEST_POSTGRES") or request.getfixturevalue("postgres_server").url
        with ExitStack() as databases:
            yield lambda: databases.enter_context(contextmanager(fresh)(url))


def test_every_face_gives_the_same_on_every_store(addresses: Callable[[], Any]) -> None:
    async def prepared(address: Any) -> App:
        app = App(address, tools=[t])
        await app.chains.create_chain({**CHAIN, "id": "c"})
        await app.compositions.create_composition({**COMPOSITION, "id": "k"})
        await app.chains.execute_chain("c", {"executionId": "done"})
        for run_id in ("stopped", "waiting"):
            await app.run(waiting_chain(), run_id=run_id, park=True)
        app.runs.stop("stopped")
        return app

    async def test() -> None:
        seen = []
        for face in ("app", "core", "toolchain"):
            async with await prepared(addresses()) as app:
                toolchain.configure(app)
                finds: dict[str, Callable[[str], Any]] = {
                    "app": lambda name, app=app: getattr(face_of(app, name), name),  # type: ignore[misc]
                    "core": lambda name, app=app: getattr(face_of(app, name).core, name),  # type: ignore[misc]
                    "toolchain": lambda name: getattr(toolchain, name),
                }
                seen.append(await calls(app, finds[face]))
        for one, *others in zip(*seen, strict=True):
            for other in others:
                assert other == one

    asyncio.run(asyncio.wait_for(test(), 100))


def test_every_face_has_every_function_with_the_same_signature() -> None:
    app = App("memory")
    listed = {name for name in toolchain.__all__ if name in CALLS}
    assert listed == set(CALLS)
    for name in CALLS:
        face = face_of(app, name)
        plain, bound, core = (getattr(where, name) for where in (toolchain, face, face.core))
        executes = name.startswith("execute_")
        expected = [p for p in inspect.signature(core).parameters.values() if p.name != "on_event"]
        for call in (plain, bound):
            found = inspect.signature(call)
            assert [p for p in found.parameters.values() if p.name != "on_event"] == expected, name
            assert found.return_annotation == inspect.signature(core).return_annotation
            assert typing.get_type_hints(call)["return"]
            assert (call.__name__, call.__doc__ is not None) == (name, True)
        assert inspect.iscoroutinefunction(bound)
        assert inspect.iscoroutinefunction(plain) == executes
        assert (plain.__module__, plain.__qualname__) == ("ropewalk.toolchain", name)
    public = {name for face in (app.chains, app.compositions) for name in dir(face) if name[0] != "_"}
    assert public == {*CALLS, "core"}, "every function of a face is in the matrix"


def waiting_chain() -> dict[str, Any]:
    return {"kind": "chain", "name": "w", "nodes": [*CHAIN["nodes"], WAIT]}


async def details(app: App) -> Any:
    return await app.chains.get_execution_details("r")


async def ended(app: App) -> Any:
    row = app.store.get_run("r")
    assert row is not None
    return await app.runs.ended(row)


@pytest.mark.parametrize("ask", [details, ended])
def test_the_result_of_a_stopped_run_starts_no_thread(ask: Callable[[App], Awaitable[Any]]) -> None:
    """It is found by a replay, which runs on the caller's event loop."""
    started: list[str] = []

    async def test() -> None:
        app = App(MemoryStore(durable=True), tools=[t])
        await app.run(waiting_chain(), run_id="r", park=True)
        app.runs.stop("r")
        threading.setprofile(lambda *_: started.append(threading.current_thread().name))
        try:
            assert (await ask(app))["results"] == {"x": 1}
        finally:
            threading.setprofile(None)

    asyncio.run(test())
    assert started == []


def test_plain_functions_leave_the_loop_of_their_thread_alone() -> None:
    """The details of a stopped run are found on a loop of their own, which replaces none that the caller set."""
    app = App(MemoryStore(durable=True), tools=[t])
    toolchain.configure(app)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(app.run(waiting_chain(), run_id="r", park=True))
        assert toolchain.stop_execution("r")
        details = toolchain.get_execution_details("r")
        assert details is not None
        assert details.results == {"x": 1}
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()
