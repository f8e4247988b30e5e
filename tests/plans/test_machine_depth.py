"""Every construct, nested or repeated many times: a check and a run end with a result, or with a problem that has a place."""
# ruff: noqa: E501, UP031 - a case is one line

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.plans.program import Program

from .simulation import Simulation

WAIT = "await get(n=1)"


def nested(head: str, count: int, leaf: str = "pass") -> str:
    """Return a block statement inside of itself."""
    return "\n".join(["    " * depth + head for depth in range(count)] + ["    " * count + leaf])


CASES: dict[str, Callable[[int], str]] = {
    "list": lambda n: "x = " + "[" * n + WAIT + "]" * n + "\nreturn 1",
    "tuple": lambda n: "x = " + "(" * n + WAIT + ",)" * n + "\nreturn 1",
    "dict": lambda n: "x = " + "{1:" * n + WAIT + "}" * n + "\nreturn 1",
    "set": lambda n: "x = " + "{(" * n + WAIT + ",)}" * n + "\nreturn 1",
    "call": lambda n: "f = lambda x: x\nx = " + "f(" * n + WAIT + ")" * n + "\nreturn 1",
    "await call": lambda n: "async def f(x):\n    return x\nx = " + "await f(" * n + WAIT + ")" * n + "\nreturn x",
    "attr": lambda n: "x = (" + WAIT + ")" + ".a" * n + "\nreturn 1",
    "sub": lambda n: "x = (" + WAIT + ")" + "[0]" * n + "\nreturn 1",
    "sub2": lambda n: "x=[0]\ny = " + "x[" * n + WAIT + "*0" + "]" * n + "\nreturn y",
    "callcall": lambda n: "x = (" + WAIT + ")" + "()" * n + "\nreturn 1",
    "method": lambda n: "x = 'a'" + ".strip(" * n + "'a'" + ")" * n + "\nreturn 1",
    "methodchain": lambda n: "x = 'a'" + ".strip()" * n + "\nreturn x",
    "add": lambda n: "return " + " + ".join([WAIT] * n),
    "addplain": lambda n: "return " + " + ".join(["1"] * n),
    "pow": lambda n: "return " + " ** ".join(["1"] * n),
    "powawait": lambda n: "return " + " ** ".join(["(await get(n=1))"] * n),
    "and": lambda n: "return " + " and ".join([WAIT] * n),
    "or mix": lambda n: "return " + " or 0 and ".join([WAIT] * n),
    "compare": lambda n: "return " + " <= ".join(["(await get(n=1))"] * n),
    "comparep": lambda n: "return " + " <= ".join(["1"] * n),
    "not": lambda n: "return " + "not " * n + WAIT,
    "minus": lambda n: "return " + "-" * n + "(" + WAIT + ")",
    "ifexp": lambda n: "return " + ("1 if await get(n=0) else ") * n + "2",
    "ifexp left": lambda n: "return " + "(" * n + "1" + " if await get(n=0) else 2)" * n,
    "lambda": lambda n: "x = " + "lambda: " * n + "1\nreturn 1",
    "lambda default": lambda n: "x = " + "lambda y=(" * n + WAIT + "): y" * n + "\nreturn 1",
    "fstring": lambda n: "x = f'" + "{1}" * n + "'\nreturn x",
    "fstring await": lambda n: "x = f'" + "{await get(n=1)}" * n + "'\nreturn x",
    "fspec": lambda n: "x = f'{1:{2:{3}}}'\nreturn x",
    "walrus": lambda n: "x = " + "(y := " * n + WAIT + ")" * n + "\nreturn x",
    "starred": lambda n: "x = [" + "*[" * n + WAIT + "]" * n + "]\nreturn 1",
    "comp": lambda n: "x = " + "[a for a in " * n + "[1]" + "]" * n + "\nreturn 1",
    "comp await": lambda n: "x = " + "[await get(n=1) for a in " * n + "[1]" + "]" * n + "\nreturn 1",
    "comp elt": lambda n: "x = " + "[" * n + WAIT + " for a in [1]]" * n + "\nreturn 1",
    "comp for": lambda n: "x = [1 " + " ".join(f"for a{i} in [1]" for i in range(n)) + "]\nreturn 1",
    "comp for await": lambda n: "x = [1 " + " ".join(f"for a{i} in [await get(n=1)]" for i in range(n)) + "]\nreturn 1",
    "comp if": lambda n: "x = [1 for a in [1] " + " ".join("if await get(n=1)" for i in range(n)) + "]\nreturn 1",
    "genexp": lambda n: "x = list(" + "(a for a in " * n + "[1]" + ")" * n + ")\nreturn 1",
    "agen": lambda n: (
        "x = [a async for a in " + "(a async for a in " * n + "(await get(n=i) for i in [1])" + ")" * n + "]\nreturn 1"
    ),
    "if": lambda n: nested("if await get(n=1):", n, WAIT),
    "ifp": lambda n: nested("if 1:", n),
    "for": lambda n: nested("for i in [await get(n=1)]:", n, WAIT),
    "while": lambda n: nested("while await get(n=0):", n, WAIT),
    "with": lambda n: "import asyncio\n" + nested("async with asyncio.Lock():", n, WAIT),
    "with items": lambda n: "import asyncio\nasync with " + ", ".join(["asyncio.Lock()"] * n) + ":\n    " + WAIT,
    "try": lambda n: (
        "\n".join("    " * i + "try:" for i in range(n))
        + "\n"
        + "    " * n
        + WAIT
        + "\n"
        + "\n".join("    " * i + "finally:\n" + "    " * (i + 1) + "pass" for i in reversed(range(n)))
    ),
    "def": lambda n: nested("async def f():", n, WAIT),
    "class": lambda n: nested("class C:", n),
    "match": lambda n: (
        "match 1:\n"
        + "".join(f"    case {i}:\n        pass\n" for i in range(2, n))
        + "    case 1:\n        x = await get(n=5)\nreturn x"
    ),
    "match or": lambda n: (
        "match 1:\n    case " + " | ".join(str(i) for i in range(n)) + ":\n        return await get(n=5)"
    ),
    "match seq": lambda n: "match 1:\n    case " + "[" * n + "]" * n + ":\n        pass\nreturn 1",
    "match map": lambda n: "match 1:\n    case " + "{'a': " * n + "1" + "}" * n + ":\n        pass\nreturn 1",
    "match class": lambda n: "match 1:\n    case " + "int(" * n + "1" + ")" * n + ":\n        pass\nreturn 1",
    "match as": lambda n: "match 1:\n    case " + "(" * n + "1" + ")" * n + " as x:\n        pass\nreturn 1",
    "elif": lambda n: (
        "x = 1\nif x == 0:\n    pass\n" + "".join("elif await get(n=0):\n    pass\n" for i in range(n)) + "return 1"
    ),
    "else if": lambda n: (
        "".join(
            "    " * i + "if await get(n=0):\n" + "    " * (i + 1) + "pass\n" + "    " * i + "else:\n" for i in range(n)
        )
        + "    " * n
        + "x = 1"
    ),
    "target": lambda n: "(" * n + "x" + ",)" * n + " = 1",
    "targets": lambda n: "x = " * n + WAIT + "\nreturn x",
    "target sub": lambda n: "x = [0]\n" + "x[" * n + WAIT + "*0" + "]" * n + " = 1\nreturn 1",
    "del": lambda n: "x=1\ndel " + "(" * n + "x" + ",)" * n,
    "decorator": lambda n: "d = lambda f: f\n" + "@d\n" * n + "def f():\n    return 1\nreturn f()",
    "decorator await": lambda n: (
        "d = lambda f: f\nasync def e():\n    return d\n" + "@(await e())\n" * n + "def f():\n    return 1\nreturn f()"
    ),
    "args": lambda n: (
        "def f(*a, **k):\n    return len(a) + len(k)\nreturn f("
        + ", ".join([WAIT] * n)
        + ", "
        + ", ".join(f"k{i}={WAIT}" for i in range(n))
        + ")"
    ),
    "params": lambda n: "def f(" + ", ".join(f"k{i}={WAIT}" for i in range(n)) + "):\n    return k0\nreturn f()",
    "closures": lambda n: "f = lambda: 1\n" + "f = (lambda g: lambda: g())(f)\n" * n + "return f()",
    "bases": lambda n: (
        "class C0:\n    pass\n"
        + "".join(f"class C{i + 1}(C{i}):\n    pass\n" for i in range(n))
        + f"return C{n}.__name__"
    ),
    "super": lambda n: (
        "class C0:\n    def f(self):\n        return 1\n"
        + "".join(f"class C{i + 1}(C{i}):\n    def f(self):\n        return super().f()\n" for i in range(n))
        + f"return C{n}().f()"
    ),
    "gather": lambda n: "import asyncio\nreturn await " + "asyncio.gather(" * n + "get(n=1)" + ")" * n,
    "shield": lambda n: "import asyncio\nreturn await " + "asyncio.shield(" * n + "get(n=1)" + ")" * n,
    "wait_for": lambda n: "import asyncio\nreturn await " + "asyncio.wait_for(" * n + "get(n=1)" + ", 9)" * n,
    "tasks": lambda n: (
        "import asyncio\nasync def f(t):\n    return await t\nt = asyncio.create_task(get(n=1))\n"
        + "for i in range(%d):\n    t = asyncio.create_task(f(t))\nreturn await t" % n
    ),
    "task cancel": lambda n: (
        "import asyncio\nasync def f(t):\n    return await t\nt = asyncio.create_task(get(n=1))\n"
        + "for i in range(%d):\n    t = asyncio.create_task(f(t))\nawait asyncio.sleep(0)\nfor i in range(%d):\n    await asyncio.sleep(0)\nt.cancel()\ntry:\n    await t\nexcept asyncio.CancelledError:\n    return 1"
        % (n, n)
    ),
    "gather cancel": lambda n: (
        "import asyncio\nt = asyncio.create_task(get(n=1))\nfor i in range(%d):\n    t = asyncio.gather(t)\nawait asyncio.sleep(0)\nt.cancel()\ntry:\n    await t\nexcept asyncio.CancelledError:\n    return 1"
        % n
    ),
    "yield from": lambda n: (
        "def g(n):\n    if n:\n        yield from g(n - 1)\n    yield n\nreturn len(list(g(%d)))" % n
    ),
    "yield from chain": lambda n: (
        "def h():\n    yield 1\ng = h()\ndef w(g):\n    yield from g\nfor i in range(%d):\n    g = w(g)\nreturn list(g)"
        % n
    ),
    "agen chain": lambda n: (
        "async def h():\n    yield await get(n=1)\ng = h()\nasync def w(g):\n    async for x in g:\n        yield x\nfor i in range(%d):\n    g = w(g)\nreturn [x async for x in g]"
        % n
    ),
    "gen close": lambda n: (
        "def h():\n    yield 1\ng = h()\ndef w(g):\n    for x in g:\n        yield x\nfor i in range(%d):\n    g = w(g)\nnext(g)\ng = None\nreturn 1"
        % n
    ),
    "cause": lambda n: (
        "e = None\nfor i in range(%d):\n    try:\n        raise ValueError(i) from e\n    except ValueError as error:\n        e = error\nawait get(n=1)\nraise e"
        % n
    ),
    "context": lambda n: (
        "async def f(n):\n    try:\n        raise ValueError(n)\n    except ValueError:\n        if n:\n            await f(n - 1)\n        raise\nawait f(%d)"
        % n
    ),
    "group": lambda n: "e = ValueError(1)\nfor i in range(%d):\n    e = ExceptionGroup('x', [e])\nraise e" % n,
    "group str": lambda n: (
        "e = ValueError(1)\nfor i in range(%d):\n    e = ExceptionGroup('x', [e])\nreturn repr(e)" % n
    ),
    "args exc": lambda n: "e = ValueError(1)\nfor i in range(%d):\n    e = ValueError(e)\nreturn repr(e)" % n,
    "partial": lambda n: (
        "import functools\nf = lambda: 1\nfor i in range(%d):\n    f = functools.partial(f)\nreturn f()" % n
    ),
    "eq": lambda n: (
        "class A:\n    def __init__(self, x):\n        self.x = x\n    def __eq__(self, o):\n        return self.x == o.x\na = 1\nb = 1\nfor i in range(%d):\n    a, b = A(a), A(b)\nreturn a == b"
        % n
    ),
    "repr class": lambda n: (
        "class A:\n    def __init__(self, x):\n        self.x = x\n    def __repr__(self):\n        return f'A({self.x})'\na = 1\nfor i in range(%d):\n    a = A(a)\nreturn len(repr(a))"
        % n
    ),
    "dataclass": lambda n: (
        "from dataclasses import dataclass, asdict\n@dataclass\nclass A:\n    x: object\na = 1\nfor i in range(%d):\n    a = A(a)\nprint(len(repr(a)))\nreturn asdict(a)"
        % n
    ),
    "dataclass eq": lambda n: (
        "from dataclasses import dataclass, replace\n@dataclass\nclass A:\n    x: object\na = 1\nb = 1\nfor i in range(%d):\n    a, b = A(a), A(b)\nreturn [a == b, replace(a).x == b.x]"
        % n
    ),
    "namedtuple": lambda n: (
        "from collections import namedtuple\nA = namedtuple('A', 'x')\na = 1\nfor i in range(%d):\n    a = A(a)\nreturn len(str(a))"
        % n
    ),
    "deque": lambda n: (
        "from collections import deque\na = 1\nfor i in range(%d):\n    a = deque([a])\nreturn len(str(a))" % n
    ),
    "frozenset": lambda n: "a = 1\nfor i in range(%d):\n    a = frozenset([a])\nreturn len({a, a})" % n,
    "copy": lambda n: "import copy\na = 1\nfor i in range(%d):\n    a = [a]\nreturn copy.deepcopy(a) == a" % n,
    "json": lambda n: "a = 1\nfor i in range(%d):\n    a = [a]\nreturn len(json.dumps(a))" % n,
    "loads": lambda n: "return json.loads('[' * %d + ']' * %d)" % (n, n),
    "arg": lambda n: "a = 1\nfor i in range(%d):\n    a = [a]\nreturn await get(n=a)" % n,
    "property": lambda n: (
        "class A:\n    def __init__(self, x):\n        self.x = x\n    @property\n    def y(self):\n        return self.x.y if self.x else 1\na = None\nfor i in range(%d):\n    a = A(a)\nreturn a.y"
        % n
    ),
    "getitem": lambda n: (
        "class A:\n    def __getitem__(self, i):\n        return 1 if i == 0 else self[i - 1]\nreturn A()[%d]" % n
    ),
    "call method": lambda n: (
        "class A:\n    def f(self, n):\n        return 1 if n == 0 else self.f(n - 1)\nreturn A().f(%d)" % n
    ),
    "async method": lambda n: (
        "class A:\n    async def f(self, n):\n        return await get(n=1) if n == 0 else await self.f(n - 1)\nreturn await A().f(%d)"
        % n
    ),
    "sort key": lambda n: (
        "def f(n):\n    return n if n == 0 else sorted([n], key=lambda x: f(n - 1))[0]\nreturn f(%d)" % n
    ),
    "map": lambda n: "def f(n):\n    return [n] if n == 0 else list(map(lambda x: f(n - 1), [1]))\nreturn f(%d)" % n,
    "regex": lambda n: "return bool(re.match('(' * %d + 'a' + ')' * %d, 'a'))" % (n, n),
    "cached": lambda n: (
        "import functools\n@functools.lru_cache\ndef f(n):\n    return n if n < 1 else f(n - 1)\nreturn f(%d)" % n
    ),
    "timeouts": lambda n: (
        "import asyncio\nasync def f(n):\n    async with asyncio.timeout(9):\n        return await f(n - 1) if n else await get(n=1)\nreturn await f(%d)"
        % n
    ),
    "groups": lambda n: (
        "import asyncio\nasync def f(n):\n    async with asyncio.TaskGroup() as g:\n        if n:\n            g.create_task(f(n - 1))\n        else:\n            raise ValueError(1)\nawait f(%d)"
        % n
    ),
}
"""Programs in which a construct is nested or repeated n times."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [20, 55, 100, 700])
def test_no_raw_exception_leaves_a_check_or_a_run(name: str, count: int) -> None:
    program = Program(CASES[name](count), {"get": ["n"]}, function=True)
    for problem in program.problems:
        assert problem.line >= 1
        assert "recursion" not in problem.message
    if not program.problems:
        outcome, _ = Simulation({"get": ["n"]}, lambda tool, arguments: arguments["n"]).run(program)
        assert outcome.status == "completed" or outcome.line >= 1
        assert "recursion" not in outcome.message.lower() + outcome.error.lower()
        assert "0x" not in outcome.message + outcome.printed + str(outcome.result)
