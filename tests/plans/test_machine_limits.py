"""No program, however large or deep, ends in a raw exception, an address, or a dead process."""

from __future__ import annotations

import sys

import pytest

from ropewalk.plans.program import Program

from .simulation import Simulation

TOOLS = {"get": ["n"]}


def answer(tool: str, arguments: dict[str, int]) -> int:
    return arguments["n"]


READ_DEEP = {
    "brackets": "x = " + "[" * 3000 + "]" * 3000,
    "additions": "x = " + "+".join(["1"] * 5000),
    "unary": "x = " + "-" * 5000 + "1",
    "not": "x = " + "not " * 5000 + "1",
    "members": "x = a" + ".b" * 5000,
    "subscripts": "x = a" + "[0]" * 5000,
    "calls": "x = f" + "()" * 5000,
    "elif": "if 1:\n    x = 1\n" + "".join(f"elif x == {n}:\n    x = {n}\n" for n in range(2500)),
    "lambdas": "x = " + "lambda: " * 3000 + "1",
    "conditionals": "x = " + "1 if 2 else " * 3000 + "3",
    "indentation": "".join("    " * n + "if 1:\n" for n in range(90)) + "    " * 90 + "x = 1",
    "powers": "x = " + "2 ** " * 3000 + "1",
    "patterns": "match 1:\n    case " + "[" * 300 + "]" * 300 + ":\n        pass",
    "strings": "x = " + "f'{" * 100 + "1" + "}'" * 100,
    "null": "x = '\0'",
    "surrogate": "x = '\ud800'",
    "not python": "def (",
    "digits": "x = " + "9" * 5000,
}


@pytest.mark.parametrize("name", READ_DEEP)
def test_a_text_that_is_too_deep_has_a_problem_with_a_line(name: str) -> None:
    problems = Program(READ_DEEP[name], TOOLS).problems
    assert problems
    assert all(problem.line >= 1 and problem.column >= 1 and "0x" not in problem.message for problem in problems)


RUN_WIDE = {
    "awaits in one and": ("return " + " and ".join(["await get(n=1)"] * 800), 1),
    "branches": (
        "x = 5\nif x == -1:\n    pass\n" + "".join(f"elif x == {n}:\n    x = {n}\n" for n in range(250)) + "return x",
        5,
    ),
    "closures": ("fs = []\nfor i in range(3000):\n    fs.append(lambda i=i: i)\nreturn sum(f() for f in fs)", 4498500),
    "awaited recursion": (
        """
async def f(n):
    for x in [n]:
        if x:
            return 1 + await f(n - 1)
    return await get(n=7)
return await f(300)
""",
        307,
    ),
    "plain recursion": ("def f(n):\n    return n and 1 + f(n - 1)\nreturn f(300)", 300),
    "recursion of two": (
        """
def even(n):
    return True if n == 0 else odd(n - 1)
def odd(n):
    return False if n == 0 else even(n - 1)
return even(400)
""",
        True,
    ),
    "recursive generator": (
        """
def walk(tree):
    for x in tree:
        if isinstance(x, list):
            yield from walk(x)
        else:
            yield x
return list(walk([1, [2, [3, [4]]]]))
""",
        [1, 2, 3, 4],
    ),
}


@pytest.mark.parametrize("name", RUN_WIDE)
def test_a_wide_or_deep_program_runs(name: str) -> None:
    text, result = RUN_WIDE[name]
    assert sys.getrecursionlimit() <= 1000
    outcome, _ = Simulation(TOOLS, answer).run(text)
    assert (outcome.status, outcome.result) == ("completed", result)


STOPPED = {
    "loop": "while True:\n    pass",
    "loop of turns": "import asyncio\nwhile True:\n    await asyncio.sleep(0)",
    "recursion": "def f(n):\n    return f(n + 1)\nreturn f(0)",
    "awaited recursion": "async def f(n):\n    return await f(n + 1)\nreturn await f(0)",
    "lambda recursion": "f = lambda g, n: g(g, n + 1)\nreturn f(f, 0)",
    "nested tuples": "x = ()\nfor i in range(300000):\n    x = (x,)\nreturn len({x})",
    "nested tuples of zip": "x = ()\nfor i in range(300000):\n    x = list(zip([x]))[0]\nreturn hash",
    "nested lists": "x = []\nfor i in range(100000):\n    x = [x]\nreturn x",
    "repr of nested lists": "x = []\nfor i in range(100000):\n    x = [x]\nreturn len(str(x))",
    "nested iterators": "x = iter([1])\nfor i in range(100000):\n    x = enumerate(x)\nreturn len(list(x))",
    "nested maps": "x = [1]\nfor i in range(100000):\n    x = map(str, x)\nreturn len(list(x))",
    "doubling": "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn x == [x]",
    "doubling text": "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn str(x)",
    "doubling argument": "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn await get(n=x)",
    "itself": "x = []\nx.append(x)\nreturn x",
    "itself in a call": "x = {}\nx['x'] = x\nreturn await get(n=x)",
    "text": "x = 'a'\nwhile True:\n    x = x + x",
    "power": "return 9 ** 9 ** 9",
    "range": "return 1.5 in range(10 ** 18)",
    "sum": "return sum(range(10 ** 18))",
    "list": "return list(range(10 ** 12))",
    "product": "from itertools import product\nreturn len(list(product(range(99), repeat=20)))",
    "width": "return f'{1:>999999999}'",
    "round": "return round(5, -10 ** 9)",
    "translate": "return len(('a' * 10 ** 6).translate({97: 'b' * 10 ** 6}))",
    "quantiles": "import statistics\nreturn statistics.quantiles([1, 2], n=10 ** 9)",
    "repeated": "return 'ab' * 10 ** 12",
    "many numbers": "return [0] * 10 ** 12",
    "equality of a class": "class A:\n    def __eq__(self, other):\n        return self == other\nreturn A() == A()",
    "caught": "while True:\n    try:\n        while True:\n            pass\n    except Exception:\n        pass",
    "caught depth": "def f():\n    try:\n        return f()\n    except BaseException:\n        return f()\nreturn f()",
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_limit_stops_a_program_that_cannot_catch_it(name: str) -> None:
    outcome, _ = Simulation(TOOLS, answer).run(STOPPED[name])
    assert outcome.status == "stopped", outcome
    assert "0x" not in outcome.message
    assert "recursion depth" not in outcome.message
    again, _ = Simulation(TOOLS, answer).run(STOPPED[name])
    assert again == outcome


ADDRESSES = [
    "print(lambda: 1)",
    "import asyncio\nasync def f():\n    pass\nprint(f, f(), asyncio.Lock(), asyncio.create_task(f()), get, get(n=1))",
    "print(iter([1]), enumerate([1]), map(str, []), zip([]), reversed([1]), (x for x in []), {}.items(), [].append)",
    "class A:\n    pass\nprint(A(), [A()], A, A().__class__)",
    "class A:\n    def f(self):\n        pass\nprint(A().f, str(A()), repr(A()), f'{A()}', '%s' % A(), '{}'.format(A))",
    "def g():\n    yield 1\nprint(g())",
    "try:\n    raise ValueError(lambda: 1)\nexcept ValueError as e:\n    print(e, repr(e), [e])",
    "from collections import deque, defaultdict\nprint(deque([iter([])]), defaultdict(lambda: 1), {'a': iter([])})",
    "import re, functools\nprint(re.compile('a'), re.match('a', 'a'), functools.partial(print, 1))",
    "class A:\n    pass\nraise ValueError(A())",
    "return [].x",
    "x = object()\nprint(x)",
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_no_text_has_an_address(text: str) -> None:
    outcome, _ = Simulation(TOOLS, answer).run(text)
    assert "0x" not in outcome.printed + outcome.message
    assert outcome.status in ("completed", "failed"), outcome


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("for i in range(3):\n    yield i", (2, 5), "yield outside of a function"),
        ("yield from [1]", (1, 1), "yield outside of a function"),
        ("def f(a=(yield)):\n    return a", (1, 10), "yield outside of a function"),
        ("break", (1, 1), "'break' outside loop"),
        ("def f(a, a):\n    pass", (1, 10), "duplicate argument"),
        ("async def f():\n    yield from [1]", (2, 5), "'yield from' inside async function"),
    ],
)
@pytest.mark.parametrize("function", [False, True])
def test_what_python_reads_and_does_not_compile_is_a_problem(
    text: str, place: tuple[int, int], message: str, function: bool
) -> None:
    [problem] = Program(text, {}, function=function).problems
    assert ((problem.line, problem.column), message in problem.message) == (place, True)


def test_a_generator_and_an_import_from_the_future_are_no_problem() -> None:
    assert Program("from __future__ import annotations\ndef g():\n    yield 1\nreturn [*g()]", {}).problems == []
