"""A run whose process is gone says so, and only the servers a flow names are connected."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from patience import BOUND
from ropewalk import tool
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow, JournalConflict
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.tools.toolbox import Toolbox

pytestmark = pytest.mark.process

HOLD = """
import asyncio, sys
from ropewalk.app.app import App

async def hang(name, params):
    print("started", flush=True)
    await asyncio.Event().wait()

async def main():
    app = App(sys.argv[1])
    await app.chains.create_chain(id="c", nodes=[{"id": "a", "type": "tool", "tool": "t"}])
    await app.chains.execute_chain("c", {"executionId": "e"}, hang)

asyncio.run(main())
"""


def test_a_run_whose_process_was_killed_is_called_interrupted_and_watching_it_ends(tmp_path: Path) -> None:
    async def body() -> None:
        file = str(tmp_path / "runs.db")
        with subprocess.Popen([sys.executable, "-c", HOLD, file], stdout=subprocess.PIPE, text=True) as child:  # noqa: ASYNC220 - nothing else runs here
            assert child.stdout is not None
            assert child.stdout.readline() == "started\n"
            async with App(file) as app:
                assert app.runs.interrupted() == set()
                child.kill()
                child.wait()
                assert app.runs.interrupted() == {"e"}
                details = app.runs.get("e")
                assert details is not None
                assert (details["status"], details["interrupted"]) == ("running", True)
                assert [event.kind async for event in app.runs.watch("e")] == ["run.interrupted"]

    asyncio.run(body())


@pytest.mark.parametrize("place", ["memory", "runs.db"])
def test_a_run_whose_event_loop_was_closed_goes_on_in_another(tmp_path: Path, place: str) -> None:
    """As after Ctrl-C in a program that closes its loop and cancels nothing."""
    calls: list[str] = []
    held = asyncio.Event()

    @tool
    async def step(name: str) -> str:
        """Says its name; the first time, `second` never does."""
        calls.append(name)
        if calls == ["first", "second"]:
            held.set()
            await asyncio.Event().wait()
        return name

    nodes = [{"id": name, "type": "tool", "tool": "step", "params": {"name": name}} for name in ("first", "second")]
    # A run of a closed loop is found with the beats of the lease.
    store = "memory" if place == "memory" else SqliteStore(tmp_path / place, lease=0.3)
    app = App(store, tools=[step])

    async def begin() -> None:
        begun = asyncio.create_task(app.run({"kind": "chain", "nodes": nodes}, run_id="e"))
        await asyncio.wait({begun, asyncio.create_task(held.wait())}, return_when=asyncio.FIRST_COMPLETED)

    async def go_on() -> None:
        async with app, asyncio.timeout(BOUND):
            result = await app.run({"kind": "chain", "nodes": nodes}, run_id="e")
            assert (result["status"], result["results"]) == ("completed", {"first": "first", "second": "second"})
            gc.collect()  # what the closed loop had is thrown away, and ends nothing that goes on
            assert app.runs.interrupted() == set()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    asyncio.run(go_on())
    assert calls == (["first", "second"] * 2 if place == "memory" else ["first", "second", "second"])


def test_only_the_servers_that_a_flow_names_are_connected() -> None:
    async def body() -> None:
        silent = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
        missing = {"command": "no-such-program-anywhere"}
        async with App("memory", toolbox=Toolbox(mcp={"silent": silent, "missing": missing})) as app:
            with pytest.raises(InvalidFlow, match="tool 'missing:x': MCP server 'missing': no program"):
                await app.run({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "missing:x"}]})

    asyncio.run(body())


def test_an_id_that_a_run_of_another_definition_has_is_refused() -> None:
    async def body() -> None:
        async def answer(name: str, params: object) -> str:
            return name

        async with App("memory") as app:
            one, other = ({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": t}]} for t in ("x", "y"))
            first = await app.run(one, run_id="r", executor=answer)
            assert (await app.run(one, run_id="r", executor=answer)).results == first.results == {"a": "x"}
            with pytest.raises(JournalConflict, match="another definition"):
                await app.run(other, run_id="r", executor=answer)

    asyncio.run(body())
