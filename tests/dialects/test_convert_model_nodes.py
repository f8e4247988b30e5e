"""Experiences with agents, skills, programs and shared state become documents that load, and each loss has a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk import App

DOCUMENT = """\
name: review
version: 0.1.0
state:
  schema:
    diff: {type: string}
    risk: {type: number}
    out: {type: any}
graph:
  nodes:
    - {id: look, kind: agent, prompt: "Look at {{diff}}", model: m, for_each: {source: [bugs, style]}}
    - id: judge
      kind: agent
      prompt: Rate it
      schema: {type: object, properties: {risk: {type: number}}}
      writes: [risk]
    - {id: ask, kind: agent, prompt: Send it, tools: [mail]}
    - {id: fix, kind: cli-agent, provider: claude-code, prompt: "Fix {{diff}}", writes: [out]}
    - {id: learn, kind: skill, impl: learn, inputs: {a: 1}}
    - {id: sub, kind: experience, impl: sub, state_scope: shared, writes: [diff]}
    - {id: rows, kind: dataset, source: {type: file, uri: rows.json}, writes: [out]}
"""
SUB = """\
name: sub
version: 0.1.0
state: {schema: {diff: {type: string}}}
graph: {nodes: [{id: a, kind: value, value: x, writes: [diff]}]}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, text in {
        "experience.yaml": DOCUMENT,
        "learn/SKILL.md": "Learn it",
        "sub/experience.yaml": SUB,
        "rows.json": "[]",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("to", ["chain", "composition", "composite", "runchain", "flow"])
def test_they_convert_with_losses(directory: Path, to: str) -> None:
    app = App("memory")
    made = app.convert(directory, to, allow_loss=True)
    told = [str(loss) for loss in made.losses]
    for tool in ("cli-agent:claude-code", "experience:sub", "dataset:"):
        assert any(f"calls '{tool}', which exists only in the directory of an experience" in line for line in told), (
            tool
        )
    app.load(dict(made))


def test_an_agent_without_tools_becomes_an_agent_again(directory: Path) -> None:
    """Without the nodes that need the directory."""
    lines = [line for line in DOCUMENT.splitlines() if not any(word in line for word in ("fix,", "sub,", "rows,"))]
    (directory / "experience.yaml").write_text("\n".join(lines) + "\n")
    app = App("memory")
    flow = app.convert(directory, "flow")
    back = app.convert(dict(flow), "experience", allow_loss=True)
    kinds = {node["id"]: node["kind"] for node in back["graph"]["nodes"]}
    assert kinds["ask"] == "agent"
    app.load(dict(back))
