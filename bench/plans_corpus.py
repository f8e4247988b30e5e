"""Programs as models write them: how many an `App` accepts, and whether they give what Python gives.

`tests/plans/corpus` has 300 programs, and `corpus_strangers` 100 of authors who had not seen the language.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from plans import corpus_world
from plans.virtual_app import VirtualApp
from ropewalk import App
from ropewalk.tools.tool import Tool, tool_from

FOLDERS: Final = {"corpus": 0.97, "corpus_strangers": 0.95}
"""The folders of programs, with the share that has to be accepted."""
_TESTS: Final = Path(corpus_world.__file__).parent
_CHANGING: Final = re.compile(
    r"set\(|(?:\.|utc)now\(|today\(|uuid|random|asyncio\.run\(|exit\(|SystemExit|approve\(|wait_for\("
)
"""A program with this depends on the clock, on chance, on persons or on the order of a set."""


def tools() -> list[Tool]:
    """Return the tools whose stubs the authors of the programs had."""
    return [tool_from(function) for function in corpus_world.STUBS.values()]


def programs(folder: str = "corpus") -> Iterator[tuple[str, str]]:
    """Return the number and the text of each program."""
    for path in sorted((_TESTS / folder).glob("[0-9]*.py")):
        yield path.stem, path.read_text()


async def check(folder: str = "corpus") -> dict[str, list[dict[str, Any]]]:
    """Return the problems of each program; those that are accepted have none."""
    async with App("memory", tools=tools()) as app:
        found: dict[str, list[dict[str, Any]]] = {}
        for number, code in programs(folder):
            answer: Any = await app.plans.check_plan(code)
            found[number] = [] if answer["ok"] else answer["problems"]
        return found


def compare(folder: str, accepted: Mapping[str, list[dict[str, Any]]]) -> bool:
    """Run the accepted programs in an app and in Python; return True if none differs."""
    ends: dict[str, list[str]] = {}
    with VirtualApp.opened() as app:
        for number, code in programs(folder):
            if accepted[number]:
                continue
            ended, details = "not compared", [""]
            if not (_CHANGING.search(code) or _has_sets(code)):
                ended, details = app.compared(code, corpus_world.TOOLS, lambda: corpus_world.answer)
            ends.setdefault(ended, []).append(number)
            if ended not in ("equal", "not compared"):
                print(f"{ended} {number}: {details[0]:.300}")
    print(f"{folder}, by their end: " + ", ".join(f"{len(names)} {word}" for word, names in ends.items()))
    return "different" not in ends


def _has_sets(text: str) -> bool:
    return any(isinstance(node, ast.Set | ast.SetComp) for node in ast.walk(ast.parse(text)))


async def report(folder: str) -> tuple[bool, dict[str, list[dict[str, Any]]]]:
    """Print every refused program with its first problem; return whether enough are accepted, and the problems."""
    found = await check(folder)
    for number, problems in found.items():
        if problems:
            print(f"refused {number}: {problems[0].get('text') or problems[0]['message']}")
    accepted = sum(not problems for problems in found.values())
    print(f"{folder}: {accepted} of {len(found)} accepted ({100 * accepted / len(found):.1f} %)")
    return accepted >= FOLDERS[folder] * len(found), found
