"""`ropewalk.toolchain`: plain functions over a default app, across event loops and processes."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chains.scripted import ScriptedTools
from ropewalk import toolchain
from ropewalk.app.app import App

FUNCTIONS = [
    "create_chain", "execute_chain", "get_chain", "list_chains", "delete_chain", "get_execution_status",
    "get_execution_details", "list_executions", "stop_execution", "clone_chain", "export_chain", "import_chain",
]  # fmt: skip
A = {"id": "a", "type": "tool", "tool": "t", "params": {"x": "$input"}}


@pytest.fixture
def app(address: str) -> Iterator[App]:
    """The default app, on each store, and the one before put back."""
    before = toolchain._app
    yield toolchain.configure(App(address))
    asyncio.run(toolchain.default_app().close())
    toolchain._app = before


def test_all_documented_functions_are_there_in_both_places() -> None:
    """CHAIN-FN-1 CHAIN-FN-2 CHAIN-FN-3"""
    chains = App("memory").chains
    for name in FUNCTIONS:
        assert inspect.iscoroutinefunction(getattr(toolchain, name)) is (name == "execute_chain"), name
        assert inspect.iscoroutinefunction(getattr(chains, name)), name
        ours = inspect.signature(getattr(toolchain, name)).parameters
        theirs = inspect.signature(getattr(chains, name)).parameters
        assert [n for n in theirs if n in ours] == list(ours), name


def test_plain_functions_read_their_own_writes(app: App) -> None:
    """CHAIN-FN-4 CHAIN-FN-2"""
    made = toolchain.create_chain({"id": "c", "name": "n", "nodes": [A]})
    assert toolchain.get_chain("c") == made
    assert [one.id for one in toolchain.list_chains()] == ["c"]
    result = asyncio.run(toolchain.execute_chain("c", {"input": 1}, ScriptedTools({"t": {"echo": True}})))
    assert result.results == {"a": {"x": 1}}
    assert toolchain.get_execution_status(result.execution_id).status == "completed"
    assert toolchain.get_execution_details(result.execution_id).results == result.results
    assert [one.id for one in toolchain.list_executions("c")] == [result.execution_id]
    assert [one.id for one in toolchain.list_executions()] == [result.execution_id]
    assert toolchain.stop_execution(result.execution_id) is False
    assert toolchain.clone_chain("c", name="m").name == "m"
    assert toolchain.import_chain(toolchain.export_chain("c")).name == "n"
    assert toolchain.delete_chain("c") is True
    assert toolchain.get_chain("c") is None
    assert toolchain.get_execution_details(result.execution_id).results == result.results


def test_one_event_loop_after_another(app: App) -> None:
    """CHAIN-FN-7"""
    toolchain.create_chain(id="c", nodes=[A, {"id": "d", "type": "delay", "delay": 2}])
    for i in range(3):
        tools = ScriptedTools({"t": {"echo": True}})
        assert asyncio.run(toolchain.execute_chain("c", {"input": i}, tools)).results["a"] == {"x": i}
    assert len(toolchain.list_executions("c")) == 3


def test_two_event_loops_at_once(app: App) -> None:
    """CHAIN-FN-7"""
    toolchain.create_chain(id="c", nodes=[{"id": "d", "type": "delay", "delay": 5}, A])
    found: dict[int, Any] = {}

    def execute(i: int) -> None:
        tools = ScriptedTools({"t": {"echo": True, "delay": 1}})
        found[i] = asyncio.run(toolchain.execute_chain("c", {"input": i}, tools)).results["a"]

    threads = [threading.Thread(target=execute, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert found == {i: {"x": i} for i in range(4)}


def test_the_same_id_in_two_event_loops_runs_once(app: App) -> None:
    """CHAIN-FN-7 DUR-5"""
    toolchain.create_chain(id="c", nodes=[A])
    began, go = threading.Event(), threading.Event()
    calls: list[str] = []

    async def slow(name: str, params: dict[str, Any]) -> Any:
        calls.append(name)
        began.set()
        await asyncio.to_thread(go.wait)
        return 1

    found: list[Any] = []

    def execute() -> None:
        found.append(asyncio.run(toolchain.execute_chain("c", {"executionId": "e"}, slow)))

    first, second = threading.Thread(target=execute), threading.Thread(target=execute)
    first.start()
    assert began.wait(50)
    second.start()
    go.set()
    first.join(50)
    second.join(50)
    assert len(calls) == 1
    assert [one.results for one in found] == [{"a": 1}] * 2


def test_stopping_from_another_thread(app: App) -> None:
    """CHAIN-FN-5 CHAIN-EXEC-8"""
    toolchain.create_chain(id="c", nodes=[A])
    began = threading.Event()

    async def hang(name: str, params: dict[str, Any]) -> Any:
        began.set()
        await asyncio.Event().wait()

    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(asyncio.run(toolchain.execute_chain("c", {"executionId": "e"}, hang)))
    )
    thread.start()
    assert began.wait(50)
    assert toolchain.stop_execution("e") is True
    assert toolchain.get_execution_status("e").status == "stopped"
    thread.join(50)
    assert found[0].status == "stopped"


def test_the_default_app_is_made_at_the_first_call_in_the_directory_of_then(tmp_path: Path) -> None:
    """CHAIN-FN-6"""
    code = """
        import os, sys
        from ropewalk import toolchain
        os.chdir(sys.argv[1])
        assert not os.path.exists(".ropewalk")
        print(len(toolchain.list_chains()))
        os.mkdir("elsewhere"); os.chdir("elsewhere")
        toolchain.create_chain(id="c", nodes=[{"id": "a", "type": "delay", "delay": 0}])
        print(os.path.exists(".ropewalk"), os.path.exists("../.ropewalk/ropewalk.db"))
    """
    words = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (done.stdout.split(), done.stderr) == (["0", "False", "True"], "")
    again = "from ropewalk import toolchain; print([c.id for c in toolchain.list_chains()])"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert (done.stdout.strip(), done.stderr) == ("['c']", "")
