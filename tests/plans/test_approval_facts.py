"""Facts in the view of an approval: whoever decides sees what the flow may do, in each notation and interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ropewalk import App, flow, tool
from ropewalk.app.facts import approval_text
from ropewalk.check.facts import tool_text
from ropewalk.testing import ScriptedModel, wants

pytestmark = pytest.mark.anyio


@tool
async def cancel(id: int) -> bool:
    """Cancel an order."""
    return True


@tool(undo=cancel)
async def order(id: int) -> dict[str, int]:
    """Order something."""
    return {"id": id}


@tool(annotations={"destructiveHint": True})
async def drop(id: int) -> bool:
    """Drop something."""
    return True


ASKS: dict[str, Any] = {
    "kind": "chain",
    "name": "asks",
    "nodes": [
        {"id": "ask", "type": "wait", "approval": "Go?"},
        {"id": "each", "type": "loop", "items": "$input.ids", "nodes": [
            {"id": "one", "type": "tool", "tool": "order", "params": {"id": "$item"}},
        ]},
        {"id": "drop", "type": "tool", "tool": "drop", "params": {"id": 1}},
    ],
}  # fmt: skip
EXPERIENCE: dict[str, Any] = {
    "name": "exp",
    "version": "0.1.0",
    "state": {"schema": {}},
    "graph": {
        "nodes": [
            {"id": "ask", "kind": "wait", "approval": "Go?"},
            {"id": "one", "kind": "call", "tool": "order", "args": {"id": 1}},
            {"id": "two", "kind": "call", "tool": "drop", "args": {"id": 1}},
        ],
        "edges": [{"from": "ask", "to": "one"}, {"from": "one", "to": "two"}],
    },
}
PLAN = "await order(id=1)\nawait approve('Go?')\nfor i in ids:\n    await drop(id=i)"
ORDER, DROP = ("write", "cancel"), ("destructive", None)


def experience(folder: Path) -> Path:
    (folder / "experience.yaml").write_text(yaml.safe_dump(EXPERIENCE))
    return folder


def built(_: Path) -> Any:
    with flow("built") as f:
        f.approval("Go?")
        f.call(order, id=1)
        f.call(drop, id=1)
    return f.done()


FLOWS: dict[str, tuple[Any, set[str], int | None]] = {
    "chain": (ASKS, {"order", "drop"}, None),
    "composition": (
        {"kind": "composition", "name": "c", "nodes": [{"id": "a", "type": "tool", "tool": "asks"}]},
        {"asks", "order", "drop"},
        None,
    ),
    "composite": (
        {"kind": "composite", "name": "c", "steps": [{"tool": "asks", "inputMapping": {"ids": [1]}}]},
        {"asks", "order", "drop"},
        None,
    ),
    "experience": (experience, {"order", "drop"}, 2),
    "agent": (
        {"kind": "agent", "name": "a", "prompt": "go", "tools": ["order", "drop"], "approve": ["drop"], "max_calls": 2,
         "max_rounds": 2},
        {"order", "drop", "ropewalk:model"},
        70,
    ),
    "plan": ({"kind": "plan", "code": PLAN, "inputs": ["ids"]}, {"order", "drop"}, None),
    "builder": (built, {"order", "drop"}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOWS)
async def test_whoever_decides_sees_what_the_flow_may_do(name: str, tmp_path: Path) -> None:
    definition, tools, most = FLOWS[name]
    model = ScriptedModel(wants("drop", {"id": 1}), "done")
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[cancel, order, drop], model=model) as app:
        app.toolbox.register(app.as_tool(ASKS))
        source = definition(tmp_path) if callable(definition) else definition
        outcome = await app.run(source, {"ids": [1]}, run_id="r", park=True)
        assert outcome.status == "waiting", outcome
        shown: Any = app.runs.get("r")
    facts = shown["facts"][-1]  # of the run itself; a flow that it called and that asks comes before
    assert len(shown["facts"]) == (2 if "asks" in tools else 1)
    rows = {row["tool"]: (row["effect"], row["undo"]) for row in facts["tools"]}
    assert rows.keys() == tools
    assert rows["order"] == ORDER
    assert rows["drop"] == DROP
    assert facts["maxCalls"] == most
    text = approval_text(shown["facts"])
    assert f"Facts about {facts['flow']} ({facts['kind']}):" in text
    assert "write, undo with cancel, " in text
    assert "destructive, no undo, " in text


async def test_a_run_that_waits_for_an_event_shows_no_facts(tmp_path: Path) -> None:
    chain = {"kind": "chain", "name": "c", "nodes": [{"id": "w", "type": "wait", "event": "paid"}]}
    async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
        await app.run(chain, run_id="r", park=True)
        assert app.runs.facts("r") == []


async def test_a_program_that_waits_answers_with_its_facts(tmp_path: Path) -> None:
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[cancel, order, drop]) as app:
        answer: Any = await app.plans.run_plan(PLAN, {"ids": [1]})
    assert answer["status"] == "waiting"
    [facts] = answer["facts"]
    assert {row["tool"]: row["undo"] for row in facts["tools"]} == {"order": "cancel", "drop": None}


@pytest.mark.parametrize(
    ("known", "undo", "text"),
    [
        (True, "cancel", "write, undo with cancel"),
        (True, None, "write, no undo"),
        (False, "cancel", "write, not known here, undo with cancel"),  # the tool is not known; its undo is
        (False, None, "write, not known here"),
    ],
)
def test_the_words_about_a_tool_say_what_is_not_known(known: bool, undo: str | None, text: str) -> None:
    assert tool_text({"effect": "write", "undo": undo, "isFlow": False, "known": known}) == text
