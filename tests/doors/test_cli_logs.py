"""`--log json`: nothing but JSON lines on standard error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp_project import Served, served

__all__ = ["served"]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_is_told_as_lines_and_its_result_is_where_it_was(project: Any) -> None:
    done = project("run", "shout.yaml", "--input", '{"text": "a"}', "--log", "json", "--json", "--id", "r")
    assert (done.code, done.data["results"]) == (0, {"up": "A!"})
    told = [line for line in done.err.splitlines() if line.startswith("{")]
    assert [json.loads(line)["message"] for line in told] == ["run.started", "node.finished", "run.finished"]
    assert {json.loads(line)["runId"] for line in told} == {"r"}
    rest = [line for line in done.err.splitlines() if not line.startswith("{")]
    assert set(rest) <= {"tools imported", "noise on stdout", "noise of a child"}  # what the tools themselves print


def test_plain_lines_stay_as_they_were(project: Any) -> None:
    done = project("run", "shout.yaml", "--input", '{"text": "a"}')
    assert "✓ up" in done.err
    assert "run.started" not in done.err


def test_a_call_by_mcp_is_logged(served: Served) -> None:
    served.write("wrapped.sh", "exec ropewalk mcp --log json 2>log\n")
    config = {**served.config(), "command": "sh", "args": ["wrapped.sh"]}

    async def case() -> None:
        from ropewalk.tools.mcp import McpServers

        servers = McpServers()
        servers.add("here", config)
        async with servers:
            assert (await servers.call_tool("here", "broken", {})).is_error

    asyncio.run(case())
    told = [line for line in (served.home / "log").read_text().splitlines() if line.startswith("{")]
    failed = next(json.loads(line) for line in told if json.loads(line)["message"] == "node.failed")
    assert (failed["flow"], failed["node"], failed["error"]) == ("broken", "off", "the mill is closed")
