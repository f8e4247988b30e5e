"""Flows as compositions, composites and experiences: documents as people write them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builder.tools_for_flows import bad, count, fetch, search
from ropewalk import flow
from ropewalk.app.app import App
from ropewalk.codec import flow_to_json
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import NULL, Ref
from ropewalk.notations.registry import NOTATIONS, write


def document_of(built: Any, kind: str) -> dict[str, Any]:
    """The document, which is written the same when it has been read."""
    document: dict[str, Any] = built.done().export(kind)
    notation = NOTATIONS[kind]
    assert notation.write is not None
    assert notation.write(notation.compile(document).flow) == document
    return document


def refusals(built: Any, kind: str) -> str:
    with pytest.raises(InvalidFlow) as refused:
        built.done().export(kind)
    return str(refused.value)


def test_a_composition_has_its_own_nodes_for_what_people_do() -> None:
    with flow("offers", topic=str) as f:
        hits = f.call(search, query=f.input.topic)
        good = f.options(name="good").value(hits.filter(lambda hit: hit.score > 0.5))
        pages = f.options(name="pages").for_each(good, lambda hit: f.call(fetch, url=hit.url), concurrency=4)
        both = f.options(name="both").value(pages.zip(good))
        f.options(name="named").value(f.value({"a": 1}).rename({"a": "b"}))
        f.options(name="some").when(both.length() > 3, lambda: f.call(count, of=pages), {"n": 0})
        f.options(fallback={"n": -1}).call(count, of=pages)
    document = document_of(f, "composition")
    nodes = {node.pop("id"): node for node in document["nodes"]}
    assert document["inputSchema"]["required"] == ["topic"]
    assert nodes == {
        "search": {"type": "tool", "tool": "search", "inputMapping": {"query": "$input.topic"}},
        "good": {"type": "filter", "items": "$output.search", "expression": "$item.score > 0.5"},
        "pages": {"type": "map", "tool": "fetch", "items": "$output.good", "inputMapping": {"url": "$item.url"},
                  "concurrency": 4},
        "both": {"type": "merge", "sources": ["$output.pages", "$output.good"], "strategy": "zip"},
        "value": {"type": "conditional", "condition": True, "then": {"a": 1}},
        "named": {"type": "transform", "transform": {"type": "RENAME", "config": {"fields": {"a": "b"}}},
                  "inputMapping": "$output.value"},
        "some": {"type": "conditional", "condition": "length($output.both) > 3",
                 "then": [{"id": "count", "type": "tool", "tool": "count", "inputMapping": {"of": "$output.pages"}}],
                 "otherwise": {"n": 0}},
        "count_2": {"type": "tool", "tool": "count", "inputMapping": {"of": "$output.pages"}, "onError": "fallback",
                    "fallback": {"n": -1}},
    }  # fmt: skip
    assert set(document["result"]) == set(nodes)


def test_what_compositions_cannot_hold_is_told_at_once() -> None:
    with flow("much", go=bool) as f:
        n = f.state("n", {"type": "number"})
        f.options(writes=lambda out: {n: 1}).call(fetch, url="a")
        f.options(attempts=4, delay=1, factor=3).call(bad)
        f.loop(lambda: f.value(1), limit=2, collect=False)
    told = refusals(f, "composition")
    for part in ("one variable", "have no type", "grow linearly or double", "not only the last one"):
        assert part in told, part


def test_a_composition_says_when_how_often_how_long_and_what_at_once() -> None:
    with flow("much", go=bool) as f:
        f.settings(timeout=3)
        f.options(when=f.input.go).call(fetch, url="a")
        f.options(attempts=3, delay=0.5, timeout=1, reported=True).call(bad)
        with f.parallel(limit=2) as both:
            first = f.call(fetch, url="b")
            f.call(fetch, url=first)
        f.sleep(0.25)
        f.value({"type": "tool", "id": "x"})
        f.result(both)
    document = document_of(f, "composition")
    assert document["timeout"] == 3000
    assert document["nodes"] == [
        {"id": "fetch", "type": "tool", "tool": "fetch", "inputMapping": {"url": "a"}, "condition": "$input.go"},
        {"id": "bad", "type": "tool", "tool": "bad", "inputMapping": {}, "timeout": 1000, "maxRetries": 2,
         "retryDelay": 500, "onError": "continue", "fallback": None},
        {"id": "parallel", "type": "parallel", "concurrency": 2, "nodes": [
            {"id": "fetch_2", "type": "tool", "tool": "fetch", "inputMapping": {"url": "b"}},
            {"id": "fetch_3", "type": "tool", "tool": "fetch", "inputMapping": {"url": "$output.fetch_2"}},
        ]},
        {"id": "sleep", "type": "delay", "delay": 250, "outputMapping": "${null}"},
        {"id": "value", "type": "conditional", "condition": True, "then": [
            {"id": "value_", "type": "merge", "sources": [{"type": "tool", "id": "x"}]},
        ]},
    ]  # fmt: skip
    assert document["result"] == "$output.parallel"


def test_a_composite_holds_calls_with_conditions() -> None:
    with flow("tool", topic=str) as f:
        f.settings(timeout=2)
        hits = f.call(search, query=f.input.topic)
        f.options(when=hits.length() > 1, description="again").call(search, query=hits[0].url)
        f.result(f.call(count, of=[f"{hits[0].url}"]))
    document = document_of(f, "composite")
    assert (document["name"], document["mode"], document["timeout"]) == ("tool", "compose", 2000)
    assert document["steps"] == [
        {"name": "search", "tool": "search", "inputMapping": {"query": "$input.topic"}},
        {"name": "search_2", "tool": "search", "inputMapping": {"query": "$steps[0][0].url"},
         "condition": "length($steps[0]) > 1", "description": "again"},
        {"name": "count", "tool": "count", "inputMapping": {"of": ["${interpolate($steps[0][0].url)}"]}},
    ]  # fmt: skip
    with flow("no", topic=str) as f:
        kept = f.state("kept", {"type": "number"}, initial=0)
        before = f.value(kept)
        f.set(kept, 1)
        f.options(name="rounds").loop(lambda: f.call(bad), limit=2)
        f.result(before)
    told = refusals(f, "composite")
    for part in ("have no type", "compute", "no loop", "cannot keep their earlier values"):
        assert part in told, part


def test_a_composite_has_no_value_of_a_block_before_a_skipped_step() -> None:
    with flow("skips", n=int) as f:
        with f.block():
            f.call(fetch, url="a")
            f.call(fetch, url="b")
        f.value({"a": 1})
        f.options(when=f.input.n > 3).call(fetch, url="c")
    built = f.done()
    read = replace(built.flow, body=replace(built.flow.body, result=Ref("prev")))
    with pytest.raises(InvalidFlow, match="the value of a step that may be skipped"):
        write(read, "composite")


def test_an_experience_has_edges_loops_and_pipelines() -> None:
    with flow("site") as f:
        f.settings(parallel=True, limit=4)
        seen = f.state("seen", {"type": "string"}, initial="")
        n = f.state("n", {"type": "number"})
        hits = f.call(search, query="a")
        f.options(name="pages").for_each(
            hits, lambda hit: f.options(into=seen, attempts=2, delay=0.1).call(fetch, url=hit.url), concurrency=2
        )
        f.options(name="rounds").loop(
            lambda: f.options(name="step", writes=lambda out: {n: out.n}).call(count, of=[seen]),
            while_=~(n == 3), limit=5, collect=False,
        )  # fmt: skip

        def mail(hit: Any) -> Any:
            page = f.options(name="page").call(fetch, url=hit.url)
            return f.options(name="mail", reported=True).call(count, of=[page])

        f.options(name="mails").for_each(hits, mail, concurrency=4)
        f.result(None)
    document = document_of(f, "experience")
    assert document["state"]["schema"] == {
        "seen": {"type": "string", "default": ""}, "n": {"type": "number"},
    }  # fmt: skip
    assert document["graph"] == {
        "nodes": [
            {"id": "search", "kind": "call", "tool": "search", "args": {"query": "a"}},
            {"id": "pages", "kind": "call", "tool": "fetch", "args": {"url": "$item.url"}, "writes": ["seen"],
             "on_error": {"policy": "retry", "attempts": 2, "delay": 100},
             "for_each": {"items": "$output.search", "concurrency": 2}},
            {"id": "step", "kind": "call", "tool": "count", "args": {"of": ["$state.seen"]}, "output": "n",
              "writes": ["n"]},
            {"id": "page", "kind": "call", "tool": "fetch", "args": {"url": "$item.url"}},
            {"id": "mail", "kind": "call", "tool": "count", "args": {"of": ["$output.page"]}, "on_error": "skip"},
        ],
        "edges": [{"from": "search", "to": "pages"}, {"from": "search", "to": "mails"}],
        "loops": [{"id": "rounds", "body": ["step"], "until": "$state.n == 3", "max_iters": 5}],
        "pipelines": [{"id": "mails", "items": "$output.search", "stages": ["page", "mail"]}],
    }  # fmt: skip


def test_what_experiences_cannot_hold_is_told_at_once() -> None:
    with flow("order") as f:
        f.settings(parallel=True)
        n = f.state("n", {"type": "number"})
        f.loop(lambda: f.options(into=n).call("server:count"), limit=2, collect=False)
        f.options(into=n).call("server:count")
        f.result(n)
    assert "in this order" in refusals(f, "experience")
    with flow("much", x=str) as f:
        f.state("any", {"type": "integer"}, initial=1)
        a = f.call(fetch, url="a")
        f.options(attempts=3, delay=1, factor=3, name="b-c").call(fetch, url=a)
        with f.options(fallback=1).block():
            f.call(fetch, url="a")
    told = refusals(f, "experience")
    for part in ("declared as one of", "grow linearly or double", "not for a block", "letters, digits"):
        assert part in told, part


def test_an_experience_says_conditions_choices_values_and_fallbacks() -> None:
    with flow("order") as f:
        n = f.state("n", initial=0)
        f.options(into=n, reported=True, when=f.input.x == "a").call("server:count")
        f.options(fallback=lambda error: {"why": error.message}).call("server:count")
        f.options(name="chosen").when(n == 1, lambda: f.options(name="yes").call("server:count"), 2)
        f.sleep(0.25)
        f.result({"n": n})
    document = document_of(f, "experience")
    assert document["state"]["schema"] == {"n": {"type": "any", "default": 0}}
    nodes = {node.pop("id"): node for node in document["graph"]["nodes"]}
    assert nodes == {
        "count": {"kind": "call", "tool": "server:count", "when": '$input.x == "a"', "writes": ["n"],
                  "on_error": "continue"},
        "count_2": {"kind": "call", "tool": "server:count",
                    "on_error": {"policy": "fallback", "value": {"why": "$error.message"}}},
        "chosen_if": {"kind": "value", "value": "${$state.n == 1 == true}"},
        "yes": {"kind": "call", "tool": "server:count", "when": "$output.chosen_if == true"},
        "chosen": {"kind": "value", "value": "${$output.chosen_if == true ? $output.yes : 2}"},
        "sleep": {"kind": "delay", "delay": 250},
    }  # fmt: skip
    assert [(edge["from"], edge["to"]) for edge in document["graph"]["edges"]] == [
        ("count", "count_2"), ("count_2", "chosen_if"), ("chosen_if", "yes"), ("yes", "chosen"), ("chosen", "sleep"),
    ]  # fmt: skip


def test_tools_of_a_directory_stay_there() -> None:
    experience = {
        "name": "here", "version": "0.1.0", "state": {"schema": {}},
        "graph": {"nodes": [{"id": "a", "kind": "tool", "impl": "./a.py"}]},
    }  # fmt: skip
    with pytest.raises(InvalidFlow, match="exists only in the directory of an experience"):
        App("memory").convert({"kind": "experience", **experience}, "chain")


def test_documents_are_converted_where_the_meaning_allows() -> None:
    app = App("memory")
    second = {"name": "b", "tool": "y", "inputMapping": {"of": "$prev"}, "condition": "$prev != null"}
    composite = {"name": "t", "mode": "compose", "steps": [{"name": "a", "tool": "x"}, second]}
    chain = app.convert(composite, "chain")
    assert [node["id"] for node in chain["nodes"]] == ["a", "b"]
    assert chain["result"] == "$prev"
    assert app.convert(chain, "flow")["kind"] == "flow"
    composition = app.convert(composite, "composition")
    assert composition["nodes"][1]["condition"] == "$prev != null"
    assert app.convert(composition, "composite")["steps"][1]["condition"] == "$prev != null"


def test_what_calls_the_files_of_a_directory_is_no_flow_of_its_own() -> None:
    document = {
        "kind": "experience", "name": "near", "version": "1.0.0", "state": {"schema": {}},
        "graph": {"nodes": [{"id": "here", "kind": "tool", "impl": "./tools/here.py"}]},
    }  # fmt: skip
    local = NOTATIONS["experience"].compile(document).flow
    for kind in ("flow", "chain"):
        with pytest.raises(InvalidFlow) as refused:
            write(local, kind)
        assert "'impl:./tools/here.py', which exists only in the directory of an experience" in str(refused.value)
        assert [problem.path for problem in refused.value.problems][:1] == ["here"]


def test_an_agent_is_written_as_the_node_it_came_from() -> None:
    """EXP-KIND-5"""
    nodes = [
        {"id": "plain", "kind": "agent", "prompt": "Say hello.", "on_error": "skip"},
        {"id": "ask", "kind": "agent", "prompt": "About ${$state.t}.", "tools": ["a", "b:c"], "max_rounds": 3,
         "output_schema": {"type": "object"}, "writes": ["t"]},
    ]  # fmt: skip
    document = {
        "kind": "experience", "name": "agents", "version": "0.1.0", "state": {"schema": {"t": {"type": "object"}}},
        "graph": {"nodes": nodes},
    }  # fmt: skip
    flow = NOTATIONS["experience"].compile(document).flow
    write = NOTATIONS["experience"].write
    assert write is not None
    assert NOTATIONS["experience"].compile(write(flow)).flow == flow
    assert {node["id"]: node for node in write(flow)["graph"]["nodes"]} == {node["id"]: node for node in nodes}


@pytest.mark.parametrize("kind", ["composition", "experience"])
def test_a_map_over_the_first_items_is_one_over_a_list_that_is_cut(kind: str) -> None:
    call = {"id": "b", "type": "tool", "tool": "t", "params": {"i": "$item"}}
    loop = {"id": "m", "type": "loop", "items": "$input.l", "maxIterations": 2, "concurrency": 8, "nodes": [call]}
    chain = NOTATIONS["chain"].compile({"name": "n", "timeout": 0, "nodes": [loop]}).flow
    result = NULL if kind == "experience" else Ref("out", ("m",))  # which gives its state
    made = replace(chain, body=replace(chain.body, result=result))
    assert "$index < 2" in str(write(made, kind))


def test_refusals_call_nodes_as_the_document_does() -> None:
    nodes = [{"id": "w", "type": "loop", "maxIterations": 2, "nodes": [{"id": "d", "type": "delay", "delay": 1}]}]
    rounds = {"kind": "chain", "mode": "loop", "nodes": [{"id": "t", "type": "tool", "tool": "x", "outputVar": "v"}]}
    told = []
    for document, kind in (({"kind": "chain", "nodes": nodes}, "composite"), (rounds, "composition")):
        with pytest.raises(InvalidFlow) as refused:
            write(NOTATIONS["chain"].compile(document).flow, kind)
        told += [str(problem) for problem in refused.value.problems]
    assert "w: composites have no loop nodes; the steps of a composite call tools or wait" in told
    assert "rounds: a composition cannot hold mode: loop" in told
    merged = [{"id": "m", "type": "merge", "sources": ["$input.a", "$input.b"]}]
    composition = {"kind": "composition", "nodes": merged, "outputSchema": {"type": "object"}}
    assert write(NOTATIONS["composition"].compile(composition).flow, "experience")["outputSchema"]["type"] == "object"


CONVERTIBLE: list[dict[str, Any]] = [
    {"kind": "chain", "name": "c", "mode": "loop", "until": "$iteration > 2", "nodes": [
        {"id": "a", "type": "tool", "tool": "x", "params": {"q": "$input"}, "outputVar": "v"},
        {"id": "l", "type": "loop", "items": [1, 2], "nodes": [{"id": "b", "type": "tool", "tool": "x"}]}]},
    {"kind": "composition", "name": "k", "outputSchema": {"type": "object"}, "nodes": [
        {"id": "a", "type": "tool", "tool": "x"},
        {"id": "i", "type": "conditional", "condition": "$prev != null", "then": [
            {"id": "b", "type": "tool", "tool": "y"}]}]},
    {"kind": "composite", "name": "t", "mode": "compose", "steps": [{"name": "a", "tool": "x"}]},
]  # fmt: skip


@pytest.mark.parametrize("document", CONVERTIBLE, ids=lambda document: document["kind"])
def test_a_flow_is_written_in_its_own_words(document: dict[str, Any]) -> None:
    """No node holds what another notation calls its fields; earlier documents, where each does, are read."""
    app = App("memory")
    loaded = app.load(document)
    written = app.convert(document, "flow")
    for region in written["regions"]:
        for node in region["nodes"]:
            meta = node.get("meta", {})
            assert set(meta.get("labels", {})) <= ({"hidden"} if meta.get("hidden") else set())
    earlier = {"kind": "flow", **flow_to_json(loaded.flow)}
    assert len(str(written)) < len(str(earlier)) * (0.5 if document["kind"] == "chain" else 1)
    for each in (written, earlier):
        assert app.load(each).flow == loaded.flow
