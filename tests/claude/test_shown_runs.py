"""`runs show` and `runs approve` of agents: turns, calls, tokens and why it ended, not the nodes of the loop."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import tool
from ropewalk.app.app import App
from ropewalk.testing import ScriptedModel, wants

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
AGENT: dict[str, Any] = {
    "kind": "agent",
    "name": "keeper",
    "prompt": "How much hemp?",
    "tools": ["stock", "order"],
    "approve": ["order"],
    "max_rounds": 2,
}
EXPERIENCE = """\
name: shop
version: 0.1.0
state: {schema: {answer: {type: string}}}
graph:
  nodes: [{id: ask, kind: agent, prompt: How much?, tools: [stock], writes: [answer]}]
  edges: []
"""
HEMP = wants("stock", {"material": "hemp"})
PAID = "10 tokens in, 5 out · $0.0020"


@tool
async def stock(material: str) -> dict[str, Any]:
    """How much of a material there is."""
    if material == "gold":
        raise KeyError("no such material")
    return {"meters": 120}


@tool
async def order(material: str) -> str:
    """Order some."""
    return f"ordered {material}"


def shown(where: Path, document: Any, *answers: Any) -> list[str]:
    """What `runs show` says of a run; times, stacks and places in these tests left out."""

    async def body() -> None:
        model = ScriptedModel(*answers, cost=0.002)
        async with App(f"sqlite:///{where / 'runs.db'}", tools=[stock, order], model=model) as app:
            await app.run(document, run_id="r", park=True)

    asyncio.run(body())
    done = fork_server.run(
        [COMMAND, "runs", "show", "r", "--store", f"sqlite:///{where / 'runs.db'}"],
        cwd=where, env=os.environ, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    steps = done.stdout.partition("\n\n")[2]
    steps = re.sub(r" \(tests/claude/\w+\.py:\d+ in \w+\)", "", re.sub(r"  [\d.]+ m?s  ", "  TIME  ", steps))
    steps = re.sub(r"(?m)^stack of .*\n(?:  .*(?:\n|$))*", "", steps)
    return [line for line in steps.splitlines() if line]


def test_an_agent_that_ended(tmp_path: Path) -> None:
    calls = [HEMP, wants("stock", {"material": "gold"}), wants("nosuch")]
    assert shown(tmp_path, AGENT, calls, "There are 120 m.\nEnough.") == [
        f"✓ agent turn 1  TIME  calls stock, stock, nosuch · {PAID}",
        '✓ agent turn 1 calls stock {"material":"hemp"}  TIME  {"meters":120}',
        '~ agent turn 1 calls stock {"material":"gold"}  TIME  KeyError: \'no such material\'',
        "✗ agent turn 1 calls nosuch {}  TIME  there is no tool 'nosuch' here, and nothing was called; the tools are: "
        "stock, order",
        f"✓ agent turn 2  TIME  There are 120 m. … · {PAID}",
        "✓ agent  TIME  2 turns, 2 calls · 20 tokens in, 10 out · $0.0040 · the model had finished",
        "result: There are 120 m.",
        "Enough.",
    ]


def test_one_that_came_to_a_limit(tmp_path: Path) -> None:
    why = "max_rounds: the conversation reached max_rounds before the model had finished"
    assert shown(tmp_path, AGENT, [HEMP], [wants("stock", {"material": "jute"})])[-4:] == [
        f"✓ agent turn 2  TIME  ends: max_rounds · {PAID}",
        f"✓ agent  TIME  2 turns, 1 call · 20 tokens in, 10 out · $0.0040 · {why}",
        f"error: {why}",
        f"correct the cause, then start over: ropewalk runs retry r --from agent --store sqlite:///{tmp_path}/runs.db",
    ]


def test_one_whose_model_cannot_be_asked(tmp_path: Path) -> None:
    assert shown(tmp_path, AGENT, RuntimeError("no network")) == [
        "✗ agent turn 1  TIME  no network",
        "✗ agent turn 1, attempt 2  TIME  no network",
        "✗ agent turn 1, attempt 3  TIME  no network",
        "error: agent turn 1: no network",
        f"to retry what failed: ropewalk runs retry r --store sqlite:///{tmp_path}/runs.db",
    ]


def test_one_that_waits_for_an_approval(tmp_path: Path) -> None:
    said = shown(tmp_path, AGENT, [HEMP, wants("order", {"material": "hemp"})])
    assert [line for line in said if "order" in line] == [
        '  agent turn 1 waits for an approval: Call order with {"material":"hemp"}?',
        f"    ropewalk runs approve r approval.order --store sqlite:///{tmp_path / 'runs.db'}",
        "    order  write, not known here, unbounded",
        "    approval.order  approval before each call of order, with its arguments",
        f"✓ agent turn 1  TIME  calls stock, order · {PAID}",
        '· agent turn 1  waits for an approval: Call order with {"material":"hemp"}?',
    ]


def test_a_node_that_is_an_agent(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "experience.yaml").write_text(EXPERIENCE)
    said = shown(tmp_path, str(tmp_path / "shop"), [HEMP], "120 m")
    assert said[:4] == [
        f"✓ ask turn 1  TIME  calls stock · {PAID}",
        '✓ ask turn 1 calls stock {"material":"hemp"}  TIME  {"meters":120}',
        f"✓ ask turn 2  TIME  120 m · {PAID}",
        "✓ ask  TIME  2 turns, 1 call · 20 tokens in, 10 out · $0.0040 · the model had finished",
    ]


def test_nodes_of_other_flows_that_are_called_alike_are_told_as_they_are(tmp_path: Path) -> None:
    inner = [{"id": name, "type": "tool", "tool": "stock", "params": {"material": "x"}} for name in ("turn", "calls")]
    chain = {"kind": "chain", "nodes": [{"id": "agent", "type": "loop", "maxIterations": 1, "nodes": inner}]}
    assert [line.split()[1] for line in shown(tmp_path, chain, "never asked")[:2]] == [
        "agent[0]/turn",
        "agent[0]/calls",
    ]


@pytest.mark.parametrize(("path", "name"), [
    ("agent[1]/calls[0]/use[1]/approval.order", "agent turn 2"),
    ("each[3]/ask[0]/ask.calls[0]/ask.use[1]/ask.approval.order", "ask turn 1"),
    ("ask[0]/approval.order", None),
    ("approval", None),
])  # fmt: skip
def test_who_asks_for_an_approval(path: str, name: str | None) -> None:
    from ropewalk.doors.cli.signals import asker

    assert asker(path) == name
