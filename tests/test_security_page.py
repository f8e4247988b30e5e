"""docs/security.md names tests that exist, and limits that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk import connections, deadline
from ropewalk.doors.http import answers, tools
from ropewalk.errors.collected import MOST_PROBLEMS
from ropewalk.expr import budget
from ropewalk.source.limits import Limits
from ropewalk.values import MAX_BYTES

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text("utf-8")
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(\w+))?`")
LIMITS = connections.ConnectionLimits()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    text = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


TABLES = [
    row
    for heading in ("What is refused, and where", "One request cannot stop the server", "Secrets")
    for row in rows(heading)
]


@pytest.mark.parametrize("row", TABLES, ids=[row[0] for row in TABLES])
def test_each_row_names_its_tests(row: list[str]) -> None:
    assert len(row) in (3, 4)
    assert NAMED.search(row[-1])
    assert NAMED.sub("", row[-1]).strip(", ") == ""


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 50
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (TESTS / file).is_file() or f"def {name or 'test_'}" not in (TESTS / file).read_text("utf-8")
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("work", "figures"),
    [
        ("one expression", (f"{budget.MAX_STEPS:,} steps", f"{MAX_BYTES // 10**6} MB", f"{budget.MAX_SECONDS:g} sec")),
        ("problems of one definition", (f"{MOST_PROBLEMS} problems",)),
        ("a definition over HTTP", (f"{Limits().size // 10**6} MB", f"{answers.SMALL // 1024} KiB",
                                    f"{deadline.DEFINITION_SECONDS:g} seconds")),
        ("an expression with a macro", (f"{budget.SLICE_SECONDS} seconds",)),
        ("connections", (f"{LIMITS.connections:,}",)),
        ("the head of a request", (f"{LIMITS.header_seconds:g} seconds",)),
        ("a body, or an answer", (f"{LIMITS.idle_seconds:g} seconds",)),
        ("log lines about connections", (f"{connections._LINES} in {connections._PER_SECONDS:g} seconds",)),
        ("`GET /api/tools`", (f"{tools.MOST_LISTED:,} tools",)),
    ],
)  # fmt: skip
def test_the_page_gives_the_limits_of_the_code(work: str, figures: tuple[str, ...]) -> None:
    [limit] = [row[1] for row in rows("One request cannot stop the server") if row[0].startswith(work)]
    assert [figure for figure in figures if figure not in limit] == []
