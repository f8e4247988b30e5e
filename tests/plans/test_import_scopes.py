"""Imports in plans have the scopes that they have in Python: Python itself judges what each name means."""

from __future__ import annotations

import ast
import builtins
import random
import types
from typing import Any

import pytest

from ropewalk.plans.program import Program

from .simulation import Simulation

SERVERS = ("fs", "git", "x")
TOOLS = {f"{server}.act": ["n"] for server in SERVERS}
FROM = "from ropewalk.servers import"


class Server:
    """A server whose only tool records its calls."""

    def __init__(self, name: str, calls: list[Any]) -> None:
        self.name, self.calls = name, calls

    async def act(self, n: Any) -> Any:
        self.calls.append((f"{self.name}.act", {"n": n}))
        return n


def run_python(text: str) -> tuple[list[Any], bool]:
    """Return the calls that a program makes in Python, and whether it raises an error."""
    calls: list[Any] = []
    servers = {name: Server(name, calls) for name in SERVERS}

    def load(name: str, *rest: Any) -> Any:
        return types.SimpleNamespace(**servers) if name == "ropewalk.servers" else __import__(name, *rest)

    # A program has its servers without an import, too, as it has the built-in functions.
    names = {"__builtins__": {**vars(builtins), **servers, "__import__": load}, "__name__": "program"}
    code = compile(text, "program", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    try:
        made = eval(code, names)
        if made is not None:
            made.send(None)  # no call waits
    except StopIteration:
        return calls, False
    except Exception:  # noqa: BLE001 - programs raise anything
        return calls, True
    return calls, False


def compare(text: str) -> str:
    """Return "same", "refused" and the like, or what differs between Python and the plan."""
    calls, has_failed = run_python(text)
    program = Program(text, TOOLS, [])
    if program.problems:
        return "refused"
    world = Simulation(TOOLS, lambda tool, arguments: arguments["n"])
    outcome = world.run(program)[0]
    begun = [(tool, dict(arguments)) for tool, arguments in world.calls]
    if begun == calls and (outcome.status == "failed") is has_failed:
        return "same"
    # A name that the program itself assigns has no other meaning before, as in a function of Python.
    if outcome.error == "NameError" and begun == calls[: len(begun)]:
        return "stopped"
    return f"Python {calls}, failed: {has_failed}, plan {begun} {outcome}"


class Writer:
    """Writes random programs that import, bind and call few names in many scopes."""

    def __init__(self, seed: int) -> None:
        self.random, self.number = random.Random(seed), 0

    def program(self) -> str:
        return "\n".join(self.block("", 0, "program")) + "\n"

    def block(self, indent: str, depth: int, place: str) -> list[str]:
        lines = []
        if place == "function" and self.random.random() < 0.25:
            lines.append(f"{indent}{self.random.choice(('global', 'nonlocal'))} {self.name()}")
        for _ in range(self.random.randint(1, 5)):
            lines += self.statement(indent, depth, place)
        return lines

    def name(self) -> str:
        return self.random.choice(SERVERS)

    def statement(self, indent: str, depth: int, place: str) -> list[str]:
        self.number += 1
        kind, name, number = self.random.random(), self.name(), self.number
        inner = f"{indent}    "
        if kind < 0.3 and place != "class":
            return [f"{indent}await {name}.act(n={number})"]
        if kind < 0.5:
            server = self.name()
            return [f"{indent}{FROM} {server}" + (f" as {name}" if server != name else "")]
        if kind < 0.55:
            return [f"{indent}{name} = {number}"]
        if kind < 0.6:
            return [f"{indent}await fs.act(n=[{name} for {name} in range(2)])"] if place != "class" else []
        if kind < 0.64:
            return [f"{indent}(lambda {name}: {name})({number})"]
        if kind < 0.67:
            return [f"{indent}import math as {name}"]
        if kind < 0.7 and place != "class":
            return [f"{indent}await fs.act(n={name})"]
        if depth > 2:
            return []
        if kind < 0.88:
            head = [f"{indent}async def f{number}({name if self.random.random() < 0.2 else '_'}=1):"]
            body = self.block(inner, depth + 1, "function")
            call = [f"{indent}await f{number}()"] if self.random.random() < 0.8 and place != "class" else []
            return [*head, *body, *call]
        if kind < 0.92:
            return [f"{indent}class C{number}:", *self.block(inner, depth + 1, "class")] if place != "class" else []
        opening = self.random.choice(("if True:", "if False:", "for _ in range(2):", "while False:"))
        return [
            f"{indent}{opening}",
            *(self.block(inner, depth + 1, place if place == "class" else "block") or [f"{inner}pass"]),
        ]


def is_python(text: str) -> bool:
    try:
        compile(text, "program", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return True


HELPER = """
async def helper():
    from ropewalk.servers import fs as x
    await x.act(n=1)

"""
RIGHT = {
    "a name that another function imports": f"{HELPER}await helper()\nawait x.act(n=2)",
    "two functions with one name": f"""
{HELPER}
async def other():
    from ropewalk.servers import git as x
    await x.act(n=2)

await helper()
await other()
await helper()""",
    "an import inside hides one outside": f"{FROM} git as x\n{HELPER}await helper()\nawait x.act(n=2)",
    "an import outside reaches every function": f"""
{FROM} git as x
async def outer():
    async def inner():
        await x.act(n=1)
    await inner()
    await x.act(n=2)
await outer()""",
    "a parameter hides an import": f"""
{FROM} git as x
async def helper(x):
    await x.act(n=[x for x in range(2)])
async def other(x):
    await fs.act(n=x)
await other(3)""",
    "an assignment hides an import": f"""
{FROM} git as x
async def helper():
    x = 5
    async def inner():
        nonlocal x
        x += 1
        await fs.act(n=x)
    await inner()
await helper()
await x.act(n=1)""",
    "a global name": f"""
{FROM} git as x
async def helper():
    {FROM} fs as x
    async def inner():
        global x
        await x.act(n=1)
    await inner()
    await x.act(n=2)
await helper()""",
    "a class hides no name from its methods": f"""
{FROM} git as x
class Box:
    x = 4
    async def act(self):
        await x.act(n=self.x)
await Box().act()""",
    "imports that swap two servers": f"{FROM} fs as git\n{FROM} git as fs\nawait fs.act(n=1)\nawait git.act(n=2)",
}
WRONG = {
    "an import after its use": (f"await x.act(n=1)\n{FROM} fs as x", 1),
    "an import that may not run": (f"if False:\n    {FROM} fs as x\nawait x.act(n=1)", 3),
    "an import in the first round of a loop": (f"for _ in range(2):\n    await x.act(n=1)\n    {FROM} fs as x", 2),
    "a global name that a function imports": (
        f"async def helper():\n    global x\n    {FROM} fs as x\nawait x.act(n=1)",
        4,
    ),
    "a name that is assigned, too": (f"{FROM} fs as x\nx = 1", 2),
    "a variable of the name of the server": (f"fs = 1\n{FROM} fs as x\nawait x.act(n=1)", 1),
    "an import in a class": (f"class Box:\n    {FROM} fs as x", 2),
    "a module under the name of a server": ("import math as x\nawait x.act(n=1)", 2),
    "a module that another function imports": (
        "async def helper():\n    import math as x\n    return x.pi\nawait helper()\nawait x.act(n=1)",
        5,
    ),
    "a module that is imported later": ("await x.act(n=1)\nimport math as x", 1),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_name_means_what_it_means_in_python(text: str) -> None:
    assert compare(text) == "same"


@pytest.mark.parametrize(("text", "line"), WRONG.values(), ids=WRONG)
def test_a_program_whose_names_have_other_meanings_is_refused_with_the_line(text: str, line: int) -> None:
    assert [problem.line for problem in Program(text, TOOLS, []).problems] == [line]


def test_a_module_under_the_name_of_a_server_is_no_tool() -> None:
    program = Program("import math as git\ngit.floor(2.5)", {"git.floor": ["n"]}, [], ids={"git.floor": "git:floor"})
    outcome, _ = (world := Simulation({"git.floor": ["n"]}, lambda tool, arguments: 0)).run(program)
    assert (outcome.result, world.calls, "git:floor" in repr(program.outline)) == (2, [], False)


def test_random_programs_call_the_tools_that_python_calls() -> None:
    texts = [text for seed in range(800) if is_python(text := Writer(seed).program())]
    found = {text: compare(text) for text in texts}
    different = {text: result for text, result in found.items() if len(result) > len("stopped")}
    assert not different, "\n\n".join(f"{text}# {result}" for text, result in different.items())
    with_import = [result for text, result in found.items() if "import" in text]
    assert with_import.count("same") > len(with_import) / 5
