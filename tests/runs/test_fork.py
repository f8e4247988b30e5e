"""A new run from one of before: what is reused, and what is never."""

from __future__ import annotations

from typing import Any

import pytest

from engine.lab import call, each, flow, graph, node, obj, out
from ropewalk import App
from ropewalk.errors import InvalidFlow, InvalidInput, NotFound, RunExists
from ropewalk.expr.ast import Expr, Lit, Ref
from ropewalk.ir import OnError, Policy, Retry
from ropewalk.journal.protocol import Store
from ropewalk.notations.registry import write
from ropewalk.ops import Sleep
from ropewalk.testing import ScriptedTools, fails, in_turn

NOTHING = Lit(0)


def document(b: Expr = NOTHING, **more: Any) -> dict[str, Any]:
    """a reads input.x, b what is given, c reads both."""
    a = call("a", args=obj(x=Ref("input", ("x",))))
    c = call("c", args=obj(a=out("a"), b=out("b")), **more)
    return write(flow(graph(a, call("b", args=obj(of=b)), c, result=out("c"))), "flow")


def tools() -> ScriptedTools:
    return ScriptedTools(a=lambda x: x * 2, b=lambda of: of, c=lambda a, b: [a, b])


def names(made: ScriptedTools, since: int) -> list[str]:
    return sorted(call.tool for call in made.calls[since:])


async def test_only_what_other_input_reaches_runs_anew(store: Store) -> None:
    made = tools()
    async with App(store) as app:
        await app.run(document(), {"x": 1}, run_id="r", executor=made)
        before = store.get_run("r"), store.history("r")
        forked = await app.runs.fork("r", input={"x": 2}, new_id="f", executor=made)
        assert (forked.run_id, forked.result) == ("f", [4, 0])
        assert names(made, 3) == ["a", "c"]
        assert (store.get_run("r"), store.history("r")) == before
        shown = app.runs.get("f")
        assert shown is not None
        assert shown["forkedFrom"] == "r"
        assert {one["path"]: one["status"] for one in shown["nodes"]} == {"a": "ok", "b": "ok", "c": "ok"}
        same = await app.runs.fork("r", executor=made)
        assert (same.result, len(made.calls)) == ([2, 0], 5)


async def test_what_comes_out_the_same_is_not_called_again_further_on(store: Store) -> None:
    made = ScriptedTools(a=lambda x: x % 10, b=lambda of: of, c=lambda a, b: [a, b])
    async with App(store) as app:
        await app.run(document(), {"x": 1}, run_id="r", executor=made)
        assert (await app.runs.fork("r", input={"x": 11}, executor=made)).result == [1, 0]
        assert names(made, 3) == ["a"]


async def test_another_definition_reuses_what_it_leaves_alone(store: Store) -> None:
    made = tools()
    async with App(store) as app:
        await app.run(document(), {"x": 1}, run_id="r", executor=made)
        forked = await app.runs.fork("r", definition=document(Lit(7)), executor=made)
        assert (forked.result, names(made, 3)) == ([2, 7], ["b", "c"])
        chain = {"kind": "chain", "name": "x", "nodes": [{"id": "a", "type": "TOOL", "tool": "a", "params": {}}]}
        with pytest.raises(InvalidFlow, match="this definition is a chain"):
            await app.runs.fork("r", definition=chain, executor=made)


async def test_a_fork_is_one_of_the_definition_that_it_goes_by(store: Store) -> None:
    async with App(store) as app:
        delay = {"id": "a", "type": "delay", "delay": 1}
        for id in ("one", "two"):
            await app.chains.create_chain({"id": id, "name": id, "nodes": [delay]})
        run = await app.chains.execute_chain("one", {"executionId": "r"})
        assert run["success"]
        chain = {"kind": "chain", "name": "one", "nodes": [{**delay, "delay": 2}]}

        async def of(**given: Any) -> str | None:
            row = app.runs.row((await app.runs.fork("r", **given)).run_id)
            assert row is not None
            return row.definition_id

        assert await of() == "one"
        assert await of(definition={**chain, "id": "one"}) == "one"
        assert await of(definition={**chain, "id": "two", "name": "two", "nodes": [delay]}) == "two"
        assert await of(definition={**chain, "id": "two"}) is None  # not as it is stored
        assert await of(definition=chain) is None


async def test_at_a_node_it_and_what_depends_on_it_run_in_any_case(store: Store) -> None:
    made = tools()
    async with App(store) as app:
        await app.run(document(), {"x": 1}, run_id="r", executor=made)
        assert (await app.runs.fork("r", at=["b"], executor=made)).result == [2, 0]
        assert names(made, 3) == ["b", "c"]
        with pytest.raises(NotFound, match="no node 'bb'"):
            await app.runs.fork("r", at=["bb"], executor=made)
        with pytest.raises(RunExists, match="this id is already used; choose another id"):
            await app.runs.fork("r", new_id="r", executor=made)


async def test_failures_are_not_taken_over_and_attempts_do_not_matter(store: Store) -> None:
    made = ScriptedTools(a=lambda x: x, b=in_turn(fails("1"), 5), c=in_turn(fails("no"), lambda a, b: [a, b]))
    what = document()
    twice = Policy(retry=Retry(attempts=2))
    a, b = call("a", args=obj(x=Ref("input", ("x",)))), call("b", args=obj(of=Ref("input", ("y",))), policy=twice)
    what = write(flow(graph(a, b, call("c", args=obj(a=out("a"), b=out("b"))), result=out("c"))), "flow")
    async with App(store) as app:
        first = await app.run(what, {"x": 1, "y": 2}, run_id="r", executor=made)
        assert (first.status, len(made.calls)) == ("failed", 4)
        forked = await app.runs.fork("r", input={"x": 1, "y": 2}, executor=made)
        assert (forked.result, names(made, 4)) == ([1, 5], ["c"])
        other = await app.runs.fork("r", input={"x": 9, "y": 2}, executor=made)
        assert (other.result, names(made, 5)) == ([9, 5], ["a", "c"])


async def test_items_that_are_the_same_are_reused_and_decisions_are_made_anew(store: Store) -> None:
    work = call("work", args=obj(n=Ref("item")), policy=Policy(on_error=OnError(reported=True)))
    what = write(
        flow(graph(each("each", Ref("input", ("items",)), work, result=out("work")), result=out("each"))), "flow"
    )
    made = ScriptedTools(work=lambda n: n * 10)
    async with App(store) as app:
        await app.run(what, {"items": [1, 2, 3]}, run_id="r", executor=made)
        forked = await app.runs.fork("r", input={"items": [1, 5, 3, 4]}, executor=made)
        assert forked.result == [10, 50, 30, 40]
        assert [call.args["n"] for call in made.calls[3:]] == [5, 4]


async def test_a_wait_that_nothing_reaches_is_not_waited_again(store: Store) -> None:
    a = call("a", args=obj(x=Ref("input", ("x",))))
    what = write(flow(graph(node("rest", Sleep(seconds=Lit(0.2))), a, result=out("a"))), "flow")
    async with App(store) as app:
        made = tools()
        await app.run(what, {"x": 1}, run_id="r", executor=made)
        forked = await app.runs.fork("r", input={"x": 2}, executor=made)
        (timer,) = [e for e in store.history(forked.run_id) if e.kind == "timer"]
        assert timer.data == next(e.data for e in store.history("r") if e.kind == "timer")


SECRET = "s3cr3t-value-123456"
TWO = [{"of": "a", "key": SECRET}, {"of": "b", "key": f"Bearer {SECRET}"}]
SHOWN = [{"of": "a", "key": "***"}, {"of": "b", "key": "Bearer ***"}]


@pytest.mark.parametrize(
    ("recorded", "sent", "used"),
    [
        ({"key": SECRET, "n": 1}, {"key": "***", "n": 2}, {"key": SECRET, "n": 2}),
        ({"x": f"a {SECRET} b", "n": 1}, {"x": "a *** b", "n": 2}, {"x": f"a {SECRET} b", "n": 2}),
        ({"x": {SECRET: 1}}, {"x": {"***": 2}}, {"x": {SECRET: 2}}),
        ({"x": TWO}, {"x": [{"of": "c", "key": "***"}, SHOWN[1]]}, {"x": [{"of": "c", "key": SECRET}, TWO[1]]}),
        ({"key": SECRET, "x": "*** 1"}, {"key": "***", "x": "*** 2"}, {"key": SECRET, "x": "*** 2"}),
        ({"key": SECRET}, {"key": "another"}, {"key": "another"}),
        ({"x": 1}, {"x": "***"}, {"x": "***"}),  # without a secret the text means itself
        ({"key": SECRET, "x": 1}, {"x": "***"}, "input.x"),
        ({"key": SECRET}, {"key": "a ***"}, "input.key"),
        ({"x": TWO}, {"x": SHOWN[:1]}, "input.x[0].key"),
        ({"x": TWO}, {"x": SHOWN[::-1]}, "input.x[0].key"),
        (SECRET, {"key": "***"}, "input.key"),
    ],
)
async def test_the_mask_of_a_recorded_secret_means_the_secret(
    store: Store, recorded: Any, sent: Any, used: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    async with App(store) as app:
        await app.run(write(flow(graph(result=Ref("input"))), "flow"), recorded, run_id="r")
        if isinstance(used, str):
            with pytest.raises(InvalidInput, match="write the secret itself") as refused:
                await app.runs.fork("r", input=sent, new_id="f")
            assert refused.value.problems[0].path == used
            assert store.get_run("f") is None
        else:
            await app.runs.fork("r", input=sent, new_id="f")
            assert (row := store.get_run("f")) is not None
            assert row.input == used
