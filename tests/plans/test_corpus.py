"""Programs as models write them are accepted, and what they use gives Python's result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .oracle import differences, run_plan

BENCH = Path(__file__).parents[2] / "bench"
ACCEPTED = 297
"""How many of the 300 programs the check accepts; the aim is 291."""

IDIOMS = {
    "semaphore": """
limit = asyncio.Semaphore(2)

async def fetch(n):
    async with limit:
        item = await get_item(n)
        return item.name

return await asyncio.gather(*[fetch(n) for n in range(5)])
""",
    "text printed in loops of a gather": """
async def count(n):
    total = 0
    for value in await get_numbers(n):
        total += value
    return total

print("before")
totals = await asyncio.gather(*[count(n) for n in range(5)], count(3))
print(totals)
""",
    "call inside an f-string": """
item = await get_item(2)
return f"{item.tags} and {item['name']!r:>12} of {(await get_item(3)).name} {item.price:.2f}"
""",
    "list made and returned by a function": """
async def pages(count):
    items = []
    for n in range(count):
        items.extend(await get_numbers(n))
    return items

first = await pages(4)
second = await pages(5)
return [first, second]
""",
    "groups": """
groups = {}
for n in range(6):
    item = await get_item(n)
    groups.setdefault(item["name"], []).append(item["id"])
for name, ids in groups.items():
    await save(name, ids)
return groups
""",
    "entry kept in a branch that leaves": """
kept = []
for n in range(4):
    entry = {"n": n}
    if n == 2:
        kept.append(entry)
        continue
    item = await get_item(n)
    entry["name"] = item.name
    kept.append(entry)
return kept
""",
    "elements changed through a name": """
groups = {}
for value in await get_numbers(5):
    current = groups.get(value % 2)
    if current is None:
        groups[value % 2] = {"count": 1}
    else:
        current["count"] += 1
return [[key, group["count"]] for key, group in sorted(groups.items())]
""",
    "value that a function changes and returns": """
async def add(values):
    values.append(await get_numbers(2))
    return values

mine = [1]
other = await add(mine)
third = await add(mine)
return [mine, other, third]
""",
}


def test_most_programs_of_models_are_accepted_and_every_refusal_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import plans_corpus

    found = asyncio.run(plans_corpus.check())
    refused = {number: problems for number, problems in found.items() if problems}
    assert len(found) == 300
    assert len(found) - len(refused) >= ACCEPTED, sorted(refused)
    for number, problems in refused.items():
        assert all(problem["line"] for problem in problems), (number, problems)


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_gives_what_python_gives(name: str) -> None:
    assert "refused" not in run_plan(IDIOMS[name], {})
    assert differences(IDIOMS[name], unordered="gather" in IDIOMS[name]) == []


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("textwrap", 'return textwrap.dedent("  a\\n  b") + textwrap.shorten("one two three", 9)'),
        ("calendar", "return [*calendar.monthrange(2024, 2), calendar.month_name[3], calendar.isleap(2024)]"),
        ("heapq", "return [heapq.nlargest(2, [3, 1, 2]), heapq.nsmallest(1, ['bb', 'a'], key=len)]"),
    ],
)
def test_functions_of_a_module_give_what_python_gives(module: str, code: str) -> None:
    assert differences(f"import {module}\n{code}") == []
    assert "result" in run_plan(f"import {module}\n{code}", {})


@pytest.mark.parametrize("code", ["raise BaseException('x')", "x = await get_item(1)\nraise BaseException(x.name)"])
def test_a_base_exception_fails_the_run_and_not_the_process(code: str) -> None:
    outcome = run_plan(code, {})
    assert "raise an Exception" in str(outcome)


def test_a_semaphore_limits_the_calls_of_a_gather() -> None:
    from ropewalk import App, tool

    running = most = 0

    @tool
    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(100):
            await asyncio.sleep(0)
        running -= 1
        return n

    async def main() -> None:
        async with App("memory", tools=[work]) as app:
            code = """
gate = asyncio.Semaphore(3)
async def guarded(n):
    async with gate:
        return await work(n=n)
return await asyncio.gather(*[guarded(n) for n in range(12)])
"""
            assert (await app.run({"kind": "plan", "code": code}))["result"] == list(range(12))

    asyncio.run(main())
    assert most == 3
