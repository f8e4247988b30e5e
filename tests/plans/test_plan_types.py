"""Types of plans: what can never fit is found before the first call, and what may fit is not."""

from __future__ import annotations

import ast
import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import Field

from ropewalk import App, tool
from ropewalk.errors import InvalidFlow
from ropewalk.notations.plan.check import types_of
from ropewalk.notations.plan.readers import HERE
from ropewalk.notations.plan.tools import with_tools
from ropewalk.plans.check.types import TypeCheck

from .oracle import World, run_python, tools_of
from .programs import Writer
from .test_plan_oracle import PROGRAMS

Level = Literal["junior", "senior"]


class User(TypedDict):
    id: int
    name: str
    level: Level
    tags: list[str]


@tool
async def get_user(id: int) -> User:
    """Give a user."""
    return {"id": id, "name": f"user {id}", "level": "junior", "tags": []}


@tool
async def list_users(
    department: Annotated[str, Field(pattern="^[a-z]+$")], limit: Annotated[int, Field(ge=1, le=50)] = 5
) -> list[User]:
    """List the users of a department."""
    return [await get_user(1)]


@tool
async def notify(
    ids: Annotated[list[int], Field(max_length=3)],
    level: Level = "junior",
    on: Annotated[str, Field(json_schema_extra={"format": "date"})] = "2026-01-01",
    more: dict[str, Any] | None = None,
) -> bool:
    """Notify users."""
    return True


@tool
async def anything(value: Any) -> Any:
    """Give a value back."""
    return value


TOOLS = [get_user, list_users, notify, anything]

WRONG = {
    "user = await get_user(id=1)\nreturn user.nme": (2, 8, "'user' has no member 'nme'", "name"),
    "user = await get_user(id=1)\nreturn user['nme']": (2, 8, "'user' has no member 'nme'", "name"),
    "return (await get_user(id=1)).nme": (1, 8, "has no member 'nme'", "name"),
    "key = 'abc'\nuser = await get_user(id=key)": (2, 26, "argument 'id' of get_user: must be an integer", None),
    "user = await get_user(1)\nawait get_user(user.name)": (2, 16, "must be an integer; this is a string", None),
    "for user in await list_users(department='it'):\n    await get_user(id=user.name)": (2, 23, "integer", None),
    "await list_users(department='Sales')": (1, 29, '"Sales" does not match', None),
    "limit = 500\nawait list_users('a', limit=limit)": (2, 29, "greater than the maximum of 50", None),
    "await notify(ids=[1, 2, 3, 4])": (1, 18, "takes at most 3 items", None),
    "await notify(ids=[1, 'x'])": (1, 22, "argument 'ids'[1] of notify: must be an integer", None),
    "level = 'juniour'\nawait notify([1], level=level)": (2, 25, "is not one of", "junior"),
    "level = 'a' if await anything(1) else 'b'\nawait notify([1], level)": (2, 19, "is not one of", None),
    "async def show(user):\n    return user.nam\nawait show(await get_user(1))": (2, 12, "no member 'nam'", "name"),
    "users = await list_users('a')\nreturn sorted(users, key=lambda u: u.lvl)": (2, 36, "no member 'lvl'", "level"),
    "users = await list_users('a')\nreturn max(users, key=lambda u: u.id).nam": (2, 8, "no member 'nam'", "name"),
    "users = await list_users('a')\nreturn {u.id: u.nme for u in users if u.tags}": (2, 15, "no member 'nme'", "name"),
    "users = await list_users('a')\nreturn [t.uper() for u in users for t in u.tags]": (2, 9, "'uper'", "upper"),
    "users = await asyncio.gather(*[get_user(n) for n in [1]])\nreturn users[0].nme": (2, 8, "'nme'", "name"),
    "a, b = await asyncio.gather(get_user(1), list_users('x'))\nreturn b.name": (2, 8, "'b' is a list", None),
    "user = await get_user(1)\nreturn user.name + user.id": (2, 8, "a string + an integer", None),
    "user = await get_user(1)\nreturn user.name < 3": (2, 8, "a string < an integer", None),
    "user = await get_user(1)\nfor x in user.id:\n    pass": (2, 10, "a loop goes over a list", None),
    "call = get_user(1)\nuser = await call\nreturn user.nme": (3, 8, "no member 'nme'", "name"),
    "return (await call_tool('get_user', {'id': 'x'}))": (1, 44, "must be an integer", None),
    "return (await call_tool('get_user', {'idd': 1}))": (1, 45, "get_user has no parameter 'idd'", "id"),
    "import difflib\nreturn difflib.ndiff('a', 'b')": (1, 1, "import of difflib is not supported", None),
    "from math import sqroot\nreturn sqroot(4)": (1, 1, "math.sqroot is not supported", "sqrt"),
    "import math\nreturn math.sqroot(4)": (2, 8, "math.sqroot is not supported", "sqrt"),
    "pritn(1)\npritn(2)": (1, 1, "name 'pritn' is not defined", "print"),
    "return (await call_tool('get_user', {}))": (1, 15, "get_user needs the argument 'id'", None),
    "try:\n    u = await get_user(1)\nexcept Exception:\n    u = await get_user(2)\nreturn u.nme": (
        5,
        8,
        "'nme'",
        "name",
    ),
    "number: int\nreturn await list_users(number)": (2, 25, "must be a string; this is an integer", None),
    "u = await get_user(1)\nif u.level == 'junior' and u.nme:\n    pass": (2, 28, "no member 'nme'", "name"),
    "user = get_user(1)\nreturn user.name": (2, 8, "user is never awaited; write await before it", None),
    "get_user(1)\nreturn 2": (1, 1, "get_user(1) is never awaited", None),
    "users = [get_user(n) for n in [1]]\nreturn users": (2, 8, "await asyncio.gather(*calls)", None),
    "if get_user(1):\n    return 1": (1, 4, "is never awaited", None),
    "n = 1 + get_user(1)\nreturn n": (1, 9, "is never awaited", None),
    "async def one(n):\n    return await get_user(n)\nreturn f'{one(1)}'": (3, 11, "one(1) is never awaited", None),
    "ids = get_user(1)\nawait notify(ids=ids)": (2, 18, "ids is never awaited", None),
    "user = await get_user(1)\nreturn await user": (2, 8, "cannot be awaited; remove await", None),
    "await asyncio.gather([get_user(1)])": (1, 22, "gather takes calls; this is a list", None),
    "user = await get_user(1)\nuser()": (2, 1, "'user' is an object; it cannot be called", None),
    "print(total)\ntotal = 1": (1, 7, "'total' is read before it has a value", None),
    "async def one():\n    user.name\n    user = await get_user(1)\nawait one()": (2, 5, "before it has a value", None),
    "try:\n    await get_user(1)\nexcept ToolError as e:\n    pass\nreturn str(e)": (5, 12, "before it has", None),
    "def one(a, *, b=1):\n    return a\nreturn one(1, bb=2)": (3, 15, "one has no parameter 'bb'", "b"),
    "def one(a, *, b):\n    return a\nreturn one(1)": (3, 8, "one needs the argument 'b'", None),
    "def one(a):\n    return a\nreturn one(1, 2)": (3, 8, "one takes 1 positional argument, 2 were given", None),
    "def one(a):\n    return a\nreturn one(1, a=2)": (3, 15, "one gets the argument 'a' twice", None),
    "u = next((u for u in await list_users('a') if u.id), None)\nreturn u.nme": (2, 8, "no member 'nme'", "name"),
    "class Box:\n    async def fill(self):\n        await get_user('x')\nreturn Box()": (
        3,
        24,
        "must be an integer",
        None,
    ),
    "tasks = {n: asyncio.create_task(get_user(n)) for n in [1]}\nu = await tasks[1]\n"
    "t = asyncio.create_task(get_user(1))\n"
    "return (await t).nme": (4, 8, "no member 'nme'", "name"),
    "u = await get_user(1)\nx = lambda: u.nme\nreturn x()": (2, 13, "no member 'nme'", "name"),
    "us = await list_users('a')\nby = {}\nfor u in us:\n    by.setdefault(u.level, []).append(u)\n"
    "return [u.nme for u in us]": (5, 9, "no member 'nme'", "name"),
}
RIGHT = [
    # values that change under another name
    "user = await get_user(1)\nsame = user\nsame['extra'] = 1\nreturn user.extra",
    "user = await get_user(1)\nsame = [user]\nfor u in same:\n    u[u.name] = 1\nreturn user.extra",
    "xs = [1]\nys = xs\nys.append('a')\nreturn xs[-1].upper()",
    "xs = [1]\nys = xs\nys += ['a']\nreturn xs[1].upper()",
    "a = b = [1]\na.append('a')\nreturn b[1].upper()",
    "xs = [1]\ndef add(to):\n    to.append('a')\nadd(xs)\nreturn xs[1].upper()",
    "xs = [1]\nd = {'k': xs}\nd['k'].append('a')\nreturn xs[1].upper()",
    "xs = [1]\nd = {}\nd['k'] = xs\nd['k'].append('a')\nreturn xs[1].upper()",
    "xs = [1]\nd = {}\nd.setdefault('k', xs).append('a')\nreturn xs[1].upper()",
    "xs = [1]\nadd = xs.append\nadd('a')\nreturn xs[1].upper()",
    "d = {'k': [1]}\nx = d['k']\nx.append('a')\nreturn d['k'][1].upper()",
    "class Box:\n    def __init__(self, items):\n        self.items = items\nxs = [1]\nbox = Box(xs)\n"
    "box.items.append('a')\nreturn xs[1].upper()",
    "users = await list_users('a')\nfor u in users:\n    u.id = str(u.id)\nreturn users[0].id.upper()",
    "import heapq\nxs = [1]\nys = xs\nheapq.heappush(ys, 'a')\nreturn xs[1].upper()",
    "x = 1\ndef set_x():\n    global x\n    x = 'a'\nset_x()\nreturn x.upper()",
    "async def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 'a'\n    g()\n    return x.upper()\n"
    "return await f()",
    "x = 1\nasync def show():\n    return x.upper()\nx = 'a'\nreturn await show()",
    "def show():\n    return x.upper()\nasync def f():\n    x = 1\n    return show(), x\nx = 'a'\nreturn await f()",
    # names
    "xs = [(n, y)[0] for n in []]\ny = 1\nreturn xs",
    "for n in range(3):\n    if n:\n        print(last)\n    last = n",
    "if await anything(1):\n    x = 1\nreturn x",
    "xs = [t for n in [1, 2] if (t := n * 2) > 2]\nreturn t",
    "try:\n    print(later)\nexcept NameError:\n    later = 1\nreturn later",
    "def f():\n    return g()\ndef g():\n    return 1\nreturn f()",
    "class Box:\n    size = 3\n    def get(self):\n        return self.size + size\nsize = 1\nreturn Box().get()",
    "import contextlib\nu = await get_user(1)\nwith contextlib.suppress(KeyError):\n    return u.price",
    "u = await get_user(1)\ntry:\n    return u.price\nexcept Exception:\n    return 0",
    # calls that are awaited later
    "calls = [get_user(n) for n in range(3)]\nreturn [u.name for u in await asyncio.gather(*calls)]",
    "t = asyncio.create_task(get_user(1))\nt.cancel()\nreturn t.cancelled()",
    "async def one(n):\n    return get_user(n)\nreturn await (await one(1))",
    "tasks = {}\nfor n in range(3):\n    tasks[n] = asyncio.create_task(get_user(n))\n"
    "return [(await t).id for t in tasks.values()]",
    "async with asyncio.TaskGroup() as group:\n    t = group.create_task(get_user(1))\nreturn t.result().name",
    "calls = {'a': get_user}\nreturn await calls['a'](1)",
    "def numbers():\n    yield 1\nreturn [n + 1 for n in numbers()]",
    "async def numbers():\n    yield await get_user(1)\nreturn [u.name async for u in numbers()]",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nreturn P(1).x + P(x=2).x",
    "def twice(f):\n    return lambda *a: f(*a) * 2\n@twice\ndef f(a):\n    return a\nreturn f(1)",
    "def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\nreturn fact(5)",
    "xs = [1]\nreturn max(xs, default='a')",
    "queue = asyncio.Queue()\nawait queue.put(1)\nreturn await queue.get()",
    "user = await get_user(1)\nuser['extra'] = 1\nreturn user.extra",
    "users = await list_users('a')\nfor u in users:\n    u['n'] = 1\nreturn [u.n for u in users]",
    "value = await anything(1)\nreturn value.any.thing + value[0]",
    "value = await anything(1)\nawait get_user(value)\nawait notify(ids=value, level=value)",
    "level = str(await anything('senior'))\nawait notify([1], level)",
    "x = 1\nfor n in range(3):\n    x = str(x)\nreturn x + 'a'",
    "x = None\nfor n in range(3):\n    x = await get_user(n)\nreturn x.name if x else ''",
    "x = 1\nif await anything(1):\n    x = 'a'\nif isinstance(x, str):\n    x = x.upper()\nreturn x",
    "x = await get_user(1)\nif 'price' in x:\n    return x.price",
    "x = await get_user(1)\ntry:\n    return x.price\nexcept KeyError:\n    return 0",
    "x = (await get_user(1)).get('price')\nreturn x or 0",
    "d = {}\nd['a'] = 1\nreturn d.a + len(d)",
    "xs = []\nfor n in range(3):\n    xs.append(str(n))\nreturn xs[0].upper()",
    "xs = [1]\nys = xs\nxs.append('a')\nreturn [y for y in xs]",
    "level = 'senior' if await anything(1) else 'chief'\nawait notify([1], level)",
    "user = await get_user(1)\nreturn [user.items(), user.keys(), user.level.upper(), user.tags.count('a')]",
    "total = 0\nfor u in await list_users('a'):\n    total += u.id * 1.5\nreturn round(total / 2, 1)",
    "import asyncio\nrs = await asyncio.gather(get_user(1), return_exceptions=True)\nreturn [str(r) for r in rs]",
    "match await anything(1):\n    case {'n': str(n)}:\n        n.upper()\n    case [x, *rest]:\n        return x",
    "from datetime import date\nreturn (date(2026, 1, 2) - date(2026, 1, 1)).days",
    "return {1, 2} - {1} == {2}",
]


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with asyncio.Runner() as runner:
        opened = App("memory", tools=TOOLS)
        runner.run(opened.__aenter__())
        yield opened
        runner.run(opened.__aexit__(None, None, None))


def checked(app: App, code: str) -> Any:
    return asyncio.run(app.validate({"kind": "plan", "code": code, "function": True}))


@pytest.mark.parametrize("code", WRONG)
def test_what_can_never_fit_has_its_line_column_and_suggestion(app: App, code: str) -> None:
    line, column, message, suggestion = WRONG[code]
    (problem,) = checked(app, code).problems
    start = sum(len(text) + 1 for text in code.split("\n")[: line - 1])
    assert (problem.message.split(": ")[0], problem.column) == (f"line {line}", start + column), problem
    assert message in problem.message
    assert problem.suggestion == suggestion


@pytest.mark.parametrize("code", RIGHT)
def test_what_may_fit_is_no_problem(app: App, code: str) -> None:
    assert not checked(app, code).problems


def test_every_problem_is_reported_at_once_with_those_of_the_language(app: App) -> None:
    code = "u = await get_user('x')\nreturn u.nme + nam\nimport subprocess"
    lines = [problem.message.split(": ")[0] for problem in checked(app, code).problems]
    assert lines == ["line 1", "line 2", "line 2", "line 3"]


@pytest.mark.parametrize("field", [{"tools": 5}, {"tools": {"get_user": 5}}, {"transforms": 5}, {"inputs": 5}])
def test_a_wrong_field_of_the_document_is_a_problem(app: App, field: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow, match=r"must be an .*, not a number"):
        app.load({"kind": "plan", "name": "wrong", "code": "await get_user('x')", **field})


def test_a_literal_of_another_format_is_a_warning(app: App) -> None:
    report = checked(app, "await notify([1], on='tomorrow')")
    assert not report.problems
    assert [
        "argument 'on' of notify: 'tomorrow' does not have the format date" in str(one) for one in report.warnings
    ] == [True]
    assert not checked(app, "await notify([1], on='2026-11-27')").warnings


@pytest.mark.parametrize("origin", [{}, {"origin": "model"}])
@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("u = await get_user(1)\nreturn {'n': u.name}", {"n": {"type": "string"}}),
        ("if await anything(1):\n    return {'n': 1}\nreturn {'n': 'a'}", None),
        ("u = await get_user(1)\nu['extra'] = 1\nreturn u", None),
        ("d = {'n': 1}\nd['m'] = 1\nreturn d", None),
        ("print('a')", None),
    ],
)
def test_the_type_of_the_result_is_the_schema_of_the_tool(app: App, code: str, output: Any, origin: Any) -> None:
    schema: Any = app.as_tool({"kind": "plan", "name": "inner", "code": code, **origin}).output_schema
    assert (schema or {}).get("properties") == output


def test_a_program_that_prints_may_give_the_text(app: App) -> None:
    assert app.as_tool({"kind": "plan", "name": "inner", "code": "if True:\n    print('a')"}).output_schema is None


def test_a_model_gets_the_same_problems(app: App) -> None:
    code = "u = await get_usr('x')\nreturn (await get_user('x')).nme + nam"
    here = [str(problem) for problem in checked(app, code).problems]
    document = {"kind": "plan", "code": code, "function": True, "origin": "model"}
    assert [str(problem) for problem in asyncio.run(app.validate(document)).problems] == here
    assert len(here) == 4
    assert here[0].endswith("line 1: name 'get_usr' is not defined; did you mean get_user?")


def problems_of(app: App, code: str) -> list[Any]:
    document = with_tools({"kind": "plan", "code": code, "function": True}, app.toolbox, HERE)
    return types_of(document, app.definitions.cards).problems


def test_programs_that_run_right_have_no_type_problem() -> None:
    app = App("memory", tools=tools_of(World()))
    sources = [*PROGRAMS.values(), *(Writer(seed).program() for seed in range(150))]
    for code in sources:
        found = problems_of(app, code.strip("\n"))
        assert not found or "error" in run_python(code, {}), (code, found)


def test_one_fault_in_a_right_program_is_found_before_the_first_call() -> None:
    app = App("memory", tools=tools_of(World()))
    missed = []
    count = 0
    for name, code in PROGRAMS.items():
        if name in ("mutation", "an uncaught KeyError"):  # adds members to its own dicts
            continue
        for fault in faults(code.strip("\n")):
            count += 1
            document = with_tools({"kind": "plan", "code": fault, "function": True}, app.toolbox, HERE)
            if not types_of(document, app.definitions.cards).problems:
                missed.append(fault)
    assert count > 60
    assert not missed, missed[0]


def faults(code: str) -> Iterator[str]:
    """Yield the program with one argument of a wrong type, or one wrong member of what a tool gave."""
    tree = ast.parse(code)
    text = ast.parse("(await get_item(1)).name", mode="eval").body
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("get_item", "risky"):
            if node.args:
                yield changed(tree, index, lambda part: part.args.__setitem__(0, text))
            elif node.keywords:
                yield changed(tree, index, lambda part: setattr(part.keywords[0], "value", ast.Constant("text")))
        elif isinstance(node, ast.Attribute) and node.attr in ("id", "name", "tags"):
            yield changed(tree, index, lambda part: setattr(part, "attr", part.attr + "s"))


def changed(tree: ast.Module, index: int, change: Callable[[Any], None]) -> str:
    """Return the text of a program with one node changed."""
    tree = copy.deepcopy(tree)
    change(list(ast.walk(tree))[index])
    return ast.unparse(tree)


@pytest.mark.parametrize(
    "around",
    ["f(x={})", "await asyncio.gather(*[{}])", "xs.sort(key=lambda x: {})", "({} if xs else 1)", "sorted([{}])"],
)
def test_the_check_looks_at_nested_calls_once(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "1"
    for _ in range(18):
        code = around.replace("{}", code)
    tree = ast.parse(f"xs = []\ndef f(x):\n    return x\nasync def main():\n    return {code}")
    looked: list[object] = []
    look = TypeCheck.type_of
    monkeypatch.setattr(TypeCheck, "type_of", lambda self, *args: looked.append(0) or look(self, *args))
    TypeCheck(tree, {}, lambda tool: None, None).run()
    assert len(looked) < 2_000
