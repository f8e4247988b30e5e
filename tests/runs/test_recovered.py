"""A handled failure is not a failure: what each strategy of each notation makes of a node, a run and its errors.

The same answer in steps, in live events, in events of the journal, on the command line's marks and in the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import flow
from ropewalk.app.app import App
from ropewalk.doors.cli.progress_counts import MARKS, RunCounts, changes
from ropewalk.doors.cli.runs import _STEP_MARKS, unseen_lines
from ropewalk.journal.protocol import Store
from ropewalk.testing import ScriptedModel, ScriptedTools, fails, wants
from tiers import on_each_store


def chain(**node: Any) -> Any:
    nodes = [{"id": "x", "type": "tool", "tool": "bad", **node}, {"id": "end", "type": "tool", "tool": "good"}]
    return {"kind": "chain", "name": "c", "nodes": nodes}


def composition(**node: Any) -> Any:
    return {"kind": "composition", "name": "c", "nodes": [{"id": "x", "type": "tool", "tool": "bad", **node}]}


def python(**options: Any) -> Any:
    made = flow("c")
    made.options(name="x", **options).call("bad")
    return made


def experience(folder: Path, policy: str) -> Path:
    (folder / "e").mkdir()
    (folder / "e" / "experience.yaml").write_text(
        "name: e\nversion: 0.1.0\nstate: {schema: {r: {type: object}}}\n"
        f"graph: {{nodes: [{{id: x, kind: call, tool: bad, on_error: {policy}}}], edges: []}}\n"
    )
    return folder / "e"


CASES: dict[str, tuple[Any, str, str]] = {
    # what: (definition, status of the node, status of the run)
    "chain fallback": (chain(errorStrategy="fallback", fallback="spare"), "recovered", "completed"),
    "chain fallback after retries": (
        {**chain(errorStrategy="retry", maxRetries=1, retryDelay=1, onError=["end"])},
        "recovered",
        "completed",
    ),
    "chain skip": (chain(errorStrategy="skip"), "recovered", "completed"),
    "chain onError": (chain(onError=["end"]), "recovered", "completed"),
    "chain continue": (chain(errorStrategy="continue"), "failed", "partial"),
    "chain stop": (chain(), "failed", "failed"),
    "chain bad fallback": (chain(errorStrategy="fallback", fallback="${1 / 0}"), "failed", "failed"),
    "composition fallback": (composition(onError="fallback", fallback=1), "recovered", "completed"),
    "composition continue": (composition(onError="continue"), "failed", "partial"),
    "composition stop": (composition(), "failed", "failed"),
    "python fallback": (python(fallback=1), "recovered", "completed"),
    "python reported fallback": (python(fallback=1, reported=True), "failed", "partial"),
    "python": (python(), "failed", "failed"),
    "experience skip": (lambda folder: experience(folder, "skip"), "failed", "partial"),
    "experience fail_run": (lambda folder: experience(folder, "fail_run"), "failed", "failed"),
}


@on_each_store("reliability", "what", CASES, 5)
async def test_what_a_failure_makes_of_its_node_and_its_run(store: Store, tmp_path: Path, what: str) -> None:
    document, node_status, run_status = CASES[what]
    document = document(tmp_path) if callable(document) else document
    tools = ScriptedTools(bad=fails("boom"), good=1)
    events: list[Any] = []
    app = App(store, tools=tools.tools())
    done = (await app.run(document, {}, run_id="r", on_event=events.append)).to_dict()
    assert done["status"] == run_status, done
    errors = done.get("errors") or ([done["error"]] if done.get("error") else [])
    assert bool(errors) == (node_status == "failed"), "a handled failure is not in errors"

    shown = app.runs.get("r")
    assert shown is not None
    last = [step for step in shown["nodes"] if step["node"] == "x"][-1]
    assert last["status"] == node_status
    assert "boom" in last["error"]["message"], "what it recovered from stays known"
    assert shown["errorCount"] == len(errors)
    assert _STEP_MARKS[node_status] != _STEP_MARKS["ok"]

    ends = ("node.finished", "node.recovered", "node.failed", "node.skipped")
    assert [event.kind for event in events if event.node == "x" and event.kind in ends] == [f"node.{node_status}"]
    recorded = [event["kind"] for event in shown["events"] if event["node"] == "x"]
    assert ("node.recovered" in recorded) == (node_status == "recovered")
    assert ("node.failed" in recorded) <= (node_status == "failed")
    tally = RunCounts()
    ended = [one for event in events if (one := tally.take(event)) is not None and one.path == "x"]
    assert [one.how for one in ended] == [node_status]
    assert MARKS[node_status] != MARKS["finished"]
    assert bool(tally.failures) == (node_status == "failed")


async def test_a_block_whose_fallback_took_over_recovered(store: Store) -> None:
    block = {"id": "b", "type": "parallel", "nodes": [{"id": "x", "type": "tool", "tool": "bad"}], "onError": ["end"]}
    document = {"kind": "chain", "name": "c", "nodes": [block, {"id": "end", "type": "tool", "tool": "good"}]}
    app = App(store, tools=ScriptedTools(bad=fails("boom"), good=1).tools())
    done = await app.run(document, run_id="r")
    assert (done.status, done.errors) == ("completed", [])
    steps = app.runs.get("r")["nodes"]  # type: ignore[index]
    assert {step["path"]: step["status"] for step in steps if step["path"] == "b"} == {"b": "recovered"}


async def test_a_tool_that_fails_an_agent_is_told_to_the_model(store: Store) -> None:
    app = App(store, tools=ScriptedTools(bad=fails("boom")).tools(), model=ScriptedModel(wants("bad"), "sorry"))
    done = await app.run({"kind": "agent", "name": "a", "prompt": "go", "tools": ["bad"]}, run_id="r")
    assert done.status == "completed"
    steps = app.runs.get("r")["nodes"]  # type: ignore[index]
    assert "failed" not in {step["status"] for step in steps}
    assert "recovered" in {step["status"] for step in steps}


async def test_a_resumed_run_says_the_same(store: Store) -> None:
    document = {
        "kind": "chain",
        "name": "c",
        "nodes": [
            {"id": "x", "type": "tool", "tool": "bad", "errorStrategy": "fallback", "fallback": "spare"},
            {"id": "ask", "type": "wait", "approval": "?"},
        ],
    }
    tools = ScriptedTools(bad=fails("boom"))
    app = App(store, tools=tools.tools())
    assert (await app.run(document, run_id="r", park=True)).status == "waiting"
    app.runs.approve("r")
    events: list[Any] = []
    done = await app.resume("r", on_event=events.append)
    assert (done.status, done.results["x"], tools.count("bad")) == ("completed", "spare", 1)
    kinds = [event.kind for event in events if event.node == "x"]
    assert "node.recovered" in kinds
    assert "node.failed" not in kinds
    assert _statuses(app) == ["recovered"]
    # What was recorded is not counted as executed, also not a failure.
    counts = RunCounts()
    for event in events:
        counts.take(event)
    assert changes(counts) == ["  executed  ✓ ask", "  reused    ↺ 1 step"]


_CALLS = [{"id": "a", "type": "tool", "tool": "good"}, {"id": "b", "type": "tool", "tool": "bad"}]
_STEPS = [{"name": "a", "tool": "good", "inputMapping": {}}, {"name": "b", "tool": "bad", "inputMapping": {}}]
_GRAPH = [{"id": "a", "kind": "call", "tool": "good", "writes": ["x"]}, {"id": "b", "kind": "call", "tool": "bad"}]


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ({"kind": "chain", "nodes": _CALLS}, {"a": 1}),
        ({"kind": "chain", "nodes": _CALLS, "result": "$output.a"}, None),
        ({"kind": "composition", "nodes": _CALLS}, None),
        ({"kind": "composite", "mode": "compose", "steps": _STEPS}, None),
        ({"kind": "experience", "version": "0.1.0", "state": {"schema": {"x": {"type": "number"}}},
          "graph": {"nodes": _GRAPH, "edges": [{"from": "a", "to": "b"}]}}, {"x": 1}),
        ({"kind": "plan", "code": "x = await good()\nreturn await bad()"}, None),
    ],
)  # fmt: skip
async def test_a_run_that_failed_has_a_result_only_where_it_is_a_record_of_parts(
    document: dict[str, Any], result: Any
) -> None:
    tools = ScriptedTools(bad=fails("boom"), good=1)
    done = await App("memory", tools=tools.tools()).run({**document, "name": "c"})
    assert (done.status, done.result) == ("failed", result)


def test_following_lines_misses_none_and_counts_what_is_left_out() -> None:
    def lines(*numbers: int, gap: tuple[int, int] = (0, 0)) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [{"path": "a", "number": number} for number in numbers]
        return [*rows, {"path": "a", "number": gap[0], "leftOut": gap[1]}] if gap[0] else rows

    seen: dict[str, int] = {}
    looks = [
        (lines(1, 3, 2), [1, 3, 2]),  # two threads that print at once
        (lines(1, 3, 2, 4), [4]),
        (lines(1, 2, 8, gap=(7, 5)), [8, (7, 3)]),  # of the five lines that are left out, two were there before
    ]
    for look, expected in looks:
        new = [
            (row["number"], row["leftOut"]) if "leftOut" in row else row["number"] for row in unseen_lines(look, seen)
        ]
        assert new == expected


async def test_a_run_of_an_earlier_version_stays_readable(store: Store) -> None:
    """Earlier versions recorded no `handled`: such a node is shown as failed, and the run goes on as before."""
    from dataclasses import replace

    document = chain(errorStrategy="fallback", fallback="spare")
    tools = ScriptedTools(bad=fails("boom"), good=1)
    app = App(store, tools=tools.tools())
    await app.run(document, run_id="r")
    log = await store.reopen("r", again=True)
    for entry in store.history("r"):
        if entry.kind == "attempt":
            await log.append(replace(entry, data={key: v for key, v in entry.data.items() if key != "handled"}))
    await log.release()
    assert _statuses(app) == ["failed"]
    done = await app.resume("r")
    assert (done.status, done.results["x"], tools.count("bad")) == ("completed", "spare", 1)


def _statuses(app: App) -> list[str]:
    shown: Any = app.runs.get("r")
    return [step["status"] for step in shown["nodes"] if step["node"] == "x"]


def _two(name: str, **more: Any) -> list[Any]:
    return [{"id": f"{name}{i}", "type": "tool", "tool": "good", **more} for i in range(2)]


BRANCHES: dict[str, Any] = {
    "chain": {"kind": "chain", "name": "c", "nodes": [
        {"id": "c", "type": "condition", "condition": "$input.n > 0", "then": _two("t"), "otherwise": _two("o")}]},
    "composition": {"kind": "composition", "name": "c", "nodes": [
        {"id": "c", "type": "conditional", "condition": "$input.n > 0",
         "then": _two("t", inputMapping={}), "otherwise": _two("o", inputMapping={})}]},
    "chain in a loop": {"kind": "chain", "name": "c", "nodes": [
        {"id": "each", "type": "loop", "items": "$input.list", "nodes": [
            {"id": "c", "type": "condition", "condition": "$item > 0", "then": _two("t"), "otherwise": _two("o")}]}]},
}  # fmt: skip


@on_each_store("reliability", "what", BRANCHES, 1)
async def test_a_branch_that_was_not_taken_is_skipped(store: Store, what: str) -> None:
    app = App(store, tools=ScriptedTools(good=1).tools())
    events: list[Any] = []
    done = await app.run(BRANCHES[what], {"n": 1, "list": [1, -1]}, run_id="r", on_event=events.append)
    assert done.status == "completed", done.to_dict()
    shown: Any = app.runs.get("r")
    skipped = {step["path"]: step["reason"] for step in shown["nodes"] if step["status"] == "skipped"}
    if what == "chain in a loop":
        assert len(skipped) == 4
        assert all(("[0]/" in path) == path.rpartition("/")[2].startswith("o") for path in skipped if "each[0]" in path)
    else:
        assert [path.rpartition("/")[2] for path in skipped] == ["o0", "o1"]
    assert set(skipped.values()) == {"branch not taken"}
    assert {event.path for event in events if event.kind == "node.skipped"} == set(skipped)
    assert {event["path"] for event in shown["events"] if event["kind"] == "node.skipped"} == set(skipped)
    assert "failed" not in {step["status"] for step in shown["nodes"]}
