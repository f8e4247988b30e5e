"""Programs that the compiler to graphs got wrong: the machine gives what Python gives, and makes the same calls."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from .simulation import Simulation
from .virtual_loop import compared, run_machine

TOOLS = {
    "add": ["x"],
    "audit": ["text"],
    "charge": ["card"],
    "count": [],
    "notify": ["text"],
    "num": ["n"],
    "slow": ["n"],
    "work": ["n"],
}


def world() -> Callable[[str, dict[str, Any]], Any]:
    """Return the tools, with a counter of their own."""
    numbers = itertools.count(1)

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "count":
            return next(numbers)
        if tool == "charge":
            return f"receipt {next(numbers)}"
        if tool == "add":
            return arguments["x"] + 1
        return next(iter(arguments.values()))

    return answer


TASKS = {
    "awaited by a helper and by gather": """
t = asyncio.create_task(charge(card='A'))
async def after():
    r = await t
    return await notify(text=r)
u = asyncio.create_task(after())
return await asyncio.gather(t, u)
""",
    "task of a helper, two helpers wait": """
async def pay():
    return await charge(card='A')
t = asyncio.create_task(pay())
async def one():
    return await notify(text='1 ' + await t)
async def two():
    return await notify(text='2 ' + await t)
return await asyncio.gather(one(), two())
""",
    "awaited twice in a row": "t = asyncio.create_task(charge(card='A'))\na = await t\nb = await t\nreturn [a, b]",
    "awaited in a loop": """
t = asyncio.create_task(charge(card='A'))
out = []
for i in range(3):
    out.append(await t)
return out
""",
    "gathered twice": """
t = asyncio.create_task(charge(card='A'))
a = await asyncio.gather(t, notify(text='x'))
b = await asyncio.gather(t)
return [a, b]
""",
    "awaited in both branches": """
t = asyncio.create_task(charge(card='A'))
if await notify(text='') == '':
    a = await t
else:
    a = await t
return a
""",
    "in a local function called twice": """
t = asyncio.create_task(charge(card='A'))
async def get():
    return await t
return [await get(), await get()]
""",
    "coroutine kept, in a function": "c = charge(card='A')\nasync def get():\n    return await c\nreturn [await get()]",
    "coroutine awaited twice": "c = charge(card='A')\nreturn [await c, await c]",
}
FORGOTTEN = {
    "task of a helper": """
async def log():
    await audit(text='x')
t = asyncio.create_task(log())
return await work(n=1)
""",
    "without a name": "async def log():\n    await audit(text='x')\nasyncio.create_task(log())\nreturn await work(n=1)",
    "task of a tool": "t = asyncio.create_task(audit(text='x'))\nreturn await work(n=1)",
    "coroutine never awaited": "async def log():\n    await audit(text='x')\nlog()\nreturn await work(n=1)",
    "awaited in one branch": "t = asyncio.create_task(audit(text='x'))\nif await work(n=1) > 5:\n    await t\nreturn 1",
    "task first": """
t = asyncio.create_task(audit(text='first'))
n = await work(n=1)
await audit(text='second')
await t
return n
""",
    "return before the await": """
t = asyncio.create_task(audit(text='x'))
if await work(n=1) == 1:
    return 'early'
await t
return 'late'
""",
}
SHARING = {
    "defaultdict": "d = defaultdict(list)\nd['a'].append(await num(n=1))\nreturn d",
    "defaultdict, call before": "d = defaultdict(list)\nx = await num(n=1)\nd['a'].append(x)\nreturn d",
    "defaultdict, loop": """
d = defaultdict(list)
for i in range(3):
    x = await num(n=i)
    d[i % 2].append(x)
return sorted(d.items())
""",
    "dict of list": "d = {'a': []}\nd['a'].append(await num(n=1))\nreturn d",
    "dict of list, get": "d = {'a': []}\nd.get('a').append(await num(n=1))\nreturn d",
    "setdefault": "d = {}\nd.setdefault('a', []).append(await num(n=1))\nreturn d",
    "list of list": "d = [[], []]\nd[1].append(await num(n=1))\nreturn d",
    "list of dict": "d = [{}]\nd[0]['k'] = await num(n=1)\nreturn d",
    "dict of set": "d = {'a': set()}\nd['a'].add(await num(n=1))\nreturn sorted(d['a'])",
    "defaultdict of int": "d = defaultdict(int)\nd['a'] += await num(n=1)\nreturn d",
    "defaultdict of dict": "d = defaultdict(dict)\nd['a']['b'] = await num(n=1)\nreturn d",
    "defaultdict of defaultdict": "d = defaultdict(lambda: defaultdict(int))\nd['a']['b'] += await num(n=1)\nreturn d",
    "extend": "d = defaultdict(list)\nd['a'].extend([await num(n=1)])\nreturn d",
    "nested member": "d = {'a': {'b': []}}\nd['a']['b'].append(await num(n=1))\nreturn d",
    "update": "d = {'a': {}}\nd['a'].update(k=await num(n=1))\nreturn d",
    "two calls": "d = {'a': []}\nd['a'].append([await num(n=1), await num(n=2)])\nreturn d",
    "index is a call": "d = [[], []]\nd[await num(n=1)].append(5)\nreturn d",
    "insert": "d = [[]]\nd[0].insert(0, await num(n=1))\nreturn d",
    "in a helper": """
async def f():
    d = defaultdict(list)
    for i in range(2):
        d['x'].append(await num(n=i))
    return d
return await f()
""",
    "elements of a matrix": """
m = [[0] * 2 for _ in range(2)]
for i, row in enumerate(m):
    for j, _ in enumerate(row):
        row[j] += await count() * (i + j)
return m
""",
    "default argument": """
def f(x, acc=[]):
    acc.append(x)
    return acc
f(await num(n=1))
return f(await num(n=2))
""",
    "alias on three lines": "r = [1]\ns = r\nn = await add(x=1)\ns.append(n)\nreturn r",
    "alias on one line": "r = [1]\ns = r; n = await add(x=1); s.append(n)\nreturn r",
    "alias in a one-line if": "r = [1]\ns = []\nif True: s = r; n = await add(x=1); s.append(n)\nreturn r",
    "one-line for": "out = []\nalias = out\nfor i in range(2): n = await add(x=i); alias.append(n)\nreturn out",
    "row in a table": "t = {'a': []}\nrow = t['a']; n = await add(x=1); row.append(n)\nreturn t",
    "slice": "xs = [1, 2, 3]\nxs[1:] = [await num(n=9)]\nreturn xs",
}
TIMED = {
    "name set before the time is over": """
done = 0
try:
    async with asyncio.timeout(1):
        done = await num(n=2)
        await asyncio.sleep(30)
except TimeoutError:
    pass
return done
""",
    "list in a timed loop": """
out = []
try:
    async with asyncio.timeout(1):
        for i in (1, 2, 3):
            if i == 3:
                await asyncio.sleep(30)
            out.append(await num(n=i))
except TimeoutError:
    pass
return out
""",
    "failure in try": """
out = []
try:
    out.append(await num(n=1))
    int('x')
except ValueError:
    pass
return out
""",
    "wait_for of a helper": """
log = {'n': 0}
async def work_long():
    log['n'] = await num(n=1)
    await asyncio.sleep(30)
try:
    await asyncio.wait_for(work_long(), timeout=1)
except asyncio.TimeoutError:
    pass
return log['n']
""",
}
EVERY = {**TASKS, **FORGOTTEN, **SHARING, **TIMED}


@pytest.mark.parametrize("name", EVERY)
def test_a_program_gives_what_python_gives(name: str) -> None:
    text = f"import asyncio\nfrom collections import defaultdict\n{EVERY[name]}"
    assert compared(text, TOOLS, None, fresh=world) == []


@pytest.mark.parametrize(
    "text",
    [
        "a = asyncio.create_task(slow(n=1))\nb = asyncio.create_task(slow(n=2))\nreturn [await a, await b]",
        "a = asyncio.create_task(slow(n=1))\nx = await slow(n=2)\nreturn [x, await a]",
        "async with asyncio.TaskGroup() as g:\n    g.create_task(slow(n=1))\n    g.create_task(slow(n=2))\nreturn 1",
        "return await asyncio.gather(slow(n=1), slow(n=2))",
    ],
)
def test_tasks_overlap(text: str) -> None:
    simulated = Simulation(TOOLS, world(), delay=lambda number, tool, arguments: 0.5 + number / 1000)
    outcome, _ = simulated.run(f"import asyncio\n{text}")
    assert outcome.status == "completed"
    assert simulated.now < 1_000_000 + 0.6  # virtual seconds


def test_unpacking_a_function_fails_as_in_python() -> None:
    outcome = run_machine("x, *y = lambda x: x\nreturn 1", {}, TOOLS, world())
    assert outcome["error"] == "TypeError"
    assert json.dumps(outcome).count("0x") == 0
