"""`ropewalk.testing`, the parts that users test their chains with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import DyingStore, ScriptedTools, Shuffled, fails, gives, hangs, held, in_turn, interleavings

TWO: dict[str, Any] = {
    "kind": "chain",
    "nodes": [
        {"id": "a", "type": "tool", "tool": "first"},
        {"id": "b", "type": "tool", "tool": "second", "params": {"of": "$prev"}},
    ],
}


async def test_a_script_gives_fails_and_calls_in_turn() -> None:
    tools = ScriptedTools({"ns:t": [1]}, calls=lambda n: n + 1, turns=in_turn(fails("busy"), gives(3)))
    assert await tools("ns:t", {}) == [1]
    assert await tools("calls", {"n": 2}) == 3
    with pytest.raises(RuntimeError, match="busy"):
        await tools("turns", {})
    assert [await tools("turns", {}), await tools("turns", {})] == [3, 3]
    assert [(c.tool, c.args, c.status) for c in tools.calls][:3] == [
        ("ns:t", {}, "done"), ("calls", {"n": 2}, "done"), ("turns", {}, "failed"),
    ]  # fmt: skip
    with pytest.raises(LookupError, match="did you mean 'turns'"):
        await tools("turn", {})


async def test_a_value_of_a_script_is_fresh_for_every_call() -> None:
    tools = ScriptedTools(rows=[1])
    (await tools("rows", {})).append(2)
    assert await tools("rows", {}) == [1]


async def test_held_calls_wait_for_their_release_and_hanging_ones_for_their_cancellation() -> None:
    tools = ScriptedTools(slow=held("at last"), stuck=hangs())
    slow, stuck = asyncio.create_task(tools("slow", {})), asyncio.create_task(tools("stuck", {}))
    await tools.called("stuck")
    assert (tools.running, tools.peak, slow.done()) == (2, 2, False)
    tools.release("slow")
    assert await slow == "at last"
    stuck.cancel()
    await asyncio.wait([stuck])
    assert [c.status for c in tools.calls] == ["done", "cancelled"]


async def test_a_name_that_the_script_does_not_have_is_an_error_at_once() -> None:
    tools = ScriptedTools(search=held(1), other=2)
    said = r"the script has no tool 'serch'; did you mean 'search'\? \(its tools: search, other\)"
    with pytest.raises(LookupError, match=said):
        await tools.called("serch")
    with pytest.raises(LookupError, match=said):
        tools.release("serch")
    with pytest.raises(LookupError, match=said):
        tools.count("serch")
    assert tools.count("other") == 0


@pytest.mark.parametrize(("wait", "note"), [("call", "a call of 'search' is held; release('search') ends it"),
                                            ("called", "'search' was called 0 of 1 times")])  # fmt: skip
async def test_a_wait_that_a_time_limit_ends_names_its_reason(wait: str, note: str) -> None:
    tools = ScriptedTools(search=held(1))
    waiting = asyncio.ensure_future(tools("search", {}) if wait == "call" else tools.called("search"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await waiting
    assert caught.value.__notes__ == [note]


async def test_scripted_tools_stand_in_a_toolbox_with_their_schemas() -> None:
    tools = ScriptedTools({"lib:first": 1, "second": lambda of: of})
    schema = {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}
    async with App("memory", tools=tools.tools({"second": schema})) as app:
        assert await app.call_tool("lib:first") == 1
        found = await app.validate(
            {**TWO, "nodes": [{"id": "b", "type": "tool", "tool": "second", "params": {"of": 1}}]}
        )
    assert "of" in str(found.problems[0])


async def test_an_engine_calling_scripted_tools_passes_idempotency_keys() -> None:
    tools = ScriptedTools(first=1)
    assert await tools.bind("first").call({}, "run/a") == 1
    assert tools.calls[0].key == "run/a"


async def test_interleavings_repeat_themselves_and_differ_from_each_other() -> None:
    async def order(shuffled: Shuffled) -> list[int]:
        await asyncio.gather(*[shuffled("t", {"n": n}) for n in range(4)])
        return [call.args["n"] for call in tools.calls[-4:]]

    tools = ScriptedTools(t=lambda n: n)
    once = [await order(shuffled) for shuffled in interleavings(tools, 10)]
    again = [await order(shuffled) for shuffled in interleavings(tools, 10)]
    assert once == again
    assert len({tuple(one) for one in once}) > 3


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_run_goes_on_from_what_a_dying_store_acknowledged(at: int, written: bool) -> None:
    tools = ScriptedTools(first=1, second=lambda of: of + 1)
    store = DyingStore(MemoryStore(durable=True), at, written=written)
    with pytest.raises(StoreError):
        await App(store).run(TWO, run_id="x", executor=tools)
    assert store.dead
    with pytest.raises(StoreError):
        await App(store).run(TWO, run_id="y", executor=tools)
    survivor = await store.survivor()
    assert len(survivor.history("x")) == min(at - 1 + written, 2)
    done = await App(survivor).resume("x", executor=tools)
    assert done.results == {"a": 1, "b": 2}
    assert tools.count("first") == (2 if (at, written) == (1, False) else 1)


async def test_a_dying_sqlite_store_is_opened_again_from_its_file(tmp_path: Path) -> None:
    tools = ScriptedTools(first=1, second=lambda of: of + 1)
    store = DyingStore(SqliteStore(tmp_path / "s.db"), 2)
    async with App(store) as app:
        with pytest.raises(StoreError):
            await app.run(TWO, run_id="x", executor=tools)
    async with App(SqliteStore(tmp_path / "s.db")) as app:
        assert (await app.resume("x", executor=tools)).results == {"a": 1, "b": 2}
    assert (tools.count("first"), tools.count("second")) == (1, 2)


async def test_an_ended_run_survives_as_it_ended() -> None:
    tools = ScriptedTools(first=1, second=fails("no"))
    store = DyingStore(MemoryStore(durable=True))
    await App(store).run(TWO, run_id="x", executor=tools)
    assert store.writes == 3
    survivor = await store.survivor()
    before, after = store.get_run("x"), survivor.get_run("x")
    assert after is not None
    assert (after.status, after.result, after.error, after.error_count) == ("failed", before.result, before.error, 1)
