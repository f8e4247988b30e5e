"""Idioms of models: ends of programs, choices by chance, heaps, and calls that are taken as they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .oracle import differences, run_plan, run_plan_async

SAME = {
    "a function that a loop defines before a change of what the loop carries": """
a = 5
for v in [1, 2]:
    f = lambda z: z + a
    item = await get_item(f(v))
    b = f(2)
    a += (5 or a)
return [a, b, item.id]
""",
    "a heap": """
import heapq
heap = [5, 1, 4]
heapq.heapify(heap)
item = await get_item(1)
heapq.heappush(heap, item.id)
least = heap[0]
other = await get_item(2)
return [heapq.heappop(heap), heap, least, other.id]
""",
    "calls that nested loops collect": """
tasks = []
for n in range(4):
    for m in range(n):
        if m != 1:
            tasks.append(asyncio.create_task(get_item(n * m)))
total = 0
for task in asyncio.as_completed(tasks):
    total += (await task).id
return [total, len(tasks)]
""",
    "calls that fail as they end": """
out = []
for call in asyncio.as_completed([risky(n) for n in range(5)]):
    try:
        out.append(str(await call))
    except ToolError as e:
        out.append(str(e))
return sorted(out)
""",
    "a function of heapq as a value": """
from heapq import heappush as push
heap = [3]
alias = heap
await get_item(1)
push(heap, 1)
await get_item(2)
return alias
""",
    "errors of texts": "try:\n    x = await risky(0)\nexcept (UnicodeDecodeError, KeyError):\n    x = 2\nreturn x",
}


@pytest.mark.parametrize("name", SAME)
def test_an_idiom_does_what_python_does(name: str) -> None:
    code = SAME[name].strip()
    assert "result" in run_plan(code, {})
    assert differences(code, unordered=True) == []


def outcome_of(code: str) -> dict[str, Any]:
    """Run a program as a text, outside of a function."""
    return asyncio.run(run_plan_async(code, {}, function=False))


@pytest.mark.parametrize("statement", ["exit()", "quit(0)", "sys.exit()", "raise SystemExit", "raise SystemExit(0)"])
def test_a_program_ends_itself(statement: str) -> None:
    code = f"import sys\nif (await get_item(1)).id == 1:\n    print('bye')\n    {statement}\nawait save(key='k')"
    outcome = outcome_of(code)
    assert (outcome["result"], outcome["printed"], len(outcome["calls"])) == (None, "bye\n", 1)


def test_an_exit_with_a_code_fails_the_run() -> None:
    outcome = outcome_of("name = (await get_item(1)).name\nraise SystemExit(f'{name} is missing')")
    assert (outcome["error"], outcome["message"]) == ("SystemExit", "item 1 is missing")
    assert outcome_of("import sys\nsys.exit(3)")["message"] == "3"


@pytest.mark.parametrize(
    "code", ["def f():\n    exit()\nf()", "try:\n    exit()\nexcept Exception:\n    pass", "f = exit\nf()"]
)
def test_an_exit_ends_a_program_wherever_it_is(code: str) -> None:
    outcome = outcome_of(f"{code}\nawait save(key='k')")
    assert (outcome["result"], outcome["calls"]) == (None, [])


def test_other_members_of_sys_are_refused() -> None:
    assert "sys.argv is not supported" in outcome_of("import sys\nsys.argv")["refused"]


def test_choices_are_journaled() -> None:
    code = """
import random
from random import sample
people = await get_numbers(5)
letters = random.choices("ab", k=3)
return [random.choice(people), sample(people, k=2), random.randint(1, 6), random.uniform(0, 1), letters]
"""
    first, second, number, share, letters = run_plan(code.strip(), {})["result"]
    assert first in range(5)
    assert set(second) < set(range(5))
    assert 1 <= number <= 6
    assert 0 <= share <= 1
    assert set(letters) <= {"a", "b"}


def test_a_shuffle_changes_its_list() -> None:
    assert sorted(run_plan("import random\nx = [1, 2, 3]\nrandom.shuffle(x)\nreturn x", {})["result"]) == [1, 2, 3]
