"""A conversation in a process of its own, with a tool that the API refuses: `refused_child.py STORE BASE_URL RUN_ID
[resume]`."""

from __future__ import annotations

import asyncio
import sys

from ropewalk import tool
from ropewalk.agents import ClaudeClient, Settings, complete_with_tools, resume_completion
from ropewalk.app.app import App

store, base_url, run_id, *rest = sys.argv[1:]


@tool
async def good(n: int) -> int:
    """Gives twice the number."""
    return 2 * n


@tool
async def bad(n: int) -> int:
    """Refused."""
    return n


async def main() -> None:
    client = ClaudeClient(Settings(base_url=base_url, stream=False, max_retries=0), api_key="no-key")
    async with App(store, tools=[good, bad], model=client) as app:
        if rest:
            done = await resume_completion(run_id, app=app)
        else:
            done = await complete_with_tools("go", tools=["good", "bad"], app=app, run_id=run_id)
        print(f"done {done.text} {done.rounds} {len(done.warnings)}", flush=True)


asyncio.run(main())
