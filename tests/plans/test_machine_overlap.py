"""Neighbouring reads begin together; everything else keeps Python's order, results and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.plans.program import Program
from tiers import Scale

from .event_host import World, run
from .oracle import PARAMETERS
from .programs import Writer
from .simulation import Simulation
from .test_machine_oracle import world
from .test_overlap import TRACES

TOOLS = {"read": ["n"], "write": ["n"]}


class Server:
    """Tools that note when a call begins and ends; calls end in the order of their beginnings."""

    def __init__(self, down: set[int] | None = None) -> None:
        self.log: list[str] = []
        self.open: list[str] = []
        self.down = down or set()

    async def __call__(self, tool: str, arguments: dict[str, Any]) -> Any:
        name = f"{tool[0]}{arguments['n']}"
        self.log.append(f"+{name}")
        self.open.append(name)
        quiet = 0
        while quiet < 5 or self.open[0] != name:
            quiet += 1
            await asyncio.sleep(0)
        self.open.pop(0)
        self.log.append(f"-{name}")
        if arguments["n"] in self.down:
            raise ValueError(f"{arguments['n']} is down")
        return arguments["n"]


def traced(code: str, reads: tuple[str, ...] = ("read",), down: set[int] | None = None) -> tuple[str, Any]:
    server, program = Server(down), Program(code, TOOLS, reads=reads)
    assert not program.problems, program.problems
    outcome = asyncio.run(run(program, World(perform=server)))
    return " ".join(server.log), outcome


@pytest.mark.parametrize("name", [name for name in TRACES if name != "computed arguments"])
def test_reads_overlap_and_everything_else_is_a_barrier(name: str) -> None:
    code, expected = TRACES[name]
    assert traced(code)[0] == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("a = await read(1)\nb = await read(2)", "+r1 -r1 +r2 -r2"),
        ("a = await write(1)\nb = await write(2)\nreturn a + b", "+w1 -w1 +w2 -w2"),
    ],
)
def test_nothing_overlaps_that_is_not_named(code: str, expected: str) -> None:
    assert traced(code, ())[0] == expected


@pytest.mark.parametrize(
    "code",
    [
        "xs = [1]\na = await read(n=xs[0])\nxs.append(3)\nb = await read(n=xs[1])\nreturn b",
        "a = await read(n=1)\nb = await read(n=[2][a - 1])\nreturn b",
        "def f(n):\n    return n\na = await read(n=1)\nb = await read(n=f(2))\nreturn b",
        "read = write\na = await read(n=1)\nb = await read(n=2)\nreturn b",
        "a = await read(n=1) or await read(n=2)\nreturn a",
        "return [await read(n=i) for i in (1, 2)]",
    ],
)
def test_what_depends_on_the_calls_before_waits_for_them(code: str) -> None:
    log, outcome = traced(code)
    assert outcome.status == "completed"
    assert log.split()[1].startswith("-"), log


def test_the_first_failure_of_the_program_counts_even_if_a_later_one_is_faster() -> None:
    code = "a = await read(n=1)\nb = await read(n=a + 2)\nc = await read(n=4)\nreturn c"
    log, outcome = traced(code, down={3, 4})
    assert (log[:11], outcome.message) == ("+r1 +r4 -r1", "3 is down")
    log, outcome = traced("a = await read(n=1)\nb = await read(n=2)\nc = await read(n=a + 4)", down={1})
    assert (outcome.message, "+r5" in log) == ("1 is down", False)


def test_an_argument_that_cannot_be_evaluated_fails_in_its_turn() -> None:
    code = "xs = []\na = await read(n=1)\nb = await read(n=xs[3])"
    assert traced(code, down={1})[1].message == "1 is down"
    assert traced(code)[1].error == "IndexError"


def test_names_have_the_values_of_python_after_a_caught_failure() -> None:
    code = (
        "a, b, c = 0, 0, 0\ntry:\n    a = await read(n=1)\n    b = await read(n=2)\n    c = await read(n=3)\n"
        "except ValueError as e:\n    return [a, b, c, str(e)]"
    )
    assert traced(code, down={2})[1].result == [1, 0, 0, "2 is down"]


@pytest.mark.campaign("plans")
def test_random_programs_give_the_same_while_reads_overlap(scale: Scale) -> None:
    for seed in range(300, scale(330, 4000)):
        code = Writer(seed).program()
        if "asyncio" in code:
            continue  # its result may depend on the order in which calls end
        outcomes = []
        for reads in ([], [*PARAMETERS]):
            program = Program(code, PARAMETERS, function=True, reads=reads)
            outcome, _ = Simulation(PARAMETERS, world).run(program)
            outcomes.append((outcome.status, outcome.result, outcome.error, outcome.message, outcome.printed))
        assert outcomes[0] == outcomes[1], code
