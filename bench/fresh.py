"""Import time and memory of a process of its own: `import ropewalk` and a first run on memory,
against a process that runs the same tools with nothing but asyncio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

# The high-water mark of this program alone: ru_maxrss also counts what the parent was before exec.
MEASURED = """
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
ASYNCIO = """
import asyncio

async def step(x):
    return x + 1

async def main():
    value = 0
    for _ in range(3):
        value = await step(x=value)
    assert value == 3

asyncio.run(main())
"""
ROPEWALK = """
import asyncio
import ropewalk

async def step(x):
    return x + 1

async def main():
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": "$prev" if i else 0}} for i in range(3)]
    async with ropewalk.App("memory", tools=[step]) as app:
        done = await app.run({"kind": "chain", "nodes": nodes})
    assert done["results"]["n2"] == 3, done

asyncio.run(main())
"""
IMPORTS = "import asyncio, ropewalk"


def once(code: str, folder: str) -> tuple[float, float]:
    """Seconds and peak resident MB of a fresh process that keeps its compiled files in `folder`."""
    start = time.perf_counter()
    command, environ = [sys.executable, "-c", code + MEASURED], installed(folder)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environ)
    return time.perf_counter() - start, json.loads(done.stdout) / 1024


def installed(folder: str) -> dict[str, str]:
    """The environment in which source is compiled once, as an installer does: what a checkout, or
    PYTHONDONTWRITEBYTECODE, makes of it is the time of the compiler."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def rows(rounds: int) -> Iterator[dict[str, Any]]:
    """The rows of the table, as what a Row is made from; none where there is no /proc."""
    if not Path("/proc/self/status").exists():
        return
    programs = {"asyncio": ASYNCIO, "import": IMPORTS, "ropewalk": ROPEWALK}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    memory = dict.fromkeys(programs, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        for code in programs.values():
            once(code, folder)  # writes the .pyc files
        for _ in range(max(rounds, 5)):
            for name, code in programs.items():
                took, peak = once(code, folder)
                seconds[name].append(took)
                memory[name] = max(memory[name], peak)
    ratios = {name: median(a / b for a, b in zip(seconds[name], seconds["asyncio"], strict=True)) for name in programs}
    times = {name: median(values) * 1e6 for name, values in seconds.items()}
    about = {"times": times, "ratios": ratios}
    yield {"case": "import ropewalk, a fresh process", "value": ratios["import"], **about}
    case = "import and a first run on memory, a fresh process"
    yield {"case": case, "value": ratios["ropewalk"], "target": 1.5, **about}
    yield {"case": "its peak memory", "value": memory["ropewalk"], "unit": "MB", "target": 35}
