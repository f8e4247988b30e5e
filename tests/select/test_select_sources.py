"""What one source may teach the selector, however much it asks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from registry import TOOLS, definition, names

from ropewalk import App, tool
from ropewalk.errors import InvalidInput
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.tool_usage import KEPT_USES, address_source, current_source, source_digest, use_source
from ropewalk.select.selector import Selector
from ropewalk.select.usage import MOST_OF_ONE

ALL = {"threshold": 0, "maxResults": 60}
THINGS = {
    "violin": "bow strings fiddle", "garden": "tulips soil weeds", "sailing": "boat harbour anchor",
    "bakery": "bread flour oven", "chess": "bishop opening checkmate", "camping": "tent campfire backpack",
    "astronomy": "telescope planets comet", "knitting": "wool needles scarf", "cycling": "bicycle pedals helmet",
    "pottery": "clay kiln glaze", "karate": "belt dojo kick", "fishing": "rod bait trout",
}  # fmt: skip
PHRASES = (
    "I need new {0} for this", "how do I store {0} in winter", "where is the best {1} in town", "my {1} is broken",
    "tell me about {2} and {0}", "can you find a cheap {2}", "{0} or {2}", "repair the {1} today please",
)  # fmt: skip
SHOPS = [definition(name, f"Shop and advice for {name}, such as {words.split()[0]}.") for name, words in THINGS.items()]
PLUGINS = [definition(f"plugin_{n}", f"Plugin number {n}.") for n in range(12)]


def requests(thing: str) -> list[str]:
    return [phrase.format(*THINGS[thing].split()) for phrase in PHRASES]


def places(selector: Selector, request: str, equals: bool = False) -> dict[str, int]:
    """How many tools have a higher score than each, or an equal one: scores are rounded, equals come by name."""
    scores = {one["name"]: one["score"] for one in selector.select(request, ALL).results}
    return {
        name: sum(other > score or (equals and other == score) for other in scores.values()) - equals
        for name, score in scores.items()
    }


def lessons(chance: random.Random, count: int, used: list[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Uses by some sources: each tool is taught what one shop is for, and one of them sometimes what all are for."""
    for name, own in zip(used, chance.sample(list(THINGS), len(used)), strict=True):
        for thing in list(THINGS) if name == used[0] and chance.random() < 0.3 else [own]:
            for request in chance.sample(requests(thing), chance.choice((1, 8, 8))):
                yield f"source {chance.randrange(count)}", request, name, chance.random() < 0.9


def test_an_unused_tool_loses_at_most_one_place_for_every_source() -> None:
    """SELECT-LEARN-7: after any uses by k sources, for any request of one clause, against no memory at all."""
    tools = [*SHOPS, *PLUGINS]
    plain = Selector(tools)
    chance = random.Random(25)
    words = [word for some in THINGS.values() for word in some.split()]
    asked = [requests(thing)[n % 6] for n, thing in enumerate(THINGS)]
    asked += [" ".join(chance.sample(words, 5)) for _ in range(20)]
    before = {request: places(plain, request, equals=True) for request in asked}
    for count in (1, 1, 1, 1, 2, 2, 3, 3):
        selector = Selector(tools)
        uses = list(lessons(chance, count, used := chance.sample([one["name"] for one in tools], 6)))
        chance.shuffle(uses)
        for source, request, name, success in uses:
            with use_source(source):
                selector.record(request, name, success)
        for request, expected in before.items():
            found = places(selector, request)
            for name in expected.keys() - used:
                assert found[name] <= expected[name] + count, (count, request, name)


@pytest.mark.parametrize("count", [1, 2])
def test_every_source_lifts_one_tool_above_an_unused_one(count: int) -> None:
    """SELECT-LEARN-7: two plugins were taught much for words of one request. As many as there are sources come before
    the shops that were never used; for a request of several clauses it is one for each clause."""
    selector = Selector([*SHOPS, *PLUGINS])
    one, several = "soil weeds kick dojo comet planets", "soil or weeds, kick or dojo, comet or planets"
    before = {request: places(selector, request, equals=True)["garden"] for request in (one, several)}
    for n, thing in enumerate(("garden", "astronomy", "karate")):
        with use_source("first" if n == 0 or count == 1 else "second"):
            for asked in requests(thing):
                selector.record(asked, f"plugin_{n}")
    assert places(selector, one)["garden"] == before[one] + count
    assert before[several] + 2 <= places(selector, several)["garden"] <= before[several] + 3


@pytest.mark.parametrize("kept", [False, True])
def test_a_flood_leaves_the_requests_of_others(kept: bool) -> None:
    """SELECT-LEARN-7: in the store and in the process."""
    store = MemoryStore()
    selector = Selector(PLUGINS, keeper=(lambda: store) if kept else None)
    with use_source("a"):
        selector.record("tune my guitar", "plugin_1")
        selector.record("which strings for a violin", "plugin_1")
    rng = random.Random(1)
    words = [word for some in THINGS.values() for word in some.split()]
    with use_source("b"):
        for _ in range(500):
            selector.record(" ".join(rng.sample(words, 4)), "plugin_1")
    learnt = selector.learnt("plugin_1")
    assert len(learnt) == KEPT_USES
    assert {"tune my guitar", "which strings for a violin"} <= {use.request for use in learnt}
    assert names(selector.select("please tune a guitar"))[0] == "plugin_1"
    assert selector.stats()["plugin_1"].successes == 502
    if kept:
        assert {use for use in store.list_uses("plugin_1") if use.request} == set(learnt)


def test_one_source_does_not_decide_a_success_rate() -> None:
    """SELECT-LEARN-7: nor does it while it is alone lose what it taught."""
    selector = Selector(PLUGINS)
    with use_source("bad"):
        for _ in range(1000):
            selector.record(None, "plugin_1", False)
    assert selector.stats()["plugin_1"].setback == pytest.approx(0.8, abs=0.01)
    for n in range(4):
        with use_source(f"good {n}"):
            for _ in range(10):
                selector.record(None, "plugin_1", True)
    rate = selector.stats()["plugin_1"]
    assert (rate.successes, rate.failures) == (40, 1000)
    assert rate.counted == (40, max(MOST_OF_ONE, 40))
    assert rate.setback > 0.9


def test_a_source_is_a_digest_in_store_and_export(tmp_path: Path) -> None:
    """SELECT-LEARN-7: of runs, single calls and what is recorded by hand; also of a run that ends elsewhere."""

    @tool
    def zork(text: str = "") -> str:
        """A plugin."""
        return text

    async def case() -> None:
        async with App(tmp_path / "store.db", tools=[zork]) as app:
            chain = {"kind": "chain", "name": "c", "nodes": [{"id": "z", "type": "TOOL", "tool": "zork"}]}
            with use_source("ann@example.org"):
                await app.run(chain, request="a run")
                await app.call_tool("zork", request="a call")
                app.selector.record("by hand", "zork")
            await app.call_tool("zork", request="nobody")
            exported = app.selector.export_learnt()
            digest = source_digest("named", "ann@example.org")
            assert {use["request"]: use["source"] for use in exported} == {
                "a run": digest, "a call": digest, "by hand": digest, "nobody": "",
            }  # fmt: skip
            assert Selector([{"name": "zork", "description": "A plugin."}]).import_learnt(exported) == 4
            with pytest.raises(InvalidInput, match="16 hexadecimal digits"):
                Selector().import_learnt([{**exported[0], "source": "ann@example.org"}])

    asyncio.run(case())
    assert b"ann@example.org" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert current_source() == ""


def test_an_address_counts_as_one_source_however_it_is_written() -> None:
    """SELECT-LEARN-7: a network of IPv6 is one, this machine none, and the digest needs the server's token."""
    assert address_source("127.0.0.1", "t") is address_source("::1", "t") is address_source("/run/x.sock", "t") is None
    one = address_source("203.0.113.7", "t")
    assert one == address_source("::ffff:203.0.113.7", "t") != address_source("203.0.113.8", "t")
    assert one != address_source("203.0.113.7", "u")
    assert address_source("2001:db8::1", "t") == address_source("2001:db8::ffff:2%eth0", "t")
    assert address_source("2001:db8:0:1::1", "t") != address_source("2001:db8::1", "t")


def test_failures_of_one_source_alone_still_count() -> None:
    """SELECT-LEARN-7"""
    selector = Selector(TOOLS)
    before = selector.select("weather in Rome", ALL).results[0]["score"]
    for _ in range(50):
        selector.record(None, "get_weather", False)
    after = next(one for one in selector.select("weather in Rome", ALL).results if one["name"] == "get_weather")
    assert after["score"] < 0.9 * before
