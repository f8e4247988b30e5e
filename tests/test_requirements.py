"""Every behaviour in `requirements.py` is carried by a case or a test, and every id that is carried exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from requirements import REQUIREMENTS
from ropewalk.source.load import load

pytestmark = pytest.mark.usefixtures("collector_off")
TESTS = Path(__file__).parent
ID = re.compile(
    r"\b(?:CHAIN-[A-Z]+|COMP-[A-Z]+|COMPOSITE-[A-Z]+|REF|DUR|MODULE|DATASET|EXP-[A-Z]+|SELECT-[A-Z]+)-\d+\b"
)


@cache
def carried() -> list[tuple[str, str]]:
    """(id, where) of every id in a case's `covers` or a test's docstring."""
    return [*ids_of_cases(), *ids_of_docstrings()]


def ids_of_cases() -> Iterator[tuple[str, str]]:
    for file in sorted(TESTS.glob("cases/*/*.yaml")):
        for case in load(file).data:
            for id in case.get("covers", ()):
                yield id, f"{file.name}: {case['name']}"


def ids_of_docstrings() -> Iterator[tuple[str, str]]:
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if ID.search(text) else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                for id in ID.findall(ast.get_docstring(node) or ""):
                    yield id, f"{file.name}: {node.name}"


def test_every_requirement_is_carried_by_a_test() -> None:
    assert sorted(set(REQUIREMENTS) - {id for id, _ in carried()}) == []


def test_every_id_that_is_carried_exists() -> None:
    assert [(id, where) for id, where in carried() if id not in REQUIREMENTS] == []
