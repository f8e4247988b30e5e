"""Calls that overlap (`parallel`): which calls are in progress at the same time, what separates them, and failures."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, plan, tool
from ropewalk.errors import InvalidFlow
from ropewalk.plans.boundary.pool import pool
from tiers import Scale

from .oracle import differences
from .programs import Writer

pytestmark = pytest.mark.anyio


class Server:
    """Tools that note when a call begins and ends. Each call suspends, so that another one can begin."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.open: list[str] = []  # calls end in the order of their beginnings
        self.down: set[int] = set()

    async def call(self, name: str) -> None:
        """Note one call."""
        self.log.append(f"+{name}")
        self.open.append(name)
        quiet = 0  # rounds of the loop in which no child computes the arguments of another call
        while quiet < 50 or self.open[0] != name:
            quiet = 0 if pool().computing else quiet + 1
            await asyncio.sleep(0)
        self.open.pop(0)
        self.log.append(f"-{name}")

    @property
    def tools(self) -> list[Any]:
        """The tools `read`, `write`, and `purge`, whose annotations say nothing."""

        @tool(annotations={"readOnlyHint": True})
        async def read(n: int) -> int:
            """Read."""
            await self.call(f"r{n}")
            if n in self.down:
                raise ValueError(f"{n} is down")
            return n

        @tool(annotations={"readOnlyHint": False})
        async def write(n: int) -> int:
            """Write."""
            await self.call(f"w{n}")
            return n

        return [read, write]


async def traced(code: str, parallel: str = "reads", down: set[int] | None = None) -> tuple[str, Any]:
    """Run a program; return the beginnings and ends of its calls in their order, and its result or failure."""
    server = Server()
    server.down = down or set()
    async with App("memory", tools=server.tools) as app:
        if not down:  # in this process, where nothing waits for a child to be given back
            outcome = await app.run({"kind": "plan", "name": "overlap", "code": code, "parallel": parallel})
            assert outcome.status == "completed", outcome.errors
            return " ".join(server.log), outcome.result
        answer: Any = await app.plans.run_plan(code, parallel=parallel)  # type: ignore[arg-type]
    return " ".join(server.log), answer["result"] if answer["status"] == "completed" else answer["error"]


PAIR = "a = await read(n=1)\nb = await read(n=2)\nreturn a + b"
TRACES = {
    "independent reads": (PAIR, "+r1 +r2 -r1 -r2"),
    "a read waits for the value that it needs": (
        "a = await read(n=1)\nb = await read(n=a + 1)\nreturn b",
        "+r1 -r1 +r2 -r2",
    ),
    "calls inside one expression": ("return (await read(n=1)) + (await read(n=2))", "+r1 +r2 -r1 -r2"),
    "computed arguments": (
        "xs = [1, 2, 3]\na = await read(n=xs[0])\nb = await read(n=xs[2])\nreturn b",
        "+r1 +r3 -r1 -r3",
    ),
    "a statement between calls is a barrier": (
        "xs = [1, 2]\na = await read(n=xs[0])\nxs.append(3)\nb = await read(n=xs[2])\nreturn b",
        "+r1 -r1 +r3 -r3",
    ),
    "a write is a barrier": (
        "a = await read(n=1)\nawait write(n=2)\nb = await read(n=3)\nreturn b",
        "+r1 -r1 +w2 -w2 +r3 -r3",
    ),
    "in a loop": (
        "for n in [1, 2]:\n    a = await read(n=n)\n    b = await read(n=n + 4)\n    await write(n=a + b)",
        "+r1 +r5 -r1 -r5 +w6 -w6 +r2 +r6 -r2 -r6 +w8 -w8",
    ),
    "a write in a loop": (
        "for n in [1, 2]:\n    a = await read(n=n)\n    await write(n=a)\n    b = await read(n=n + 4)",
        "+r1 -r1 +w1 -w1 +r5 -r5 +r2 -r2 +w2 -w2 +r6 -r6",
    ),
    "in a branch": (
        "if await read(n=1):\n    a = await read(n=2)\n    b = await read(n=3)\n    await write(n=a + b)\n"
        "c = await read(n=4)",
        "+r1 -r1 +r2 +r3 -r2 -r3 +w5 -w5 +r4 -r4",
    ),
    "nothing starts before a branch is decided": (
        "a = await read(n=1)\nif a > 5:\n    return 0\nb = await read(n=2)\nreturn b",
        "+r1 -r1 +r2 -r2",
    ),
    "nothing starts before an assert": (
        "a = await read(n=1)\nassert a < 5\nb = await read(n=2)\nreturn b",
        "+r1 -r1 +r2 -r2",
    ),
    "in a try": (
        "try:\n    a = await read(n=1)\n    b = await read(n=2)\nexcept ToolError:\n    b = 0\nreturn b",
        "+r1 +r2 -r1 -r2",
    ),
}


@pytest.mark.parametrize("name", TRACES)
async def test_reads_overlap_and_everything_else_is_a_barrier(name: str) -> None:
    code, expected = TRACES[name]
    assert (await traced(code))[0] == expected


async def test_without_overlap_and_writes() -> None:
    assert (await traced(PAIR, "none"))[0] == "+r1 -r1 +r2 -r2"
    code = "a = await write(n=1)\nb = await write(n=2)\nreturn a + b"
    assert (await traced(code))[0] == "+w1 -w1 +w2 -w2"
    # Documents of earlier versions may say that writes overlap, too.
    assert await traced(code, "all") == ("+w1 -w1 +w2 -w2", 3)
    assert (await traced(PAIR, "all"))[0] == "+r1 +r2 -r1 -r2"


async def test_the_first_failure_of_the_program_counts_even_if_a_later_one_is_faster() -> None:
    code = "a = await read(n=1)\nb = await read(n=a + 2)\nc = await read(n=4)\nreturn c"
    log, error = await traced(code, down={3, 4})
    assert log == "+r1 +r4 -r1 -r4 +r3 -r3"
    assert (error["line"], error["tool"], error["kind"]) == (2, "read", "ExecutionFailed")
    assert error["message"] == "3 is down"
    # What needs the failed value is never called with another one.
    log, error = await traced("a = await read(n=1)\nb = await read(n=2)\nc = await read(n=a + 4)", down={1})
    assert log == "+r1 +r2 -r1 -r2"
    assert error["message"] == "1 is down"


async def test_names_have_the_values_of_python_after_a_caught_failure() -> None:
    code = """
a, b, c = 0, 0, 0
try:
    a = await read(n=1)
    b = 7
    b = await read(n=2)
    c = await read(n=3)
except ValueError as e:
    return [a, b, c, str(e)]
"""
    assert (await traced(code, down={2}))[1] == [1, 7, 0, "2 is down"]


@pytest.mark.parametrize("gathered", [True, False])
async def test_a_failed_call_that_overlapped_runs_again_when_the_run_resumes(gathered: bool, tmp_path: Path) -> None:
    server = Server()
    server.down = {2}
    code = "a, b = await asyncio.gather(read(n=1), read(n=2))\nreturn a + b" if gathered else PAIR
    async with App(str(tmp_path / "runs.db"), tools=server.tools) as app:
        failed: Any = await app.plans.run_plan(code)
        assert (failed["status"], failed["error"]["tool"]) == ("failed", "read")
        server.down.clear()
        server.log.clear()
        done = await app.plans.resume_run(failed["runId"])
        assert (done["status"], done["result"]) == ("completed", 3)
        assert server.log == ["+r2", "-r2"]  # what succeeded is not repeated


async def test_the_project_decides_what_reads_and_what_overlaps(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from ropewalk import tool\n\n\n@tool\nasync def peek(n: int) -> int:\n    return n\n"
    )
    settings = '[tools]\nmodules = ["tools"]\n\n[plans.effects]\n"peek" = "read"\n'
    code = "return (await peek(n=1)) + (await peek(n=2))"
    document = {"kind": "plan", "code": code, "parallel": "reads"}
    for more, overlaps in (("", True), ('\n[plans]\nparallel = "none"\n', False)):
        (tmp_path / "ropewalk.toml").write_text(settings.replace("[plans.effects]", f"{more}\n[plans.effects]"))
        async with App.open(tmp_path) as app:
            assert ("at the same time" in str((await app.plans.check_plan(code))["graph"])) is overlaps
            assert "at the same time" in (await app.preview(document)).text()


async def test_a_function_and_a_document_select_the_mode() -> None:
    server = Server()
    read, _ = server.tools

    @plan(parallel="reads")
    async def both(n: int) -> int:
        a = await read(n=n)
        b = await read(n=n + 1)
        return a + b  # type: ignore[no-any-return]

    async with App("memory") as app:
        assert (await app.run(both, {"n": 1})).value == 3
        assert server.log == ["+r1", "+r2", "-r1", "-r2"]
        with pytest.raises(InvalidFlow, match="parallel"):
            app.definitions.get({"kind": "plan", "code": "return 1", "parallel": "writes"})


@pytest.mark.campaign("plans")
def test_random_programs_do_what_python_does_while_reads_overlap(scale: Scale) -> None:
    for seed in range(300, scale(312, 700)):
        code = Writer(seed).program()
        assert differences(code, unordered="gather" in code, parallel="reads") == [], code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("a = await read(n=1)\nb = await read(n=2)\nreturn b", "integer"),
        ("a = await read(n=1)\nreturn await read(n=2)", "integer"),
        ("a = await read(n=1)\nb = await read(n=a)\nawait read(n=3)", "integer"),
        (
            "b = None\nfor x in [1]:\n    try:\n        a = await read(n=1)\n        b = await read(n=2)\n"
            "    except ToolError:\n        pass\nreturn b",
            ["integer", "null"],
        ),
    ],
)
async def test_the_type_of_an_overlapped_call_is_that_of_its_tool(code: str, kind: str | list[str]) -> None:
    async with App("memory", tools=Server().tools) as app:
        for parallel in ("none", "reads"):
            schema: Any = app.as_tool({"kind": "plan", "name": "p", "code": code, "parallel": parallel}).output_schema
            assert schema == {"type": kind}, parallel
