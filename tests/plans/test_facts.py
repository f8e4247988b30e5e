"""Facts before acting: the preview of a flow in any notation says what the flow may do."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.config.settings import PlanSettings

pytestmark = pytest.mark.anyio


@tool(annotations={"readOnlyHint": True})
async def look(id: int) -> dict[str, Any]:
    """Look something up."""
    return {"id": id}


@tool
async def change(id: int) -> bool:
    """Change something."""
    return True


@tool(annotations={"destructiveHint": True})
async def drop(id: int) -> bool:
    """Drop something."""
    return True


CHAIN = {
    "kind": "chain",
    "name": "c",
    "nodes": [
        {"id": "a", "type": "tool", "tool": "look", "params": {"id": 1}, "errorStrategy": "retry", "maxRetries": 2},
        {"id": "ask", "type": "wait", "approval": "Go?"},
        {
            "id": "each",
            "type": "loop",
            "items": "$input.ids",
            "nodes": [{"id": "b", "type": "tool", "tool": "drop", "params": {"id": "$item"}}],
        },
    ],
}
FIXED = {**CHAIN["nodes"][2], "items": [1, 2, 3]}  # type: ignore[dict-item]
FLOWS: dict[str, tuple[Any, Any]] = {
    "plan": (
        {"kind": "plan", "name": "p", "code": "for i in [1, 2]:\n    await look(id=i)\n    await drop(id=i)"},
        ({"look": ("read", 2), "drop": ("destructive", 2)}, 4, 0, 0),
    ),
    "chain": (CHAIN, ({"look": ("read", 3), "drop": ("destructive", None)}, None, 1, 1)),
    "chain with fixed items": (
        {"kind": "chain", "name": "c", "nodes": [FIXED]},
        ({"drop": ("destructive", 3)}, 3, 0, 0),
    ),
    "composition": (
        {
            "kind": "composition",
            "name": "c",
            "nodes": [
                {"id": "a", "type": "tool", "tool": "look", "inputMapping": {"id": 1}},
                {"id": "b", "type": "tool", "tool": "change", "inputMapping": {"id": 2}},
            ],
        },
        ({"look": ("read", 1), "change": ("write", 1)}, 2, 0, 0),
    ),
    "composite": (
        {
            "kind": "composite",
            "name": "c",
            "mode": "compose",
            "steps": [{"name": "a", "tool": "look", "inputMapping": {"id": 1}}],
        },
        ({"look": ("read", 1)}, 1, 0, 0),
    ),
    "agent": (
        {"kind": "agent", "name": "a", "prompt": "go", "tools": ["drop"]},
        ({"ropewalk:model": ("read", None), "drop": ("destructive", None)}, None, 1, 0),
    ),
}


@pytest.mark.parametrize("name", FLOWS)
async def test_the_preview_has_the_facts_of_every_notation(name: str) -> None:
    document, (tools, most, loops, waits) = FLOWS[name]
    async with App("memory", tools=[look, change, drop]) as app:
        preview = await app.preview(document)
    facts: Any = preview.to_dict()["facts"]
    found = {row["tool"]: (row["effect"], row["calls"]) for row in facts["tools"]}
    assert found.keys() == tools.keys()
    for tool_id, (effect, calls) in tools.items():
        assert found[tool_id][0] == effect
        if name != "agent":
            assert found[tool_id][1] == calls
    if name != "agent":
        assert facts["maxCalls"] == most
        assert len(facts["loops"]) == loops
    assert len(facts["waits"]) == waits
    assert "Calls: " in preview.text()


async def test_inner_flows_count_and_pass_their_effect_on() -> None:
    async with App("memory", tools=[look, change, drop]) as app:
        app.toolbox.register(app.as_tool({"kind": "chain", "name": "inner", "nodes": [FIXED]}))
        preview = await app.preview({"kind": "plan", "name": "p", "code": "await inner()\nawait inner()"})
    facts: Any = preview.to_dict()["facts"]
    assert {row["tool"]: (row["effect"], row["calls"]) for row in facts["tools"]} == {
        "inner": ("destructive", 2),
        "drop": ("destructive", 6),
    }
    assert facts["maxCalls"] == 8


async def test_programs_that_call_saved_plans_count_their_calls() -> None:
    inner = "id: int\nfor n in range(3):\n    await look(id=n)\nif id:\n    await drop(id=id)"
    async with App("memory", tools=[look, change, drop]) as app:
        await app.plans.save_plan("mark", inner, "Mark.")
        answer: Any = await app.plans.check_plan("await plans.mark(id=1)\nawait plans.mark(id=2)\nawait change(id=1)")
    facts = answer["facts"]
    assert {row["tool"]: (row["effect"], row["calls"]) for row in facts["tools"]} == {
        "plans:mark": ("destructive", 2),
        "look": ("read", 6),
        "drop": ("destructive", 2),
        "change": ("write", 1),
    }
    assert (facts["maxCalls"], facts["effect"], facts["loops"]) == (11, "destructive", [])


async def test_the_preview_lists_the_calls_and_waits_of_a_program_by_line() -> None:
    code = "a = await look(id=1)\nif await approve('Go?'):\n    await asyncio.sleep(2)\n    await drop(id=2)"
    async with App("memory", tools=[look, change, drop]) as app:
        preview = await app.preview({"kind": "plan", "name": "p", "code": code})
    rows: Any = preview.to_dict()["nodes"]
    assert [(row["path"], row["kind"], row["at"], row.get("takes")) for row in rows] == [
        ("program", "program", "", None),
        ("program/1:11", "call", "code:1:11", ["id: integer"]),
        ("program/2:10", "wait", "code:2:10", None),
        ("program/3:11", "sleep", "code:3:11", None),
        ("program/4:11", "call", "code:4:11", ["id: integer"]),
    ]
    assert "4:11  Call drop" in preview.text()
    assert "line 2  approval Go?" in preview.text()


async def test_secrets_and_configured_effects_are_named() -> None:
    chain = {
        "kind": "chain",
        "name": "c",
        "nodes": [{"id": "a", "type": "tool", "tool": "say", "params": {"text": "$secret.API_KEY"}}],
    }

    @tool
    async def say(text: str) -> bool:
        """Say something."""
        return True

    async with App("memory", tools=[say], secrets=["API_KEY"]) as app:
        app.context.plans = PlanSettings(effects={"s*": "destructive"})
        facts: Any = (await app.preview(chain)).to_dict()["facts"]
    assert facts["secrets"] == ["API_KEY"]
    assert facts["effect"] == "destructive"
