"""References: what an expression may read at the point where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.check import check
from ropewalk.expr.ast import NULL, Arr, Each, Expr, Fn, Lit, Ref, Var
from ropewalk.ir import Graph, Meta, Node, OnError, Policy
from ropewalk.ops import Block, Branch, Compute, Loop, Map

from .flows import TRUE, call, compute, dag, flow, node, obj, ordered, out, prev, problems


def test_a_misspelt_node_is_reported_with_what_is_finished() -> None:
    body = ordered(
        call("search", source="nodes[0]"),
        call("read", source="nodes[1]", labels={"args": "params"}, args_=obj(q=out("serch", "hits", column=3))),
    )
    (problem,) = check(flow(body)).problems
    assert problem.path == "nodes[1].params.q"
    assert problem.message == "reads 'serch', which is not a node of this flow; readable here: search"
    assert (problem.suggestion, problem.column) == ("search", 3)


def test_a_later_step_is_not_finished() -> None:
    assert problems(ordered(call("a", args_=out("b")), call("b"))) == [
        "a.args: reads 'b', which may not be finished at this point; no output is readable here"
    ]


def test_a_node_reads_itself_only_in_writes() -> None:
    state = {"x": None}
    assert problems(dag(call("a", writes=obj(x=out("a", "y")))), state=state) == []
    for at in ({"when": out("a")}, {"args_": out("a")}, {"policy": Policy(on_error=OnError(value=out("a")))}):
        for make in (dag, ordered):
            (told,) = problems(make(call("a", **at)), state=state)
            assert "reads its own output, which does not exist yet" in told


def test_status_is_read_like_an_output() -> None:
    body = dag(call("a"), call("b", gate=Fn("==", (Ref("status", ("a",)), Lit("ok")))), result=Ref("status", ("b",)))
    assert problems(body) == []
    assert "reads 'c'" in problems(dag(call("a", when=Ref("status", ("c",)))))[0]
    assert problems(dag(call("a", when=Ref("status", ())))) == ["a.when: the name of the node is missing"]


def test_a_body_reads_what_is_finished_around_it_and_not_its_owner() -> None:
    inner = ordered(compute("x", out("before")), compute("y", out("m")), compute("z", out("after")))
    body = ordered(call("before"), node("m", Map(items=Lit([]), body=inner)), call("after"))
    assert problems(body) == [
        "m/y.value: reads 'm', which is still running, because this node is inside it; readable here: x, before",
        "m/z.value: reads 'after', which may not be finished at this point; readable here: y, x, before",
    ]


def test_what_is_inside_a_body_cannot_be_read_from_outside() -> None:
    body = dag(
        node("each", Map(items=Lit([]), body=dag(node("b", Block(body=dag(call("in"))))))), compute("x", out("in"))
    )
    body = Graph(nodes=body.nodes, result=out("in"))
    assert problems(body) == [
        "x.value: reads 'in', which is inside 'each' and not visible from here; readable here: each; "
        "did you mean each?",
        "result: reads 'in', which is inside 'each' and not visible from here; readable here: x, each; "
        "did you mean each?",
    ]


def test_one_arm_does_not_see_the_other() -> None:
    op = Branch(arms=((TRUE, dag(call("a"))),), default=dag(compute("b", out("a"))))
    assert "inside" not in problems(dag(node("c", op)))[0]
    assert "c/b.value: reads 'a', which may not be finished at this point" in problems(dag(node("c", op)))[0]


def test_a_result_sees_all_nodes_of_its_region() -> None:
    assert problems(dag(call("a"), call("b"), result=obj(a=out("a"), b=out("b")))) == []
    assert problems(dag(call("a"), result=out("aa"))) == [
        "result: reads 'aa', which is not a node of this flow; readable here: a; did you mean a?"
    ]


def test_a_reader_of_a_node_in_a_cycle_is_not_reported_too() -> None:
    body = dag(compute("a", out("b")), compute("b", out("a")), compute("c", out("a")), result=out("b"))
    assert problems(body) == ["a: these nodes wait for each other: a -> b -> a"]


def test_prev_needs_an_order_somewhere_around() -> None:
    assert problems(ordered(compute("a", prev()), result=prev())) == []
    assert problems(ordered(node("b", Block(body=dag(compute("a", prev())))))) == []
    assert problems(dag(compute("a", prev(column=4)))) == [
        "a.value: 'prev' is the previous step, but these nodes have no fixed order"
    ]
    assert len(problems(dag(node("b", Block(body=ordered())), compute("a", prev())))) == 1


def test_item_index_and_round_exist_only_in_their_bodies() -> None:
    reads = obj(i=Ref("item", ("x",)), n=Ref("index"), r=Ref("round"))
    mapped = node("m", Map(items=Lit([]), body=dag(node("b", Block(body=dag(compute("x", reads)))))))
    assert problems(dag(mapped)) == ["m/b/x.value.r: $round exists only inside a loop"]
    looped = node("l", Loop(limit=2, body=dag(compute("y", reads)), until=Fn(">", (Ref("round"), Lit(1)))))
    assert problems(dag(looped)) == [
        "l/y.value.i: $item exists only inside a loop over items, a map, a for_each or a pipeline",
        "l/y.value.n: $index exists only inside a loop over items, a map, a for_each or a pipeline",
    ]
    assert len(problems(dag(node("m", Map(items=Ref("item"), body=dag()))))) == 1


def test_loop_tests_see_the_nodes_of_the_body() -> None:
    body = ordered(compute("poll", obj(done=TRUE)))
    loop = Loop(body=body, limit=3, again=Fn("!", (out("poll", "done"),)), until=out("poll", "don"))
    assert problems(dag(node("l", loop), result=out("l"))) == [
        "l.until: the output of 'poll' has no 'don'; it has: done; did you mean done?"
    ]


def test_error_exists_only_in_a_fallback() -> None:
    fallback = Policy(on_error=OnError(value=obj(why=Ref("error", ("message",)))))
    labels = {"policy.on_error.value": "fallback"}
    assert problems(dag(call("a", policy=fallback))) == []
    assert problems(dag(call("a", args_=Ref("error")))) == ["a.args: $error exists only inside a fallback"]
    wrong = Policy(on_error=OnError(value=obj(why=Ref("error", ("mesage",)))))
    assert problems(dag(call("a", policy=wrong, source="nodes[0]", labels=labels))) == [
        "nodes[0].fallback.why: 'error' has no 'mesage'; it has: node, tool, message, kind, ran; did you mean message?"
    ]


def test_state_is_declared_before_it_is_read_or_written() -> None:
    body = dag(call("a", args_=Ref("state", ("cuont",)), writes=obj(totl=NULL)), result=Ref("state"))
    assert problems(body, state={"count": None, "total": None}) == [
        "a.args: reads undeclared state field 'cuont'; expected one of: count, total; did you mean count?",
        "a.writes.totl: writes undeclared state field 'totl'; did you mean total?",
    ]
    assert problems(dag(result=Ref("state", ("x",)))) == [
        "result: reads undeclared state field 'x'; the flow declares no state"
    ]
    assert problems(dag(call("a", writes=Lit({"y": 1})))) == ["a.writes.y: writes undeclared state field 'y'"]


def test_unknown_roots_and_names_are_reported() -> None:
    assert problems(dag(result=Ref("inputs", ("x",)))) == ["result: unknown reference 'inputs'; did you mean input?"]
    each = Each("map", Ref("input"), ("row",), Fn("+", (Var("rwo", ("x",)), Var("row"))))
    assert problems(dag(result=each)) == ["result: unknown name 'rwo'; did you mean row?"]
    assert problems(dag(result=Fn("lenght", (Ref("input"),), 5))) == [
        "result: unknown function 'lenght'; did you mean length?"
    ]
    assert problems(
        dag(result=Arr((Fn("length", ()), Fn("+", (NULL,)), Fn("&&", (TRUE,)), Fn("custom", (TRUE,)))))
    ) == [
        "result[0]: 'length' takes 1 argument, not 0",
        "result[1]: '+' takes at least 2 arguments, not 1",
        "result[2]: '&&' takes at least 2 arguments, not 1",
        "result[3]: 'custom' takes 2 arguments, not 1",
    ]
    assert problems(dag(result=Each("maps", Ref("input"), ("x",), NULL))) == [
        "result: unknown function 'maps'; did you mean map?"
    ]
    assert problems(dag(result=Ref("secret"))) == ["result: the name of the secret is missing"]


def test_hidden_nodes_are_not_offered() -> None:
    hidden = compute("h", meta=Meta(hidden=True))
    assert "readable here: a" in problems(ordered(call("a"), hidden, compute("b", out("x"))))[0]


def test_paths_fall_back_to_the_longest_label() -> None:
    op = Branch(arms=((out("x"), dag(result=out("y"))),))
    labels = {"arms": "branches", "op.arms[0][0]": "branches[0].if"}
    found = problems(dag(node("b", op, meta=Meta(source="steps[4]", labels=labels))))
    assert [p.split(":")[0] for p in found] == ["steps[4].branches[0].if", "steps[4].branches[0][1].result"]
    named = problems(dag(compute("b", obj(**{"odd key": out("x")}), meta=Meta(source="s", labels={"value": ""}))))
    assert named[0].startswith("s['odd key']: reads")


ids = st.sampled_from("abcdef")


@st.composite
def regions(draw: st.DrawFn, depth: int = 2, names: list[str] | None = None) -> Graph:
    names = list("abcdefgh") if names is None else names
    reads = st.lists(st.sampled_from("abcdefgh"), max_size=2).map(lambda ids: obj(**{i: out(i) for i in ids}))
    nodes = []
    for _ in range(draw(st.integers(0, 3))):
        if not names:
            break
        name = names.pop(0)
        inner = depth and draw(st.booleans())
        op = Block(body=draw(regions(depth - 1, names))) if inner else Compute(value=draw(reads))
        writes = draw(st.none() | st.just(obj(s=out(name))) | reads.map(lambda r: obj(s=r)))
        nodes.append(Node(id=name, op=op, writes=writes))
    return Graph(nodes=tuple(draw(st.permutations(nodes))), result=draw(reads), ordered=draw(st.booleans()))


def _ancestors(graph: Graph) -> dict[str, set[str]]:
    found = {id: set(needs) for id, needs in graph.needs.items()}
    for _ in found:
        for needs in found.values():
            for id in list(needs):
                needs |= found[id]
    return found


def _fine(graph: Graph, outer: frozenset[str]) -> bool:
    """The rule itself, slowly."""
    before = _ancestors(graph)

    def reads(expr: Expr | None) -> set[str]:
        return set() if expr is None else {str(r.path[0]) for r in _refs(expr)}

    for n in graph.nodes:
        visible = outer | before[n.id]
        if n.id in before[n.id]:
            return False
        if isinstance(n.op, Block):
            if not _fine(n.op.body, visible):
                return False
        elif not reads(n.op.value) <= visible:
            return False
        if not reads(n.writes) <= visible | {n.id}:
            return False
    return reads(graph.result) <= outer | set(before)


def _refs(expr: Expr) -> list[Ref]:
    from ropewalk.expr.ast import refs

    return list(refs(expr))


@given(regions())
def test_the_check_agrees_with_the_rule_about_ancestors(body: Graph) -> None:
    assert check(flow(body, state={"s": None})).ok == _fine(body, frozenset())


def test_the_generated_flows_are_of_both_sorts() -> None:
    seen: set[bool] = set()

    @given(regions())
    def look(body: Graph) -> None:
        seen.add(_fine(body, frozenset()))

    look()
    assert seen == {True, False}


@pytest.mark.parametrize("name", ["+", "*", "&&", "||"])
def test_operators_that_chain_take_any_number(name: str) -> None:
    assert problems(dag(result=Fn(name, (Ref("input", ("a",)),) * 3))) == []


@pytest.mark.parametrize("expr", [Ref("input", ("any", "thing")), Ref("secret", ("KEY",)), Lit({"a": ["$prev"]})])
def test_what_is_always_there_is_no_problem(expr: Expr) -> None:
    assert problems(dag(compute("a", expr), result=expr)) == []
