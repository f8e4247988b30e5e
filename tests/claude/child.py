"""A conversation in a process of its own: `child.py STORE BASE_URL RUN_ID [resume]`. Its tools say on stdout when they
are called; `slow` never ends in the first process."""

from __future__ import annotations

import asyncio
import sys

from ropewalk import tool
from ropewalk.agents import ClaudeClient, Settings, complete_with_tools, resume_completion
from ropewalk.app.app import App

store, base_url, run_id, *rest = sys.argv[1:]


@tool
async def quick(n: int) -> int:
    """Gives twice the number."""
    print(f"quick {n}", flush=True)
    return 2 * n


@tool
async def slow(n: int) -> int:
    """Takes its time."""
    print(f"slow {n}", flush=True)
    if not rest:
        await asyncio.Event().wait()
    return 3 * n


async def main() -> None:
    client = ClaudeClient(Settings(base_url=base_url, model="claude-sonnet-5-5"), api_key="no-key")
    async with App(store, tools=[quick, slow], model=client) as app:
        if rest:
            done = await resume_completion(run_id, app=app)
        else:
            done = await complete_with_tools("go", tools=["quick", "slow"], app=app, run_id=run_id)
        print(f"done {done.text} {done.rounds} {done.usage['input_tokens']} {len(done.trace)}", flush=True)


asyncio.run(main())
