"""What a first run leaves alone: each of these costs milliseconds, which every short-lived process would pay."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import asyncio, sys
import ropewalk

async def step(x):
    return x + 1

async def main():
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "step", "params": {"x": "$prev" if i else 0}} for i in range(3)]
    async with ropewalk.App("memory", tools=[step]) as app:
        done = await app.run({"kind": "chain", "nodes": nodes})
    assert done["results"]["n2"] == 3, done

asyncio.run(main())
print(*sys.modules)
"""
NOT_NEEDED = {
    "a project": ["tomllib", "pathlib", "ropewalk.config.toml", "ropewalk.app.open_project"],
    "files and their places": ["yaml", "ropewalk.source"],
    "a store in a file": ["apsw", "sqlite3", "ropewalk.journal.sqlite.store"],
    "expressions": ["re2", "ropewalk.expr.parser", "ropewalk.expr.functions", "ropewalk.expr.jsonpath"],
    "values that must fit a schema": ["jsonschema_rs"],
    "other tools": [
        "mcp",
        "httpx2",
        "ropewalk.tools.backends.provider_registry",
        "ropewalk.tools.backends.openapi",
        "ropewalk.tools.mcp.servers",
    ],
    "stored chains": ["ropewalk.app.chains", "ropewalk.app.runs.queries"],
    "messages": ["difflib"],
    "other notations": [
        *("ropewalk.notations.composition.read", "ropewalk.notations.composite", "ropewalk.notations.experience.read"),
        *("ropewalk.notations.flow", "ropewalk.builder"),
    ],
    "drawings": ["ropewalk.draw", "ropewalk.app.preview"],
}


def test_a_first_run_loads_nothing_that_only_others_need() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "ropewalk.app.app" in loaded
    assert {what: found for what, names in NOT_NEEDED.items() if (found := loaded.intersection(names))} == {}
