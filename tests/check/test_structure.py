"""Shape: ids, sizes, order, numbers; every problem at once, each with its place."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from counting import count_calls
from ropewalk.check import check, ensure_valid
from ropewalk.errors import InvalidFlow, Problem
from ropewalk.expr.ast import NULL, Arr, Expr, Lit, Obj, Ref
from ropewalk.ir import Channel, Flow, Graph, Meta, Node, Policy, Retry
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep

from .flows import TRUE, call, compute, dag, flow, node, ordered, out, prev, problems


def test_a_sound_flow_has_no_problems_and_is_handed_back() -> None:
    sound = flow(ordered(call("a"), call("b", args_=prev()), result=prev()))
    assert check(sound).ok
    assert ensure_valid(sound) is sound


def test_all_problems_come_at_once_in_document_order() -> None:
    body = dag(
        call("b", after=frozenset({"x"}), source="nodes[0]"),
        call("a", args_=Ref("stat", ("y",)), source="nodes[1]", labels={"args": "params"}),
        call("b", source="nodes[2]"),
        result=out("z"),
    )
    with pytest.raises(InvalidFlow) as caught:
        ensure_valid(flow(body, timeout=-1))
    assert [p.path for p in caught.value.problems] == [
        "nodes[0].after",
        "nodes[1].params",
        "nodes[2].id",
        "timeout",
        "result",
    ]


def test_ids_are_unique_in_the_whole_flow() -> None:
    inner = dag(call("a", source="nodes[1].nodes[0]"))
    assert problems(dag(call("a", source="nodes[0]"), node("m", Map(items=Lit([]), body=inner)))) == [
        "nodes[1].nodes[0].id: the id 'a' is already used by nodes[0]"
    ]


@pytest.mark.parametrize("bad", ["", "a/b", "a[0]", "a]", "a@2", "a\nb", "a\x00", "\x85", "\u2028"])
def test_ids_that_would_break_a_path_are_refused(bad: str) -> None:
    assert len(problems(dag(call(bad), call("fine <é> & 'so'")))) == 1


def test_after_names_siblings() -> None:
    nodes = (call("search"), call("b", after=frozenset({"serach", "b", "search"})))
    assert problems(dag(*nodes)) == [
        "b.after: a node cannot start after itself",
        "b.after: unknown node 'serach'; did you mean search?",
    ]
    assert problems(ordered(call("a", after=frozenset({"b"})), call("b", after=frozenset({"a"})))) == [
        "a.after: 'b' comes later in this ordered list"
    ]


def test_a_cycle_is_named_in_the_order_of_running() -> None:
    body = dag(
        call("start"),
        call("a", after=frozenset({"c", "start"})),
        call("b", args_=out("a", "x")),
        call("c", when=out("b")),
        call("after_all", args_=out("c")),
    )
    assert problems(body) == ["a: these nodes wait for each other: a -> b -> c -> a"]


def test_each_knot_of_cycles_is_reported_once() -> None:
    body = dag(
        call("a", after=frozenset({"b"})),
        call("b", after=frozenset({"a"})),
        call("c", after=frozenset({"b", "d"})),
        call("d", after=frozenset({"c"})),
    )
    assert problems(body) == [
        "a: these nodes wait for each other: a -> b -> a",
        "c: these nodes wait for each other: c -> d -> c",
    ]


def test_a_cycle_through_a_nested_read_is_found() -> None:
    inner = dag(call("in", args_=out("later")))
    assert problems(dag(node("block", Block(body=inner)), call("later", args_=out("block")))) == [
        "block: these nodes wait for each other: block -> later -> block"
    ]


def test_a_huge_cycle_is_named_in_short() -> None:
    n = 10_000
    body = dag(*(call(f"n{i}", after=frozenset({f"n{(i - 1) % n}"})) for i in range(n)))
    (told,) = problems(body)
    assert len(told) < 300
    assert "n0 -> n1 ->" in told
    assert "9,992 more" in told


def test_numbers_are_sensible() -> None:
    retry = Retry(attempts=0, delay=-1, factor=float("inf"), max_delay=float("nan"))
    nodes = (
        call("a", policy=Policy(retry=retry, timeout=-5)),
        node("s", Sleep(seconds=Lit(-2))),
        node("t", Sleep(seconds=Lit("2s"))),
        node("m", Map(items=Lit([]), body=dag(limit=0), limit=0)),
        node("l", Loop(body=dag(), limit=0)),
        node("o", Loop(body=dag())),
    )
    assert problems(dag(*nodes, limit=-1), timeout=float("inf")) == [
        "a.policy.retry.attempts: must be at least 1 (the first try counts), not 0",
        "a.policy.retry.delay: must not be negative; it is -1",
        "a.policy.retry.factor: must be a finite number, not inf",
        "a.policy.retry.max_delay: must be a finite number, not nan",
        "a.policy.timeout: must not be negative; it is -5",
        "s.seconds: must not be negative; it is -2",
        "t.seconds: must be a number of seconds; this is a string",
        "m.limit: must be at least 1, not 0",
        "m.body.limit: must be at least 1, not 0",
        "l.limit: must be at least 1, not 0",
        "o.limit: a loop without items needs a limit on its iterations",
        "timeout: must be a finite number, not inf",
        "limit: must be at least 1, not -1",
    ]


def test_a_timeout_of_zero_is_a_warning() -> None:
    found = check(
        flow(dag(call("a", policy=Policy(timeout=0), source="nodes[0]", labels={"policy.timeout": "timeout"})))
    )
    assert found.ok
    assert [str(w) for w in found.warnings] == ["nodes[0].timeout: a timeout of 0 leaves no time; omit it for no limit"]


def test_sizes_are_limited() -> None:
    assert problems(dag(*(call(f"n{i}") for i in range(10_001)))) == ["more than 10,000 nodes; split the flow"]
    body = dag()
    for i in range(64):
        body = dag(node(f"n{i}", Block(body=body)))
    assert problems(body) == [
        "/".join(f"n{i}" for i in range(63, -1, -1)) + ": nested deeper than 64 levels; split the flow"
    ]
    assert problems(body.nodes[0].op.body) == []
    for i in range(64, 2_000):
        body = dag(node(f"n{i}", Block(body=body)))
    assert len(problems(body)) == 1


def test_deep_expressions_are_a_problem_and_not_a_crash() -> None:
    for depth in (101, 5_000):
        expr: Expr = NULL
        for _ in range(depth):
            expr = Arr((expr,))
        (told,) = problems(dag(compute("a", expr)))
        assert "nested" in told
    expr = NULL
    for _ in range(60):
        expr = Obj((("k", expr),))
    assert problems(dag(compute("a", expr))) == []


def test_empty_regions_are_fine() -> None:
    body = dag(
        node("b", Block(body=dag())),
        node("c", Branch(arms=((TRUE, dag()),), default=ordered())),
        node("m", Map(items=Lit([]), body=dag())),
        node("l", Loop(body=dag(), limit=1)),
    )
    assert problems(body) == []
    assert problems(dag()) == []


def test_channels_are_checked() -> None:
    state = {
        "a": Channel(reduce="array_apend"),
        "b": Channel(schema={"type": "string"}, initial=3),
        "c": Channel(schema={"type": "string"}, initial=None),
    }
    assert problems(dag(), state=state) == [
        "state.a.reduce: unknown reducer 'array_apend'; expected one of: last_wins, set_once, array_append, union, "
        "object_merge, sum, max, min; did you mean array_append?",
        "state.b.initial: must be a string; this is an integer",
    ]


def test_two_unordered_writers_of_a_set_once_field_are_a_problem() -> None:
    def told(body: Graph) -> list[str]:
        return problems(body, state={"x": Channel(reduce="set_once"), "y": Channel()})

    def writer(id: str, *after: str, **more: Any) -> Node:
        return call(id, after=frozenset(after), writes=Obj((("x", Lit(1)), ("y", Lit(2)))), **more)

    assert told(dag(writer("a", source="nodes[0]"), writer("b", source="nodes[1]"))) == [
        "nodes[1].writes.x: 'a' (nodes[0]) also writes 'x', and neither runs after the other; "
        "a set_once field accepts one write"
    ]
    assert told(dag(writer("a"), call("mid", after=frozenset("a")), writer("b", "mid"))) == []
    assert told(dag(writer("b", "mid"), call("mid", after=frozenset("a")), writer("a"))) == []
    assert told(ordered(writer("a"), writer("b"))) == []
    choice = Branch(arms=((TRUE, dag(writer("a"))),), default=dag(writer("b")))
    assert told(dag(node("c", choice))) == []
    assert len(told(dag(node("c", choice), writer("d")))) == 1
    assert told(dag(node("c", choice), writer("d", "c"))) == []
    assert len(told(dag(node("c", Block(body=dag(writer("a"), writer("b"))))))) == 1

    def doubts(body: Graph) -> list[str]:
        found = check(Flow(name="f", body=body, state={"x": Channel(reduce="set_once"), "y": Channel()}), None)
        return [str(warning) for warning in found.warnings]

    said = (
        "writes 'x' in each iteration, but a set_once field accepts one write: "
        "a second iteration that writes it will fail"
    )
    rounds = Loop(body=dag(node("c", choice)), limit=2, collect=False)
    assert doubts(dag(node("l", rounds))) == [f"l/c/{id}.writes.x: {said}" for id in "ab"]
    assert doubts(dag(node("m", Map(items=Lit([1, 2]), body=dag(writer("a")))))) == [f"m/a.writes.x: {said}"]
    assert doubts(dag(node("l", dataclasses.replace(rounds, limit=1)), writer("z", "l"))) == []
    cyclic = dag(writer("a", "b"), writer("b", "a"))
    assert any("wait for each other" in problem for problem in told(cyclic))


def test_a_new_kind_of_node_is_walked_by_its_fields() -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Race:
        names: tuple[str, ...]
        bodies: tuple[Graph, ...]
        odds: tuple[tuple[str, Expr], ...]

        def compile(self, site: Any, /) -> Any:
            raise NotImplementedError

    op = Race(names=("x",), bodies=(dag(), dag(compute("a", out("b")))), odds=(("x", out("c")),))
    assert [p.split(",")[0] for p in problems(dag(node("race", op, meta=Meta(labels={"odds": "chances"}))))] == [
        "race.chances[0][1]: reads 'c'",
        "race/a.value: reads 'b'",
    ]


def test_problems_have_their_column() -> None:
    (problem,) = check(flow(dag(compute("a", Obj((("k", Arr((TRUE, out("b", column=17)))),)))))).problems
    assert problem == Problem(
        path="a.value.k[1]",
        message="reads 'b', which is not a node of this flow; no output is readable here",
        column=17,
    )


def test_checking_is_linear_in_the_size() -> None:
    def chain(n: int) -> Graph:
        return ordered(*(Node(id=f"n{i}", op=Call(tool="t", args=Obj((("q", prev("x")),)))) for i in range(n)))

    def web(n: int) -> Graph:
        def needs(i: int) -> Arr:
            return Arr(tuple(out(f"n{j}") for j in range(max(0, i - 3), i)))

        return dag(*(Node(id=f"n{i}", op=Compute(value=needs(i))) for i in range(n)))

    for make in (chain, web):
        small, large = flow(make(1_000)), flow(make(10_000))
        assert check(small).ok
        assert check(large).ok
        assert count_calls(lambda: check(large)) < 12 * count_calls(lambda: check(small))  # noqa: B023
