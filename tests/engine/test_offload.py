"""Slow expressions and large definitions leave the event loop to others, and end by the clock."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from ropewalk import App
from ropewalk.deadline import in_thread, limited, look_at_clock
from ropewalk.errors import ExpressionError, InvalidFlow
from ropewalk.expr import MISSING, compile_expr, operators, parse
from ropewalk.source.load import load
from tiers import sampled

ENDLESS = "input.l.map(x, input.l.map(y, input.l.map(z, 1))).length()"
LIST = {"l": list(range(1_000))}


def evaluate(text, **scope):
    return compile_expr(parse(text), lambda ref: (lambda frame: frame.get(ref.root, MISSING), ref.path))(scope)


@pytest.fixture
def endless(monkeypatch):
    """Steps without end, so that only the clock ends an evaluation."""
    monkeypatch.setattr(operators, "MAX_STEPS", 10**15)
    monkeypatch.setattr(operators, "MAX_SECONDS", 1.0)


def test_the_clock_ends_an_evaluation(endless, monkeypatch):
    monkeypatch.setattr(operators, "MAX_SECONDS", 0.1)
    with pytest.raises(ExpressionError, match=r"longer than 0\.1 seconds"):
        evaluate(ENDLESS, input=LIST)
    with pytest.raises(ExpressionError, match=r"longer than 0\.1 seconds"):
        evaluate(f"{ENDLESS} == 1 || true", input=LIST)  # which absorbs other errors


@pytest.mark.parametrize(
    ("store", "place"), sampled("sizes", product(["memory", "sqlite"], ["argument", "value", "condition"]), 3)
)
def test_others_run_while_an_expression_is_slow(endless, monkeypatch, tmp_path, store, place):
    """The event loop has its turns in the time that it takes; there were none."""
    monkeypatch.setattr(operators, "MAX_SECONDS", 0.4)
    monkeypatch.setattr(operators, "SLICE_SECONDS", 0.02)
    turns = 0

    def echo(value):
        return value

    expression = "${" + ENDLESS + "}"
    node = {"id": "slow", "type": "tool", "tool": "echo", "params": {"value": expression}}
    if place == "condition":
        node = {"id": "slow", "type": "tool", "tool": "echo", "params": {"value": 1}, "condition": f"{ENDLESS} > 1"}
    if place == "value":
        config = {"expression": "$input.l.map(y, $input.l.map(z, 1))"}
        node = {"id": "slow", "type": "transform", "input": "$input.l", "transform": {"type": "MAP", "config": config}}

    async def scenario():
        nonlocal turns
        async with App("memory" if store == "memory" else tmp_path / "r.db", tools=[echo]) as app:

            async def tick():
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            ticking = asyncio.create_task(tick())
            await asyncio.sleep(0)
            before = turns
            done = await app.execute(app.load({"kind": "chain", "nodes": [node]}), input=LIST)
            turns -= before
            ticking.cancel()
            return done

    done = asyncio.run(scenario())
    assert "longer than 0.4 seconds" in str(done["errors"])
    assert turns >= 10


def test_a_slow_expression_gives_its_value_all_the_same(monkeypatch):
    monkeypatch.setattr(operators, "SLICE_SECONDS", 0.0)
    config = {"expression": "$input.l.filter(y, y == $item)[0]"}
    node = {"id": "a", "type": "transform", "input": "$input.l", "transform": {"type": "MAP", "config": config}}
    app = App("memory")

    async def scenario():
        return await app.execute(app.load({"kind": "chain", "nodes": [node]}), input={"l": list(range(300))})

    assert asyncio.run(scenario())["results"]["a"] == list(range(300))


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_slow_condition_decides_all_the_same(monkeypatch, tmp_path, store):
    monkeypatch.setattr(operators, "SLICE_SECONDS", 0.0)
    tests = {"yes": "input.l.all(x, input.l[x] == x)", "no": "input.l.exists(x, input.l[x] != x)"}
    nodes = [{"id": id, "type": "tool", "tool": "echo", "params": {"value": 1}, "condition": test}
             for id, test in tests.items()]  # fmt: skip

    def echo(value):
        return value

    async def scenario():
        async with App("memory" if store == "memory" else tmp_path / "r.db", tools=[echo]) as app:
            return await app.execute(app.load({"kind": "chain", "nodes": nodes}), input={"l": list(range(40_000))})

    done = asyncio.run(scenario())
    assert done["results"] == {"yes": 1, "no": None}


@pytest.mark.parametrize(
    "text",
    [
        "kind: chain\nx:\n" + "".join(f"- {i}\n" for i in range(20_000)),
        "kind: chain\nnodes:\n" + "".join(f"- {{id: n{i}, type: tool, tool: x}}\n" for i in range(2_000)),
    ],
)
def test_reading_ends_by_the_clock(text):
    with limited(-1), pytest.raises(InvalidFlow, match="took longer than"):
        load(text, form="yaml")
    assert load(text, form="yaml").data["kind"] == "chain"  # the limit is gone


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "chain", "nodes": [{"id": f"n{i}", "type": "tool", "tool": "x"} for i in range(10)]},
        {"kind": "composition", "nodes": [{"id": "a", "type": "tool", "tool": "x"}]},
    ],
)
def test_checking_ends_by_the_clock(document):
    app = App("memory")
    with limited(-1), pytest.raises(InvalidFlow, match="took longer than"):
        app.load(document)
    loaded = app.load(document)
    with limited(-1), pytest.raises(InvalidFlow, match="took longer than"):
        app.check(loaded)
    assert not app.check(loaded).problems


def test_the_limit_is_of_one_thread_and_one_piece_of_work():
    def forever():
        while True:
            look_at_clock()

    async def scenario():
        with pytest.raises(InvalidFlow, match=r"longer than 0\.2 seconds"):
            await in_thread(forever, 0.2)
        look_at_clock()
        assert await in_thread(lambda: 7, 30) == 7

    asyncio.run(scenario())
