"""What learning may not do: harm tools that were never used. `bench/select_learning.py` has the curves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from registry import TOOLS, definition, names

from ropewalk.select.selector import Selector
from tiers import Scale

BENCH = Path(__file__).parents[2] / "bench"
WORDS = ("violin", "melody", "choir", "tempo", "sonata", "drummer", "chorus", "bassoon", "rhythm", "orchestra")
FAR = ("weather in Rome", "send an invoice to the customer", "search the web for news", "read the file notes.txt")
ALL = {"threshold": 0, "maxResults": 50}


def scores(selector: Selector, request: str) -> dict[str, float]:
    return {one["name"]: one["score"] for one in selector.select(request, ALL).results}


def ranks(scores: dict[str, float], tools: set[str]) -> dict[str, int]:
    return {name: sum(score > scores[name] for score in scores.values()) for name in tools}


@pytest.mark.campaign("properties")
def test_requests_far_from_the_remembered_ones_rank_unused_tools_as_before(scale: Scale, seed: int) -> None:
    """SELECT-LEARN-6: whatever was remembered, for whichever tools, and however often they succeeded."""
    tools = [*TOOLS, *(definition(f"plugin_{n}", f"A plugin for {word}.") for n, word in enumerate(WORDS))]
    plain = Selector(tools)
    before = {request: scores(plain, request) for request in FAR}
    chance = random.Random(24 + seed)
    for _ in range(scale(3, 12)):
        selector = Selector(tools)
        used = chance.sample([tool["name"] for tool in tools], chance.randint(1, len(tools) - 2))
        for tool in used:
            for _ in range(chance.choice((1, 2, 8, 20))):
                selector.record(" ".join(chance.sample(WORDS, chance.randint(2, 5))), tool, True)
        for request, expected in before.items():
            found = scores(selector, request)
            unused = expected.keys() - used
            # Equal scores come in the order of names, so a rank is the number of tools with a higher score.
            assert ranks(found, unused) == ranks(expected, unused), (used, request)


def test_success_alone_does_not_raise_a_tool() -> None:
    """SELECT-LEARN-6"""
    selector = Selector(TOOLS)
    before = {request: names(selector.select(request, ALL)) for request in FAR}
    for tool in TOOLS[::2]:
        for _ in range(200):
            selector.record(None, tool["name"], True)
    assert {request: names(selector.select(request, ALL)) for request in FAR} == before


TOPICS = {
    "violin": "bow strings fiddle", "garden": "tulips soil weeds", "sailing": "boat harbour anchor",
    "bakery": "bread flour oven", "chess": "bishop opening checkmate", "camping": "tent campfire backpack",
    "astronomy": "telescope planets comet", "knitting": "wool needles scarf", "cycling": "bicycle pedals helmet",
    "pottery": "clay kiln glaze", "karate": "belt dojo kick", "beekeeping": "hive honey swarm",
    "skiing": "slope snow lift", "painting": "canvas brush easel", "fishing": "rod bait trout",
    "surfing": "wave board beach", "opera": "aria tenor stage", "archery": "arrow quiver target",
}  # fmt: skip
PHRASES = (
    "I need new {0} for this", "how do I store {0} in winter", "where is the best {1} in town", "my {1} is broken",
    "tell me about {2} and {0}", "can you find a cheap {2}", "what {1} should a beginner buy", "{0} or {2}",
    "repair the {1} today please", "show pictures of {2}", "what is {0} made of", "teach my son to use a {1}",
)  # fmt: skip


def test_learning_raises_used_tools_and_harms_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """SELECT-LEARN-6: nor do forty routine requests for each tool, or a stranger with sixteen requests of others."""
    monkeypatch.syspath_prepend(str(BENCH))
    import select_learning as learning
    from select_data import Set

    tools = [
        definition(topic, f"Shop and advice for {topic}, such as {words.split()[0]}.")
        for topic, words in TOPICS.items()
    ]
    queries = [
        {"query": phrase.format(*words.split()), "gold": [topic]}
        for topic, words in TOPICS.items()
        for phrase in PHRASES
    ]
    shop = Set("shop", tools, queries)
    parts = learning.split_requests(shop, 1)
    before, after = learning.curve(shop, parts, 1, (0, 8))
    assert after["used"][0] >= before["used"][0] + 0.1
    assert after["unused"][0] >= before["unused"][0] - 0.02
    routines = learning.routine_case(shop, parts)
    assert routines["40 routine"][0] >= routines["nothing remembered"][0]
    assert routines["8 different, then 40 routine"][0] >= routines["8 different"][0] - 0.05
    counts = learning.stranger_case(shop, parts, 1)
    assert counts["after"] <= counts["before"] + counts["asked"] // 8


def test_a_score_equal_to_the_threshold_is_kept() -> None:
    """SELECT-OPTION-3"""
    found = Selector(TOOLS).select("weather", strategy="exact", threshold=0.9).results
    assert [(one["name"], one["score"]) for one in found] == [("get_weather", 0.9)]
    assert Selector(TOOLS).select("get_weather", strategy="exact", threshold=1).results[0]["score"] == 1.0
