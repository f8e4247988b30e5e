"""Evaluate every example of the pages about expressions, and find every function in their tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ropewalk.errors import ExpressionError
from ropewalk.expr import FUNCTIONS, MACROS, ROOTS, TRANSFORM_TYPES
from ropewalk.expr.faults import MAX_TEXT
from ropewalk.expr.jsonpath import MAX_VISITS
from ropewalk.expr.operators import MAX_STEPS
from ropewalk.expr.parser import MAX_NESTING

from .expr_scope import lifted, value

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("expressions.md", "expressions-reference.md", "expressions-cel.md")
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
SCOPE = json.loads(re.search(r"```json title=\"scope\"\n(.*?)```", PAGE, re.DOTALL)[1])


def _examples(kind):
    for block in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            if line.strip():
                text, arrow, expected = line.rpartition(" -> ")
                assert arrow, line
                yield text.strip(), expected.strip()


@pytest.mark.parametrize(("text", "expected"), list(_examples("expr")))
def test_expression_on_the_page_gives_what_it_says(text, expected):
    if expected.startswith("error"):
        with pytest.raises(ExpressionError) as caught:
            value(text, **SCOPE)
        assert expected.removeprefix("error").lstrip(": ") in str(caught.value)
    else:
        found = value(text, **SCOPE)
        assert json.dumps(found) == json.dumps(json.loads(expected))


@pytest.mark.parametrize(("text", "expected"), list(_examples("reference")))
def test_reference_on_the_page_gives_what_it_says(text, expected):
    if expected.startswith("error"):
        with pytest.raises(ExpressionError) as caught:
            lifted(json.loads(text), **SCOPE)
        assert expected.removeprefix("error").lstrip(": ") in str(caught.value)
    else:
        assert lifted(json.loads(text), **SCOPE) == json.loads(expected)


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
