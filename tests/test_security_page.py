"""The pages about security name tests that exist, and limits that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk import deadline
from ropewalk.doors import connections
from ropewalk.doors.http import errors, tools
from ropewalk.expr import operators
from ropewalk.problems import MOST_PROBLEMS
from ropewalk.source.locations import Limits
from ropewalk.values import MAX_BYTES

TESTS = Path(__file__).parent
PAGES = ("security.md", "security-reference.md", "security-limits-reference.md")
PAGE = "\n".join((TESTS.parent / "docs" / page).read_text("utf-8") for page in PAGES)
NAMED = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(\w+))?`")
LIMITS = connections.ConnectionLimits()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    text = re.split(r"\n##? ", PAGE.partition(f"\n## {heading}\n")[2])[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


TABLES = [
    row
    for heading in (
        "Definitions and data",
        "HTTP and the web UI",
        "Requests, servers and child processes",
        "Secrets and models",
        "One request cannot stop the server",
        "Secrets",
    )
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
        ("one expression", (f"{operators.MAX_STEPS:,} steps", f"{MAX_BYTES // 10**6} MB",
                            f"{operators.MAX_SECONDS:g} sec")),
        ("problems of one definition", (f"{MOST_PROBLEMS} problems",)),
        ("a definition over HTTP", (f"{Limits().size // 10**6} MB", f"{errors.SMALL // 1024} KiB",
                                    f"{deadline.DEFINITION_SECONDS:g} seconds")),
        ("an expression with a macro", (f"{operators.SLICE_SECONDS} seconds",)),
        ("connections", (f"{LIMITS.connections:,}",)),
        ("the head of a request", (f"{LIMITS.header_seconds:g} seconds",)),
        ("a body, or an answer", (f"{LIMITS.idle_seconds:g} seconds",)),
        ("log lines about connections", (f"{connections._LINES} in {connections._PER_SECONDS:g} seconds",)),
        ("`GET /api/tools`", (f"{tools.MAX_LISTED:,} tools",)),
    ],
)  # fmt: skip
def test_the_page_gives_the_limits_of_the_code(work: str, figures: tuple[str, ...]) -> None:
    [limit] = [row[1] for row in rows("One request cannot stop the server") if row[0].startswith(work)]
    assert [figure for figure in figures if figure not in limit] == []
