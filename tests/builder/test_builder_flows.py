"""Flows written in Python do what they say: each kind of node, and what is said of one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from builder.tools_for_flows import bad, calls, count, fetch, flaky, get, result, run, search
from ropewalk import App, flow, transform
from ropewalk.codec import flow_from_json
from ropewalk.errors import InvalidFlow
from ropewalk.ops import Loop, Map


def test_a_sequence_with_expressions_over_what_came_before() -> None:
    with flow("report", topic=str, most=int | None) as f:
        hits = f.call(search, query=f.input.topic, limit=f.input.most.coalesce(10))
        good = hits.filter(lambda hit: hit.score > 0.5).sort(lambda hit: hit.score, "desc")
        pages = f.for_each(good, lambda hit: f.call(fetch, url=hit.url))
        counted = f.call(count, of=pages)
        f.result({
            "about": f"{f.input.topic}: {counted.n} of {hits.length()}",
            "first": pages[0],
            "sum": hits.map(lambda hit: hit.score * 10).reduce(lambda total, x: total + x, 0),
            "big": (counted.n > 3) & ~(counted.n == 100),
            "none": hits[99].url == None,  # noqa: E711 - a reference
            "word": (counted.n > 100).choose("many", "few"),
        })  # fmt: skip
    assert result(f.done(), {"topic": "rope"}) == {
        "about": "rope: 4 of 10",
        "first": "page rope/9",
        "sum": 45,
        "big": True,
        "none": False,
        "word": "few",
    }
    assert result(f, {"topic": "rope", "most": 2})["about"] == "rope: 0 of 2"


def test_without_a_result_the_values_of_all_nodes_by_name() -> None:
    with flow("plain") as f:
        page = f.call(fetch, url="a")
        f.call(fetch, url=page)
        f.options(name="third").call(fetch, url="c")
        f.call(get, url="d", depth=2)
    assert result(f) == {
        "fetch": "page a",
        "fetch_2": "page page a",
        "third": "page c",
        "net_get": "d {'depth': 2}",
    }


def test_a_parallel_block_is_a_graph_by_use_and_its_nodes_are_read_from_outside() -> None:
    with flow("dag") as f:
        with f.parallel(limit=2) as block:
            a = f.call(fetch, url="a")
            b = f.call(fetch, url="b")
            both = f.call(fetch, url=a + b)
            f.options(after=[both], name="last").value(1)
            with f.block():
                deep = f.call(fetch, url="deep")
        f.result([both, deep, block.fetch, block["last"]])
    body = f.done().flow.body.nodes[0].op.body  # type: ignore[attr-defined]
    assert (body.ordered, body.limit) == (False, 2)
    assert body.needs["fetch_3"] == {"fetch", "fetch_2"}
    assert body.needs["last"] == {"fetch_3"}
    assert result(f) == ["page page apage b", "page deep", "page a", 1]


def test_a_whole_flow_that_runs_at_once() -> None:
    met: list[str] = []
    here = asyncio.Event()

    async def one(name: str) -> str:
        met.append(name)
        if len(met) == 2:
            here.set()
        await here.wait()
        return name

    with flow("both") as f:
        f.settings(parallel=True, limit=4, timeout=5, returns=dict[str, str])
        f.call(one, name="a")
        f.call(one, name="b")
    assert result(f) == {"one": "a", "one_2": "b"}
    assert f.done().flow.timeout == 5


def test_branches_with_functions_and_with_plain_values() -> None:
    with flow("branches", n=int) as f:
        chosen = f.when(f.input.n > 5, then=lambda: f.call(fetch, url="big"), otherwise="small")
        case = f.cases(
            (f.input.n == 1, "one"),
            (f.input.n == 9, lambda: f.value(f"nine: {chosen}")),
            otherwise=lambda: {"other": f.input.n},
        )
        f.result([chosen, case])
    assert result(f, {"n": 9}) == ["page big", "nine: page big"]
    assert result(f, {"n": 1}) == ["small", "one"]
    assert result(f, {"n": 2}) == ["small", {"other": 2}]


def test_for_each_one_after_another_or_at_once() -> None:
    with flow("each") as f:
        one = f.for_each(["a", "b"], lambda word, place: f.call(fetch, url=f"{place}{word}"))
        many = f.for_each(one, lambda page: f.value({"p": page}), concurrency=3)
        every = f.for_each(many, lambda row: row.p, concurrency=None)
        nothing = f.for_each([], lambda word: f.value(word))
        f.result([one, many, every, nothing])
    assert [type(node.op) for node in f.done().flow.body.nodes[:2]] == [Loop, Map]
    pages = ["page 0a", "page 1b"]
    assert result(f) == [pages, [{"p": "page 0a"}, {"p": "page 1b"}], pages, []]


def test_an_outer_element_is_known_inside() -> None:
    with flow("nested", rows=list[list[int]]) as f:

        def row(cells, i):  # type: ignore[no-untyped-def]
            return f.for_each(cells, lambda cell, j: f.value([i, j, cell, cells.length()]), concurrency=2)

        f.result(f.for_each(f.input.rows, row, concurrency=2).flat_map(lambda each: each))
    assert result(f, {"rows": [[7], [8, 9]]}) == [[0, 0, 7, 1], [1, 0, 8, 2], [1, 1, 9, 2]]


def test_lambdas_inside_lambdas_keep_their_names_apart() -> None:
    with flow("names", rows=list[list[int]]) as f:
        pairs = f.input.rows.map(lambda x: x.map(lambda y, i: [y, i, x.map(lambda x: x + y)]))
        f.result(pairs)
    assert result(f, {"rows": [[1, 2]]}) == [[[1, 0, [2, 3]], [2, 1, [3, 4]]]]


def test_loops_with_conditions_of_the_round() -> None:
    with flow("loops") as f:
        until = f.loop(lambda round: f.value(round * 2), until=lambda value: value >= 4, limit=9)
        last = f.loop(lambda: f.value(1), limit=3, collect=False)
        total = f.state("total", int, initial=0, reduce="sum")
        f.loop(lambda: f.set(total, 5), while_=total < 12, limit=9)
        f.result([until, last, total])
    assert result(f) == [[0, 2, 4], 1, 15]


def test_selecting_and_folding_with_tools() -> None:
    async def big(n: int) -> bool:
        return n > 1

    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    with flow("tools", numbers=list[int]) as f:
        some = f.select(f.input.numbers, lambda n: f.call(big, n=n), concurrency=2)
        total = f.fold(some, lambda so_far, n: f.options(gives=lambda got: got.sum).call(add, a=so_far, b=n), 10)
        nested = f.fold(
            some,
            lambda so_far, n: f.value([so_far, f.value(n), f.for_each([n], lambda x: f.value([so_far, x]))]),
            start=0,
        )
        computed = f.fold(some, lambda so_far, n: so_far + n, 0)
        f.result([some, total, nested, computed])
    assert result(f, {"numbers": [1, 2, 3]}) == [[2, 3], 15, [[0, 2, [[0, 2]]], 3, [[[0, 2, [[0, 2]]], 3]]], 5]


def test_values_are_checked_where_that_is_asked_for() -> None:
    with flow("checked") as f:
        f.check(f.input.rows, list[int])
        f.options(fallback="no").check(f.input.rows, {"maxItems": 1})
    assert result(f, {"rows": [1, 2]}) == {"check": [1, 2], "check_2": "no"}
    assert run(f, {"rows": ["a"]})["status"] == "failed"


def test_how_many_nodes_run_at_once_can_be_said_for_a_run() -> None:
    running: list[int] = []
    now = 0

    async def one() -> None:
        nonlocal now
        now += 1
        running.append(now)
        for _ in range(9):
            await asyncio.sleep(0)
        now -= 1

    with flow("wide") as f:
        f.settings(parallel=True)
        for _ in range(3):
            f.call(one)
    run(f)
    assert max(running) == 3
    running.clear()
    run(f, concurrency=1)
    assert max(running) == 1
    with flow("line") as f:
        f.call(one)
    with pytest.raises(InvalidFlow, match="one after another"):
        run(f, concurrency=1)


def test_a_flow_is_a_tool_of_another() -> None:
    with flow("inner", url=str) as f:
        f.settings(returns=str)
        f.result(f.call(fetch, url=f.input.url))

    async def main() -> Any:
        async with App("memory") as app:
            with flow("outer") as g:
                g.result(g.call(app.as_tool(f), url="x"))
            return (await app.run(g)).result

    assert asyncio.run(main()) == "page x"


def test_state_is_written_through_its_reducer() -> None:
    with flow("state") as f:
        seen = f.state("seen", list[str], initial=[], reduce="array_append")
        most = f.state("most", int, reduce="max")
        page = f.state("page")
        f.for_each(
            ["x", "yyy"],
            lambda word: f.options(into=page, writes=lambda got: {seen: [got], most: word.length()}).call(
                fetch, url=word
            ),
        )
        f.set(page, page + "!")
        f.result([seen, most, page])
    done = run(f)
    assert done["result"] == [["page x", "page yyy"], 3, "page yyy!"]
    assert done["state"] == {"seen": ["page x", "page yyy"], "most": 3, "page": "page yyy!"}


def test_retry_fallback_skip_and_timeouts() -> None:
    calls.clear()
    with flow("policies", hurry=bool) as f:
        tried = f.options(attempts=3).call(flaky, key="a")
        stood_in = f.options(attempts=2, fallback=lambda error: f"{error.tool}: {error.message}").call(flaky, key="b")
        silent = f.options(fallback=None).call(bad)
        told = f.options(fallback={"a": 1}, reported=True).call(bad, why="told")
        skipped = f.options(when=f.input.hurry).call(bad)
        with f.options(fallback="the block failed", timeout=5).block():
            f.call(fetch, url="a")
            f.call(bad)
        f.result([tried, stood_in, silent, told, skipped, f.status(skipped), f.status(told)])
    done = run(f, {"hurry": False})
    assert done["result"] == [
        "a after 3", "flaky: call 2 of b", None, {"a": 1}, None, "skipped", "failed",
    ]  # fmt: skip
    assert (done["status"], [e["message"] for e in done["errors"]]) == ("partial", ["told"])
    policy = f.done().flow.body.nodes[-1].policy
    assert (policy.timeout, policy.on_error is not None) == (5, True)


def test_a_sleep_is_a_node_and_its_time_an_expression() -> None:
    with flow("sleeps", ms=int) as f:
        f.sleep(f.input.ms / 1000)
    assert result(f, {"ms": 1}) == {"sleep": None}


def test_texts_and_constants_are_what_they_say() -> None:
    text = "$5 ${not} $$ $input.x"
    with flow("texts", x=str) as f:
        kept = f.value({"text": text, "list": [text, f"{f.input.x}{text}"], "n": -1.5, "deep": [[], {}, None]})
        f.result({"kept": kept, "joined": "a" + f.input.x + str(f.input.x), "lower": f.input.x.lower()})
    assert result(f, {"x": "X"}) == {
        "kept": {"text": text, "list": [text, f"X{text}"], "n": -1.5, "deep": [[], {}, None]},
        "joined": "aXX",
        "lower": "x",
    }


@transform
def shout(value: Any) -> Any:
    return f"{value}!"


def test_custom_transforms_by_their_function() -> None:
    with flow("custom") as f:
        f.result(f.apply(shout, f.call(fetch, url="a")))
    assert result(f) == "page a!"


def test_secrets_are_read_at_the_call_and_not_recorded(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("KEY", "very-secret-value")
    with flow("secrets") as f:
        f.result(f.call(count, of=[f.secret.KEY]).n)
    assert result(f, store=str(tmp_path / "s.db")) == 1
    assert b"very-secret-value" not in (tmp_path / "s.db").read_bytes()


def test_fields_whose_names_are_functions_of_the_language_are_read_as_fields() -> None:
    with flow("fields") as f:
        row = f.value({"length": 1, "filter": {"map": 2}, "keys": 3, "_x": 4})
        f.result([row.length, row.filter.map, row["keys"], row["_x"], row.length(), row.filter.keys()])
    assert result(f) == [1, 2, 3, 4, 4, ["map"]]


def test_the_document_is_the_codecs_and_the_same_wherever_the_flow_stands() -> None:
    def written() -> Any:
        with flow("same", x=int) as f:
            f.options(description="twice").value(f.input.x * 2)
        return f.done()

    first, second = written(), written()
    assert first.document == second.document
    assert first.document["kind"] == "flow"
    rest = {key: value for key, value in first.document.items() if key != "kind"}
    assert flow_from_json(rest) == first.flow
    assert "test_builder_flows.py" not in str(first.document)
    assert result(first.document, {"x": 4}) == result(first, {"x": 4}) == {"value": 8}
    assert "twice" in str(first.document)


def test_it_is_drawn_with_and_without_an_app() -> None:
    with flow("drawn") as f:
        f.for_each(["a"], lambda word: f.call(fetch, url=word))
    assert "fetch  Call fetch" in f.done().draw()
    assert f.done().draw("mermaid") == App("memory").draw(f)
    assert "<svg" in App("memory").draw(f.done(), "svg")


def test_a_run_whose_process_died_goes_on_from_the_stored_flow(tmp_path) -> None:  # type: ignore[no-untyped-def]
    address = str(tmp_path / "runs.db")
    done: list[str] = []
    reached = asyncio.Event()

    async def step(name: str) -> str:
        done.append(name)
        if done == ["a", "b"]:
            reached.set()
            await asyncio.Event().wait()
        return name

    with flow("resumed") as f:
        f.call(step, name="a")
        f.call(step, name="b")

    async def main() -> None:
        async with App(address) as app:
            running = asyncio.ensure_future(app.run(f, run_id="r"))
            await reached.wait()
            running.cancel()
            await asyncio.wait([running])
        async with App(address, tools=[step]) as app:
            again = await app.resume("r")
            assert again.result == {"step": "a", "step_2": "b"}

    asyncio.run(main())
    assert done == ["a", "b", "b"]


def test_the_tools_of_an_app_win_over_those_of_the_flow() -> None:
    with flow("tested") as f:
        f.result(f.call(fetch, url="a"))

    async def main() -> Any:
        from ropewalk.tools.tool import tool_from

        async def scripted(url: str) -> str:
            """Another text."""
            return "scripted"

        mine = tool_from(scripted, {"name": "fetch"})
        async with App("memory", tools=[mine]) as app:
            return (await app.run(f)).result

    assert asyncio.run(main()) == "scripted"


@pytest.mark.parametrize("kind", ["preview", "validate"])
def test_previews_and_checks_take_flows(kind: str) -> None:
    with flow("checked") as f:
        f.call(fetch, url="a")

    async def main() -> Any:
        async with App("memory") as app:
            return await getattr(app, kind)(f)

    found = asyncio.run(main())
    assert found.warnings == ()
