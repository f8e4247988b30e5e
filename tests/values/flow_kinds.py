"""One small definition of every kind, the value it gives, and the app whose tools and model they use.

Every kind asks `search` for `topic`, but for the agent, which answers, and gives `value`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from ropewalk import App, flow, tool
from ropewalk.agents.model import Request
from ropewalk.testing import ScriptedModel


class Hit(TypedDict):
    snippet: str


@tool
async def search(query: str) -> Hit:
    """Search."""
    return {"snippet": query}


@tool
async def ping() -> Hit:
    """Give what a search for the input gives."""
    return {"snippet": "rope"}


INPUT = {"topic": "rope"}
HIT = {"snippet": "rope"}
TAKES = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
HIT_SCHEMA = {
    "type": "object",
    "properties": {"snippet": {"type": "string"}},
    "required": ["snippet"],
    "additionalProperties": False,
}
EXPERIENCE = """\
name: k
version: 0.1.0
state: {schema: {found: {type: object}}}
graph:
  nodes: [{id: s, kind: call, tool: search, args: {query: $input.topic}, writes: [found]}]
  edges: []
"""
DOCUMENTS: dict[str, dict[str, Any]] = {
    "chain": {
        "kind": "chain",
        "name": "k",
        "inputSchema": TAKES,
        "nodes": [{"id": "s", "type": "tool", "tool": "search", "params": {"query": "$input.topic"}}],
    },
    "chain in loop mode": {
        "kind": "chain",
        "name": "k",
        "mode": "loop",
        "maxIterations": 2,
        "nodes": [{"id": "s", "type": "tool", "tool": "search", "params": {"query": "$input.topic"}}],
    },
    "composition": {
        "kind": "composition",
        "name": "k",
        "nodes": [{"id": "s", "type": "tool", "tool": "search", "inputMapping": {"query": "$input.topic"}}],
    },
    "composite": {
        "kind": "composite",
        "name": "k",
        "mode": "compose",
        "inputSchema": TAKES,
        "steps": [{"name": "s", "tool": "search", "inputMapping": {"query": "$input.topic"}}],
    },
    "runchain": {"kind": "runchain", "name": "k", "steps": [{"toolId": "search", "args": {"query": "rope"}}]},
    "plan": {"kind": "plan", "name": "k", "input": TAKES, "code": "return await search(query=topic)"},
    "agent": {"kind": "agent", "name": "k", "prompt": "Tell me of ${$input.topic}."},
}
VALUES: dict[str, Any] = {
    "chain": {"s": HIT},
    "chain in loop mode": {"s": HIT},
    "composition": HIT,
    "composite": HIT,
    "runchain": HIT,
    "plan": HIT,
    "agent": "hello",
    "experience": {"found": HIT},
    "python": HIT,
}
SCHEMAS: dict[str, Any] = {
    "chain": {"type": "object", "properties": {"s": HIT_SCHEMA}, "required": ["s"]},
    "chain in loop mode": {"type": "object", "properties": {"s": HIT_SCHEMA}, "required": ["s"]},
    "composition": HIT_SCHEMA,
    "composite": HIT_SCHEMA,
    "runchain": HIT_SCHEMA,
    "plan": HIT_SCHEMA,
    "agent": {"type": "string"},
    "experience": {"type": "object", "properties": {"found": HIT_SCHEMA}, "required": ["found"]},
    "python": HIT_SCHEMA,
}
KINDS = tuple(VALUES)


def source(kind: str, folder: Path) -> Any:
    """The definition of a kind, as `app.run` and `app.as_tool` take it; `folder` is for an experience."""
    if kind == "experience":
        (folder / "k").mkdir(parents=True, exist_ok=True)
        (folder / "k" / "experience.yaml").write_text(EXPERIENCE)
        return folder / "k"
    if kind == "python":
        made = flow("k", topic=str)
        made.result(made.call(search, query=made.input.topic))
        return made
    return DOCUMENTS[kind]


def answer(request: Request) -> Any:
    """Calls the first tool that there is, once; says hello where there is none."""
    if not request.tools:
        return "hello"
    if len(request.messages) > 1:
        return "called"
    return {"type": "tool_use", "name": request.tools[0]["name"], "input": INPUT}


def app(address: str = "memory", **more: Any) -> App:
    """An app that has what the definitions need."""
    return App(address, tools=[search, ping], model=ScriptedModel(answer), **more)
