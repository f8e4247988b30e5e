"""A run read page by page has the same steps as one that is read at once."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool
from ropewalk.doors.cli.dispatch import dispatch

CHAIN = {
    "kind": "chain",
    "name": "pages",
    "mode": "dag",
    "errorStrategy": "continue",
    "nodes": [
        {"id": "a", "type": "tool", "tool": "work", "params": {"n": 1}},
        {
            "id": "each",
            "type": "loop",
            "items": [0, 1, 2, 3, 4, 5],
            "nodes": [
                {
                    "id": "one",
                    "type": "tool",
                    "tool": "work",
                    "params": {"n": "$item"},
                    "maxRetries": 1,
                    "retryDelay": 0,
                    "errorStrategy": "continue",
                },
                {
                    "id": "which",
                    "type": "condition",
                    "condition": "$item > 3",
                    "then": [{"id": "big", "type": "tool", "tool": "work", "params": {"n": 7}}],
                    "otherwise": [{"id": "small", "type": "tool", "tool": "work", "params": {"n": 9}}],
                },
            ],
        },
        {"id": "pause", "type": "delay", "delay": 1, "dependsOn": ["a"]},
        {"id": "never", "type": "tool", "tool": "work", "params": {"n": 1}, "condition": "false"},
        {"id": "last", "type": "tool", "tool": "work", "params": {"n": 4}, "dependsOn": ["each", "pause"]},
    ],
}


@tool
def work(n: int) -> int:
    """Work, but for multiples of four."""
    if n % 4 == 0:
        raise ValueError("no")
    return n


def in_any_order(nodes: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(node, sort_keys=True) for node in nodes)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_pages_have_the_same_steps(tmp_path: Path, where: str) -> None:
    async def test() -> None:
        address = "memory" if where == "memory" else str(tmp_path / "runs.db")
        async with App(address, tools=[work]) as app:
            outcome = await app.run(CHAIN, {}, run_id="r")
            if where == "file":
                outcome = await app.runs.retry("r")
            assert outcome.status in ("partial", "failed")
            whole = app.runs.get("r")
            assert whole is not None
            assert whole["next"] is None
            for limit in (1, 2, 3, 5, 8, 1000):
                nodes: list[Any] = []
                after: Any = 0
                while after is not None:
                    page: Any = app.runs.get("r", after=after, limit=limit, events=False)
                    assert {k: v for k, v in page.items() if k not in ("nodes", "next", "elapsed")} == {
                        k: v for k, v in whole.items() if k not in ("nodes", "next", "elapsed", "events")
                    }
                    nodes += page["nodes"]
                    after = page["next"]
                assert in_any_order(nodes) == in_any_order(whole["nodes"]), limit

    asyncio.run(test())


def test_the_command_shows_pages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    address = str(tmp_path / "runs.db")

    async def make() -> None:
        async with App(address, tools=[work]) as app:
            await app.run(CHAIN, {}, run_id="r")

    asyncio.run(make())
    paths: list[str] = []
    after: str | None = "0"
    while after is not None:
        assert dispatch(["runs", "show", "r", "--store", address, "--limit", "4", "--after", after]) == 0
        text = capfd.readouterr().out
        steps = re.findall(r"^[✓✗~·-] (\S+)", text, re.MULTILINE)
        assert steps
        paths += steps
        found = re.search(r"more steps: ropewalk runs show r --limit 4 --after (\d+)", text)
        after = None if found is None else found[1]
    assert dispatch(["runs", "show", "r", "--store", address]) == 0
    whole = re.findall(r"^[✓✗~·-] (\S+)", capfd.readouterr().out, re.MULTILINE)
    assert sorted(paths) == sorted(whole)
    assert len(whole) > 12


LONG_CHAIN = {
    "kind": "chain",
    "name": "long",
    "mode": "loop",
    "maxIterations": 5100,
    "errorStrategy": "continue",
    "nodes": [{"id": "step", "type": "tool", "tool": "count", "params": {"n": "$iteration"}}],
}


@tool
def count(n: int) -> int:
    """Fail once, early."""
    if n == 7:
        raise ValueError("not this one")
    return n


def test_a_long_run_is_shown_by_its_failures_and_its_last_steps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address = str(tmp_path / "runs.db")

    async def make() -> None:
        async with App(address, tools=[count]) as app:
            await app.run(LONG_CHAIN, {"of": "this run"}, run_id="r")

    asyncio.run(make())
    assert dispatch(["runs", "show", "r", "--store", address]) == 0
    text = capfd.readouterr().out
    shown = re.findall(r"^[✓✗~·-] (\S+)", text, re.MULTILINE)
    assert shown[0].endswith("[7]/step")
    assert shown[-1].endswith("[5099]/step")
    assert 100 <= len(shown) <= 102
    assert "status   partial" in text
    assert f"all steps: ropewalk runs show r --limit 200 --store {address}" in text
    assert dispatch(["runs", "show", "r", "--store", address, "--limit", "300"]) == 0
    first = capfd.readouterr().out
    assert len(re.findall(r"^[✓✗~·-] (\S+)", first, re.MULTILINE)) == 299  # two entries are one failed step
    assert ("this run" in first, "result: " in first) == (True, True)
    found = re.search(r"--limit 300 --after (\d+)", first)
    assert found is not None
    assert dispatch(["runs", "show", "r", "--store", address, "--limit", "300", "--after", found[1]]) == 0
    second = capfd.readouterr().out
    assert len(re.findall(r"^[✓✗~·-] (\S+)", second, re.MULTILINE)) == 300
    assert ("this run" in second, "result: " in second) == (False, False)
