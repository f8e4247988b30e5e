"""Figures of the machine that interprets plans: programs against Python, and times."""

from __future__ import annotations

import ast
import os
import re
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from plans import corpus_world
from plans.event_host import World, run, run_in_child
from plans.grammar import PARAMETERS, Grammar
from plans.test_grammar import world
from plans.virtual_loop import compared
from ropewalk.check.program_facts import calls_of_outline
from ropewalk.plans import messages as m
from ropewalk.plans.boundary.pool import Pool
from ropewalk.plans.check.outline import outline_of
from ropewalk.plans.program import Program
from ropewalk.plans.read.source import parse


def compare_grammar(count: int, seed: int, seconds: float) -> bool:
    """Compare programs of Python's grammar with Python; return True if none differs and at most 1 % are refused."""
    counts: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    for number in range(seed, seed + count):
        if time.monotonic() > ends:
            break
        found = compared(Grammar(number).program(), PARAMETERS, None, fresh=world)
        counts["refused" if found is None else "different" if found else "equal"] += 1
        if found:
            print(f"seed {number}: {found[0]}")
    total = counts.total()
    share = 100 * counts["refused"] / max(total, 1)
    named = ", ".join(f"{counts[word]} {word}" for word in ("equal", "refused", "different"))
    print(f"{total} programs of the grammar: {named}; {share:.2f} % are refused")
    return not counts["different"] and share <= 1


def compare_programs(folder: Path | None) -> bool:
    """Read the corpus, or the programs of a folder, and compare with Python what gives the same in each process."""
    paths = sorted((folder or corpus_world.CORPUS).glob("[0-9]*.py"))
    refused, different, equal, changing = [], [], 0, 0
    for path in paths:
        text = path.read_text()
        problems = Program(text, corpus_world.TOOLS).problems
        if problems:
            refused.append(f"{path.stem}: {problems[0].message:.120}")
        elif _CHANGING.search(text) or has_sets(text):
            changing += 1
        elif found := compared(text, corpus_world.TOOLS, corpus_world.answer):
            different.append(f"{path.stem}: {found[0]:.300}")
        else:
            equal += 1
    for line in [*(f"refused {line}" for line in refused), *(f"different {line}" for line in different)]:
        print(line)
    accepted = len(paths) - len(refused)
    print(f"{len(paths)} programs: {accepted} accepted ({100 * accepted / max(len(paths), 1):.1f} %)")
    print(f"{equal} give what Python gives, {len(different)} something else; {changing} are not compared, because they")
    print("depend on the clock, on chance, on persons or on the order of sets")
    return not different and accepted >= 0.97 * len(paths)


def has_sets(text: str) -> bool:
    """Return True if a program makes a set, whose order differs between processes of Python."""
    return any(isinstance(node, ast.Set | ast.SetComp) for node in ast.walk(ast.parse(text)))


_CHANGING: Final = re.compile(r"set\(|now\(|today\(|uuid|random|asyncio\.run\(|exit\(|SystemExit|approve\(|wait_for\(")


def check(text: str, tools: dict[str, list[str]]) -> None:
    """Read, compile and describe a program."""
    Program(text, tools)
    calls_of_outline(outline_of(parse(text), text, {name: name for name in tools}), lambda tool: {tool: 1})


def milliseconds(text: str, tools: dict[str, list[str]]) -> float:
    """Return the processor time of a check, in milliseconds."""
    began = time.process_time()
    check(text, tools)
    return 1000 * (time.process_time() - began)


async def measure_times(count: int) -> bool:
    """Print the times of checks, of calls in the process and in a child, and of the first program in a child."""
    tools = dict(corpus_world.TOOLS)
    texts = [text for text in corpus_world.programs().values() if text.count("await ") <= 40]
    for text in texts[:20]:
        check(text, tools)
    took = [min(milliseconds(text, tools) for _ in range(3)) for text in texts]
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    print(f"check and compile, {len(texts)} programs with up to 40 calls: p50 {p50:.2f} ms, p99 {p99:.2f} ms (CPU)")

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        return arguments["value"]

    text = f"total = 0\nfor i in range({count}):\n    total += await same(value=i)\nreturn total"
    program = Program(text, PARAMETERS)
    here = []
    for _ in range(20):
        began = time.process_time()
        await run(program, World(perform=perform))
        here.append(1000 * (time.process_time() - began))
    print(f"{count} calls in the process: {min(here):.1f} ms ({1000 * min(here) / count:.0f} µs a call, CPU)")
    pool = Pool()

    async def play(text: str) -> float:
        """Return the milliseconds of processor time that a program takes, in this process and in its child."""
        began = time.process_time() + sum(child.process.cpu_seconds() for child in pool._all)
        await run_in_child(m.Begin(text, PARAMETERS, "{}", 0), World(perform=perform), pool)
        return 1000 * (time.process_time() + sum(child.process.cpu_seconds() for child in pool._all) - began)

    before, begun = os.times(), time.perf_counter()
    await play("return 1")
    cold = time.perf_counter() - begun
    there = min([await play(text) for _ in range(10)])
    later = min([await play("return 1") for _ in range(10)])
    pool.close()
    after = os.times()
    took_first = after.children_user + after.children_system - before.children_user - before.children_system
    more = (there - min(here)) / count
    print(f"in a child: {more:.2f} ms a call more, a small program {later:.1f} ms (CPU of both processes)")
    print(f"the first program in a child: {cold:.2f} s elapsed; the forker took {took_first:.2f} s of CPU in all")
    return p50 <= 2 and p99 <= 10 and more <= 0.3
