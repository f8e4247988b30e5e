"""Numbers whose hashes collide, and copies that would fill the memory, cost no more than other data."""

from __future__ import annotations

import itertools
import random
import time
import tracemalloc

import pytest

from ropewalk.errors import ExpressionError
from ropewalk.expr.operators import identity_key, is_equal
from ropewalk.ir import Channel
from ropewalk.state import REDUCERS

from .expr_scope import value

KEYS = "abcdefghijkl"
TIMES_AS_LONG = 10  # unequal data takes as long as its twin; colliding keys took 500 times as long


def objects(pair):
    return [dict(zip(KEYS, row, strict=True)) for row in itertools.product(pair, repeat=len(KEYS))]


def lists(pair):
    return [list(row) for row in itertools.product(pair, repeat=len(KEYS))]


def pairs(pair):
    return [[{"k": row}] for row in lists(pair)]


def cpu(run):
    before = time.process_time()
    run()
    return time.process_time() - before


@pytest.mark.parametrize("make", [objects, lists, pairs])
@pytest.mark.parametrize(
    "text",
    [
        "unique(input.l).length()",
        "unique(input.l + input.l).length()",
        "unique(input.l.map(x, [x])).length()",
        "input.l.group_by(x, string(x)).keys().length()",
        "sort(input.l).length()",
        "input.l.sort($item).length()",
        "input.l.filter(x, x == input.l[0]).length()",
        "[input.l[7]].filter(x, x in input.l).length()",
        "query(input.l, '$[?@ == $[0]]').length()",
    ],
)
def test_numbers_of_one_hash_take_no_longer(text, make):
    harmless = cpu(lambda: value(text, input={"l": make((1, 2))}))
    assert cpu(lambda: value(text, input={"l": make((-1, -2))})) < TIMES_AS_LONG * harmless + 1


@pytest.mark.parametrize("make", [objects, lists, pairs])
def test_the_union_of_state_takes_no_longer(make):
    fold, channel = REDUCERS["union"].fold, Channel(reduce="union")

    def run(pair):
        assert len(fold("seen", channel, [], [make(pair)])) == 2 ** len(KEYS)

    harmless = cpu(lambda: run((1, 2)))
    assert cpu(lambda: run((-1, -2))) < TIMES_AS_LONG * harmless + 1


def any_value(rng, depth=3):
    kind = rng.randrange(9 if depth else 7)
    if kind < 7:
        leaves = [None, rng.random() < 0.5, rng.choice((-2, -1, 0, 1)), rng.choice((-2.0, -0.0, 0.0, 1.0, 0.5, 1e300))]
        return rng.choice([*leaves, rng.choice(("", "1", "null", "[]", "true")), 2**63 - 1, float(2**63), -(2**63)])
    if kind == 7:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    keys = rng.sample(("a", "b", "1"), rng.randrange(3))
    return {key: any_value(rng, depth - 1) for key in keys}


def test_two_values_share_a_key_exactly_when_they_are_equal():
    rng = random.Random(25)
    values = [any_value(rng) for _ in range(400)]
    assert sum(is_equal(a, b) for a, b in itertools.combinations(values, 2)) > 1000  # else it would show nothing
    for a, b in itertools.combinations(values, 2):
        assert (identity_key(a, None) == identity_key(b, None)) == is_equal(a, b), (a, b)


@pytest.mark.parametrize(
    "text",
    [
        "input.l.map(k, omit(input.d, ['k1'])).length()",
        "input.l.map(k, omit(input.rows, ['k1'])).length()",
        "input.l.map(k, rename(input.d, {'k1': 'k2'})).length()",
        "input.l.map(k, merge(input.d, {'k1': k})).length()",
        "input.l.map(k, deep_merge(input.d, {'k1': k})).length()",
        "input.l.map(k, keys(input.d)).length()",
        "input.l.map(k, values(input.d)).length()",
    ],
)
def test_copies_of_objects_are_counted(text):
    data = {
        "l": list(range(20_000)),
        "d": {f"k{i}": i for i in range(2_000)},
        "rows": [{f"k{i}": i for i in range(20)} for _ in range(100)],
    }
    tracemalloc.start()
    try:
        with pytest.raises(ExpressionError, match="more than"):
            value(text, input=data)
        assert tracemalloc.get_traced_memory()[1] < 300_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["input.l + input.l", "[] + input.l + input.l", "concat(input.l, input.l)"])
def test_a_list_of_eight_million_elements_is_not_built(text):
    with pytest.raises(ExpressionError, match="builds more than"):
        value(text, input={"l": [None] * 4_000_000})
    assert len(value(text, input={"l": [None] * 1_000})) == 2_000
