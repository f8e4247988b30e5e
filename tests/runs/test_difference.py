"""Two runs side by side."""

from __future__ import annotations

import pytest

from ropewalk import App
from ropewalk.app.runs.compare import MAX_DIFFERENCES, value_differences
from ropewalk.errors import NotFound
from ropewalk.journal.protocol import Store
from ropewalk.testing import ScriptedTools, fails

from .test_fork import document


async def test_runs_are_compared_node_by_node(store: Store) -> None:
    from ropewalk.expr.ast import Lit

    async with App(store) as app:
        one = ScriptedTools(a=lambda x: {"rows": [x, 2]}, b=lambda of: of, c=lambda a, b: [a, b])
        other = ScriptedTools(a=lambda x: {"rows": [x, 2]}, b=lambda of: of, c=fails("no luck"))
        await app.run(document(), {"x": 1}, run_id="one", executor=one)
        await app.run(document(Lit(7)), {"x": 3}, run_id="two", executor=other)
        told = app.runs.diff("one", "two")
        assert told["definition"] == [{"path": "b", "what": "changed", "fields": ["args"]}]
        assert told["input"] == [{"path": "x", "a": 1, "b": 3}]
        nodes = {node["path"]: node for node in told["nodes"]}
        assert nodes["a"]["value"] == [{"path": "rows[0]", "a": 1, "b": 3}]
        assert nodes["b"]["value"] == [{"path": "", "a": 0, "b": 7}]
        assert nodes["c"]["status"] == ["ok", "failed"]
        assert nodes["c"]["error"] == [None, "no luck"]
        assert (told["a"]["status"], told["b"]["status"]) == ("completed", "failed")
        same = app.runs.diff("one", "one")
        assert (same["nodes"], same["same"], same["input"], same["result"], same["error"]) == ([], 3, [], [], None)
        await app.run(document(), {"x": 1}, run_id="three", executor=fails_first())
        gone = {node["path"]: node["what"] for node in app.runs.diff("one", "three")["nodes"]}
        assert gone["c"] == "removed"
        with pytest.raises(NotFound, match="did you mean 'one'"):
            app.runs.diff("on", "two")


PLAN_TOOLS = {name: {"id": name, "parameters": ["n"], "required": ["n"]} for name in ("order", "look")}
PLAN = {"kind": "plan", "name": "p", "tools": PLAN_TOOLS}


async def test_steps_of_programs_are_compared_by_their_calls(store: Store) -> None:
    async with App(store) as app:
        made = ScriptedTools(order=lambda n: n, look=lambda n: n)
        before = "a = await order(n=1)\nb = await look(n=2)\nawait order(n=3)\nawait look(n=4)\nreturn a"
        after = "b = await look(n=2)\na = await order(n=1)\nawait order(n=5)\nreturn a"
        await app.run({**PLAN, "code": before}, run_id="one", executor=made)
        await app.run({**PLAN, "code": after}, run_id="two", executor=made)
        told = app.runs.diff("one", "two")
        changed, removed = told["nodes"]
        assert (changed["path"], changed["value"]) == ("program[0-3:7.1]/order", [{"path": "", "a": 3, "b": 5}])
        assert (removed["path"], removed["what"], told["same"]) == ("program[0-4:7.1]/look", "removed", 3)
        added = app.runs.diff("two", "one")["nodes"][1]
        assert (added["path"], added["what"]) == ("program[0-4:7.1]/look", "added")


def fails_first() -> ScriptedTools:
    return ScriptedTools(a=fails("no"), b=1)


def test_what_differs_is_told_by_place_and_no_more_than_can_be_read() -> None:
    assert value_differences({"a": [1, {"b": None}]}, {"a": [1, {"b": 0}], "c": 1}) == [
        {"path": "a[1].b", "a": None, "b": 0},
        {"path": "c", "b": 1},
    ]
    assert value_differences([1, 2], [1]) == [{"path": "[1]", "a": 2}]
    assert value_differences(True, 1) == [{"path": "", "a": True, "b": 1}]
    assert value_differences({}, {}) == []
    many = value_differences(list(range(100)), [])
    assert (len(many), many[-1]) == (MAX_DIFFERENCES + 1, {"path": "", "more": 100 - MAX_DIFFERENCES})
    (long,) = value_differences("x" * 10_000, "")
    assert len(long["a"]) < 300
