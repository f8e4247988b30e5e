"""A build in a process of its own, which kills itself: `child.py HOME BASE_URL N8N_MCP TASK WHEN`. WHEN is the name of
a phase that begins, or the type of an event that is heard; the build goes through where that never comes. What n8n-mcp
is sent is kept in the file `sent`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from ropewalk.agents import ClaudeClient, Settings
from ropewalk.app.app import App
from ropewalk.n8n.builder import WorkflowBuilder
from ropewalk.n8n.node_tools import ENVIRONMENT, SERVER

home, base_url, script, task, when = sys.argv[1:]


def reached(place: str) -> None:
    if place == when:
        os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    client = ClaudeClient(Settings(base_url=base_url), api_key="no-key")
    async with App(f"sqlite:///{home}/runs.db", model=client, directory=home) as app:
        kept = ["-c", 'tee -a "$0" | exec node "$1"', f"{home}/sent", script]
        app.toolbox.add_mcp(SERVER, {"command": "sh", "args": kept, "env": dict(ENVIRONMENT)})
        built = await WorkflowBuilder(app).build(
            task, run_id="joke", on_phase=reached, on_event=lambda event: reached(event["type"])
        )
        print(built.valid, built.repairs, built.usage["input_tokens"], len(built.trace), built.documentation, sep="|")


asyncio.run(main())
