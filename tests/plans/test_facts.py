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
