"""Flows as chains: short documents, and every reason at once where a chain cannot hold a flow."""

from __future__ import annotations

from typing import Any

import pytest

from builder.tools_for_flows import bad, count, fetch, flaky, search
from ropewalk import App, flow
from ropewalk.builder.flow import Built
from ropewalk.errors import InvalidFlow, NotFound
from ropewalk.expr.ast import Lit, Ref
from ropewalk.ir import Flow, Graph, Node
from ropewalk.notations.chain.render import compile_document as compile_chain
from ropewalk.notations.registry import NOTATIONS
from ropewalk.ops import Call, Map, Require


def chain_of(built: Any) -> dict[str, Any]:
    """The document, which is read as it is written, and written from what is read."""
    document: dict[str, Any] = built.done().export("chain")
    compiled = compile_chain(document)
    write = NOTATIONS["chain"].write
    assert write is not None
    assert write(compiled.flow) == document
    return document


def refusals(built: Any) -> list[str]:
    with pytest.raises(InvalidFlow) as refused:
        built.done().export("chain")
    return [str(problem) for problem in refused.value.problems]


def test_a_chain_is_written_in_short_forms() -> None:
    with flow("report", topic=str) as f:
        f.settings(timeout=30)
        word = f.state("word", initial="none")
        hits = f.options(into=word, description="all of them").call(search, query=f"about {f.input.topic}")
        with f.parallel():
            f.call(fetch, url=hits[0].url)
            f.options(timeout=1.5, fallback=None).call(bad)
        pages = f.for_each(hits, lambda hit: f.call(fetch, url=hit.url), concurrency=2)
        f.when(pages.length() > 3, lambda: f.call(count, of=pages), lambda: f.value("few"))
        f.loop(lambda round: f.value(round), until=lambda value: value == 2, limit=5)
        f.options(attempts=4, delay=1.0).call(flaky, key="$x")
        f.sleep(0.25)
    assert chain_of(f) == {
        "kind": "chain",
        "name": "report",
        "inputSchema": {
            "type": "object", "properties": {"topic": {"type": "string"}}, "additionalProperties": False,
            "required": ["topic"],
        },
        "timeout": 30000,
        "variables": {"word": "none"},
        "nodes": [
            {"id": "search", "type": "tool", "tool": "search", "params": {"query": "about ${$input.topic}"},
             "description": "all of them", "outputVar": "word"},
            {"id": "parallel", "type": "parallel", "nodes": [
                {"id": "fetch", "type": "tool", "tool": "fetch", "params": {"url": "$output.search[0].url"}},
                {"id": "bad", "type": "tool", "tool": "bad", "timeout": 1500, "errorStrategy": "skip"},
            ]},
            {"id": "for_each", "type": "loop", "items": "$output.search", "concurrency": 2, "nodes": [
                {"id": "fetch_2", "type": "tool", "tool": "fetch", "params": {"url": "$item.url"}},
            ]},
            {"id": "when", "type": "condition", "condition": "length($output.for_each) > 3",
             "then": [{"id": "count", "type": "tool", "tool": "count", "params": {"of": "$output.for_each"}}],
             "otherwise": [{"id": "value", "type": "transform", "input": "few"}]},
            {"id": "loop", "type": "loop", "until": "$output.value_2 == 2", "maxIterations": 5, "nodes": [
                {"id": "value_2", "type": "transform", "input": "$iteration"},
            ]},
            {"id": "flaky", "type": "tool", "tool": "flaky", "params": {"key": "$$x"}, "errorStrategy": "retry"},
            {"id": "sleep", "type": "delay", "delay": 250},
        ],
    }  # fmt: skip


def test_a_flow_that_runs_at_once_is_a_parallel_chain_or_a_dag() -> None:
    with flow("apart") as f:
        f.settings(parallel=True)
        f.call(fetch, url="a")
        f.call(fetch, url="b")
    assert (chain_of(f)["mode"], "concurrency" in chain_of(f)) == ("parallel", False)
    with flow("dag") as f:
        f.settings(parallel=True, limit=2)
        a = f.call(fetch, url="a")
        b = f.call(fetch, url=a)
        f.options(after=[b, a]).call(fetch, url="c")
        f.result(b)
    document = chain_of(f)
    assert (document["mode"], document["concurrency"]) == ("dag", 2)
    assert document["nodes"][2]["dependsOn"] == ["fetch", "fetch_2"]
    assert document["result"] == "$output.fetch_2"


def test_retries_with_a_fallback_are_one_error_policy() -> None:
    with flow("both", go=bool) as f:
        f.options(attempts=2, fallback={"a": 1}, timeout=2, when=f.input.go).call(bad)
        f.options(attempts=3, delay=1, factor=2).call(bad)
        f.options(fallback=1, reported=True).call(bad)
    policy = {"policy": "fallback", "attempts": 2, "delay": 0, "value": {"a": 1}}
    call = {"type": "tool", "tool": "bad"}
    assert chain_of(f)["nodes"] == [
        {"id": "bad", **call, "condition": "$input.go", "timeout": 2000, "onError": policy},
        {"id": "bad_2", **call, "onError": {"policy": "retry", "attempts": 3, "delay": 1000}},
        {"id": "bad_3", **call, "onError": {"policy": "continue", "value": 1}},
    ]


def test_a_member_called_output_is_read_as_a_member() -> None:
    with flow("output") as f:
        f.value(f.value(f.input.plain).output.n)
        f.value(f.value(f.input.deep).output.n)
    given = {"plain": {"n": 1}, "deep": {"output": {"n": 1}}}
    document = chain_of(f)

    async def main() -> Any:
        async with App("memory") as app:
            return (await app.run(document, given)).result, (await app.run(f, given)).result

    import asyncio

    as_chain, as_flow = asyncio.run(main())
    assert as_chain == as_flow == {"value": {"n": 1}, "value_2": None, "value_3": {"output": {"n": 1}}, "value_4": 1}


def test_everything_that_chains_cannot_hold_is_told_at_once() -> None:
    with flow("much") as f:
        total = f.state("total", int, reduce="sum", initial=0)
        with f.parallel():
            a = f.call(fetch, url="a")
            f.call(fetch, url=a)
            f.call(fetch, url="c")  # at the same time: there is more than one order
        many = f.for_each(["a"], lambda x: f.call(fetch, url=x), concurrency=None)
        last = f.loop(lambda: f.options(writes=lambda got: {total: 1}).value(1), limit=2, collect=False)
        f.options(attempts=3, delay=1, factor=3).call(bad)
        f.options(when=last == 1).when(many.length() == 1, 1, 2)
        f.options(gate=last == 1).value(f.status(last))
    told = refusals(f)
    parts = {
        "state.total": "reducer 'sum' is not supported",
        "parallel/fetch_2": "waits for fetch",
        "for_each": "`concurrency` (2 or more)",
        "loop": "not only the last one",
        "loop/value": "one variable",
        "bad": "grow linearly or double",
        "when": "never skipped",
        "value_2": "no gates",
        "value_2/value": "the status of 'loop'",
    }
    for path, part in parts.items():
        assert any(line.startswith(f"{path}: ") and part in line for line in told), (path, told)
    assert len(told) == len(parts) + 2, told  # the type of the state; the sibling that is read


def test_what_the_graph_learns_later_is_refused_until_chains_have_a_word_for_it() -> None:
    call = Node(id="a", op=Call(tool="t", args=Lit({}), also=Lit({"x": 1})), result=Ref("out", ("a", "b")))
    kept = Node(id="k", op=Map(items=Lit([1]), body=Graph(nodes=(), result=Lit(True)), limit=2, select=True))
    checked = Node(id="v", op=Require(value=Lit(1), holds=Lit(True), message=Lit("no")))
    body = Graph(nodes=(call, kept, checked), ordered=True, result=Ref("out", ("v",)))
    told = refusals(Built(Flow(name="new", body=body)))
    assert told == [
        "a: chains cannot express the extra inputs of a module",
        "k: to filter or reduce, a chain calls one tool for each item, without a policy",
        "v: chains have no require nodes",
    ]


def test_in_a_dag_a_reported_failure_skips_what_waits() -> None:
    with flow("dag") as f:
        f.settings(parallel=True)
        a = f.options(reported=True).call(bad)
        f.value([a])
        f.value(1)  # which may run at any time: there is more than one order
    assert "skips the nodes that depend" in refusals(f)[0]


def test_the_result_of_a_dag_reads_the_state_that_all_nodes_left() -> None:
    with flow("dag") as f:
        f.settings(parallel=True)
        kept = f.state("kept", initial=0)
        f.options(into=kept, name="a").value(1)
        f.options(reported=True, name="b").call(bad)
        f.result(kept)
    assert chain_of(f)["result"] == "$var.kept"


def test_a_round_of_an_outer_loop_is_refused_where_chains_mean_the_inner() -> None:
    with flow("rounds") as f:
        f.loop(lambda n: f.for_each([1], lambda x: f.value([n, x]), concurrency=2), limit=2)
    assert "innermost" in refusals(f)[0]


def test_an_unknown_notation_is_told_with_those_there_are() -> None:
    with flow("x") as f:
        f.value(1)
    assert isinstance(f.done(), Built)
    with pytest.raises(NotFound, match="chian"):
        f.done().export("chian")


def test_conversion_to_the_same_notation_is_the_document() -> None:
    app = App("memory")
    chain = {"name": "same", "nodes": [{"id": "a", "type": "tool", "tool": "t", "onSuccess": ["a2"]},
                                       {"id": "a2", "type": "tool", "tool": "t"}]}  # fmt: skip
    again = app.convert(chain, "chain")
    assert {key: again[key] for key in ("kind", "name", "nodes")} == {"kind": "chain", **chain}
    assert app.load(app.convert(chain, "flow")).flow == app.load(chain).flow
