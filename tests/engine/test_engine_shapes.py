"""Results of nodes, tests over items, folds with a start, values held against a schema, and which nodes ran."""

from __future__ import annotations

from typing import Any

import pytest

from engine.lab import HANDLED, Way, block, call, compute, every_way, line, lit, node, obj, on, once, out, resumed
from ropewalk.check import check
from ropewalk.codec import flow_from_json, flow_to_json
from ropewalk.errors import StoreError
from ropewalk.expr.ast import Expr, Fn, Ref
from ropewalk.ir import Flow, Graph, Node, OnError, Policy
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Branch, Call, Loop, Map, Validate
from ropewalk.testing import DyingStore, ScriptedTools, fails

REPORTED = Policy(on_error=OnError(value=lit(0), reported=True))
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


def per_item(limit: int | None, *, select: bool = False) -> Map:
    body = line(call("each", "t", obj(x=Ref("item"))), result=out("each"))
    return Map(items=lit([1, 2, 3, 4]), body=body, limit=limit, select=select)


def folding(items: list[Any], initial: Expr | None, **more: Any) -> Loop:
    body = line(call("each", "add", obj(a=Ref("prev"), b=Ref("item"))), result=out("each"))
    return Loop(body=body, items=lit(items), initial=initial, **more)


@every_way
@pytest.mark.parametrize("policy", [Policy(), HANDLED], ids=["plain", "handled"])
async def test_a_result_is_made_from_what_the_op_gave(way: Way, policy: Policy) -> None:
    tools = ScriptedTools(t={"rows": [1, 2]})
    first = call("a", "t", result=obj(last=out("a", "rows", 1), in_=Ref("input")), policy=policy)
    then = compute("b", obj(prev=Ref("prev", ("last",)), out=out("a", "last")), result=obj(b=out("b")))
    ended = await way(line(first, then, result=out("b")), tools)
    assert (ended["status"], ended["value"]) == ("completed", {"b": {"prev": 2, "out": 2}})


@every_way
async def test_a_result_that_fails_is_the_nodes_own_failure(way: Way) -> None:
    bad = Fn("-", (out("a"), lit(1)))
    ended = await way(line(call("a", "t", result=bad), result=out("a")), ScriptedTools(t="x"))
    assert ended["status"] == "failed"
    assert ended["failures"][0].startswith("a: ")
    ended = await way(line(call("a", "t", result=bad, policy=HANDLED), result=out("a")), ScriptedTools(t="x"))
    assert ended["value"] == "handled"


@every_way
@pytest.mark.parametrize("limit", [1, 3])
async def test_selecting_keeps_the_items_that_pass(way: Way, limit: int) -> None:
    tools = ScriptedTools(t=lambda x: x % 2 == 0 or None)
    ended = await way(line(node("f", per_item(limit, select=True)), result=out("f")), tools)
    assert ended["value"] == [2, 4]


async def test_a_test_that_gives_no_boolean_fails() -> None:
    ended = await once(line(node("f", per_item(1, select=True))), ScriptedTools(t="yes"))
    assert [str(f) for f in ended.failures] == ["f: a test gives true or false, not str"]
    graph = Map(items=lit([1]), body=line(compute("c", lit("yes")), result=out("c")), select=True)
    found = check(Flow(name="f", body=line(node("f", graph)))).problems
    assert [str(p) for p in found] == ["f.body: a test must give true or false; this gives a string"]


@every_way
@pytest.mark.parametrize(("items", "value"), [([1, 2, 3], 16), ([], 10)])
async def test_a_fold_starts_with_its_initial_value(way: Way, items: list[int], value: int) -> None:
    tools = ScriptedTools(add=lambda a, b: a + b)
    loop = folding(items, out("start"), collect=False)
    ended = await way(line(compute("start", lit(10)), compute("other"), node("l", loop), result=out("l")), tools)
    assert ended["value"] == value


@every_way
async def test_a_value_is_given_on_when_it_fits_and_fails_with_every_problem_when_not(way: Way) -> None:
    def body(value: Any) -> Graph:
        return line(node("v", Validate(value=value, schema=NUMBER, place="it")), result=out("v"))

    tools = ScriptedTools(t={"n": 0})
    assert (await way(body(lit({"n": 1, "more": 2})), tools))["value"] == {"n": 1, "more": 2}
    first = call("a", "t")
    ended = await way(line(first, *body(out("a")).nodes), tools)
    assert ended["failures"] == ["v: it.n: 0 is less than the minimum of 1"]


async def test_the_problems_of_a_validation_are_known_after_a_crash() -> None:
    tools = ScriptedTools(t={"n": 0})
    validate = node("v", Validate(value=out("a"), schema=NUMBER), policy=REPORTED)
    body = line(call("a", "t"), validate, call("b", "t"), result=out("v"))
    kept: list[Any] = []

    def render(ending: Any) -> dict[str, Any]:
        kept.append([(p.path, p.keyword) for f in ending.failures for p in f.problems])
        return {"status": ending.status, "ran": sorted(ending.ran())}

    store = DyingStore(MemoryStore(durable=True), at=3)
    with pytest.raises(StoreError):
        await on(store, body, tools, render=render)
    ended = await resumed(await store.survivor(), body, tools, render=render)
    assert ended == {"status": "partial", "ran": ["a", "b", "v"]}
    assert kept == [[("data.n", "minimum")]]


def test_what_certainly_does_not_fit_is_found_by_the_check_unless_it_is_handled() -> None:
    def found(value: Expr, **more: Any) -> list[str]:
        made = Flow(name="f", body=line(node("v", Validate(value=value, schema=NUMBER), **more)))
        return [str(p) for p in check(made).problems]

    assert found(lit({"m": 1})) == ["v.value: required property 'n' is missing"]
    assert found(obj(n=lit("x"))) == ["v.value.n: must be an integer; this is a string"]
    assert found(lit({"m": 1}), policy=HANDLED) == []
    assert found(Ref("input")) == []


def inner_failure() -> Graph:
    inside = Branch(arms=((lit(True), line(call("x", "t"), call("y", "bad"), call("z", "t"))),))
    return line(
        call("a", "t"), node("b", inside, policy=HANDLED), block("c", call("d", "t"), when=lit(False)), call("e", "t")
    )


async def test_which_nodes_ran_is_the_same_in_a_run_that_was_resumed() -> None:
    tools = ScriptedTools(t=1, bad=fails("broken"))

    def ran(ending: Any) -> dict[str, Any]:
        return {"ran": sorted(ending.ran())}

    whole = await on(None, inner_failure(), tools, render=ran)
    assert whole == {"ran": ["a", "b", "e", "x", "y"]}
    assert whole == await on(MemoryStore(), inner_failure(), tools, render=ran)
    store = DyingStore(MemoryStore(durable=True), at=6)
    with pytest.raises(StoreError):
        await on(store, inner_failure(), tools, render=ran)
    assert await resumed(await store.survivor(), inner_failure(), tools, render=ran) == whole
    assert tools.count("bad") == 3  # once in each run, and not again in the one that was resumed


def test_the_new_parts_survive_being_written_down() -> None:
    nodes: list[Node] = [
        node("m", per_item(2, select=True), result=obj(all=out("m"))),
        node("v", Validate(value=out("m"), schema=NUMBER)),
    ]
    loop = Loop(body=line(node("c", Call(tool="t", args=obj()))), items=lit([]), initial=lit(1), collect=False)
    flow = Flow(name="f", body=line(*nodes, node("l", loop)))
    assert flow_from_json(flow_to_json(flow)) == flow
