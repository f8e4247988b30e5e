"""Definitions with thousands of faults: a list of the first ones, in time that grows with the size at most."""

from __future__ import annotations

import json
import time

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.problems import MOST_PROBLEMS
from ropewalk.values import did_you_mean

TOP = "kind: chain\nnodes: [{id: a, type: tool, tool: x}]\n"


def nodes(n, **fields):
    return [{"id": f"n{i}", "type": "tool", "tool": "x", **fields} for i in range(n)]


FAULTS = {
    "keys of YAML": lambda n: TOP + "".join(f"key{i}: 1\n" for i in range(n)),
    "keys of a node": lambda n: json.dumps(
        {"kind": "chain", "nodes": [{**nodes(1)[0], **{f"k{i}": 1 for i in range(n)}}]}
    ),
    "keys with dots": lambda n: json.dumps({"kind": "chain", "nodes": nodes(1), **{f"a.b.{i}": 1 for i in range(n)}}),
    "nodes": lambda n: json.dumps({"kind": "chain", "nodes": nodes(n // 4, tol="x", params={"text": "$inptu.x"})}),
    "references": lambda n: json.dumps({"kind": "chain", "nodes": nodes(1, params={"l": ["$output.gone"] * n})}),
    "expressions": lambda n: json.dumps({"kind": "chain", "nodes": nodes(1, params={"l": ["${1 +}"] * n})}),
    "ids": lambda n: json.dumps({"kind": "chain", "nodes": nodes(1) * (n // 4)}),
    "nodes of a composition": lambda n: json.dumps(
        {"kind": "composition", "nodes": [{"id": f"n{i}", "type": "mapp"} for i in range(n // 4)]}
    ),
    "steps": lambda n: json.dumps({"kind": "composite", "name": "c", "steps": [{"tol": 1}] * (n // 4)}),
    "nodes of an experience": lambda n: json.dumps(
        {"kind": "experience", "name": "e", "version": "1", "state": {}, "graph": {"nodes": [{"idd": 1}] * (n // 4)}}
    ),
    "edges of an experience": lambda n: json.dumps(
        {
            "kind": "experience",
            "name": "e",
            "version": "1",
            "state": {},
            "graph": {
                "nodes": [{"id": f"n{i}", "type": "tool", "tool": "x"} for i in range(n // 8)],
                "edges": [{"from": f"n{i}x", "to": f"m{i}"} for i in range(n // 8)],
            },
        }
    ),
    "fields of an agent": lambda n: json.dumps({"kind": "agent", "prompt": "p", **{f"k{i}": 1 for i in range(n)}}),
}


def check(text):
    app, before = App("memory"), time.process_time()
    with pytest.raises(InvalidFlow) as caught:
        app.ensure(app.load(text))
    return time.process_time() - before, caught.value.problems


@pytest.mark.parametrize("what", FAULTS)
def test_the_first_problems_are_reported_in_time(what):
    make, n = FAULTS[what], 2_000
    short, _ = check(make(n))
    long, problems = check(make(4 * n))
    assert 2 <= len(problems) <= MOST_PROBLEMS + 1
    assert problems[0].place is not None
    assert long < 12 * short + 1  # it was the square: 16 times, and far above a second


def test_the_last_problem_says_that_the_list_ends():
    _, problems = check(FAULTS["keys of YAML"](MOST_PROBLEMS + 5))
    assert [problem.message[:11] for problem in problems[:-1]] == ["unknown key"] * MOST_PROBLEMS
    assert str(problems[-1]) == f"the check stopped after {MOST_PROBLEMS} problems; fix these first"
    _, problems = check(FAULTS["keys of YAML"](MOST_PROBLEMS - 1))
    assert len(problems) == MOST_PROBLEMS - 1


def test_problems_below_a_key_of_megabytes_do_not_fill_the_memory():
    key = "k" * 400_000
    _, problems = check(json.dumps({"kind": "chain", "nodes": nodes(1, params={key: ["$output.gone"] * 1000})}))
    assert sum(len(problem.path) for problem in problems) < 3_000_000


def test_a_name_is_still_found_among_very_many():
    names = [f"weather_{i}" for i in range(20_000)] + ["forecast"]
    before = time.process_time()
    assert did_you_mean("forcast", names) == "forecast"
    assert [did_you_mean("z" * 400 + str(i), ["z" * 400] * 5_000) for i in range(20)] == [None] * 20
    assert time.process_time() - before < 10  # seconds, where it took minutes
