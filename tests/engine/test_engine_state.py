"""Writes that are refused, and what is left of them: nothing (invariant 6)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.lab import HANDLED, Way, block, call, compute, each, every_way, flow, graph, line, lit, node, obj, once, out
from ropewalk.errors import NodeFailed
from ropewalk.expr.ast import Arr, Ref
from ropewalk.ir import Channel, Flow, Graph, Node, OnError, Policy, Retry
from ropewalk.ops import Block, Loop
from ropewalk.testing import ScriptedTools, fails, in_turn

STATE = {
    "a": Channel(initial=0),
    "once": Channel(reduce="set_once"),
    "sum": Channel(reduce="sum", initial=0),
    "list": Channel(reduce="array_append", initial=[]),
    "typed": Channel(schema={"type": "string"}, initial=""),
}
NO_TOOLS = ScriptedTools()
START = {name: c.initial for name, c in STATE.items()}
REFUSED: dict[str, Any] = {
    "a wrong type for a reducer": obj(a=lit(1), list=Arr((lit(1),)), sum=out("bad", "text")),
    "a wrong type for a schema": obj(a=lit(1), list=Arr((lit(1),)), typed=out("bad", "number")),
    "no object": out("bad", "number"),
    "a field that is not declared": out("bad", "delta"),
}


@every_way
@pytest.mark.parametrize("writes", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_refused_write_fails_its_node_and_leaves_nothing_of_it(way: Way, writes: Any, ordered: bool) -> None:
    good = compute("good", lit(1), writes=obj(sum=lit(2)))
    tools = ScriptedTools(bad={"text": "one", "number": 5, "delta": {"a": 1, "lost": 2}})
    body = flow(Graph(nodes=(good, call("bad", writes=writes, after="good")), ordered=ordered), state=STATE)
    done = await way(body, tools)
    assert (done["status"], done["state"]) == ("failed", {**START, "sum": 2})
    assert "bad" in done["error"]
    inner = block("b", call("bad", writes=writes), ordered=ordered, policy=HANDLED)
    handled = flow(Graph(nodes=(good, inner), ordered=ordered, result=Ref("state")), state=STATE)
    done = await way(handled, tools)
    assert (done["status"], done["value"]) == ("completed", {**START, "sum": 2})


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_refused_write_is_told_with_its_field_and_type(ordered: bool) -> None:
    deltas = {
        "got integer; declared as type string in state.schema": {"typed": 5},
        'Node "n" wrote to undeclared state field "typde"; did you mean typed?': {"typde": "x"},
        "got string; sum takes a number": {"sum": "one"},
    }
    for said, delta in deltas.items():
        body = Graph(nodes=(call("n", writes=out("n")),), ordered=ordered)
        ending = await once(flow(body, state=STATE), ScriptedTools(n=delta))
        assert isinstance(ending.error, NodeFailed)
        assert ending.error.node == "n"
        assert ending.error.message.endswith(said if said.startswith("Node") else f"state.{next(iter(delta))}: {said}")


@pytest.mark.parametrize("ordered", [True, False])
async def test_null_fits_every_field(ordered: bool) -> None:
    body = Graph(nodes=(call("n", writes=out("n")),), ordered=ordered)
    ending = await once(flow(body, state=STATE), ScriptedTools(n=dict.fromkeys(STATE)))
    assert (ending.status, ending.state) == ("completed", {**START, "a": None, "typed": None})


@every_way
@pytest.mark.parametrize("ordered", [True, False])
async def test_writes_that_are_refused_only_together_leave_nothing_either(way: Way, ordered: bool) -> None:
    inside = compute("w", lit(1), writes=obj(a=Ref("index"), list=Arr((Ref("index"),)), once=lit(1)))
    many = each("m", [1, 2], inside, policy=HANDLED)
    body = flow(
        Graph(nodes=(many, compute("look", Ref("state"), after="m")), ordered=ordered, result=out("look")), state=STATE
    )
    done = await way(body, ScriptedTools())
    assert (done["status"], done["value"], done["state"]) == ("completed", START, START)


@every_way
async def test_only_the_attempt_that_succeeds_writes(way: Way) -> None:
    tools = ScriptedTools(flaky=in_turn(fails("1"), fails("2"), 3))
    inside = [compute("w", lit(1), writes=obj(list=Arr((lit("try"),)), sum=lit(1))), call("flaky")]
    retried = Policy(retry=Retry(attempts=3))
    for ordered in (True, False):
        tools.calls.clear()
        nodes = inside if ordered else [inside[0], call("flaky", after="w")]
        tried = node("b", Block(body=Graph(nodes=tuple(nodes), ordered=ordered)), policy=retried)
        done = await way(flow(line(tried), state=STATE), tools)
        assert done["status"] == "completed"
        assert (done["state"]["list"], done["state"]["sum"]) == (["try"], 1)


@every_way
async def test_every_round_of_a_loop_writes_once_and_sees_the_rounds_before(way: Way) -> None:
    for ordered in (True, False):
        look = compute("look", Ref("state", ("list",)), writes=obj(list=Arr((Ref("round"),)), sum=lit(1)))
        rare = compute("rare", lit(1), gate=_is(Ref("round"), 0), writes=obj(a=lit("first round")), after="look")
        body = Graph(nodes=(look, rare), ordered=ordered, result=out("look"))
        whole = flow(graph(node("l", Loop(body=body, limit=3)), result=out("l")), state=STATE)
        done = await way(whole, ScriptedTools())
        assert done["value"] == [[], [0], [0, 1]]
        assert done["state"] == {**START, "list": [0, 1, 2], "sum": 3, "a": "first round"}


def _is(left: Any, right: Any) -> Any:
    from ropewalk.expr.ast import Fn

    return Fn("==", (left, lit(right)))


@every_way
async def test_a_run_starts_from_its_own_copy_of_the_initial_values(way: Way) -> None:
    def grow(rows: list[Any]) -> list[Any]:
        rows.append("spoiled")
        return rows

    body = flow(line(call("grow", args=obj(rows=Ref("state", ("list",)))), result=Ref("state", ("list",))), state=STATE)
    for _ in range(3):
        done = await way(body, ScriptedTools(grow=grow))
        assert done["value"] == []
        done["value"].append("spoiled")
        done["state"]["list"].append("spoiled")
    assert STATE["list"].initial == []


@every_way
async def test_a_stand_in_and_its_writes_are_seen_by_those_after(way: Way) -> None:
    stand_in = Policy(on_error=OnError(value=obj(said=Ref("error", ("message",)))))
    bad = call("bad", policy=stand_in, writes=obj(a=out("bad", "said")))
    body = flow(graph(bad, compute("look", Ref("state", ("a",)), after="bad"), result=out("look")), state=STATE)
    done = await way(body, ScriptedTools(bad=fails("no luck")))
    assert (done["status"], done["value"]) == ("completed", "no luck")


@every_way
@pytest.mark.parametrize("ordered", [True, False])
async def test_what_a_node_writes_itself_sees_what_the_regions_inside_it_wrote(way: Way, ordered: bool) -> None:
    inside = compute("w", lit(1), writes=obj(list=Arr((Ref("item"),)), a=Ref("item")))
    seen = obj(sum=Ref("state", ("a",)), typed=lit("done"))
    rounds = each("m", [1, 2, 3], inside, writes=seen)
    look = compute("look", Ref("state"), after="m")
    done = await way(flow(Graph(nodes=(rounds, look), ordered=ordered, result=out("look")), state=STATE), NO_TOOLS)
    assert done["value"] == done["state"] == {**START, "a": 3, "list": [1, 2, 3], "sum": 3, "typed": "done"}


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_node_may_not_set_again_what_the_regions_inside_it_set(ordered: bool) -> None:
    inner = block("b", compute("w", lit(1), writes=obj(once=lit(1))), writes=lit({"once": 2}))
    ending = await once(flow(Graph(nodes=(inner,), ordered=ordered), state=STATE), NO_TOOLS)
    assert isinstance(ending.error, NodeFailed)
    assert (ending.error.node, "set_once" in ending.error.message) == ("b", True)


async def test_channels_whose_orders_contradict_each_other_keep_them() -> None:
    # x folds a before b as declared, y b before c, and c has to run before a.
    def writer(id: str, names: str, after: str | None = None) -> Node:
        writes = obj(**{name: Arr((lit(id),)) for name in names})
        return compute(id, writes=writes, **({"after": after} if after else {}))

    nodes = [writer("a", "x", after="c"), writer("b", "xy"), writer("c", "y")]
    look = compute("look", Ref("state"), after=["a", "b", "c"], writes=obj(x=Arr((lit("look"),))))
    one = compute("one", Ref("state", ("y",)), after="look")
    state = {name: Channel(reduce="array_append", initial=[]) for name in "xyz"}
    whole = flow(graph(one, look, *nodes, result=obj(look=out("look"), one=out("one"))), state=state)
    ending = await once(whole, NO_TOOLS)
    assert ending.value == {"look": {"x": ["a", "b"], "y": ["b", "c"], "z": []}, "one": ["b", "c"]}
    assert ending.state == {"x": ["a", "b", "look"], "y": ["b", "c"], "z": []}


@every_way
async def test_writes_side_by_side_that_do_not_fold_fail_the_later_node(way: Way) -> None:
    body = graph(
        compute("a", lit("one"), writes=obj(o=lit(1))), compute("b", lit("two"), writes=obj(o=lit(2), l=lit([3])))
    )
    state = {"o": Channel(reduce="set_once", present=False), "l": Channel(reduce="array_append", initial=[])}
    ended = await way(Flow(name="f", body=body, state=state), ScriptedTools())  # the check warns of it
    assert (ended["status"], ended["state"]) == ("failed", {"o": 1, "l": []})
    assert [text.partition(":")[0] for text in ended["failures"]] == ["b"]


@every_way
async def test_a_region_whose_writes_do_not_fold_can_be_handled(way: Way) -> None:
    inner = (compute("a", lit(1), writes=obj(o=lit(1))), compute("b", lit(2), writes=obj(o=lit(2))))
    body = line(block("in", *inner, policy=HANDLED), result=out("in"))
    ended = await way(
        Flow(name="f", body=body, state={"o": Channel(reduce="set_once", present=False)}), ScriptedTools()
    )
    assert (ended["status"], ended["value"], ended["state"]) == ("completed", "handled", {})
