"""The corpus of programs as models write them (`tests/plans/corpus`): how many compile, and why the rest is refused."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ropewalk import App
from ropewalk.tools.tool import Tool, tool_from

CORPUS = Path(__file__).parents[1] / "tests" / "plans" / "corpus"
_LANGUAGE = ("approve", "wait_for")  # in the stubs, but part of the language


def tools() -> list[Tool]:
    """Return the tools whose stubs the authors of the programs had."""
    spec = importlib.util.spec_from_file_location("corpus_tools", CORPUS / "TOOLS.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    functions = inspect.getmembers(module, inspect.iscoroutinefunction)
    return [tool_from(function) for name, function in functions if name not in _LANGUAGE]


def programs() -> Iterator[tuple[str, str]]:
    """Return the number and the text of each program."""
    for path in sorted(CORPUS.glob("[0-9]*.py")):
        yield path.stem, path.read_text()


async def check() -> dict[str, list[dict[str, Any]]]:
    """Return the problems of each program; those that compile have none."""
    async with App("memory", tools=tools()) as app:
        found: dict[str, list[dict[str, Any]]] = {}
        for number, code in programs():
            try:
                answer: Any = await app.plans.check_plan(code)
                found[number] = [] if answer["ok"] else answer["problems"]
            except Exception as error:  # noqa: BLE001 - a crash of the compiler counts as a refusal
                found[number] = [{"message": f"CRASH {type(error).__name__}: {error}"}]
    return found


async def report() -> bool:
    """Print every refused program with its first problem; return True if 95 % compile."""
    found = await check()
    for number, problems in found.items():
        if problems:
            print(f"refused {number}: {problems[0].get('text') or problems[0]['message']}")
    compiled = sum(not problems for problems in found.values())
    print(f"{len(found)} programs: {compiled} compile, {len(found) - compiled} are refused")
    return compiled >= 0.95 * len(found)
