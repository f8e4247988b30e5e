"""A fork of a run of a program keeps the first rows, and says which writes it makes again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ropewalk import App
from ropewalk.events import Event
from ropewalk.testing import ScriptedTools, fails, in_turn

CODE = "a = await order(n=1)\nb = await order(n=2)\nc = await look(n=3)\nd = await order(n=4)\nreturn [a, b, c, d]"
TOOLS = {name: {"id": name, "parameters": ["n"], "required": ["n"]} for name in ("order", "look")}


def document(code: str) -> dict[str, Any]:
    return {"kind": "plan", "name": "p", "code": code, "tools": TOOLS}


def tools(**more: Any) -> ScriptedTools:
    return ScriptedTools({"order": lambda n: n, "look": lambda n: n, **more})


def numbers(made: ScriptedTools, since: int = 0) -> list[int]:
    return [call.args["n"] for call in made.calls[since:]]


async def test_a_fork_at_a_step_repeats_it_and_everything_after_it(tmp_path: Path) -> None:
    made, events = tools(), list[Event]()
    async with App(tmp_path / "s.db") as app:
        await app.run(document(CODE), run_id="r", executor=made)
        assert numbers(made) == [1, 2, 3, 4]
        forked = await app.runs.fork("r", at=["program[0-2:11.1]/order"], executor=made, on_event=events.append)
        assert (forked.result, numbers(made, 4)) == ([1, 2, 3, 4], [2, 3, 4])
        repeated = [event.path for event in events if event.kind == "call.repeated"]
        assert repeated == ["program[0-2:11.1]/order", "program[0-3:11.1]/look", "program[0-4:11.1]/order"]
        same = await app.runs.fork("r", executor=made)
        assert (same.result, len(made.calls)) == ([1, 2, 3, 4], 7)


async def test_a_fork_of_a_failed_run_keeps_what_succeeded(tmp_path: Path) -> None:
    made = tools(look=in_turn(fails("no"), 7))
    async with App(tmp_path / "s.db") as app:
        code = "import asyncio\nreturn await asyncio.gather(look(n=9), order(n=1), order(n=2))"
        failed = await app.run(document(code), run_id="r", executor=made)
        assert failed["status"] == "failed"
        forked = await app.runs.fork("r", executor=made)
        assert (forked.result, sorted(numbers(made))) == ([7, 1, 2], [1, 2, 9, 9])


async def test_a_fork_with_another_input_uses_the_calls_that_stay(tmp_path: Path) -> None:
    made = tools()
    async with App(tmp_path / "s.db") as app:
        code = "x: int\na = await order(n=1)\nb = await order(n=x)\nreturn [a, b]"
        await app.run(document(code), {"x": 5}, run_id="r", executor=made)
        forked = await app.runs.fork("r", input={"x": 6}, executor=made)
        assert (forked.result, numbers(made)) == ([1, 6], [1, 5, 6])
