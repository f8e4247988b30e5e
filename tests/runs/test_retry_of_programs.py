"""A retry of a program calls what failed again, and nothing that succeeded; a program that failed by itself stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ropewalk.notations.plan.program import PlanTool

from ropewalk import App
from ropewalk.codec import flow_to_json
from ropewalk.errors import NothingToRetry
from ropewalk.notations.plan.flow import program_flow
from ropewalk.testing import ScriptedTools, fails, in_turn

TOOLS = {name: PlanTool(id=name, parameters=("n",)) for name in ("pay", "check", "last")}

PROGRAMS = {
    "one after another": "await pay(1)\nx = await check(2)\nawait pay(3)\nreturn x",
    "at the same time": "import asyncio\na, x, b = await asyncio.gather(pay(1), check(2), pay(3))\nreturn x",
    "raised again": (
        "await pay(1)\ntry:\n    x = await check(2)\nexcept ToolError as e:\n    raise ValueError('no') from e\n"
        "await pay(3)\nreturn x"
    ),
    "in a function": "async def f(n):\n    return await check(n)\nawait pay(1)\nx = await f(2)\nawait pay(3)\nreturn x",
}


def document(text: str, contained: bool) -> Any:
    return flow_to_json(program_flow("f", text, TOOLS, (), contained=contained))


def calls(tools: ScriptedTools) -> list[tuple[str, Any]]:
    return [(call.tool, call.args["n"]) for call in tools.calls]


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
async def test_what_failed_is_called_again_and_nothing_else(name: str, contained: bool, tmp_path: Path) -> None:
    tools = ScriptedTools(pay=lambda n: n, check=in_turn(fails("busy"), 7))
    async with App(tmp_path / "s.db") as app:
        failed = await app.run(document(PROGRAMS[name], contained), executor=tools, run_id="r")
        assert failed["status"] == "failed"
        before = calls(tools)
        done = await app.runs.retry("r", executor=tools)
        assert (done["status"], calls(tools).count(("check", 2))) == ("completed", 2)
        assert sorted(set(calls(tools))) == [("check", 2), ("pay", 1), ("pay", 3)]
        assert [call for call in calls(tools)[len(before) :] if call in before] == [("check", 2)]


@pytest.mark.parametrize("contained", [False, True])
async def test_a_failure_that_the_program_handled_is_not_called_again(contained: bool, tmp_path: Path) -> None:
    text = "try:\n    await check(1)\nexcept ToolError:\n    await pay(2)\nreturn await last(3)"
    tools = ScriptedTools(pay=lambda n: n, check=fails("busy"), last=in_turn(fails("no"), 9))
    async with App(tmp_path / "s.db") as app:
        failed = await app.run(document(text, contained), executor=tools, run_id="r")
        assert failed["status"] == "failed"
        done = await app.runs.retry("r", executor=tools)
        assert done["status"] == "completed"
        assert calls(tools) == [("check", 1), ("pay", 2), ("last", 3), ("last", 3)]


async def test_a_program_that_failed_by_itself_is_not_retried(tmp_path: Path) -> None:
    text = "try:\n    await check(1)\nexcept ToolError:\n    pass\nawait pay(2)\nreturn [][0]"
    tools = ScriptedTools(pay=lambda n: n, check=fails("busy"))
    async with App(tmp_path / "s.db") as app:
        failed = await app.run(document(text, False), executor=tools, run_id="r")
        assert failed["status"] == "failed"
        with pytest.raises(NothingToRetry, match="the failure is its own program's \\(IndexError, line 6\\)"):
            await app.runs.retry("r", executor=tools)
        assert calls(tools) == [("check", 1), ("pay", 2)]


async def test_a_retry_after_a_retry_keeps_what_succeeded_in_between(tmp_path: Path) -> None:
    text = "await pay(1)\nawait check(2)\nawait pay(3)\nawait check(4)\nreturn await last(5)"
    tools = ScriptedTools(pay=lambda n: n, check=in_turn(fails("a"), 0, fails("b"), 0), last=in_turn(fails("c"), 1))
    async with App(tmp_path / "s.db") as app:
        status = (await app.run(document(text, False), executor=tools, run_id="r"))["status"]
        for _ in range(3):
            assert status == "failed"
            await asyncio.sleep(0)
            status = (await app.runs.retry("r", executor=tools))["status"]
    assert status == "completed"
    assert sorted(calls(tools)) == sorted(
        [("pay", 1), ("check", 2), ("check", 2), ("pay", 3), ("check", 4), ("check", 4), ("last", 5), ("last", 5)]
    )
