"""Runners with set answers behind them, for the tests of the pipeline."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.errors import ToolError
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import Tool, ToolBackend

LOCAL = ToolBackend.local("h")
PROVIDER = ToolBackend.provider("p", "remote")
MCP = ToolBackend.mcp("s")
T = Tool("t", "", {"type": "object", "properties": {"q": {"type": "integer"}}}, namespace="ns")


class Recorder:
    """An executor for MCP and providers that notes what it was asked and gives a set answer."""

    def __init__(self, answer: Any = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer = answer

    async def call_tool(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def run(runner: Runner, tool_id: str = "ns:t", args: Any = None, **more: Any) -> Any:
    return asyncio.run(runner.run(tool_id, args, **more))


def failing(runner: Runner, tool_id: str = "ns:t", args: Any = None) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(runner, tool_id, args)
    return caught.value


def resolving(backends: Any = None, found: Any = T, **more: Any) -> Runner:
    return Runner(tool_resolver=lambda _: found, backends_resolver=lambda _: backends, **more)
