"""Times of plans: checks, calls in the process and in a child, and the evaluator against CPython.

A time is CPU time, also that of children, unless it says elapsed. Everything runs in an `App`.
"""

from __future__ import annotations

import statistics
import textwrap
import time
from collections.abc import Awaitable, Callable
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Final

import plans_corpus
from ropewalk import App, tool
from ropewalk.plans import messages as m
from ropewalk.plans.boundary.pool import pool
from ropewalk.plans.program import Program

CALLS: Final = 400
RECORDED: Final = 10_000


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def chain(calls: int) -> dict[str, Any]:
    """Return a chain of calls, each with the result of the one before."""
    sources = ["$input.n", *(f"$output.s{number}" for number in range(calls - 1))]
    nodes = [
        {"id": f"s{number}", "type": "tool", "tool": "add", "params": {"a": source, "b": 1}}
        for number, source in enumerate(sources)
    ]
    return {"kind": "chain", "name": "calls", "nodes": nodes}


def straight(calls: int) -> dict[str, Any]:
    """Return a plan of the same calls, one a line."""
    lines = ["n: int", "x0 = await add(a=n, b=1)"]
    lines += [f"x{i} = await add(a=x{i - 1}, b=1)" for i in range(1, calls)]
    return {"kind": "plan", "name": "calls", "code": "\n".join([*lines, f"return x{calls - 1}"])}


def looped(calls: int, **more: Any) -> dict[str, Any]:
    """Return a plan that makes its calls in a loop."""
    code = f"n: int\nfor _ in range({calls}):\n    n = await add(a=n, b=1)\nreturn n"
    return {"kind": "plan", "name": "loop", "code": code, **more}


def cpu_seconds() -> float:
    """Return the processor time of this process and of the children that compute programs."""
    return time.process_time() + sum(child.process.cpu_seconds() for child in pool()._all)


async def milliseconds(work: Callable[[], Awaitable[Any]], rounds: int) -> float:
    """Return the least processor time of some rounds."""
    took = []
    for _ in range(rounds):
        began = cpu_seconds()
        await work()
        took.append(1000 * (cpu_seconds() - began))
    return min(took)


# --- figure 5 --------------------------------------------------------------------------------------


async def measure_checks() -> bool:
    """Print the times to check and compile the programs of the corpus with up to 40 calls; return True if they pass."""
    took = []
    async with App("memory", tools=plans_corpus.tools()) as app:
        texts = [text for _, text in plans_corpus.programs() if text.count("await ") <= 40]
        for warm, text in [(True, text) for text in texts[:20]] + [(False, text) for text in texts]:
            # A comment makes another text of it, which no cache knows.
            times = []
            for number in range(3):
                document = {"kind": "plan", "code": f"{text}\n# {warm} {number}"}
                began = time.process_time()
                await app.validate(document)
                times.append(1000 * (time.process_time() - began))
            if not warm:
                took.append(min(times))
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    print(f"check and compile, {len(texts)} programs with up to 40 calls: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    return p50 <= 2 and p99 <= 10


# --- figure 8 --------------------------------------------------------------------------------------


async def measure_runs() -> bool:
    """Print the times of calls in the process and in a child, and of a resume; return True if they pass."""
    async with App("memory", tools=[add]) as app:
        passes = True
        for calls in (10, CALLS):
            of_chain, of_plan = await _in_turns(app, chain(calls), straight(calls))
            ratio = statistics.median(plan / chain for chain, plan in zip(of_chain, of_plan, strict=True))
            print(
                f"{calls} calls in the process: chain {min(of_chain):.2f} ms, plan {min(of_plan):.2f} ms, "
                f"median of the ratios {ratio:.2f}"
            )
            passes &= ratio <= 1.1
        here = await milliseconds(lambda: app.run(looped(CALLS), {"n": 0}), 20)
        print(f"a loop of {CALLS} calls in the process: {here:.1f} ms")
        began = time.perf_counter()
        await app.run(looped(0, origin="model"), {"n": 0})
        first = time.perf_counter() - began
        there = await milliseconds(lambda: app.run(looped(CALLS, origin="model"), {"n": 0}), 10)
        later = await milliseconds(lambda: app.run(looped(0, origin="model"), {"n": 0}), 10)
        more = (there - here) / CALLS
        print(f"in a child: {more:.2f} ms a call more, first program {first:.2f} s elapsed, later ones {later:.1f} ms")
    resumed = await _resumed()
    print(f"{RECORDED:,} recorded calls resumed: {resumed:.2f} s")
    return passes and here <= 5 and more <= 0.3 and first <= 0.4 and later <= 10 and resumed <= 0.2


async def _in_turns(app: App, *documents: dict[str, Any]) -> list[list[float]]:
    """Return the milliseconds of the runs of each definition, which take turns."""
    loaded = [app.definitions.get(document) for document in documents]
    took: list[list[float]] = [[] for _ in documents]
    for number in range(43):
        for times, definition in zip(took, loaded, strict=True):
            began = time.process_time()
            outcome = await app.run(definition, {"n": number})
            if number >= 3:  # the first runs compile
                times.append(1000 * (time.process_time() - began))
            outcome.raise_if_failed()
    return took


async def _resumed() -> float:
    """Return the seconds of a resume that replays many recorded calls of a program."""
    with TemporaryDirectory() as folder:
        async with App(f"sqlite:///{folder}/runs.db", tools=[add]) as app:
            plan = looped(RECORDED)
            plan["code"] = plan["code"].replace("return n", 'ok = await approve("go on?")\nreturn n')
            await app.run(plan, {"n": 0}, run_id="r", park=True)
        async with App(f"sqlite:///{folder}/runs.db", tools=[add]) as app:
            app.runs.approve("r")
            began = time.process_time()
            outcome = await app.resume("r")
            took = time.process_time() - began
            assert outcome["result"] == RECORDED, outcome
            return took


# --- the evaluator ---------------------------------------------------------------------------------

COMPUTATIONS: Final = {
    "sums": "total = 0\nfor row in rows:\n    if row['n'] % 3:\n        total += row['n'] * 2\nreturn total",
    "grouping": (
        "groups = {}\nfor row in rows:\n    groups.setdefault(row['name'], []).append(row['n'])\n"
        "return {name: sum(ns) for name, ns in groups.items()}"
    ),
    "regex": (
        "import re\nfound = []\nfor row in rows:\n    match = re.search('item ([0-9]+)', row['text'])\n"
        "    if match:\n        found.append(match.group(1))\nreturn found"
    ),
}
"""Computations over 1,000 rows."""


def measure_evaluator() -> bool:
    """Print how much longer computations take than in CPython; return True if none takes more than 10 times longer."""
    rows = [{"n": n, "name": f"name {n % 17}", "text": f"the item {n} of many"} for n in range(1000)]
    worst = 0.0
    for name, text in COMPUTATIONS.items():
        space: dict[str, Any] = {}
        exec(f"def main(rows):\n{textwrap.indent(text, '    ')}", space)
        program = Program(text, {}, ["rows"], function=True)

        nothing = Program("return 1", {}, ["rows"], function=True)
        machine = _least(partial(_start, program, rows)) - _least(partial(_start, nothing, rows))
        ratio = machine / _least(partial(space["main"], rows))
        print(f"{name} over 1,000 rows: {ratio:.0f} times CPython")
        worst = max(worst, ratio)
    return worst <= 10


def _start(program: Program, rows: list[Any]) -> None:
    program.start({"rows": rows}, 0, lambda clock: m.Reading(0.0))[0].close()


def _least(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(15):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
