"""Going on under a changed definition: refused with the difference, unless it is meant."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import DefinitionChanged, JournalConflict, NotFound, RunExists
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.testing import DyingStore, ScriptedTools, fails

CHAIN = """\
kind: chain
id: c
name: c
mode: sequential
nodes:
  - {id: a, type: TOOL, tool: a, params: {n: 1}}
  - {id: b, type: TOOL, tool: b, params: {of: $output.a}}
  - {id: c, type: TOOL, tool: c, params: {of: $output.b}}
"""


def tools() -> ScriptedTools:
    return ScriptedTools(a=lambda n: n, b=lambda of: of + 1, c=lambda of, more=0: of * 10 + more)


async def interrupted(store: MemoryStore, source: Any, made: ScriptedTools, at: int = 2) -> None:
    """A run whose process dies when it records the `at`-th fact."""
    dying = DyingStore(store, at)
    app = App(dying)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="died"):
        await app.run(source, run_id="r", executor=made)
    store._runs["r"].log = None  # as a dead process leaves it


async def test_an_id_is_taken_for_another_input_whether_its_run_has_ended_goes_on_or_was_interrupted(
    store: Store,
) -> None:
    held, going = asyncio.Event(), asyncio.Event()

    async def slow(name: str, params: Any) -> Any:
        going.set()
        await held.wait()
        return params["n"]

    chain = {"kind": "chain", "name": "c", "variables": {"v": 1}}
    chain["nodes"] = [{"id": "a", "type": "TOOL", "tool": "a", "params": {"n": "$input.n"}}]

    async def refused(app: App, *given: Any, said: str, **how: Any) -> None:
        with pytest.raises(RunExists, match=said):
            await app.run(*given, run_id="r", executor=slow, **how)

    app = App(store)
    running = asyncio.create_task(app.run(chain, {"n": 1}, run_id="r", executor=slow))
    await going.wait()
    await refused(app, chain, {"n": 2}, said="another input")  # while it goes on here
    await refused(App(store), chain, {"n": 2}, said="another input")  # and as another process would see it
    running.cancel()
    await asyncio.wait({running})
    await refused(app, chain, {"n": 2}, said="another input")  # it could be gone on with
    held.set()
    assert (await app.run(chain, {"n": 1}, run_id="r", executor=slow)).results == {"a": 1}
    await refused(app, chain, {"n": 2}, said="another input")
    await refused(app, chain, {"n": True}, said="another input")
    await refused(app, chain, {"n": 1}, said="other variables", variables={"v": 2})
    await refused(app, {**chain, "name": "d"}, {"n": 1}, said="another definition")
    assert (await app.run(chain, {"n": 1}, run_id="r", executor=slow)).results == {"a": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input": {"n": 2}}, "another input"),
        ({"variables": {"v": 2}}, "other variables"),
        ({"name": "d"}, "another definition"),
    ],
)
async def test_the_id_of_an_ended_run_is_refused_for_anything_else(change: dict[str, Any], said: str) -> None:
    chain = {"kind": "chain", "name": "c", "variables": {"v": 1}, "nodes": []}
    chain["nodes"] = [{"id": "a", "type": "TOOL", "tool": "a", "params": {"n": "$input.n"}}]
    app, made = App("memory"), ScriptedTools(a=lambda **args: args["n"])

    async def run(name: str = "c", input: Any = None, **how: Any) -> Any:
        return await app.run({**chain, "name": name}, input or {"n": 1}, run_id="r", executor=made, **how)

    first = await run()
    assert (await run()).results == first.results == {"a": 1}
    with pytest.raises(RunExists, match=said):
        await run(**change)
    assert made.count("a") == 1


async def test_a_changed_definition_is_refused_with_what_differs(tmp_path: Path) -> None:
    store = MemoryStore(durable=True)
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN)
    made = tools()
    await interrupted(store, file, made)
    changed = CHAIN.replace("of: $output.b}", "of: $output.b, more: 5}")
    file.write_text(changed + "  - {id: d, type: TOOL, tool: c, params: {of: 1}}\n")
    app = App(store)
    for attempt in (
        lambda: app.resume("r", file, executor=made),
        lambda: app.run(file, run_id="r", executor=made),
    ):
        with pytest.raises(DefinitionChanged, match=r"differs in .*c, d") as caught:
            await attempt()
        told = {p.path: p for p in caught.value.problems}
        assert told["c"].message == "changed in params"
        assert told["d"].message == "is new"
        place = told["c"].place
        assert place is not None
        assert (place.file, place.line) == (str(file), 8)
    result = await app.resume("r", upgrade=True, executor=made)
    assert result.results["c"] == 25
    assert result.results["d"] == 10
    assert [call.tool for call in made.calls].count("a") == 1
    row = store.get_run("r")
    assert row is not None
    assert row.fingerprint == app.load(file).fingerprint


async def test_without_upgrade_a_run_goes_on_with_what_it_was_started_with(tmp_path: Path) -> None:
    store = MemoryStore(durable=True)
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN)
    made = tools()
    await interrupted(store, file, made)
    file.write_text(CHAIN.replace("of: $output.b}", "of: $output.b, more: 5}"))
    assert (await App(store).resume("r", executor=made)).results["c"] == 20


async def test_a_recorded_call_that_no_longer_fits_is_a_conflict_that_says_what_helps(tmp_path: Path) -> None:
    store = MemoryStore(durable=True)
    made = tools()
    await interrupted(store, {"kind": "chain", **_document()}, made)
    other = _document()
    other["nodes"][0]["params"] = {"n": 5}
    app = App(store)
    with pytest.raises(NotFound, match="the run was started from a document, not from a file; name the file"):
        await app.resume("r", upgrade=True, executor=made)
    with pytest.raises(
        JournalConflict, match=r"run r: a: .*await app.runs.retry\('r', \['a'\], definition='FILE', upgrade=True"
    ):
        await app.resume("r", other, upgrade=True, executor=made)
    retried = await app.runs.retry("r", ["a"], definition=other, upgrade=True, executor=made)
    assert retried.results == {"a": 5, "b": 6, "c": 60}


def _conflicting() -> dict[str, Any]:
    """The chain with another call of `a`, which is recorded, and another one of `c`, which is not."""
    other = _document()
    other["nodes"][0]["params"] = {"n": 5}
    other["nodes"][2]["params"] = {"of": "$output.b", "more": 7}
    return other


async def test_a_resume_whose_upgrade_does_not_fit_leaves_the_run_its_definition(store: Store) -> None:
    made, held, in_b = tools(), asyncio.Event(), asyncio.Event()

    async def stuck(name: str, params: Any) -> Any:
        if name == "b" and not held.is_set():
            in_b.set()
            await asyncio.Event().wait()
        return await made(name, params)

    app = App(store)
    running = asyncio.create_task(app.run(_document(), run_id="r", executor=stuck))
    await in_b.wait()
    running.cancel()
    await asyncio.wait({running})
    held.set()
    before = store.get_run("r")
    with pytest.raises(JournalConflict, match="run r: a: "):
        await app.resume("r", _conflicting(), upgrade=True, executor=stuck)
    after = store.get_run("r")
    assert before is not None
    assert after is not None
    assert (after.fingerprint, after.document) == (before.fingerprint, before.document)
    assert (await app.resume("r", executor=stuck)).results == {"a": 1, "b": 2, "c": 20}
    assert [call.tool for call in made.calls] == ["a", "b", "c"]


async def test_a_retry_whose_upgrade_does_not_fit_leaves_the_run_its_definition(store: Store) -> None:
    failing = ScriptedTools(a=lambda n: n, b=fails("no such b"))
    app = App(store)
    assert (await app.run(_document(), run_id="r", executor=failing)).status == "failed"
    before = store.get_run("r")
    with pytest.raises(JournalConflict, match="run r: a: "):
        await app.runs.retry("r", definition=_conflicting(), upgrade=True, executor=tools())
    after = store.get_run("r")
    assert before is not None
    assert after is not None
    assert after.fingerprint == before.fingerprint
    assert (await app.resume("r", executor=tools())).results == {"a": 1, "b": 2, "c": 20}


async def test_a_failed_upgrade_restores_the_decision_to_skip_a_node(store: Store) -> None:
    chain: dict[str, Any] = {"kind": "chain", "id": "c", "name": "c", "mode": "sequential", "nodes": [
        {"id": "a", "type": "TOOL", "tool": "a", "params": {"n": 1}},
        {"id": "b", "type": "TOOL", "tool": "b", "params": {"of": "$output.a"}, "condition": "$output.a == 5"},
        {"id": "c", "type": "TOOL", "tool": "c", "params": {"of": 2}},
    ]}  # fmt: skip
    other = {**chain, "nodes": [dict(node) for node in chain["nodes"]]}
    other["nodes"][0]["params"] = {"n": 5}
    made = ScriptedTools(a=lambda n: n, b=lambda of: of + 1, c=fails("no such c"))
    app = App(store)
    assert (await app.run(chain, run_id="r", executor=made)).status == "failed"
    kept = [(e.path, e.kind) for e in store.history("r") if e.kind in ("call", "skip")]
    assert ("b", "skip") in kept
    with pytest.raises(JournalConflict):
        await app.runs.retry("r", definition=other, upgrade=True, executor=tools())
    assert set(kept) <= {(e.path, e.kind) for e in store.history("r")}
    assert (await app.resume("r", executor=tools())).results == {"a": 1, "b": None, "c": 20}


async def test_a_failed_run_can_be_retried_under_a_mended_definition() -> None:
    made = ScriptedTools(a=1, b=fails("no such b"), better=3, c=lambda of: of)
    mended = _document()
    mended["nodes"][1]["tool"] = "better"
    app = App(MemoryStore(durable=True))
    assert (await app.run(_document(), run_id="r", executor=made)).status == "failed"
    with pytest.raises(DefinitionChanged, match="differs in b"):
        await app.runs.retry("r", definition=mended, executor=made)
    done = await app.runs.retry("r", definition=mended, upgrade=True, executor=made)
    assert (done.status, done.results) == ("completed", {"a": 1, "b": 3, "c": 3})
    assert [call.tool for call in made.calls] == ["a", "b", "better", "c"]


async def test_a_stored_chain_is_upgraded_to_its_newest_version(store: Store) -> None:
    made = ScriptedTools(a=1, b=fails("no such b"), better=3, c=lambda of: of)
    async with App(store) as app:
        await app.chains.create_chain(_document())
        await app.chains.execute_chain("c", {"executionId": "r"}, made)
        mended = _document()
        mended["nodes"][1]["tool"] = "better"
        await app.chains.create_chain(mended)
        assert (app.runs.get("r") or {})["version"] == 1
        assert (await app.runs.retry("r", upgrade=True, executor=made)).status == "completed"
        assert (app.runs.get("r") or {})["version"] == 2
        assert [one.version for one in store.list_versions("chain", "c")] == [2, 1]


def _document() -> dict[str, Any]:
    from ropewalk.source.load import load

    return dict(load(CHAIN, name="chain").data)
