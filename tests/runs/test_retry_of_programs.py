"""A retry of a program calls what failed again, and nothing that succeeded; a program that failed by itself stays."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.errors import NotFound, NothingToRetry, StoreError
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import DyingStore, ScriptedTools, fails, in_turn

TOOLS = {name: {"id": name, "parameters": ["n"], "required": ["n"]} for name in ("pay", "check", "last")}

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
    plan = {"kind": "plan", "name": "f", "code": text, "tools": TOOLS}
    return {**plan, "origin": "model"} if contained else plan


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


@pytest.mark.parametrize("contained", [False, True])
async def test_a_step_finds_its_result_also_if_an_earlier_call_was_the_same(contained: bool, tmp_path: Path) -> None:
    text = "await pay(1)\ntry:\n    await check(2)\nexcept ToolError:\n    await pay(1)\n    raise"
    tools = ScriptedTools(pay=lambda n: n, check=fails("busy"))
    async with App(tmp_path / "s.db") as app:
        await app.run(document(text, contained), executor=tools, run_id="r")
        for _ in range(2):
            assert (await app.runs.retry("r", executor=tools))["status"] == "failed"
    assert calls(tools) == [("pay", 1), ("check", 2), ("pay", 1), ("check", 2), ("check", 2)]


WORKERS = """
import asyncio
items, failures = [1, 2, 3], []
async def worker():
    while items:
        n = items.pop(0)
        try:
            await order(n)
        except ToolError as failure:
            failures.append(failure)
await asyncio.gather(worker(), worker())
if failures:
    raise failures[0]
return "done"
"""


class Orders:
    """A tool with an undo, whose calls fail as often as the test wants."""

    def __init__(self, failures: dict[int, int]) -> None:
        self.failures, self.book = failures, list[str]()

    def tools(self) -> list[Any]:
        @tool
        async def cancel(id: int) -> int:
            """Cancel an order."""
            self.book.append(f"cancel {id}")
            return id

        @tool(undo=cancel)
        async def order(n: int) -> dict[str, int]:
            """Order something."""
            if self.failures.get(n, 0):
                self.failures[n] -= 1
                raise ValueError("sold out")
            self.book.append(f"order {n}")
            return {"id": n}

        return [cancel, order]


async def test_a_step_takes_what_another_one_recorded_for_the_same_call(tmp_path: Path) -> None:
    shop = Orders({1: 1})
    async with App(tmp_path / "s.db", tools=shop.tools()) as app:
        failed: Any = await app.plans.run_plan(WORKERS, run_id="r")
        # The first worker failed and made the third call; now the second one comes to it earlier.
        assert (failed["status"], shop.book) == ("failed", ["order 2", "order 3"])
        done: Any = await app.plans.resume_run("r")
        assert (done["status"], shop.book) == ("completed", ["order 2", "order 3", "order 1"])
        report: Any = await app.plans.undo_run("r")
        assert (report["status"], report["notUndoable"]) == ("undone", [])
        assert shop.book[3:] == ["cancel 1", "cancel 3", "cancel 2"]


async def test_what_a_retry_offered_stays_known_while_nobody_takes_it(tmp_path: Path) -> None:
    text = "import asyncio\nasync def late():\n    await order(1)\n    await order(3)\n"
    text += "await asyncio.gather(late(), order(2), return_exceptions=True)\nawait order(4)"
    shop = Orders({4: 2, 1: 1})
    async with App(tmp_path / "s.db", tools=shop.tools()) as app:
        failed: Any = await app.plans.run_plan(text, run_id="r")
        assert (failed["status"], shop.book) == ("failed", ["order 2"])
        shop.failures[1] = 1
        with pytest.raises(NotFound):
            await app.runs.retry("r", ["nothing"])
        again = await app.runs.retry("r", ["program[0.1-3:11.1]/order"])
        assert (again["status"], shop.book) == ("failed", ["order 2"])
        corrected: Any = await app.plans.resume_run("r", code="return (await order(2)).id")
        assert (corrected["status"], corrected["result"], shop.book) == ("completed", 2, ["order 2"])


@pytest.mark.parametrize("cut", range(1, 12))
async def test_a_retry_that_is_cut_keeps_what_succeeded(cut: int, tmp_path: Path) -> None:
    shop = Orders({1: 1})
    made: Any = None
    async with App(tmp_path / "s.db", tools=shop.tools()) as app:
        made = await app.plans.run_plan(WORKERS, run_id="r")
        assert made["status"] == "failed"
    store = DyingStore(SqliteStore(tmp_path / "s.db"), cut)
    async with App(store, tools=shop.tools()) as app:
        with contextlib.suppress(StoreError):
            made = await app.plans.resume_run("r")
    async with App(tmp_path / "s.db", tools=shop.tools()) as app:
        for _ in range(3):
            if made["status"] == "completed":
                break
            made = await app.plans.resume_run("r")
    assert made["status"] == "completed"
    assert sorted({*shop.book}) == ["order 1", "order 2", "order 3"]
    assert (shop.book.count("order 2"), shop.book.count("order 3")) == (1, 1)


async def test_a_flow_that_failed_inside_a_program_is_retried(tmp_path: Path) -> None:
    shop = Orders({7: 1})
    chain = {
        "kind": "chain",
        "name": "both",
        "nodes": [
            {"id": "a", "type": "tool", "tool": "order", "params": {"n": 6}},
            {"id": "b", "type": "tool", "tool": "order", "params": {"n": 7}},
        ],
    }
    async with App(tmp_path / "s.db", tools=shop.tools()) as app:
        app.toolbox.register(app.as_tool(chain))
        failed: Any = await app.plans.run_plan("await order(5)\nawait both()\nreturn await order(8)", run_id="r")
        assert (failed["status"], shop.book) == ("failed", ["order 5", "order 6"])
        done: Any = await app.plans.resume_run("r")
        assert (done["status"], shop.book) == ("completed", [f"order {n}" for n in (5, 6, 7, 8)])
