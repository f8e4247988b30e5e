"""What compositions hold out: being stopped, dying half-way, secrets, hostile documents and data."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from chains.conftest import run
from ropewalk import App
from ropewalk.errors import InvalidFlow, StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore, ScriptedTools, fails, hangs

ECHO = {"id": "a", "type": "tool", "tool": "echo"}


async def echo(name: str, params: dict[str, Any]) -> Any:
    return {"tool": name, **params}


def test_a_composition_that_is_stopped_says_so(file: str) -> None:
    """COMP-RUN-5"""
    tools = ScriptedTools(one={"n": 1}, slow=hangs())

    async def body() -> None:
        async with App(file) as app:
            made = await app.compositions.create_composition(
                nodes=[{"id": "a", "type": "tool", "tool": "one"}, {"id": "b", "type": "tool", "tool": "slow"}]
            )
            execute = app.compositions.execute_composition
            going = asyncio.ensure_future(execute(made.id, {}, tools, execution_id="x"))
            await tools.called("slow")
            assert app.runs.stop("x") is True
            done = await going
            assert (done.success, done.status, done.execution_path) == (False, "stopped", ["a"])
            assert done.error == "run x was stopped"
            left = asyncio.ensure_future(execute(made.id, {}, tools, execution_id="y"))
            await tools.called("slow", 2)
            left.cancel()  # as if its process had gone
            await asyncio.wait([left])
            assert app.runs.stop("y") is True
            again = await execute(made.id, {}, tools, execution_id="y")
            assert (again.success, again.status, again.error) == (False, "stopped", "run y was stopped")

    run(body())


def test_secrets_are_in_no_result_and_no_record(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """REF-14"""
    monkeypatch.setenv("KEY", "hush-hush")

    async def body() -> None:
        async with App(file, secrets=["KEY"]) as app:
            made = await app.compositions.create_composition(
                nodes=[
                    {**ECHO, "inputMapping": {"key": "$secret.KEY"}},
                    {"id": "v", "type": "validate", "inputMapping": {"k": "$secret.KEY"}, "required": False,
                     "schema": {"properties": {"k": {"type": "integer"}}}},
                ]
            )  # fmt: skip
            done = await app.compositions.execute_composition(made.id, {}, echo, execution_id="x")
            assert [entry["path"] for entry in done.errors] == ["data.k"]
            assert "hush" not in repr(done)
            assert "hush" not in repr(app.runs.get("x"))

    run(body())


RESUMED = {
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "nodes": [
        {"id": "a", "type": "tool", "tool": "one"},
        {"id": "bad", "type": "tool", "tool": "bad", "onError": "continue"},
        {"id": "v", "type": "validate", "schema": {"required": ["nope"]}, "required": False},
        {"id": "m", "type": "map", "tool": "each", "items": "$input.rows", "inputMapping": {"x": "$item"}},
        {"id": "f", "type": "filter", "tool": "odd", "inputMapping": {"x": "$item"}},
        {
            "id": "b", "type": "branch",
            "branches": [{"condition": "length($prev) > 1", "nodes": [{"id": "r", "type": "reduce", "tool": "add",
                                                                       "initial": 0}]}],
        },
        {"id": "z", "type": "tool", "tool": "wrap", "inputMapping": {"x": "$prev"},
         "outputMapping": {"sum": "$output.z.x", "of": "$output.f"}},
    ],
}  # fmt: skip


def scripted() -> ScriptedTools:
    return ScriptedTools(
        one={"n": 1}, bad=fails("broken"), each=lambda x: x, odd=lambda x: x % 2 == 1, add=lambda acc, item: acc + item,
        wrap=lambda x: {"x": x},
    )  # fmt: skip


@pytest.mark.parametrize("written", [False, True])
def test_a_composition_whose_process_dies_goes_on_from_what_is_recorded(written: bool) -> None:
    """COMP-RUN-9 COMP-RUN-7"""

    def told(result: Any) -> dict[str, Any]:
        known = ("success", "data", "executionPath", "nodeCount", "errors", "status")
        return {key: result[key] for key in known}

    async def once(store: Any, tools: ScriptedTools) -> Any:
        return await App(store).run(RESUMED, {"rows": [1, 2, 3]}, run_id="r", executor=tools)

    async def body() -> None:
        whole = DyingStore(MemoryStore(durable=True))
        tools = scripted()
        expected = told(await once(whole, tools))
        assert expected["data"] == {"sum": 4, "of": [1, 3]}
        assert expected["executionPath"] == ["a", "bad", "v", "m", "f", "b", "r", "z"]
        assert [entry["keyword"] for entry in expected["errors"]] == [None, "required"]
        calls = len(tools.calls)
        for at in range(1, whole.writes):
            store, tools = DyingStore(MemoryStore(durable=True), at=at, written=written), scripted()
            with pytest.raises(StoreError):
                await once(store, tools)
            before = len(tools.calls)
            later = App(await store.survivor())
            assert told(await later.resume("r", executor=tools)) == expected, at
            recorded = sum(entry.kind in ("call", "call_failed") for entry in store.appended)
            assert len(tools.calls) - before == calls - recorded, at

    run(body())


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


def deep(count: int) -> dict[str, Any]:
    node: dict[str, Any] = {"id": "n", "type": "tool", "tool": "t"}
    for i in range(count):
        node = {"id": f"n{i}", "type": "conditional", "condition": True, "then": node}
    return {"nodes": [node]}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (BOMB + "kind: composition\nnodes: *j\n", "alias"),
        (deep(70), "nested deeper than 64"),
        ({"nodes": [{"id": "a", "type": "merge", "sources": ["${" + "(" * 500 + "1" + ")" * 500 + "}"]}]}, "nest"),
        ({"nodes": [{"id": "a", "type": "transform", "transform": {"type": "EVAL"}}]}, "unknown transform 'EVAL'"),
        ({"kind": "composition", "nodes": {"id": "a", "type": "merge"}}, "must be a list of nodes"),
        ({"kind": "composition", "nodes": [{"id": "a/b", "type": "merge", "sources": [1]}]}, "are not allowed"),
        ({"kind": "composition", "nodes": [{"id": "a", "type": "validate", "schema": {"$ref": "http://x/y"}}]}, "x/y"),
        (
            {"kind": "composition", "nodes": [{"id": "a", "type": "merge", "sources": [float("nan")]}]},
            "not a valid JSON number",
        ),
        ("kind: composition\nnodes: [{id: a, id: b, type: merge}]\n", "id"),
    ],
)
def test_hostile_documents_are_refused_in_under_a_second(source: Any, says: str) -> None:
    """COMP-BAD-4"""

    async def body() -> None:
        async with App("memory") as app:
            started = time.process_time()
            with pytest.raises(InvalidFlow, match=says):
                app.ensure(app.load(source))
            assert time.process_time() - started < 1

    run(body())


def test_a_pattern_that_hangs_others_answers_at_once() -> None:
    """COMP-BAD-4 COMP-RUN-8"""

    async def body() -> None:
        async with App("memory") as app:
            made = await app.compositions.create_validation_chain([{"schema": {"pattern": "^(a+)+$"}}])
            started = time.process_time()
            failed = await app.compositions.execute_composition(made.id, "a" * 50_000 + "!")
            assert (failed.success, failed.errors[0]["keyword"]) == (False, "pattern")
            assert time.process_time() - started < 1

    run(body())
