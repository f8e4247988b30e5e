"""Conversations share the results of read-only tools for a time to live."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from properties.virtual_time import VirtualClock, patched_clocks
from ropewalk import App, Toolbox, tool
from ropewalk.agents import Completion, Phase, complete_with_tools, result_cache, run_phases
from ropewalk.config.project import read_config
from ropewalk.errors import ConfigError, RopewalkError
from ropewalk.testing import ScriptedModel, wants

CALLS: list[str] = []
TTL = {"ttl": "10m"}


@tool(annotations={"readOnlyHint": True})
async def look(word: str) -> dict[str, Any]:
    """Look a word up."""
    CALLS.append(f"look {word}")
    if word == "bad":
        raise ValueError("no such word")
    return {"word": word, "n": len(CALLS)}


@tool
def write(word: str) -> str:
    """Write a word."""
    CALLS.append(f"write {word}")
    return word


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def open_app(**options: Any) -> App:
    return App("memory", tools=[look, write], **options)


async def ask(app: App, name: str = "look", word: str = "rope", cache: Any = TTL, **options: Any) -> Completion:
    app.context.model = ScriptedModel(wants(name, {"word": word}), "done")
    return await complete_with_tools(
        "go", app=app, tools=options.pop("tools", ["look", "write"]), cache=cache, **options
    )


def outcome(done: Completion) -> dict[str, Any]:
    found: Any = done.trace[0]["outcome"]
    return found


def test_a_later_run_gets_the_result_until_its_time_is_over() -> None:
    clock = VirtualClock()

    async def scene() -> None:
        async with open_app() as app:
            first = await ask(app)
            assert outcome(first) == {"value": {"word": "rope", "n": 1}}
            clock.now += 300
            heard: list[dict[str, Any]] = []
            second = await ask(app, on_event=heard.append)
            cached = {"age": 300.0, "run_id": first.run_id}
            assert outcome(second) == {"value": {"word": "rope", "n": 1}, "cached": cached}
            assert [event["cached"] for event in heard if event["type"] == "tool_use"] == [cached]
            sent = app.context.model.requests[-1].messages[-1]["content"]  # type: ignore[attr-defined]
            assert sent[0]["content"] == '{"word":"rope","n":1}'
            clock.now += 300
            assert "cached" not in outcome(await ask(app))
            assert CALLS == ["look rope"] * 2

    with patched_clocks(clock):
        asyncio.run(scene())


APPROVED = {"approve": ["look"], "ask": lambda tool, input: True}
UNCACHED: dict[str, tuple[dict[str, Any], Mapping[str, Any]]] = {
    "off by default": ({"cache": True}, {}),
    "switched off": ({"cache": False}, {}),
    "a tool that writes": ({"name": "write"}, {}),
    "a failure": ({"word": "bad"}, {}),
    "other arguments": ({}, {"word": "walk"}),
    "an approval": ({}, APPROVED),
}


@pytest.mark.parametrize("name", UNCACHED)
def test_a_call_is_made(name: str) -> None:
    first, second = UNCACHED[name]

    async def scene() -> None:
        async with open_app() as app:
            for options in (first, {**first, **second}):
                assert "cached" not in outcome(await ask(app, **options))
            assert len(CALLS) == 2

    asyncio.run(scene())


def test_changed_code_and_executors_answer_for_themselves() -> None:
    async def scene() -> None:
        async with open_app() as app:
            await ask(app)
            app.toolbox.register(app.toolbox.get("look"), lambda word: "changed")  # type: ignore[arg-type]
            assert outcome(await ask(app)) == {"value": "changed"}
            assert outcome(await ask(app))["cached"]
            # A flow, or another toolbox, answers for itself.
            other = Toolbox([look])
            app.toolbox.register(other.lend("look"))
            assert ["cached" in outcome(await ask(app)) for _ in range(2)] == [False, False]

    asyncio.run(scene())


def test_limits_count_a_call_that_the_cache_answers() -> None:
    async def scene() -> None:
        async with open_app() as app:
            await ask(app)
            app.context.model = ScriptedModel(wants("look", {"word": "rope"}), wants("look", {"word": "walk"}), "done")
            done = await complete_with_tools("go", app=app, tools=["look"], cache=TTL, max_calls=1)
            assert (done.stop_reason, len(CALLS)) == ("max_calls", 1)

    asyncio.run(scene())


def test_phases_share_results() -> None:
    async def scene() -> None:
        model = ScriptedModel(wants("look", {"word": "rope"}), "a", wants("look", {"word": "rope"}), "b")
        async with open_app(model=model) as app:
            app.context.cache_ttl = {"lo*": 60.0}
            phases = [Phase(name=name, prompt="go", tools=("look",)) for name in ("one", "two")]
            await run_phases(phases, app=app)
            assert CALLS == ["look rope"]

    asyncio.run(scene())


def test_a_resumed_run_repeats_nothing_and_keeps_nothing_old(tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "runs.db"
        async with App(path, tools=[look]) as app:
            first = await ask(app, tools=["look"])
            app.context.model = ScriptedModel(wants("look", {"word": "rope"}), ValueError("gone"))
            with pytest.raises(RopewalkError):
                await complete_with_tools("go", app=app, tools=["look"], cache=TTL, run_id="r")
        async with App(path, tools=[look]) as app:
            app.context.model = ScriptedModel("done")
            done = await complete_with_tools("go", app=app, tools=["look"], cache=TTL, run_id="r")
            assert outcome(done)["cached"]["run_id"] == first.run_id
            assert "cached" not in outcome(await ask(app, tools=["look"]))
            assert CALLS == ["look rope"] * 2

    asyncio.run(scene())


def test_the_cache_keeps_the_latest_within_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MAX_BYTES", 80)

    async def scene() -> None:
        async with open_app() as app:
            for word in ("a", "b", "c", "b", "a", "x" * 99, "x" * 99):
                await ask(app, word=word)
        assert [call[5:][:1] for call in CALLS] == ["a", "b", "c", "a", "x", "x"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("text", "ttl"),
    [('"10m"', {"*": 600}), ('{"docs:*" = "1h", look = 5}', {"docs:*": 3600, "look": 5}), ('"soon"', None)],
)
def test_a_project_sets_the_time_to_live(tmp_path: Path, text: str, ttl: dict[str, float] | None) -> None:
    (tmp_path / "ropewalk.toml").write_text(f"[tools]\ncache_ttl = {text}\n")
    if ttl is None:
        with pytest.raises(ConfigError, match="cache_ttl: must be"):
            read_config(tmp_path)
    else:
        assert read_config(tmp_path).cache_ttl == ttl
        assert App.open(tmp_path, store="memory").context.cache_ttl == ttl


def test_an_invalid_time_to_live_is_refused() -> None:
    with pytest.raises(RopewalkError, match=r"cache\.ttl: must be a number of seconds above 0"):
        asyncio.run(ask(open_app(), cache={"ttl": "soon"}))
