"""Tools that keep the cancellation of their timeout to themselves."""

from __future__ import annotations

import asyncio
import time

import pytest

from engine.lab import HANDLED, Way, block, call, each, every_way, graph, line, swallows
from ropewalk.errors import ToolTimeout
from ropewalk.expr.ast import Lit
from ropewalk.ir import Graph, Policy, Retry
from ropewalk.testing import ScriptedTools
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import tool
from ropewalk.tools.toolbox import Toolbox

TOO_LATE = {
    "in a line": line(call("a", "swallow"), call("after")),
    "in a graph": graph(call("a", "swallow"), call("b", "swallow"), call("after", after="a")),
    "in a map": line(each("m", [1, 2], call("a", "swallow")), call("after")),
    "under a condition": line(call("a", "swallow", when=Lit(True)), call("after")),
    "with its own timeout": line(call("a", "swallow", policy=Policy(timeout=0.02)), call("after")),
    "tried again": line(call("a", "swallow", policy=Policy(retry=Retry(attempts=2))), call("after")),
    "in a late block": line(block("b", call("a", "swallow"), policy=Policy(timeout=0.02)), call("after")),
}


@pytest.mark.virtual_time
@every_way
@pytest.mark.parametrize("body", TOO_LATE.values(), ids=list(TOO_LATE))
async def test_what_a_tool_gives_after_its_timeout_comes_too_late(way: Way, body: Graph) -> None:
    tools = ScriptedTools(swallow=swallows("gave up"), after=1, timeout=0.03)
    done = await way(body, tools)
    assert done["status"] == "failed"
    assert "no answer within" in done["error"] or "not done within" in done["error"]
    assert tools.count("after") == 0


@every_way
async def test_a_tool_that_holds_the_loop_beyond_its_timeout_comes_too_late(way: Way) -> None:
    """Nothing can cancel it meanwhile; its result is late all the same."""

    async def holds() -> str:
        time.sleep(0.1)  # noqa: ASYNC251 - what the test is about
        return "too late"

    tools = ScriptedTools(holds=holds, after=1, timeout=5)
    done = await way(line(call("a", "holds", policy=Policy(timeout=0.03)), call("after")), tools)
    assert (done["status"], tools.count("after")) == ("failed", 0)


@pytest.mark.virtual_time
@every_way
async def test_a_late_tool_that_raises_leaves_nothing_to_the_next_node(way: Way) -> None:
    async def tool() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("cleaning up failed") from None

    tools = ScriptedTools(odd=tool, after=lambda: asyncio.sleep(0, "fine"), timeout=0.03)
    done = await way(line(block("b", call("odd"), policy=HANDLED), call("after"), call("again", "after")), tools)
    assert (done["status"], tools.count("after")) == ("completed", 2)


async def test_a_call_through_the_runner_that_is_late_is_late_whatever_it_gives() -> None:
    @tool(timeout=0.03)
    async def stubborn() -> str:
        """Gives up when it is told to."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "gave up"
        return "never"

    with pytest.raises(ToolTimeout):
        await Runner(Toolbox([stubborn])).run("stubborn", {})
