"""The documented strategies, exactly as documented."""

from __future__ import annotations

import pytest
from registry import TOOLS, definition, names

from ropewalk.errors import InvalidInput
from ropewalk.select.legacy import INTENTS, Intent
from ropewalk.select.options import SelectionStrategy
from ropewalk.select.selector import Selector


@pytest.fixture(scope="module")
def selector() -> Selector:
    return Selector(TOOLS)


def scores(selector: Selector, query: str, strategy: str, **more: object) -> dict[str, float]:
    found = selector.select(query, strategy=strategy, threshold=0, maxResults=20, **more)
    return {one["name"]: one["score"] for one in found.results}


def test_exact_looks_for_the_request_in_name_and_description(selector: Selector) -> None:
    """SELECT-EXACT-1"""
    assert scores(selector, "get_weather", "exact") == {"get_weather": 1.0}
    assert scores(selector, "invoice", "exact") == {"create_invoice": 0.9, "delete_invoice": 0.9}
    assert scores(selector, "SQL statement", "exact") == {"run_query": 0.7}
    assert scores(selector, "search flights", "exact") == {"searchFlights": 0.9}
    assert scores(selector, "billing", "exact") == {}  # neither categories nor parameters


def test_fuzzy_forgives_two_slips_in_a_word(selector: Selector) -> None:
    """SELECT-FUZZY-1"""
    assert scores(selector, "wether", "fuzzy")["get_weather"] == pytest.approx(0.8)
    assert scores(selector, "wethr", "fuzzy")["get_weather"] == pytest.approx(0.6)
    assert scores(selector, "emial", "fuzzy")["send_email"] == pytest.approx(0.6)  # two letters swapped are two slips
    assert scores(selector, "wxthz", "fuzzy") == {}
    assert scores(selector, "langwage", "fuzzy")["translate_text"] == pytest.approx(0.8)
    assert scores(selector, "weather zzzzzz", "fuzzy")["get_weather"] == pytest.approx(0.5)
    assert scores(selector, "wxxxher", "fuzzy") == {}


def test_fuzzy_counts_the_slips_of_words_not_of_their_stems() -> None:
    """SELECT-FUZZY-1"""
    selector = Selector([definition("units", "Conversion of an organization."), definition("go", "天气预报")])
    assert scores(selector, "conversoin", "fuzzy") == {"units": pytest.approx(0.6)}
    assert scores(selector, "organizaton", "fuzzy") == {"units": pytest.approx(0.8)}
    assert scores(selector, "xy 天空", "fuzzy") == {}  # nothing of a word stays; a pair of characters is no word


def test_exact_does_not_mind_where_lines_end() -> None:
    """SELECT-EXACT-1"""
    selector = Selector([definition("read", "Read a file\n    from the disk.")])
    assert scores(selector, "file from the disk", "exact") == {"read": 0.7}
    assert scores(selector, "File\nfrom  the disk", "exact") == {"read": 0.7}


@pytest.mark.parametrize(
    ("strategy", "query", "word", "likeness", "fields"),
    [
        ("exact", "eathe", "eathe", 1.0, ["name"]),
        ("exact", "for a city", "for a city", 1.0, ["description"]),
        ("fuzzy", "wether", "wether", 0.8, ["name", "description"]),
        ("semantic", "weather", "weather", 1.0, ["name", "description"]),
        ("intent", "show me Oslo", "show", 1.0, ["name"]),
        ("legacy_hybrid", "wether", "wether", 0.8, ["name", "description"]),
    ],
)
def test_results_of_documented_strategies_explain_themselves(
    selector: Selector, strategy: str, query: str, word: str, likeness: float, fields: list[str]
) -> None:
    """SELECT-RESULT-2"""
    [found] = [
        one
        for one in selector.select(query, strategy=strategy, threshold=0, maxResults=20).results
        if one["name"] == "get_weather"
    ]
    matches = found["matches"]
    assert matches["terms"] == {word: {"likeness": likeness, "fields": fields}}
    assert (matches["strategy"], matches["fields"]) == (strategy, fields)
    assert sum(matches["features"].values()) == pytest.approx(found["score"], abs=2e-3)
    assert set(matches["features"]) <= {"exact", "fuzzy", "semantic", "intent"}


def test_semantic_compares_the_weighted_words(selector: Selector) -> None:
    """SELECT-SEMANTIC-1"""
    found = scores(selector, "create an invoice for a customer", "semantic")
    assert found["create_invoice"] > 0.65
    assert 0 < found["delete_invoice"] < 0.4
    assert "get_weather" not in found
    assert scores(selector, "film", "semantic")["movie_search"] > 0


def test_intent_goes_from_keywords_to_tools(selector: Selector) -> None:
    """SELECT-INTENT-1"""
    assert set(INTENTS) == {"search", "read", "write", "analyze", "execute", "manage", "monitor"}
    result = selector.select("delete what is old", strategy="intent", threshold=0)
    assert result.detected_intent == "manage"
    assert names(result) == ["delete_invoice"]
    assert selector.select("purple", strategy="intent", threshold=0).detected_intent is None
    assert scores(selector, "run it", "intent")["run_query"] == 1.0


def test_the_table_of_intents_is_open_to_users() -> None:
    """SELECT-INTENT-2"""
    table = {**INTENTS, "cook": Intent(keywords=("cook", "bake"), tools=("oven",))}
    selector = Selector([*TOOLS, definition("preheat_oven", "Make it hot.")], intents=table)
    result = selector.select("bake a cake", strategy="intent")
    assert (result.detected_intent, names(result)) == ("cook", ["preheat_oven"])


def test_an_intent_names_tools_by_any_spelling_of_theirs() -> None:
    """SELECT-INTENT-2"""
    tools = [definition("get-weather", "One."), definition("weather_radar", "Two."), definition("preheat_oven", "It.")]
    table = {"sky": Intent(("rain",), ("get-weather",)), "cook": Intent(("bake",), ("preheat_oven",))}
    selector = Selector(tools, intents=table)
    assert scores(selector, "will it rain", "intent") == {"get-weather": 1.0}
    assert scores(selector, "bake bread", "intent") == {"preheat_oven": 1.0}


def test_an_intent_has_tools_by_their_ids_and_keywords_of_several_words() -> None:
    """SELECT-INTENT-2"""
    tools = [definition("oven", "Heat.", namespace=space) for space in ("kitchen", "lab")]
    table = {"cook": Intent(("put in", "bake"), ("kitchen:oven",)), "put": Intent(("put",), ("shelf",))}
    selector = Selector(tools, intents=table)
    assert scores(selector, "bake a cake", "intent") == {"kitchen:oven": 1.0}
    assert selector.select("put the cake in and bake it", strategy="intent").detected_intent == "cook"
    assert selector.select("put the cake aside", strategy="intent", threshold=0).detected_intent == "put"


def test_a_table_that_is_none_is_refused_at_once() -> None:
    """SELECT-INTENT-2"""
    with pytest.raises(InvalidInput, match="intents: must be a table"):
        Selector(TOOLS, intents=["cook"])  # type: ignore[arg-type]
    wrong = {"cook": (("bake",), ("oven",)), "eat": Intent("eat", ("fork",)), 5: Intent((), ())}  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as caught:
        Selector(TOOLS, intents=wrong)  # type: ignore[arg-type]
    assert [one.path for one in caught.value.problems] == ["intents.cook", "intents.eat.keywords", "intents.5"]


def test_legacy_hybrid_adds_the_four_up(selector: Selector) -> None:
    """SELECT-LEGACY-1"""
    query = "create invoice"
    parts = {name: scores(selector, query, name) for name in ("exact", "fuzzy", "semantic", "intent")}
    for tool, score in scores(selector, query, "legacy_hybrid").items():
        shares = {"exact": 0.35, "fuzzy": 0.25, "semantic": 0.25, "intent": 0.15}
        assert score == pytest.approx(sum(share * parts[n].get(tool, 0) for n, share in shares.items()), abs=2e-4)


def test_past_success_moves_a_score_by_a_fifth_at_most() -> None:
    """SELECT-LEGACY-2"""
    selector = Selector(TOOLS)
    before = scores(selector, "create invoice", "legacy_hybrid")
    for _ in range(200):
        selector.record(None, "create_invoice", True)
        selector.record(None, "delete_invoice", False)
    after = scores(selector, "create invoice", "legacy_hybrid")
    assert 1.19 < after["create_invoice"] / before["create_invoice"] <= 1.2
    assert 0.8 <= after["delete_invoice"] / before["delete_invoice"] < 0.81
    assert after["movie_search"] == before["movie_search"] if "movie_search" in before else True


def test_strategies_have_an_enum_and_are_taken_by_name(selector: Selector) -> None:
    """SELECT-STRATEGY-1"""
    assert [one.value for one in SelectionStrategy] == [
        "exact",
        "fuzzy",
        "semantic",
        "intent",
        "hybrid",
        "legacy_hybrid",
    ]
    assert selector.select("invoice", strategy=SelectionStrategy.EXACT).strategy == "exact"
    assert selector.select("invoice", {"strategy": "EXACT"}).strategy == "exact"


@pytest.mark.parametrize("strategy", list(SelectionStrategy))
def test_filters_hold_for_every_strategy(selector: Selector, strategy: SelectionStrategy) -> None:
    options = {"strategy": strategy, "threshold": 0, "excludeTools": ["create_invoice"]}
    assert "create_invoice" not in names(selector.select("create invoice", options))
