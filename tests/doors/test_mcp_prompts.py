"""Flows as prompts, seen by the official client in both eras; the server runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_project import ERAS

from ropewalk import App, plan
from ropewalk.config.project import read_config
from ropewalk.doors.cli.serve import _make_door
from ropewalk.notations.registry import NOTATIONS

REVIEW = """\
kind: composite
name: review
description: Asks for a review.
mcpPrompt: true
inputSchema:
  type: object
  properties:
    language: {enum: [python, perl, rust], description: Of the code.}
    lines: {type: integer}
    strict: {type: boolean}
  required: [language]
outputSchema: {}
mode: compose
steps: [{name: words, tool: words, inputMapping: {input: $input}}]
"""
TOOLS = '''
from ropewalk import tool
from ropewalk.content import content

@tool
def words(input: dict) -> object:
    """Words a request."""
    language, lines = input["language"], input.get("lines")
    if language == "perl":
        raise RuntimeError("nobody reads perl")
    if language == "rust":
        return {"description": "Two turns.", "messages": [
            {"role": "user", "content": "Read this."},
            {"role": "assistant", "content": content(b"png", "image/png")},
        ]}
    return f"Review {lines!r} lines, strict: {input.get('strict')}."
'''


@asynccontextmanager
async def serving(home: Path, config: str = "", era: str = "legacy", **client: Any) -> AsyncIterator[Client]:
    """A client of the MCP server of a project, without a process in between."""
    (home / "ropewalk.toml").write_text(f'[tools]\nmodules = ["prompt_tools"]\n[mcp_server]\n{config}\n')
    (home / "prompt_tools.py").write_text(TOOLS)
    async with App.open(home) as app:
        door = _make_door(app, read_config(home), (), lambda: None)
        async with door.open(), Client(door.server, mode=era, **client) as mcp:  # type: ignore[arg-type]
            yield mcp


@pytest.mark.parametrize("era", ERAS)
def test_a_flow_is_a_prompt_whose_result_is_the_messages(tmp_path: Path, era: str) -> None:
    (tmp_path / "review.yaml").write_text(REVIEW)

    async def case() -> None:
        async with serving(tmp_path, era=era) as mcp:
            [prompt] = (await mcp.list_prompts()).prompts
            assert (prompt.name, prompt.description) == ("review", "Asks for a review.")
            assert [(item.name, item.description, item.required) for item in prompt.arguments or ()] == [
                ("language", "Of the code.", True),
                ("lines", None, False),
                ("strict", None, False),
            ]

            text = await mcp.get_prompt("review", {"language": "python", "lines": "7", "strict": "true"})
            assert [(item.role, item.content.text) for item in text.messages] == [  # type: ignore[union-attr]
                ("user", "Review 7 lines, strict: True.")
            ]
            turns = await mcp.get_prompt("review", {"language": "rust"})
            assert turns.description == "Two turns."
            assert [(item.role, item.content.type) for item in turns.messages] == [
                ("user", "text"),
                ("assistant", "image"),
            ]

            ref = types.PromptReference(type="ref/prompt", name="review")
            assert (await mcp.complete(ref, {"name": "language", "value": "P"})).completion.values == ["python", "perl"]
            assert (await mcp.complete(ref, {"name": "strict", "value": ""})).completion.values == ["true", "false"]
            assert (await mcp.complete(ref, {"name": "lines", "value": "1"})).completion.values == []

            for arguments, why in (
                ({}, "missing argument: language"),
                ({"language": "python", "line": "7"}, "did you mean 'lines'"),
                ({"language": "python", "lines": "many"}, "lines"),
                ({"language": "perl"}, "nobody reads perl"),
            ):
                with pytest.raises(MCPError, match=why):
                    await mcp.get_prompt("review", arguments)
            with pytest.raises(MCPError, match="Unknown prompt: revue"):
                await mcp.get_prompt("revue", {})

    asyncio.run(case())


def test_a_prompt_that_waits_asks_the_user_and_a_new_one_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.doors.mcp.server._LOOK", 0.05)
    (tmp_path / "ask.yaml").write_text(
        "kind: chain\nname: ask\nnodes: [{id: ok, type: wait, approval: Really?},"
        " {id: text, type: transform, input: 'approved ${output.ok.approved}'}]\n"
    )

    async def elicit(_: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"confirm": params.message.startswith("Really?")})

    async def case() -> None:
        announced = asyncio.Event()

        async def hear(message: Any) -> None:
            if isinstance(message, types.PromptListChangedNotification):
                announced.set()

        listening: dict[str, Any] = {"elicitation_callback": elicit, "message_handler": hear}
        async with serving(tmp_path, 'prompts = ["ask"]', **listening) as mcp:
            assert [item.name for item in (await mcp.list_prompts()).prompts] == ["ask"]
            [message] = (await mcp.get_prompt("ask", {})).messages
            assert "approved true" in message.content.text.lower()  # type: ignore[union-attr]

            (tmp_path / "review.yaml").write_text(REVIEW)
            await announced.wait()
            assert {item.name for item in (await mcp.list_prompts()).prompts} == {"ask", "review"}

    asyncio.run(case())


GRAPH = {"nodes": [{"id": "a", "kind": "value", "value": 1}], "edges": []}


@plan(mcp_prompt=True)
async def marked(text: str) -> str:
    return text


def test_every_notation_and_python_can_mark_a_prompt() -> None:
    step = {"id": "a", "type": "delay", "delay": 1}
    documents: dict[str, dict[str, Any]] = {
        "agent": {"name": "x", "prompt": "hello"},
        "chain": {"nodes": [step]},
        "composite": {"name": "x", "steps": [{"name": "s", "tool": "t", "inputMapping": {}}]},
        "composition": {"nodes": [{"id": "a", "type": "tool", "tool": "t"}]},
        "experience": {"name": "x", "version": "0.1.0", "state": {"schema": {}}, "graph": GRAPH},
        "plan": {"code": "1"},
        "runchain": {"steps": [{"toolId": "t", "args": {}}]},
    }
    assert set(documents) == set(NOTATIONS) - {"flow"}
    for kind, document in documents.items():
        compiled = NOTATIONS[kind].compile({"kind": kind, "mcp_prompt": True, **document})
        assert compiled.document["mcpPrompt"] is True, kind
    assert App("memory").load(marked).document["mcpPrompt"] is True
