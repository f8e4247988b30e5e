"""Chains over processes on one SQLite file: restarts, kill -9, stopping from elsewhere, the same id twice."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chains.conftest import Start, line, run
from chains.scripted import ScriptedTools
from patience import wait_until
from properties.virtual_time import later
from ropewalk.app.app import App
from ropewalk.errors import RopewalkError

pytestmark = pytest.mark.process


def chain(*nodes: dict[str, Any], **more: Any) -> str:
    return json.dumps({"id": "c", "nodes": nodes, **more})


def tool(id: str, name: str = "echo", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": name, **more}


def until(process: Any, word: str) -> list[str]:
    """Everything a child says up to a line that begins with `word`."""
    said = []
    while True:
        said.append(line(process))
        assert said[-1] != "", f"the child ended: {said}"
        if said[-1].startswith(word):
            return said


def ended(process: Any) -> tuple[dict[str, Any], list[str]]:
    """The result of a child, and its calls."""
    *calls, last = until(process, "ended")
    return json.loads(last.removeprefix("ended ")), calls


def test_chains_and_executions_survive_a_restart(child: Start, file: str) -> None:
    """CHAIN-FN-10"""
    first = child("start", file, chain(tool("a", params={"x": 1}), name="kept"), "e")
    result, _ = ended(first)
    first.wait(10)
    found = json.loads(line(child("look", file, "c")))
    assert found["chain"]["name"] == "kept"
    assert found["chain"]["metadata"]["runCount"] == 1
    [details] = found["details"]
    assert (details["id"], details["status"], details["results"]) == ("e", "completed", result["results"])
    again, calls = ended(child("again", file, "c", "e"))
    assert (again, calls) == (result, [])


def test_a_killed_execution_goes_on_from_what_is_recorded(child: Start, file: str) -> None:
    """DUR-1 DUR-2 CHAIN-EXEC-15"""
    nodes = [
        tool("a", params={"x": 1}, outputVar="v"),
        tool("b", "hang"),
        tool("c", params={"v": "$var.v", "a": "$output.a"}),
    ]
    first = child("start", file, chain(*nodes), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            assert (await app.chains.get_execution_status("e")).status == "running"
            tools = ScriptedTools({"hang": {"gives": 2}, "echo": {"echo": True}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert result.status == "completed"
            assert result.results == {"a": {"x": 1}, "b": 2, "c": {"v": {"x": 1}, "a": {"x": 1}}}
            assert tools.calls == [("hang", {}), ("echo", {"v": {"x": 1}, "a": {"x": 1}})]

    run(body())


@pytest.mark.parametrize("mode", ["parallel", "dag", "loop"])
def test_a_killed_execution_goes_on_in_every_mode(child: Start, file: str, mode: str) -> None:
    """DUR-1 DUR-2"""
    nodes = [tool("a", params={"x": "$input"}), tool("b", params={"x": 2}), tool("h", "hang")]
    more = {"maxIterations": 1} if mode == "loop" else {"concurrency": 1}
    first = child("start", file, chain(*nodes, mode=mode, **more), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            tools = ScriptedTools({"hang": {"gives": 3}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert result.results == {"a": {"x": None}, "b": {"x": 2}, "h": 3}
            assert tools.calls == [("hang", {})]

    run(body())


def test_rounds_that_are_recorded_are_not_run_again(child: Start, file: str) -> None:
    """DUR-1"""
    body_ = [tool("a", params={"i": "$item"}), tool("h", "hang", condition="$item == 2")]
    first = child("start", file, chain({"id": "l", "type": "loop", "items": [1, 2, 3], "nodes": body_}), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            tools = ScriptedTools({"hang": {"gives": "h"}, "echo": {"echo": True}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert result.results == {"l": [None, "h", None]}
            assert tools.calls == [("hang", {}), ("echo", {"i": 3})]

    run(body())


def test_tries_that_are_recorded_are_counted(child: Start, file: str) -> None:
    """DUR-7"""
    first = child("start", file, chain(tool("b", "bad", errorStrategy="retry", maxRetries=2, retryDelay=600)), "e")
    until(first, "call bad")
    until(first, "call bad")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            tools = ScriptedTools({"bad": {"fails": "still broken"}})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            # The second try may have been interrupted before it was recorded; then it runs once more.
            assert tools.count("bad") in (1, 2)
            [error] = result.errors
            assert (error["path"], error["message"], error["attempts"]) == ("b@3", "still broken", 3)

    run(body())


def test_a_delay_waits_only_what_is_left(child: Start, file: str) -> None:
    """DUR-4 CHAIN-TYPE-7"""
    nodes = [tool("a"), {"id": "d", "type": "delay", "delay": 3_600_000}, tool("z")]
    first = child("start", file, chain(*nodes), "e")
    until(first, "call echo")

    async def body() -> None:
        async with App(file) as app:
            wait_until(lambda: any(entry.kind == "timer" for entry in app.store.history("e")))
            first.kill()
            first.wait()
            tools = ScriptedTools({"echo": {"echo": True}})
            with later(3600):  # it goes on while nobody runs it
                result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert result.status == "completed"
            assert tools.count("echo") == 1

    run(body())


def test_downtime_does_not_count_against_the_timeout(child: Start, file: str) -> None:
    """CHAIN-CONFIG-4"""
    first = child("start", file, chain(tool("a"), tool("h", "hang"), timeout=60_000), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            tools = ScriptedTools({"hang": {"gives": 1}})
            with later(3600):
                result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            assert result.status == "completed"

    run(body())


def test_stopping_reaches_another_process_soon(child: Start, file: str) -> None:
    """DUR-3 CHAIN-EXEC-8"""
    owner = child("start", file, chain(tool("a"), tool("h", "hang")), "e")
    until(owner, "call hang")

    async def body() -> None:
        async with App(file) as app:
            assert (await app.chains.get_execution_status("e")).status == "running"
            assert await app.chains.stop_execution("e") is True
            assert (await app.chains.get_execution_status("e")).status == "stopped"
            until(owner, "cancelled hang")
            result, _ = ended(owner)
            assert (result["status"], result["results"]) == ("stopped", {"a": {}})
            assert await app.chains.stop_execution("e") is False
            assert (await app.chains.get_execution_details("e")).results == {"a": {}}

    run(body())


def test_an_execution_that_was_stopped_while_nobody_ran_it_stays_stopped(child: Start, file: str) -> None:
    """CHAIN-EXEC-8"""
    first = child("start", file, chain(tool("a"), tool("h", "hang")), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    async def body() -> None:
        async with App(file) as app:
            assert await app.chains.stop_execution("e") is True
            result = await app.chains.execute_chain("c", {"executionId": "e"}, ScriptedTools({}))
            assert (result.status, result.success, result.chain_id) == ("stopped", False, "c")
            assert result.errors[0]["kind"] == "RunStopped"
            assert (await app.chains.get_execution_status("e")).status == "stopped"

    run(body())


def test_the_same_id_in_two_processes_runs_once(child: Start, file: str) -> None:
    """DUR-5 CHAIN-EXEC-15"""

    async def body() -> None:
        async with App(file) as app:
            nodes = [{"id": "d", "type": "delay", "delay": 300}, tool("a", params={"x": 1})]
            owner = child("start", file, chain(*nodes), "e")
            while await app.chains.get_execution_status("e") is None:  # noqa: ASYNC110 - another process starts it
                await asyncio.sleep(0)
            tools = ScriptedTools({})
            result = await app.chains.execute_chain("c", {"executionId": "e"}, tools)
            theirs, calls = ended(owner)
            assert (result, tools.calls, len(calls)) == (theirs, [], 1)

    run(body())


def test_a_run_with_an_executor_of_its_own_resumes_only_where_it_is_given(child: Start, file: str) -> None:
    """CHAIN-EXEC-12"""
    first = child("start", file, chain(tool("a"), tool("h", "hang")), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    def hang() -> int:
        return 0

    async def body() -> None:
        async with App(file, tools=[hang]) as app:
            with pytest.raises(RopewalkError, match="its own tool executor"):
                await app.resume("e")
            assert (await app.chains.get_execution_status("e")).status == "running"
            outcome = await app.resume("e", executor=ScriptedTools({"hang": {"gives": 1}}))
            assert (outcome.status, outcome.results["h"]) == ("completed", 1)

    run(body())


def test_execute_chain_without_the_executor_it_began_with_is_refused_too(child: Start, file: str) -> None:
    """CHAIN-EXEC-12"""
    first = child("start", file, chain(tool("h", "hang")), "e")
    until(first, "call hang")
    first.kill()
    first.wait()

    def hang() -> int:
        return 0

    async def body() -> None:
        async with App(file, tools=[hang]) as app:
            with pytest.raises(RopewalkError, match="its own tool executor"):
                await app.chains.execute_chain("c", {"executionId": "e"})

    run(body())
