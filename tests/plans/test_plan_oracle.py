"""Plans do what Python does: the same result, calls, printed text and errors."""

from __future__ import annotations

import pytest

from tiers import sampled

from .oracle import differences, run_plan
from .programs import Writer

PROGRAMS = {
    "a call and a member": "item = await get_item(n=2)\nreturn [item.name, item['name'], item.tags[0]]",
    "the last expression": "x = 1\nx + 1",
    "nothing at all": "pass",
    "an argument that is given twice": """
add = lambda a, b=0: a + b
kept = []
for more in ({"a": 1}, {"b": 1}):
    try:
        kept.append(add(**more, a=2))
    except TypeError:
        kept.append("twice")
return kept
""",
    "early return in a loop": """
for n in range(9):
    item = await get_item(n)
    if item.id == 3:
        return item.name
return "none"
""",
    "break, continue and else": """
out = []
for n in range(6):
    if n == 1:
        continue
    if (await get_item(n)).id == 4:
        break
    out.append(n)
else:
    out.append("all")
for n in []:
    pass
else:
    out.append("empty")
return out
""",
    "while with else": """
i = 0
while i < 3:
    i += (await get_item(1)).id
else:
    i += 100
return i
""",
    "a failing call keeps the old value": """
w = "old"
try:
    w = await risky(1)
except ValueError as error:
    seen = str(error)
return [w, seen]
""",
    "names before a failure survive": """
try:
    x = 1
    y = await get_item(1)
    z = await risky(4)
    x = 2
except LookupError as e:
    return [x, y.id, str(e)]
""",
    "else and finally": """
out = []
for n in [0, 1, 2]:
    try:
        v = await risky(n)
    except ToolError as e:
        out.append("failed " + str(e))
    else:
        out.append(v)
    finally:
        out.append(n)
return out
""",
    "finally runs for return": """
async def work(n):
    try:
        return await risky(n)
    finally:
        await save(key="done", value=n)
return await work(2)
""",
    "an uncaught tool error": "await get_item(1)\nawait risky(1)",
    "an uncaught KeyError": "saved = await save(key='k')\nreturn saved.count + saved.nothing",
    "raise and re-raise": """
try:
    try:
        raise ValueError("inner", 3)
    except ValueError:
        await save(key="seen")
        raise
except Exception as e:
    return [type(e).__name__, str(e), list(e.args)]
""",
    "a name bound in one branch only": "if (await get_item(0)).id:\n    y = 1\nreturn y",
    "and, or, conditional": """
a = (await get_numbers(0)) or (await get_numbers(2))
b = (await get_numbers(0)) and (await get_numbers(5))
c = (await get_item(1)).id if a else (await get_item(2)).id
return [a, b, c]
""",
    "order of evaluation": """
xs = [1, 2, 3]
y = xs.pop() + (await get_item(xs.pop())).id * len(xs)
return [xs, y]
""",
    "augmented assignment reads first": """
total = 1
counts = {"a": 1}
total += (await get_item(3)).id
counts["a"] += (await get_item(4)).id
return [total, counts]
""",
    "comprehensions with calls": """
squares = [(await get_item(n)).id ** 2 for n in range(4) if n % 2]
named = {n: (await get_item(n)).name for n in (1, 2)}
pairs = [(n, t) for n in range(3) for t in (await get_item(n)).tags]
return [squares, sorted(named.values()), pairs]
""",
    "walrus": "if (item := await get_item(2)).id > 1:\n    return item.name",
    "local functions": """
factor = 3
def scaled(x, by=2, *rest, extra=0):
    return x * by * factor + extra + sum(rest)
async def fetch(n, twice=False):
    item = await get_item(n)
    return scaled(item.id, extra=1) * (2 if twice else 1)
factor = 4
return [await fetch(1), await fetch(n=2, twice=True), scaled(1, 2, 3, 4)]
""",
    "a lambda with a name": "double = lambda x: x * 2\nitem = await get_item(4)\nreturn double(item.id)",
    "gather of two": "a, b = await asyncio.gather(get_item(1), get_item(2))\nreturn a.id + b.id",
    "gather over a list": "xs = await asyncio.gather(*[get_item(n) for n in range(3)])\nreturn [x.id for x in xs]",
    "gather with exceptions": """
calls = (risky(n) for n in range(5))
results = await asyncio.gather(*calls, return_exceptions=True)
return [r if not isinstance(r, Exception) else str(r) for r in results]
""",
    "calls that are kept": """
calls = [get_item(n) for n in range(3)]
items = await asyncio.gather(*calls)
task = asyncio.create_task(get_item(7))
x = 1
return [i.id for i in items] + [(await task).id + x]
""",
    "a gather that fails": "await asyncio.gather(get_item(1), risky(1), get_item(2))",
    "mutation": """
groups = {}
for n in range(5):
    item = await get_item(n)
    for tag in item.tags:
        groups.setdefault(tag, []).append(item.id)
rows = [{"id": 1}, {"id": 2}]
for row in rows:
    row["name"] = (await get_item(row["id"])).name
del rows[0]["id"]
return [groups, rows]
""",
    "sharing inside a piece": "a = [1]\nb = a\na.append(2)\nb.append(3)\nc = [a, b]\nreturn c",
    "match": """
out = []
for v in [1, "x", [1, 2, 3], {"k": 5, "z": 1}, None]:
    match v:
        case int(n) if n > 5:
            out.append("big")
        case 1 | 2:
            out.append((await get_item(v)).name)
        case [first, *rest]:
            out.append([first, rest])
        case {"k": k, **more}:
            out.append([k, more])
        case str():
            out.append("text")
        case _:
            out.append("other")
return out
""",
    "texts": r"""
name = (await get_item(3)).name
return [f"{name!r:>12}|{3.14159:.2f}|{7:03d}|{1234567:,}", name.upper().split(), "%s-%d" % (name, 3),
        "{0} {x}".format(1, x=2), "a,b".partition(","), name[::-1], "x" * 3, name.replace("item", "it")]
""",
    "builtins": """
xs = await get_numbers(5)
return [len(xs), sum(xs), min(xs), max(xs, key=lambda v: -v), sorted(xs, reverse=True), list(reversed(xs)),
        list(enumerate(xs, 1)), list(zip(xs, "abc")), any(xs), all(xs), round(2.5), round(2.675, 2), abs(-3),
        divmod(7, 2), -7 // 2, -7 % 3, 2 ** 10, int("12"), float("1.5"), bool([]), str(None), list(map(str, xs)),
        list(filter(None, xs)), isinstance(xs, list), sorted({3, 1, 2}), tuple(xs), chr(65), ord("a")]
""",
    "modules": """
import json, math, itertools, statistics
from collections import Counter, defaultdict
from functools import reduce
xs = await get_numbers(5)
groups = defaultdict(list)
for x in xs:
    groups[x % 2].append(x)
return [json.loads(json.dumps({"a": xs})), math.sqrt(16), Counter("abca").most_common(1), sorted(groups.items()),
        reduce(lambda a, b: a + b, xs), list(itertools.chain(xs, [9])), statistics.mean([1, 2, 3])]
""",
    "dates": """
from datetime import date, datetime, timedelta
start = date.fromisoformat("2026-01-30")
await get_item(1)
end = start + timedelta(days=3)
return [end.isoformat(), (end - start).days, end.weekday(), datetime(2026, 1, 2, 3).strftime("%Y/%m/%d %H")]
""",
    "idioms of models": """
import asyncio
async def main():
    item = await get_item(2)
    print("found", item.name)
    return item.id
if __name__ == "__main__":
    result = asyncio.run(main()) if False else await main()
result
""",
    "print": "for n in range(2):\n    print(n, (await get_item(n)).name, sep=': ')\nprint('end', end='')",
    "swap and unpack": "a, (b, *c) = 1, [2, 3, 4]\nx = await get_item(a)\na, b = b, a\nreturn [a, b, c, x.id]",
    "slices": "xs = await get_numbers(5)\nxs[1:3] = [9]\ndel xs[0]\nreturn [xs, xs[-1:], xs[::2], 'abc'[1:]]",
    "tuples and integer keys stay inside": """
seen = {(1, 2): "a", 3: "b"}
await get_item(1)
seen[4] = "c"
return [seen[(1, 2)], seen[3], seen[4], len(seen)]
""",
    "assert": "item = await get_item(1)\nassert item.id == 2, f'id is {item.id}'",
    "nested functions and early exits": """
async def find(limit):
    for n in range(10):
        for m in range(3):
            item = await get_item(n * m)
            if item.id > limit:
                return [n, m]
    return None
return [await find(3), await find(100)]
""",
    "timeouts": """
try:
    item = await asyncio.wait_for(get_item(2), timeout=5)
    async with asyncio.timeout(5):
        other = await get_item(3)
except TimeoutError:
    return "late"
return [item.id, other.id]
""",
    "task group": """
async with asyncio.TaskGroup() as group:
    first = group.create_task(get_item(1))
    second = group.create_task(get_item(2))
return "done"
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_python_does(name: str) -> None:
    code = PROGRAMS[name].strip("\n")
    outcome = run_plan(code, {})
    assert "refused" not in outcome, outcome
    assert differences(code, unordered="gather" in code or "group" in code) == []


SHARED = """
kept = [(await get_item(1)).id]
out = []
out.append(kept)
await get_item(2)
{change}
return [kept, out]
"""


@pytest.mark.parametrize(
    "change", ["kept.append(5)", "inner = {'a': kept}\ndel inner['a'][0]", "other = kept\nother.append(5)"]
)
def test_a_change_is_seen_by_every_name(change: str) -> None:
    code = SHARED.replace("{change}", change)
    assert "result" in run_plan(code, {})
    assert differences(code) == []


def test_inputs_are_names() -> None:
    code = "items = [(await get_item(n)).name for n in numbers]\nreturn {'who': who, 'items': items}"
    assert differences(code, {"who": "ann", "numbers": [1, 2]}) == []


@pytest.mark.parametrize("seed", sampled("plans", range(0, 160, 4), 16))
def test_random_programs_do_what_python_does(seed: int) -> None:
    for number in range(seed, seed + 4):
        code = Writer(number).program()
        assert differences(code, unordered="gather" in code) == [], code


FORMERLY_REFUSED = {
    "a queue": "import asyncio\nq = asyncio.Queue()\nawait q.put((await get_item(1)).id)\nreturn await q.get()",
    "as_completed of a name": """
import asyncio
async def f(xs):
    return sum([(await x).id for x in asyncio.as_completed(xs)])
return await f([get_item(1), get_item(2)])
""",
    "a class": "class A:\n    x = 1\na = A()\na.x += (await get_item(1)).id\nreturn [a.x, A.x]",
    "recursion": "def f(x):\n    return 1 if x < 2 else x * f(x - 1)\nreturn f((await get_item(6)).id)",
    "a large integer": "x = 2 ** 70\nreturn x // 2 ** 60",
    "identity": "x = [1]\ny = x\nawait get_item(1)\nreturn [x is x, x is y, x is [1]]",
    "an alias": "a = [1]\nb = a\nx = await get_item(1)\na.append(2)\ny = await get_item(2)\nreturn b",
    "a list that grows while a loop goes over it": """
xs = [1]
for x in xs:
    await get_item(x)
    if x < 4:
        xs.append(x + 1)
return xs
""",
    "a tool as a value": "f = get_item\nreturn (await f(2)).id",
}


@pytest.mark.parametrize("name", FORMERLY_REFUSED)
def test_what_was_refused_does_what_python_does(name: str) -> None:
    code = FORMERLY_REFUSED[name].strip("\n")
    assert "result" in run_plan(code, {})
    assert differences(code, unordered="as_completed" in code) == []


REFUSED = {
    "import subprocess": "import of subprocess is not supported; call a tool, or use one of",
    "x = eval('1')": "eval is not supported; compute the value with an expression",
    "open('f')": "open is not supported; call a tool that reads or writes files",
    "x = ().__class__.__bases__": "members that begin with an underscore are not supported: __bases__",
    "get_item(1)": "get_item(1) is never awaited; write await before it",
    "x = await get_itm(1)": "name 'get_itm' is not defined; did you mean get_item?",
    "x = await get_item(m=1)": "get_item has no parameter 'm'",
    "x = await get_item()": "get_item needs the argument 'n'",
    "x = await get_item(1, 2)": "get_item takes at most 1 argument, 2 were given",
    "return nam": "name 'nam' is not defined",
    "x = (": "SyntaxError: '(' was never closed",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_the_language_refuses_has_a_line_and_an_alternative(code: str) -> None:
    outcome = run_plan(code, {})
    assert REFUSED[code] in outcome["refused"]
    assert "line " in outcome["refused"]


def test_every_problem_is_reported_at_once() -> None:
    code = "import subprocess\nx = await get_itm(1)\ny = await get_item(m=1)\nz = eval('1')\nreturn nam"
    refused = run_plan(code, {})["refused"]
    assert [line.split(": ")[1] for line in refused.split("\n") if line.startswith("code")] == [
        f"line {number}" for number in range(1, 6)
    ]
