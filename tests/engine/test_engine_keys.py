"""A parameter of the type `IdempotencyKey` is given the key of the call, whoever calls and however often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, IdempotencyKey, Runner, Toolbox, flow, tool
from ropewalk.errors import StoreError, ToolError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.testing import DyingStore

NODE = {"id": "n", "type": "tool", "tool": "note", "params": {"x": 1}}
CHAIN = {"kind": "chain", "nodes": [NODE]}


@tool
def in_thread(x: int, key: IdempotencyKey) -> str:
    return f"{x} {key}"


@tool
async def in_loop(x: int, *, key: IdempotencyKey, **more: Any) -> str:
    return f"{x} {key}"


@tool
async def streamed(x: int, key: IdempotencyKey) -> AsyncIterator[str]:
    yield f"{x} {key}"


@tool
def converted(x: set[int], key: IdempotencyKey) -> set[str]:
    return {f"{min(x)} {key}"}


EVERY = [in_thread, in_loop, streamed, converted]


@pytest.mark.parametrize("function", EVERY)
async def test_each_kind_of_function_gets_it_and_no_caller_sees_it(function: Any) -> None:
    box = Toolbox([function])
    [made] = box.list()
    assert list(made.input_schema["properties"]) == made.input_schema["required"] == ["x"]
    args = {"x": [7] if function is converted else 7}
    result: Any = (await Runner(box).run(made.id, args, key="k")).structured
    assert (result if isinstance(result, str) else result[0]) == "7 k"


async def test_a_stream_gets_it_too() -> None:
    events = Runner(Toolbox([streamed])).run_stream("streamed", {"x": 7}, key="k")
    assert [event.data async for event in events if event.kind == "chunk"] == ["7 k"]


async def test_a_call_without_one_gets_one_of_its_own() -> None:
    runner = Runner(Toolbox([in_thread]))
    found = {(await runner.run("in_thread", {"x": 7})).structured for _ in range(3)}
    assert len(found) == 3
    assert "7 " not in found


async def test_it_cannot_be_given_as_an_argument() -> None:
    runner = Runner(Toolbox([in_thread, in_loop]))
    with pytest.raises(ToolError, match="key"):
        await runner.run("in_thread", {"x": 7, "key": "forged"}, key="k")
    assert (await runner.run("in_loop", {"x": 7, "key": "forged"}, key="k")).structured == "7 k"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_another_attempt_has_the_same_and_another_item_has_not(store: str, tmp_path: Path) -> None:
    seen: list[tuple[int, str]] = []

    @tool
    async def note(x: int, key: IdempotencyKey) -> int:
        seen.append((x, key))
        if len(seen) == 1:
            raise RuntimeError("once more")
        return x

    with flow("f") as f:
        f.for_each([1, 2], lambda item: f.options(attempts=2, delay=0).call("note", x=item), concurrency=1)
    async with App(MemoryStore() if store == "memory" else SqliteStore(tmp_path / "s.db"), tools=[note]) as app:
        await app.run(f.done(), run_id="r")
    assert [x for x, _ in seen] == [1, 1, 2]
    first, again, other = (key for _, key in seen)
    assert first == again != other


async def test_a_call_made_again_after_a_crash_has_the_same() -> None:
    seen: list[str] = []

    @tool
    async def note(x: int, key: IdempotencyKey) -> int:
        seen.append(key)
        return x

    dying = DyingStore(MemoryStore(durable=True), 1)
    with pytest.raises(StoreError):
        await App(dying, tools=[note]).run(CHAIN, run_id="r")
    async with App(await dying.survivor(), tools=[note]) as app:
        assert (await app.resume("r"))["results"] == {"n": 1}
    assert seen == ["r/n", "r/n"]
