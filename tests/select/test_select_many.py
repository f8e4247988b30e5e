"""Among many tools only some are looked at closely; what is found, and why, is as where all are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ropewalk.select import candidates
from ropewalk.select.candidates import MAX_RATED_BY_CLAUSE, Candidates
from ropewalk.select.index import Index
from ropewalk.select.query import read_request
from ropewalk.select.reading import Reading
from ropewalk.select.selector import Selector
from ropewalk.select.tool_card import card_of

MANY = 2 * MAX_RATED_BY_CLAUSE + 500
VERBS = ["paint", "sell", "polish", "carry", "fold", "stack", "label", "rinse", "sort", "wrap", "weigh", "mend"]
THINGS = ["lantern", "violin", "saddle", "pebble", "thimble", "barrel", "anchor", "trellis", "kettle", "ribbon"]
WANTED: list[dict[str, Any]] = [
    {"name": "get_weather", "description": "Weather forecast for a city"},
    {"name": "book_flight", "description": "Book a flight between two airports"},
    {"name": "buy_car", "description": "Purchase an automobile"},
]


def _filler(count: int) -> list[dict[str, Any]]:
    chance = random.Random(3)
    made = []
    for number in range(count):
        verb, other, thing, more = (chance.choice(words) for words in (VERBS, VERBS, THINGS, THINGS))
        told = f"{verb} the {thing} and {other} a {more} number {number}"
        made.append({"name": f"{verb}_{thing}_{number}", "description": told, "namespace": f"shop{number % 3}"})
    return made


@pytest.fixture(scope="module")
def many() -> Selector:
    return Selector([*_filler(MANY), *WANTED], learn=False)


def _names(selector: Selector, request: str, **options: Any) -> list[str]:
    return [str(one["name"]) for one in selector.select(request, threshold=0, **options).results]


def test_each_clause_of_a_long_request_finds_its_tool_among_many(many: Selector) -> None:
    """SELECT-CLAUSES-1"""
    asked = (
        "polish the lantern and wrap a kettle for the shop, then stack the barrel and fold a ribbon next to "
        "the anchor, and finally tell me what the weather forecast is"
    )
    assert "get_weather" in _names(many, asked)


def test_a_tool_that_has_none_of_the_words_is_found_among_many_by_what_it_means(many: Selector) -> None:
    assert _names(many, "get me a vehicle")[0] == "buy_car"


def test_as_many_results_are_found_as_are_wanted_and_the_first_are_the_same(many: Selector) -> None:
    asked = "polish the lantern and sell a saddle"
    found = many.select(asked, threshold=0, maxResults=400).results
    assert len({one["name"] for one in found}) == 400
    assert found[:64] == many.select(asked, threshold=0, maxResults=64).results
    scores = [float(str(one["score"])) for one in found]
    assert scores == sorted(scores, reverse=True)
    assert all(one["matches"]["features"] for one in found)


def test_filters_hold_among_many(many: Selector) -> None:
    found = _names(many, "polish the lantern", namespace="shop1", maxResults=50)
    assert len(found) == 50
    assert all(name.startswith("shop1:") for name in found)
    assert "polish_lantern" in found[0]
    assert _names(many, "weather forecast for a city", excludeTools=["get_weather"])[:1] != ["get_weather"]


def _found(request: str, tools: list[dict[str, Any]]) -> Candidates:
    index = Index()
    index.add([card_of(tool) for tool in tools])
    return Candidates(index, Reading(index, read_request(request)))


@pytest.mark.parametrize("request_", ["polish a lantern, then weigh barrels and purchase cars", "paint", "number 7"])
def test_the_words_of_a_tool_say_what_the_postings_of_the_request_say(request_: str) -> None:
    found = _found(request_, [*_filler(300), *WANTED])
    slots = found.find(None, 64)
    assert found._postings_kept is not None
    assert len(slots)
    seen, had = found._matches_from_postings(slots), found._matches_from_tools(slots)

    def rows(hits: Any) -> list[Any]:
        return sorted(zip(*(one.tolist() for one in hits), strict=True))

    assert rows(seen) == rows(had)
    for hits in (seen, had):
        assert (hits[0][1:] >= hits[0][:-1]).all()  # more alike later


def test_words_that_are_not_looked_up_count_among_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [*_filler(300), *WANTED]
    asked = "polish a lantern and tell me the weather forecast for the city"
    whole = Selector(tools, learn=False).select(asked, threshold=0).results
    monkeypatch.setattr(candidates, "MAX_POSTINGS", 60)
    few = Selector(tools, learn=False).select(asked, threshold=0).results
    assert [one["name"] for one in few[:2]] == [one["name"] for one in whole[:2]]
    assert few[0]["matches"]["terms"] == whole[0]["matches"]["terms"]
