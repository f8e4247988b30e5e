"""The tables of the pages about expressions name every function, macro, root, transform and limit."""

from __future__ import annotations

import re
from pathlib import Path

from ropewalk.expr import FUNCTIONS, MACROS, ROOTS, TRANSFORM_TYPES
from ropewalk.expr.faults import MAX_TEXT
from ropewalk.expr.jsonpath import MAX_VISITS
from ropewalk.expr.operators import MAX_STEPS
from ropewalk.expr.parser import MAX_NESTING

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("expressions.md", "expressions-reference.md", "expressions-cel.md")
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)


def test_every_function_macro_root_and_transform_is_on_the_page():
    tables = {title: _table(title) for title in ("Functions", "Macros", "Transforms")}
    missing = set(FUNCTIONS) - {"${}"} - set(re.findall(r"`(\w+)`", tables["Functions"]))
    assert missing == set(), "add them to the table of functions in docs/expressions-reference.md"
    assert set(MACROS) <= set(re.findall(r"(\w+)\(", tables["Macros"]))
    assert set(TRANSFORM_TYPES) <= set(re.findall(r"\b[A-Z_]+\b", tables["Transforms"]))
    for root in ROOTS:
        assert f"${root}" in PAGE, root


def _table(title: str) -> str:
    """The rows of the table under a heading: a word somewhere on the page is not yet told of."""
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line for line in section.splitlines() if line.startswith("|"))


def test_the_limits_on_the_page_are_the_limits():
    for limit in (MAX_TEXT, MAX_STEPS, MAX_VISITS):
        assert f"{limit:,}" in PAGE
    assert f"calls | {MAX_NESTING} levels" in PAGE
