"""Tools of the reliability campaign: they write down each call in a file that outlives every process.

The campaign copies this file into the project of its workers. It imports nothing of the campaign.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from typing import Any

from ropewalk import tool

EFFECTS = os.environ.get("ROPEWALK_EFFECTS", os.devnull)


def value_of(run: str, key: str, inputs: object) -> str:
    """Return the value of a step: it depends on every value that the step received."""
    return hashlib.sha256(json.dumps([run, key, inputs], sort_keys=True).encode()).hexdigest()[:16]


def note(*words: object) -> None:
    """Append a line with the time and the process; the time is comparable between processes of one machine."""
    line = json.dumps([time.monotonic(), os.getpid(), *words]) + "\n"
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def keys_in(inputs: object) -> list[str]:
    """Return the keys of the steps whose results are in `inputs`."""
    if isinstance(inputs, dict):
        return [inputs["key"]] if "key" in inputs else [key for part in inputs.values() for key in keys_in(part)]
    return [key for part in inputs for key in keys_in(part)] if isinstance(inputs, list) else []


def _begin(run: str, key: str, inputs: object) -> dict[str, Any]:
    note("start", run, key, keys_in(inputs))
    return {"key": key, "value": value_of(run, key, inputs)}


@tool(timeout=600)
async def step(run: str, key: str, inputs: object = None, ms: int = 5) -> dict[str, Any]:
    """Do one step on the event loop."""
    result = _begin(run, key, inputs)
    await asyncio.sleep(ms / 1000)
    note("end", run, key)
    return result


@tool(timeout=600)
def thread_step(run: str, key: str, inputs: object = None, ms: int = 5) -> dict[str, Any]:
    """Do one step in a thread."""
    result = _begin(run, key, inputs)
    time.sleep(ms / 1000)
    note("end", run, key)
    return result
