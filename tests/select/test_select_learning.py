"""Learning from use: what is remembered, what it changes, and how it is seen, exported and deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import pytest
from registry import TOOLS, definition, names

from ropewalk.app.app import App
from ropewalk.app.runs.statistics import success_rates
from ropewalk.errors import InvalidInput, NotFound, StoreError, ToolError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.tool_usage import ToolUse
from ropewalk.select.index import Index
from ropewalk.select.memory import Memory
from ropewalk.select.query import read_request
from ropewalk.select.reading import Reading
from ropewalk.select.selector import Selector
from ropewalk.select.tool_card import card_of
from ropewalk.tools.tool import tool

OPAQUE = [definition("zork", "A plugin."), definition("blip", "A plugin."), *TOOLS]


def test_a_request_like_one_of_before_finds_the_tool_that_served_it() -> None:
    """SELECT-LEARN-1"""
    selector = Selector(OPAQUE)
    asked = "which guitar chords fit this melody"
    assert "zork" not in names(selector.select(asked))
    selector.record("find chords for my guitar melody", "zork", True)
    assert names(selector.select(asked))[0] == "zork"
    assert names(selector.select("weather in Rome"))[0] == "get_weather"
    assert names(Selector(OPAQUE, learn=False).select("weather in Rome"))[0] == "get_weather"


def test_a_tool_that_fails_is_not_remembered_for_the_request() -> None:
    """SELECT-LEARN-1"""
    selector = Selector(OPAQUE)
    selector.record("find chords for my guitar melody", "zork", False)
    assert "zork" not in names(selector.select("which guitar chords fit this melody"))


def test_what_requests_before_add_is_said() -> None:
    """SELECT-LEARN-1"""
    selector = Selector(OPAQUE)
    selector.record("find chords for my guitar melody", "zork", True)
    found = selector.select("which guitar chords fit this melody", threshold=0, maxResults=20).results
    adds = {one["name"]: one["matches"]["features"].get("asked before") for one in found}
    assert adds.pop("zork") > 1
    assert set(adds.values()) == {None}  # nothing is known of the others
    elsewhere = selector.select("weather in Rome", threshold=0, allowTools=["zork"]).results[0]
    assert elsewhere["matches"]["features"]["asked before"] < 0.1


def test_a_memory_that_requests_came_to_and_went_from_is_as_one_of_those_left() -> None:
    """SELECT-LEARN-2"""
    subjects = ("guitar", "piano", "weather", "Rome", "invoice", "customer", "river", "sleep", "train")
    index = Index()
    index.add([card_of(one) for one in OPAQUE])
    asked = [" ".join(words) for words in permutations(subjects, 3)][::7]
    uses = [ToolUse(tool=f"tool {n % 5}", request=request, successes=1, at=float(n)) for n, request in enumerate(asked)]
    changed = Memory([])
    for use in uses:
        changed.remember(use)
        changed.remember(use)
    changed.forget_tool("tool 3")
    for use in uses[:30]:
        changed.forget_request(use.tool, use.request)
    fresh = Memory([use for use in uses[30:] if use.tool != "tool 3"])
    assert fresh.places.keys() == changed.places.keys() == {f"tool {n}" for n in (0, 1, 2, 4)}
    for request in ("a train to Rome", "play the piano and then the guitar, if the customer has an invoice"):
        reading = Reading(index, read_request(request))
        for known, place in fresh.places.items():
            one, other = fresh.evidence_for(reading), changed.evidence_for(reading)
            assert one is not None
            assert other is not None
            assert one.total[:, place] == pytest.approx(other.total[:, changed.places[known]], abs=1e-4)
            assert one.likeness[place] == pytest.approx(other.likeness[changed.places[known]], abs=1e-4)


def test_a_tool_asked_once_does_not_come_before_those_whose_turn_has_not_come() -> None:
    """SELECT-LEARN-1: but it does for a request much like the one that is remembered."""
    selector = Selector(
        [
            {"name": "book_flight", "description": "Book a flight between two cities"},
            {"name": "book_train", "description": "Book a train ticket between two cities"},
            {"name": "book_hotel", "description": "Book a room in a hotel of a city"},
        ]
    )
    selector.record("get me from Oslo to Bergen", "book_train")
    first = {
        query: selector.select(query).results[0]["name"]
        for query in (
            "book me a flight from Oslo to Bergen",
            "get me from Oslo to Bergen",
            "get me from Oslo to Hamburg",
        )
    }
    assert list(first.values()) == ["book_flight", "book_train", "book_train"]


def test_the_likest_of_many_requests_is_found_when_others_came_and_went() -> None:
    """SELECT-LEARN-1"""
    subjects = ("guitar", "piano", "weather", "Rome", "invoice", "customer", "river", "sleep", "train", "tax", "moon")
    index = Index()
    index.add([card_of(one) for one in OPAQUE])
    asked = [" ".join(words) for words in combinations(subjects, 3)]
    memory = Memory([ToolUse(tool=request, request=request, successes=1, at=1.0) for request in asked])
    for request in asked[::2]:
        memory.forget_tool(request)
    assert memory.places.keys() == set(asked[1::2])
    for request in asked[1::2]:
        recalled = memory.evidence_for(Reading(index, read_request(request)))
        assert recalled is not None
        assert memory.tools[int(recalled.likeness.argmax())] == request
        assert memory.tools[int(recalled.total[0, :-1].argmax())] == request
        assert recalled.likeness.max() == pytest.approx(1.0, abs=1e-3)
    nothing = memory.evidence_for(Reading(index, read_request("🎻 ∎")))
    assert nothing is not None
    assert nothing.total.max() < 0.1


def test_memory_is_bounded_and_rates_are_not_forgotten(tmp_path: Path) -> None:
    """SELECT-LEARN-2"""
    for store in (None, MemoryStore()):
        selector = Selector(OPAQUE, keeper=None if store is None else lambda store=store: store)
        for number in range(40):
            selector.record(f"request number {number} about topic {number}", "zork", number % 4 != 0)
        assert len(selector.learnt("zork")) == 16
        assert selector.learnt("zork")[0].request == "request number 39 about topic 39"
        assert (selector.stats()["zork"].successes, selector.stats()["zork"].failures) == (30, 10)
        if store is not None:
            later = Selector(OPAQUE, keeper=lambda store=store: store)
            assert later.stats() == selector.stats()
            assert len(later.learnt("zork")) == 16


def test_what_was_learnt_is_seen_exported_taken_and_deleted() -> None:
    """SELECT-LEARN-3"""
    selector, store = Selector(OPAQUE), MemoryStore()
    selector.record("find guitar chords", "zork", True)
    selector.record("find guitar chords", "zork", False)
    selector.record("odd noises", "blip", True)
    exported = selector.export_learnt()
    assert [(u["tool"], u["request"], u["successes"], u["failures"]) for u in exported] == [
        ("blip", "odd noises", 1, 0),
        ("zork", "find guitar chords", 1, 1),
    ]
    other = Selector(OPAQUE, keeper=lambda: store)
    assert other.import_learnt(exported) == 2
    assert names(other.select("guitar chords please"))[0] == "zork"
    assert other.forget("zork") == 1
    assert "zork" not in names(other.select("guitar chords please"))
    assert [use.tool for use in store.list_uses()] == ["blip"]
    assert other.forget() == 1
    assert store.list_uses() == []
    assert other.stats() == {}


def test_what_cannot_be_learnt_is_refused() -> None:
    """SELECT-LEARN-4"""
    selector = Selector(TOOLS)
    with pytest.raises(NotFound, match="did you mean 'get_weather'"):
        selector.record("weather", "get_wether", True)
    with pytest.raises(NotFound, match="did you mean 'get_weather'"):
        selector.forget("get_wether")
    selector.import_learnt([{"tool": "gone", "request": "x", "successes": 1, "failures": 0, "at": 0}])
    assert selector.forget("get_weather") == 0
    assert selector.forget("gone") == 1
    with pytest.raises(InvalidInput, match=r"query: must be a string, not int\nsuccess: must be true or false, not 1"):
        selector.record(3, "get_weather", 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="uses\\[0\\]"):
        selector.import_learnt([{"tool": "x"}])
    for given in ("zork", {}, None, 5):
        with pytest.raises(InvalidInput, match="uses: must be a list, not"):
            selector.import_learnt(given)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^uses\[0\]: must be an object, not str$"):
        selector.import_learnt(["x"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"at": float("nan")}, "at"),
        ({"at": float("inf")}, "at"),
        ({"at": 1e300}, "at"),
        ({"successes": 10**30}, "successes"),
        ({"failures": -1}, "failures"),
        ({"tool": "\ud800"}, "tool"),
        ({"tool": "a\0b"}, "tool"),
        ({"tool": ""}, "tool"),
    ],
)
def test_what_no_store_takes_is_not_learnt(tmp_path: Path, wrong: dict[str, object], path: str) -> None:
    """SELECT-LEARN-4"""
    right = {"tool": "zork", "request": "x", "successes": 1, "failures": 0, "at": 1.0}
    app = App(str(tmp_path / "s.db"), tools=[zork])
    with contextlib.closing(app.store):
        with pytest.raises(InvalidInput) as caught:
            app.selector.import_learnt([right, {**right, **wrong}])
        assert [one.path for one in caught.value.problems] == [f"uses[1].{path}"]
        assert app.selector.learnt() == app.store.list_uses() == []


def test_what_the_store_did_not_keep_is_not_learnt() -> None:
    """SELECT-LEARN-2"""

    class Full(MemoryStore):
        def put_uses(self, uses: Sequence[ToolUse]) -> None:
            raise StoreError("the disk is full")

    store = Full()
    selector = Selector(OPAQUE, keeper=lambda: store)
    with pytest.raises(StoreError, match="full"):
        selector.record("tune my guitar", "zork", True)
    assert (selector.learnt(), selector.stats()) == ([], {})


def test_what_past_success_moved_is_said() -> None:
    """SELECT-RESULT-2"""
    selector = Selector(TOOLS)
    for _ in range(50):
        selector.record(None, "create_invoice", False)
    for strategy in ("hybrid", "exact"):
        found = selector.select(
            "create invoice", strategy=strategy, threshold=0, context={"recentTools": ["create_invoice"]}
        )
        [one] = [one for one in found.results if one["name"] == "create_invoice"]
        usual = Selector(TOOLS).select("create invoice", strategy=strategy, threshold=0).results[0]
        features = one["matches"]["features"]
        assert features["past success"] == pytest.approx(one["score"] - usual["score"], abs=1e-3)
        assert features["past success"] < -0.1
        assert features["used recently"] == pytest.approx(0.05 * one["score"], abs=1e-3)
        assert not {"past success", "used recently"} & set(usual["matches"]["features"])


@tool
def zork(text: str = "") -> str:
    """A plugin."""
    return text


@tool
def fails() -> str:
    """Another plugin."""
    raise RuntimeError("no")


CHAIN = {
    "kind": "chain",
    "name": "c",
    "errorStrategy": "continue",
    "nodes": [
        {"id": "a", "type": "TOOL", "tool": "zork", "params": {"text": "x"}},
        {"id": "b", "type": "TOOL", "tool": "fails", "params": {}},
    ],
}


def test_a_request_that_is_no_text_is_refused_before_anything_is_called() -> None:
    """SELECT-LEARN-4"""
    called: list[str] = []

    async def note(text: str = "") -> str:
        called.append(text)
        return text

    async def case() -> None:
        async with App("memory", tools=[tool(note)]) as app:
            chain = {**CHAIN, "nodes": [{"id": "a", "type": "TOOL", "tool": "note", "params": {"text": "x"}}]}
            for calling in (
                app.call_tool("note", {}, request=3),  # type: ignore[arg-type]
                app.runner.run("note", {}, request=["x"]),  # type: ignore[arg-type]
                app.run(chain, request=3),  # type: ignore[arg-type]
            ):
                with pytest.raises(InvalidInput, match="request: must be a string, not"):
                    await calling
            assert called == []

    asyncio.run(case())


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_runs_and_calls_of_tools_feed_the_memory(where: str, tmp_path: Path) -> None:
    """SELECT-LEARN-5"""
    address = "memory" if where == "memory" else f"sqlite:///{tmp_path}/s.db"

    async def case() -> None:
        async with App(address, tools=[zork, fails]) as app:
            await app.run(CHAIN)
            assert app.selector.learnt() == []  # a run that nobody gave a request teaches nothing
            await app.run(CHAIN, request="tune my guitar")
            stored = await app.chains.create_chain({k: v for k, v in CHAIN.items() if k != "kind"})
            await app.chains.execute_chain(stored.id, {"request": "tune the piano"})
            await app.call_tool("zork", {"text": "x"}, request="tune a violin")
            with pytest.raises(ToolError):
                await app.call_tool("fails", {}, request="tune a drum")
            assert (await app.runner.run("zork", {"text": "y"}, request="tune a harp")).structured == "y"
            with pytest.raises(ToolError):
                await app.runner.run("fails", request="tune a flute")
            await app.runner.run("zork", {"text": "y"})
            learnt = {(use.tool, use.request): use.successes for use in app.selector.learnt()}
            assert learnt == {
                ("zork", "tune my guitar"): 1,
                ("fails", "tune my guitar"): 0,
                ("zork", "tune the piano"): 1,
                ("fails", "tune the piano"): 0,
                ("zork", "tune a violin"): 1,
                ("fails", "tune a drum"): 0,
                ("zork", "tune a harp"): 1,
                ("fails", "tune a flute"): 0,
            }
            assert names(app.selector.select("who can tune my guitar?"))[0] == "zork"
        if where == "sqlite":
            async with App(address, tools=[zork, fails]) as app:
                assert (app.selector.stats()["zork"].successes, app.selector.stats()["fails"].failures) == (4, 4)

    asyncio.run(case())


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_a_call_that_ended_its_run_counts_as_a_failure(where: str, tmp_path: Path) -> None:
    """SELECT-LEARN-5"""
    address = "memory" if where == "memory" else f"sqlite:///{tmp_path}/s.db"
    call = {"id": "b", "type": "TOOL", "tool": "fails"}
    inner = [{"id": "a", "type": "TOOL", "tool": "zork", "params": {}}, {**call, "params": {}}]
    flows = {
        "stop": {"kind": "chain", "name": "c", "nodes": [{**call, "params": {}}]},
        "loop": {"kind": "chain", "name": "c", "mode": "loop", "maxIterations": 2, "nodes": inner},
        "composition": {"kind": "composition", "name": "c", "nodes": [call]},
        "expression": {
            "kind": "chain",
            "name": "c",
            "variables": {"n": 0},
            "nodes": [{**call, "tool": "zork", "params": {"text": "n is ${1 / $var.n}"}}],  # no tool was called
        },
        "arguments": {
            "kind": "chain",
            "name": "c",
            "variables": {"n": 0},
            "nodes": [{**call, "tool": "zork", "params": {"text": "$var.n"}}],  # nor was this one
        },
    }

    async def case() -> None:
        async with App(address, tools=[zork, fails]) as app:
            for name, flow in flows.items():
                assert not (await app.run(flow, request=name)).success
            with pytest.raises(ToolError, match="is not of type"):
                await app.call_tool("zork", {"text": 5}, request="refused")
            learnt = {(use.tool, use.request): (use.successes, use.failures) for use in app.selector.learnt()}
            failed = {("fails", name): (0, 1) for name in ("stop", "loop", "composition")}
            assert learnt == {**failed, ("zork", "loop"): (1, 0)}

    asyncio.run(case())


def test_a_runner_that_teaches_nobody_says_so() -> None:
    """SELECT-LEARN-5"""
    from ropewalk.api.run_chain import Runner
    from ropewalk.errors import ConfigError
    from ropewalk.tools.toolbox import Toolbox

    async def case() -> None:
        box = Toolbox()
        box.register(zork)
        with pytest.raises(ConfigError, match="needs a learner"):
            await Runner(box).run("zork", request="tune it")
        told: list[object] = []
        runner = Runner(box, learner=lambda request, outcomes: told.append((request, dict(outcomes))))
        await runner.run("zork", request="tune it")
        assert told == [("tune it", {"zork": True})]

    asyncio.run(case())


def test_runs_without_a_request_order_equal_tools_and_change_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """SELECT-LEARN-3"""

    def make(name: str, fails: bool) -> Any:
        def finds(q: str) -> str:
            if fails:
                raise ValueError("no such customer")
            return q

        finds.__name__, finds.__doc__ = name, "Finds customers."
        return tool(finds)

    def chain(name: str, **params: str) -> dict[str, Any]:
        return {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": name, "params": params}]}

    async def work() -> None:
        async with App("memory", tools=[make("lookup_1", True), make("lookup_2", False)]) as app:
            before = app.selector.select("find customers", threshold=0.1)
            for _ in range(8):
                assert (await app.run(chain("lookup_1", q="x"))).status == "failed"
                assert (await app.run(chain("lookup_2", q="x"))).status == "completed"
            monkeypatch.setattr("ropewalk.select.app_selector.MAX_AGE", 0.0)
            after = app.selector.select("find customers", threshold=0.1)
            assert names(before)[:2] == ["lookup_1", "lookup_2"]
            assert names(after) == ["lookup_2", "lookup_1", *names(before)[2:]]
            scores = [{one["name"]: one["score"] for one in found.results} for found in (before, after)]
            assert scores[0] == scores[1]
            assert (app.selector.stats(), app.store.list_uses()) == ({}, [])
            rates = success_rates(app.context)
            assert {name: (rate.successes, rate.failures) for name, rate in rates.items()} == {
                "lookup_1": (0, 8),
                "lookup_2": (8, 0),
            }

    asyncio.run(work())
