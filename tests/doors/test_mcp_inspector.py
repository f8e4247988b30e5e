"""Judged by the protocol's own inspector: `@modelcontextprotocol/inspector --cli` lists, calls and looks closely."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp_project import COMMAND, Served, environment, served
from test_mcp_http import TOKEN, listening

from tiers import Scale
from tools.mcp_lab import node_tool

__all__ = ["served"]
pytestmark = pytest.mark.node


class Inspector:
    """Its command line, against `target`: a command, or a URL with a header."""

    def __init__(self, home: Path, *target: str) -> None:
        self.home, self.target = home, target
        self.tool = node_tool("inspector", "clients/cli/build/index.js")

    def __call__(self, method: str, *words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **environment(), "HOME": str(self.home)}
        argv = [*self.tool, *self.target, "--method", method, *words]
        return subprocess.run(argv, cwd=self.home, env=env, capture_output=True, text=True, timeout=300)

    def call(self, name: str, *pairs: str) -> subprocess.CompletedProcess[str]:
        arguments = [word for pair in pairs for word in ("--tool-arg", pair)]
        return self("tools/call", "--tool-name", name, *arguments)

    def answer(self, name: str, *pairs: str) -> Any:
        """The result as it prints it."""
        done = self.call(name, *pairs)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.mark.campaign("conformance", only=True)
def test_over_stdio_it_lists_strictly_and_calls(served: Served) -> None:
    inspect = Inspector(served.home, "--transport", "stdio", "--cwd", str(served.home), *passed(), COMMAND, "mcp")
    listed = inspect("tools/list", "--strict")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    tools = json.loads(listed.stdout)["tools"]
    assert [tool["name"] for tool in tools] == ["broken", "shout", "slow_one"]
    assert all(tool["description"] and tool["outputSchema"]["type"] == "object" for tool in tools)
    answer = inspect.answer("shout", "text=ahoy")
    assert (answer["structuredContent"], answer["content"]) == (
        {"result": "AHOY"},
        [{"type": "text", "text": "AHOY"}],
    )


def passed() -> list[str]:
    """What the inspector is told to hand to the server it starts."""
    return [word for name, value in environment().items() for word in ("-e", f"{name}={value}")]


@pytest.mark.campaign("conformance")
def test_over_http_a_failure_is_an_answer_and_many_clients_are_served_at_once(served: Served, scale: Scale) -> None:
    clients = scale(2, 4)
    with listening(served) as found:
        header = f"Authorization: Bearer {TOKEN}"
        inspect = Inspector(served.home, "--transport", "http", "--server-url", found.url, "--header", header)
        failed = inspect.answer("broken")
        assert failed["isError"] is True
        assert failed["content"][0]["text"].startswith("node 'off' failed in tool 'fail': the mill is closed")
        with ThreadPoolExecutor(clients) as several:
            answers = list(several.map(lambda i: inspect.answer("shout", f"text=client {i}"), range(clients)))
        assert [answer["structuredContent"]["result"] for answer in answers] == [f"CLIENT {i}" for i in range(clients)]
        stranger = Inspector(served.home, "--transport", "http", "--server-url", found.url)("tools/list")
        assert stranger.returncode != 0
        assert "shout" not in stranger.stdout
