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
    "a project": ["tomllib", "pathlib", "ropewalk.config.table", "ropewalk.project"],
    "files and their places": ["yaml", "ropewalk.source"],
    "a store in a file": ["apsw", "sqlite3", "ropewalk.journal.sqlite"],
    "expressions": ["re2", "ropewalk.expr.parser", "ropewalk.expr.functions", "ropewalk.expr.query"],
    "values that must fit a schema": ["jsonschema_rs"],
    "other tools": ["mcp", "httpx2", "ropewalk.tools.providers", "ropewalk.tools.openapi", "ropewalk.tools.mcp"],
    "stored chains": ["ropewalk.chains", "ropewalk.runs"],
    "messages": ["difflib"],
    "other notations": [
        *("ropewalk.dialects.composition", "ropewalk.dialects.composite", "ropewalk.dialects.experience"),
        *("ropewalk.dialects.flow", "ropewalk.builder"),
    ],
    "drawings": ["ropewalk.draw", "ropewalk.plan"],
}


def test_a_first_run_loads_nothing_that_only_others_need() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "ropewalk.app" in loaded
    assert {what: found for what, names in NOT_NEEDED.items() if (found := loaded.intersection(names))} == {}
