"""Selecting: the right tool first, with options, explanations and errors that say what is wrong."""

from __future__ import annotations

import threading

import pytest
from registry import TOOLS, definition, names

from ropewalk.errors import InvalidInput, InvalidTool
from ropewalk.select.options import NoTools
from ropewalk.select.selector import Selector
from ropewalk.tools.tool import Tool


@pytest.fixture(scope="module")
def selector() -> Selector:
    return Selector(TOOLS)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("What's the weather like in Paris tomorrow?", "get_weather"),
        ("mail Anna that I'll be late", "send_email"),
        ("find me a flight from Berlin to Oslo", "searchFlights"),
        ("bill customer 42 over 300 euros", "create_invoice"),
        ("remove the invoice 17, it was a mistake", "delete_invoice"),
        ("I'd like to see a movie with a good actor", "movie_search"),
        ("make this picture smaller", "resize_image"),
        ("How do you say 'send an email' in another language? Translate it", "translate_text"),
    ],
)
def test_the_tool_a_request_needs_is_first(selector: Selector, query: str, first: str) -> None:
    """SELECT-HYBRID-1"""
    assert names(selector.select(query))[0] == first


def test_short_forms_in_names_are_known() -> None:
    """SELECT-HYBRID-4"""
    terse = Selector([definition(name, "") for name in ("rm_dir", "list_msgs", "auth_usr", "calc_avg", "img_info")])
    for query, first in (
        ("delete the directory", "rm_dir"),
        ("which messages are there", "list_msgs"),
        ("authenticate a user", "auth_usr"),
        ("the average of these numbers", "calc_avg"),
        ("information about an image", "img_info"),
        ("throw a folder away, delete it", "rm_dir"),
        ("msg", "list_msgs"),
    ):
        assert names(terse.select(query, threshold=0))[0] == first


def test_what_is_quoted_says_less_also_where_it_is_most_of_the_request(selector: Selector) -> None:
    """SELECT-HYBRID-3"""
    for quoted in ('"what is the weather forecast for tomorrow?"', "`what is the weather forecast for tomorrow?`"):
        assert names(selector.select(f"Translate {quoted} into Spanish"))[0] == "translate_text"
    assert names(selector.select('"what is the weather forecast for tomorrow?"'))[0] == "get_weather"


def test_a_result_has_what_is_documented_and_explains_itself(selector: Selector) -> None:
    """SELECT-RESULT-1 SELECT-RESULT-2"""
    result = selector.select("weather forecast for Rome")
    assert list(result) == ["success", "query", "strategy", "results", "totalMatches", "detectedIntent"]
    assert (result.success, result.query, result.strategy) == (True, "weather forecast for Rome", "hybrid")
    first = result.results[0]
    assert list(first) == ["name", "description", "score", "matches", "category", "inputSchema"]
    assert first["category"] == "weather"
    assert first["inputSchema"]["properties"] == {"city": {"type": "string"}}
    assert 0.3 <= first["score"] <= 1
    assert {"name", "description"} <= set(first["matches"]["fields"])
    assert first["matches"]["terms"]["weather"] == {"likeness": 1.0, "fields": ["name", "description", "category"]}
    assert sum(first["matches"]["features"].values()) > 0
    assert result.total_matches >= len(result.results)


def test_a_request_for_several_tools_finds_each(selector: Selector) -> None:
    """SELECT-HYBRID-2"""
    query = "Check the weather in Lisbon, then book a table for two in a restaurant, and email the plan to my wife."
    assert set(names(selector.select(query))[:3]) == {"get_weather", "book_table", "send_email"}


def test_what_is_quoted_says_less_than_the_rest(selector: Selector) -> None:
    """SELECT-HYBRID-3"""
    query = 'Send an email to bob@weather.example with the subject "weather forecast for the city"'
    assert names(selector.select(query))[0] == "send_email"


def test_no_fitting_tool_is_an_answer(selector: Selector) -> None:
    """SELECT-THRESHOLD-1"""
    for query in ("blorptang fizzlewump", "asdf qwer", "yes", "knitting patterns for woollen socks"):
        result = selector.select(query)
        assert (result.success, result.results, result.total_matches) == (True, [], 0), query
    assert selector.select("knitting patterns", threshold=0).results


def test_scores_fall_and_stay_between_0_and_1(selector: Selector) -> None:
    for query in ("weather", "send mail and create invoice", "x"):
        scores = [one["score"] for one in selector.select(query, threshold=0, maxResults=10).results]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_equals_stand_by_name() -> None:
    """SELECT-RESULT-3"""
    twins = [definition("count", "Count the sheep.", namespace=space) for space in ("n3", "n1", "n2")]
    for order in (twins, twins[::-1]):
        for strategy in ("hybrid", "legacy_hybrid", "exact"):
            found = Selector(order).select("count the sheep", strategy=strategy)
            assert names(found) == ["n1:count", "n2:count", "n3:count"]


def test_filters_apply_before_the_cut(selector: Selector) -> None:
    """SELECT-FILTER-1"""
    query = "create or delete an invoice"
    assert names(selector.select(query, maxResults=1, excludeTools=["create_invoice"])) == ["delete_invoice"]
    assert (
        names(selector.select(query, allowTools=["send_email", "delete_invoice"], threshold=0))[0] == "delete_invoice"
    )
    assert set(names(selector.select(query, category="billing", threshold=0))) == {"create_invoice", "delete_invoice"}
    assert names(selector.select(query, category="nothing", threshold=0)) == []
    assert set(names(selector.select(query, allowTools=["get_weather"], threshold=0))) <= {"get_weather"}


def test_equal_names_in_different_namespaces_are_different_tools() -> None:
    """SELECT-FILTER-2"""
    both = [
        definition("search", f"Search {what}.", namespace=space) for space, what in (("gh", "code"), ("jira", "issues"))
    ]
    selector = Selector(both)
    assert names(selector.select("search issues"))[0] == "jira:search"
    assert selector.select("search issues").results[0]["namespace"] == "jira"
    assert names(selector.select("search issues", namespace="gh", threshold=0)) == ["gh:search"]
    assert names(selector.select("search issues", excludeTools=["jira:search"], threshold=0)) == ["gh:search"]
    assert names(selector.select("search issues", excludeTools=["search"], threshold=0)) == []
    with pytest.raises(InvalidTool, match="two tools are called 'search'"):
        Selector([definition("search", "a"), definition("search", "b")])


def test_tools_used_recently_are_preferred_among_near_equals() -> None:
    """SELECT-CONTEXT-1"""
    twins = [definition("count", "Count the sheep.", namespace=space) for space in ("alpha", "beta")]
    selector = Selector([*twins, *TOOLS])
    recent = {"recentTools": ["beta:count"]}
    assert names(selector.select("count sheep"))[0] == "alpha:count"
    assert names(selector.select("count sheep", context=recent))[0] == "beta:count"
    assert names(selector.select("weather in Rome", context=recent))[0] == "get_weather"


def test_selecting_before_there_are_tools_is_a_clear_error() -> None:
    """SELECT-ERROR-1"""
    with pytest.raises(NoTools, match="no tools to select from; register some first"):
        Selector().select("anything")


def test_everything_wrong_with_the_options_is_said_at_once(selector: Selector) -> None:
    """SELECT-ERROR-2"""
    wrong = {
        "strategy": "hybird",
        "maxResults": 0,
        "threshold": "high",
        "excludeTools": "get_weather",
        "context": {"recentTool": []},
        "treshold": 1,
        "allowTools": [3],
    }
    with pytest.raises(InvalidInput) as caught:
        selector.select(7, wrong)  # type: ignore[arg-type]
    paths = [f"options.{key}{'.recentTool' if key == 'context' else ''}" for key in sorted(wrong)]
    assert sorted(problem.path for problem in caught.value.problems) == [*paths, "query"]
    text = str(caught.value)
    assert "did you mean hybrid?" in text
    assert "did you mean threshold?" in text
    assert "integer from 1 to 1000, not 0" in text


@pytest.mark.parametrize("recent", ["", 0, False, {}, "get_weather", [1]])
def test_recent_tools_are_a_list_of_names(selector: Selector, recent: object) -> None:
    """SELECT-ERROR-2"""
    for key in ("recentTools", "recent_tools"):
        with pytest.raises(InvalidInput, match=r"context\.recentTools: must be a list of strings"):
            selector.select("weather", context={key: recent})
    assert selector.select("weather", context={"recentTools": None}).success


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ({"description": "x"}, "needs a name"),
        ({"name": "  "}, "needs a name"),
        ({"name": "a", "description": 3}, "description must be a string, not int"),
        ({"name": "a", "inputSchema": []}, "inputSchema must be an object, not list"),
        ({"name": "a", "tags": "x"}, "tags must be a list of strings"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(tool: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidTool, match=says):
        Selector([tool])


@pytest.mark.parametrize("given", ["x", {"name": "a"}, 3, None, [3], [None]])
def test_what_is_no_list_of_tools_is_refused(given: object) -> None:
    with pytest.raises(InvalidTool, match="to select from"):
        Selector(given)  # type: ignore[arg-type]


def test_tools_come_and_go_without_a_rebuild() -> None:
    """SELECT-INDEX-1"""
    selector = Selector(TOOLS)
    index = selector._index
    selector.add(definition("feed_cat", "Give the cat its dinner."))
    assert names(selector.select("feed the cat"))[0] == "feed_cat"
    assert selector.remove("feed_cat")
    assert not selector.remove("feed_cat")
    assert "feed_cat" not in names(selector.select("feed the cat", threshold=0))
    selector.add(definition("get_weather", "Give the cat its dinner."))
    assert names(selector.select("dinner for a cat"))[0] == "get_weather"
    assert selector._index is index
    assert len(selector) == len(TOOLS)


def test_an_index_that_changed_answers_as_one_made_anew() -> None:
    """SELECT-INDEX-1"""
    changed = Selector(TOOLS[::2])
    for tool in TOOLS[::2]:
        changed.remove(tool["name"])
    for tool in TOOLS[1::2]:
        changed.add(tool)
        changed.remove(tool["name"])
        changed.add(tool)
    for tool in TOOLS[::2]:
        changed.add(Tool(tool["name"], tool["description"], tool["inputSchema"]))
    fresh = Selector([*TOOLS[1::2], *(Tool(t["name"], t["description"], t["inputSchema"]) for t in TOOLS[::2])])
    for query in ("weather in Oslo", "send an invoice by email", "wether forcast", "resize"):
        assert changed.select(query, threshold=0).results == fresh.select(query, threshold=0).results


def test_many_tools_added_at_once_are_found_as_if_added_one_by_one() -> None:
    """SELECT-INDEX-1"""
    pages = ("title", "author", "index", "cover", "margin", "number", "chapter", "price", "genre")
    tools = [*(definition(f"read_{part}", f"Read the {part} of a book.") for part in pages), definition("!!", "")]
    once, singly = Selector(tools[:6]), Selector(tools[:6])
    for selector in (once, singly):
        for tool in tools[1:4]:
            selector.remove(tool["name"])
    more = [*tools[6:], *tools[1:4]]  # some come in between, some behind
    once.add_all(more)
    for tool in more:
        singly.add(tool)
    for selector in (once, singly):
        for tool in (*tools[6:8], tools[0]):
            selector.remove(tool["name"])
    fresh = Selector([*tools[1:6], *tools[8:]])
    for query in ("read the author", "what is the price of the book", "wich chaptr", "genre and cover"):
        for strategy in ("hybrid", "legacy_hybrid"):
            expected = fresh.select(query, threshold=0, strategy=strategy)
            assert once.select(query, threshold=0, strategy=strategy) == expected
            assert singly.select(query, threshold=0, strategy=strategy) == expected


def test_it_is_searched_while_tools_come_and_go() -> None:
    """SELECT-INDEX-2"""
    selector = Selector(TOOLS)
    stop, wrong = threading.Event(), list[BaseException]()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            selector.add(definition(f"extra_{number % 50}", f"Feed animal number {number} with weather and invoices."))
            selector.remove(f"extra_{(number * 7) % 50}")

    def ask() -> None:
        try:
            for _ in range(60):
                assert names(selector.select("weather forecast for a city", maxResults=20))[0] == "get_weather"
        except BaseException as error:  # noqa: BLE001 - shown by the test
            wrong.append(error)

    churner = threading.Thread(target=churn)
    askers = [threading.Thread(target=ask) for _ in range(3)]
    churner.start()
    for thread in askers:
        thread.start()
    for thread in askers:
        thread.join()
    stop.set()
    churner.join()
    assert wrong == []


def test_query_and_options_may_be_given_by_name(selector: Selector) -> None:
    """SELECT-FN-1"""
    found = selector.select(query="create an invoice", options={"maxResults": 1})
    assert names(found) == ["create_invoice"]


def test_tools_that_cannot_be_put_in_their_place_leave_what_was_there() -> None:
    """SELECT-INDEX-1"""
    selector = Selector(TOOLS)
    for wrong in ([{"name": "a"}, {"name": "a"}], [{"name": "a"}, {"name": ""}], "abc"):
        with pytest.raises(InvalidTool):
            selector.replace_all(wrong)
        assert names(selector.select("weather in Rome"))[0] == "get_weather"
    selector.replace_all([definition("only", "Weather forecast.")])
    assert names(selector.select("weather in Rome")) == ["only"]


def test_words_of_tools_that_went_correct_nothing() -> None:
    """SELECT-TYPO-1"""
    left = [definition("a", "Blortans."), *TOOLS]
    selector = Selector([definition("b", "Blortanings."), *left])
    selector.remove("b")  # a word of the same stem is left
    for query in ("blortaninfs", "blortamings now"):
        for strategy in ("hybrid", "fuzzy"):
            options = {"strategy": strategy, "threshold": 0}
            assert selector.select(query, options).results == Selector(left).select(query, options).results


def test_what_a_word_is_beside_another_script_is_not_what_it_is_alone() -> None:
    """SELECT-INPUT-1"""
    tools = [{"name": "plan_runs", "description": "Plan the runs of a week"}, {"name": "sell", "description": "Sell"}]
    selector, fresh = Selector(tools, learn=False), Selector(tools, learn=False)
    selector.select("日本running", threshold=0)
    assert selector.select("running", threshold=0) == fresh.select("running", threshold=0)


def test_words_that_were_asked_for_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """SELECT-INPUT-1"""
    monkeypatch.setattr("ropewalk.select.reading.MAX_CACHED_WORDS", 100)
    selector = Selector(TOOLS)
    for number in range(60):
        selector.select(" ".join(f"zq{chr(97 + number % 26)}x{'y' * n}" for n in range(20)) + f" w{number}")
        assert len(selector._index.word_readings) <= 100
