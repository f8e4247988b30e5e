"""A definition from a client calls only tools that a search offers, however its document names the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.codec import flow_to_json
from ropewalk.testing import ScriptedModel

from .test_http_tools import asking

STORE = "ropewalk:store_plan"
ARGS = {"name": "sneaked", "code": "return 1", "description": "d"}
CODE = "return await x(name='sneaked', code='return 1', description='d')"
CALL = {"id": "a", "type": "tool", "tool": STORE, "params": ARGS}


@tool
async def save(name: str) -> str:
    """Save something."""
    return name


def hidden_in_a_flow() -> dict[str, Any]:
    """Return the JSON of a flow that names the tool below a field that usually holds data."""
    app = App("memory", tools=[save])
    flow = app.load({"kind": "chain", "nodes": [{**CALL, "tool": "save", "params": {"name": "x"}}]}).flow
    document: dict[str, Any] = {"kind": "flow", **flow_to_json(flow)}
    for region in document["regions"]:
        for node in region["nodes"]:
            if node["op"].get("tool") == "save":
                node["op"]["tool"] = STORE
    return document


DOCUMENTS: list[Any] = [
    {"kind": "plan", "code": CODE, "tools": {"x": {"id": STORE, "parameters": list(ARGS)}}},
    {"kind": "plan", "code": CODE, "tools": {"x": {"id": STORE}}},
    {"kind": "plan", "code": "return 1", "tools": {"unused": {"id": "ropewalk:model"}}},
    {"kind": "plan", "code": "return await x()", "tools": {"x": {"id": "impl:secret.py"}}},
    f"kind: plan\ncode: return await x(name='a')\ntools: {{x: {{id: '{STORE}'}}}}\n",
    {"kind": "agent", "name": "a", "prompt": "go", "tools": [STORE]},
    {"kind": "agent", "name": "a", "prompt": "go", "tools": ["ropewalk:model"]},
    {"kind": "agent", "name": "a", "prompt": "go", "plans": True, "tools": [STORE]},
    {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "save", "params": {"name": "x"}, "undo": STORE}]},
    {
        "kind": "chain",
        "nodes": [{"id": "l", "type": "loop", "items": [1], "nodes": [CALL]}],
    },
    hidden_in_a_flow(),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_no_document_calls_what_a_search_does_not_offer(tmp_path: Path, document: Any) -> None:
    # A store in a file, because one in memory holds the request of a run that waits.
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[save], model=ScriptedModel("never said"))
    sent = [("POST", path, {"document": document}) for path in ("/api/runs", "/api/preview", "/api/definitions/chain")]
    # The tool exists in this process after somebody asked for a plan to be saved.
    asked, *answers, valid, plans = asking(
        app,
        ("POST", "/api/plans/save", ARGS),
        *sent,
        ("POST", "/api/validate", {"document": document}),
        ("POST", "/api/plans/find", {"request": "save"}),
    )
    assert asked.json()["status"] == "waiting"
    for answer in answers:
        assert answer.status_code == 422, answer.text
        assert "a part of agents" in answer.text, answer.text
    assert valid.json()["valid"] is False, valid.text
    assert [item["name"] for item in plans.json()["tools"]] == ["save"]


def test_a_saved_plan_and_the_language_stay_available() -> None:
    app = App("memory", tools=[save])
    code = "return [len(uuid()), await save(name='a'), await call_tool('save', {'name': 'b'})]"
    plan, agent = asking(
        app,
        ("POST", "/api/runs", {"document": {"kind": "plan", "code": code}, "wait": 5}),
        ("POST", "/api/validate", {"document": {"kind": "agent", "name": "a", "prompt": "go", "plans": True}}),
    )
    assert plan.json()["result"] == [36, "a", "b"], plan.text
    assert agent.json()["valid"] is True, agent.text


@pytest.mark.parametrize("name", [STORE, "store_plan", "ropewalk:model", "ropewalk.store_plan"])
def test_a_program_does_not_reach_internal_tools_by_name(tmp_path: Path, name: str) -> None:
    app = App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[save])
    code = f"return await call_tool({name!r}, {ARGS!r})"
    _, answer = asking(app, ("POST", "/api/plans/save", ARGS), ("POST", "/api/plans/run", {"code": code}))
    assert answer.json()["status"] == "invalid", answer.text
