"""No test depends on the clock of a busy machine: `patience.until` waits for what must happen, and bench/ measures.

A file that reads the clock or sleeps all the same is listed with the reason and its number of uses. Lower a number
when there are fewer; raise none without a reason that a slow machine cannot break.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"}
PROGRAMS = "plans/corpus"  # plans as models write them
ALLOWED: dict[str, tuple[int, str]] = {}


def uses(text: str) -> list[int]:
    """Return the lines that read a clock or sleep; `asyncio.sleep(0)` only lets others have their turn."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in CLOCKS:
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "anyio"), attr="sleep")):
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"), args=[ast.Constant(0), *_]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep")):
                found.append(node.lineno)
            case ast.ImportFrom(module="time" | "asyncio", names=names):
                found += [node.lineno for alias in names if alias.name in {*CLOCKS, "sleep"}]
    return sorted(found)


def test_only_listed_files_read_the_clock_or_sleep() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): lines
        for path in sorted(TESTS.rglob("*.py"))
        if "node_modules" not in path.parts and PROGRAMS not in path.as_posix()
        if (lines := uses(path.read_text("utf-8")))
    }
    allowed = {file: number for file, (number, _) in ALLOWED.items()}
    assert {file: len(lines) for file, lines in found.items()} == allowed, {
        file: lines for file, lines in found.items() if len(lines) != allowed.get(file)
    }


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("time.sleep(0)", 1),
        ("anyio.sleep(x)", 1),
        ("await asyncio.sleep(0.01)", 1),
        ("await asyncio.sleep(pause)", 1),
        ("await asyncio.sleep(0)", 0),
        ("await asyncio.sleep(0, 'fine')", 0),
        ("began = time.monotonic()", 1),
        ("clock = time.perf_counter", 1),
        ("from time import monotonic, time", 1),
        ("from asyncio import sleep", 1),
        ("due = time.time() + 60", 0),
        ("f.sleep(1)", 0),
    ],
)
def test_what_counts_as_a_use(line: str, number: int) -> None:
    assert len(uses(line)) == number
