"""Searches that models word: several queries are merged fairly, and an answer has two densities."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.errors import InvalidInput
from ropewalk.select.search import Found, Results, first_exact, first_sentence, line_of, read_search
from ropewalk.tools.tool import Tool

RANKED = {
    "create issue": [("create_issue", 0.9), ("list_issues", 0.5), ("close_issue", 0.4)],
    "list issues": [("list_issues", 0.8), ("create_issue", 0.3), ("search", 0.2)],
    "knit a sock": [("search", 0.25)],
    "search": [("search", 0.6)],
}


def search(*queries: str, limit: int = 8) -> Results:
    return read_search(None, list(queries), limit).run(lambda query, limit: RANKED[query][:limit])


def test_each_query_has_its_best_tools_in_turn_and_each_tool_comes_once() -> None:
    results = search("create issue", "list issues")
    assert results.found == [
        Found("create_issue", 0.9, "create issue"),
        Found("list_issues", 0.8, "list issues"),
        Found("close_issue", 0.4, "create issue"),
        Found("search", 0.2, "list issues"),
    ]
    assert results.remarks == {
        "queries": {
            "create issue": ["create_issue", "list_issues", "close_issue"],
            "list issues": ["list_issues", "create_issue", "search"],
        }
    }


def test_the_best_tool_of_every_query_is_found_whatever_the_limit() -> None:
    assert [found.key for found in search("create issue", "list issues", limit=1).found] == [
        "create_issue",
        "list_issues",
    ]
    # A tool that several queries find has the score and the query that fits it best.
    assert search("knit a sock", "list issues").found[0] == Found("search", 0.25, "knit a sock")
    assert search("knit a sock", "search").found == [Found("search", 0.6, "search")]


def test_the_queries_without_a_fitting_tool_are_named() -> None:
    note = str(search("create issue", "knit a sock").remarks["note"])
    assert note.startswith('no tool here fits "knit a sock" (none has a score of 0.3 or more)')
    assert note.endswith("; try other words: an operation and an object, in English")
    assert str(search("knit a sock").remarks["note"]).startswith("no tool here fits this request")
    assert search("create issue").remarks == {}


def test_only_the_best_results_have_full_definitions_and_long_ones_are_lines() -> None:
    def densities(sizes: dict[str, int], *queries: str) -> tuple[list[str], list[str]]:
        found = [Found(key, 0.9, "q") for key in sizes]
        results = Results(found, {query: [] for query in queries or ("q",)}, [])
        full, lines = results.in_two_densities(lambda item: item.key * sizes[item.key], lambda item: item.key)
        return [text[0] for text in full], lines

    assert densities({"a": 9, "b": 9, "c": 9, "d": 9}) == (["a", "b", "c"], ["d"])
    assert densities({"a": 99_999, "b": 9, "c": 9}) == (["a"], ["b", "c"])
    assert densities({"a": 9, "b": 99_999, "c": 9, "d": 9}) == (["a", "c"], ["b", "d"])
    assert densities(dict.fromkeys("abcdef", 9), *"12345") == (["a", "b", "c", "d", "e"], ["f"])


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Shows the log. Takes a path.", "Shows the log."),
        ("Shows e.g. the log.\nTakes a path", "Shows e.g. the log."),
        ("Shows the log of v1.2 of a file\n\nTakes a path", "Shows the log of v1.2 of a file"),
        ("  ", ""),
        ("x" * 300, "x" * 119 + "…"),
    ],
)
def test_a_tool_in_one_line_has_the_first_sentence_and_the_required_parameters(text: str, first: str) -> None:
    assert first_sentence(text) == first
    schema: Any = {"type": "object", "properties": {"repo": {}, "path": {}}, "required": ["repo"]}
    assert line_of("git__log", Tool("log", text, schema)) == "git__log(repo)" + (f": {first}" if first else "")


def test_the_name_of_a_tool_finds_it_first() -> None:
    rows = [("git:log", 0.6), ("git:show", 0.4)]
    assert first_exact("git__show ", {"git__show": "git:show"}, rows) == [("git:show", 1.0), ("git:log", 0.6)]
    assert first_exact("show", {"git__show": "git:show"}, rows) == rows


@pytest.mark.parametrize(
    ("query", "queries", "limit", "message"),
    [
        (None, None, 8, "queries: must list 1 to 10 tasks in words"),
        (None, [], 8, "queries: must list 1 to 10 tasks in words"),
        (None, ["x"] * 11, 8, "queries: must list 1 to 10 tasks in words"),
        (None, "x", 8, "queries: must list 1 to 10 tasks in words"),
        (None, ["x", " "], 8, "queries: must describe the task in words"),
        (7, None, 8, "query: must describe the task in words"),
        ("x", None, True, "limit: must be a whole number from 1 to 50"),
    ],
)
def test_a_search_without_words_is_refused(query: Any, queries: Any, limit: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_search(query, queries, limit)
    assert str(error.value) == message
