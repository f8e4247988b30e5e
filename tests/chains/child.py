"""Another process that runs chains of a store, and says what its tools do as they do it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from ropewalk.app.app import App


def say(*words: object) -> None:
    # One write per line: a kill leaves a whole line or none.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def tools(name: str, params: dict[str, Any]) -> Any:
    """`hang` never answers, `bad` fails, anything else gives its params."""
    say("call", name, json.dumps(params, sort_keys=True))
    try:
        if name == "hang":
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        say("cancelled", name)
        raise
    if name == "bad":
        raise RuntimeError("broken")
    return params


async def start(address: str, chain: str, execution: str) -> None:
    """Create a chain and execute it."""
    async with App(address) as app:
        made = await app.chains.create_chain(json.loads(chain))
        result = await app.chains.execute_chain(made.id, {"executionId": execution}, tools)
        say("ended", json.dumps(result.to_dict()))


async def again(address: str, chain_id: str, execution: str) -> None:
    """Execute a stored chain."""
    async with App(address) as app:
        result = await app.chains.execute_chain(chain_id, {"executionId": execution}, tools)
        say("ended", json.dumps(result.to_dict()))


async def stop(address: str, execution: str) -> None:
    async with App(address) as app:
        say(await app.chains.stop_execution(execution))


async def look(address: str, chain_id: str) -> None:
    """Say everything that is stored of a chain."""
    async with App(address) as app:
        chain = await app.chains.get_chain(chain_id)
        runs = await app.chains.list_executions(chain_id)
        details = [await app.chains.get_execution_details(r.id) for r in runs]
        say(json.dumps({"chain": chain and chain.to_dict(), "details": [d and d.to_dict() for d in details]}))


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    asyncio.run({"start": start, "again": again, "stop": stop, "look": look}[what](*words))
