"""Commands take a flow of a Python file: `reports.py:total`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import fork_server
from ropewalk import App
from ropewalk.errors import NotFound

REPORTS = '''
import prices
from ropewalk import flow, plan, tool

print("imported")

@tool
async def price(item: str) -> int:
    """The price of an item."""
    return prices.PRICES[item]

@plan
async def total(items: list[str], rebate: int = 0) -> int:
    """The price of all items."""
    return sum([await price(item) for item in items]) - rebate

@plan
async def wrong(item: str) -> int:
    return await price(itm=item)

with flow("one", item=str) as one:
    one.result(one.call(price, item=one.input.item))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reports.py").write_text(REPORTS)
    (tmp_path / "prices.py").write_text('PRICES = {"tea": 3, "jam": 5}\n')
    return tmp_path


def ropewalk(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ropewalk", *words]
    return fork_server.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.process
def test_run(folder: Path) -> None:
    done = ropewalk(folder, "run", "reports.py:total", "--input", '{"items": ["tea", "jam"]}', "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == 8
    done = ropewalk(folder, "run", "reports.py:one", "--input", '{"item": "tea"}', "--json")
    assert json.loads(done.stdout)["result"] == 3


@pytest.mark.process
def test_validate_preview_and_graph(folder: Path) -> None:
    wrong = ropewalk(folder, "validate", "reports.py:wrong")
    assert wrong.returncode == 3
    assert "reports.py:19:24: price has no parameter 'itm'" in wrong.stderr
    assert "return await price(itm=item)" in wrong.stderr
    assert "price(item: string)" in ropewalk(folder, "preview", "reports.py:total").stdout
    assert "price" in ropewalk(folder, "graph", "reports.py:one").stdout
    missing = ropewalk(folder, "run", "reports.py:totl")
    assert "did you mean 'total'?" in missing.stderr
    assert "reports.py:NAME" in ropewalk(folder, "run", "reports.py").stderr


@pytest.mark.process
def test_mcp(folder: Path) -> None:
    async def listed() -> Any:
        arguments = ["mcp", "reports.py:total"]
        command = fork_server.program("ropewalk")
        server = StdioServerParameters(command=command, args=arguments, cwd=folder, env=dict(os.environ))
        async with stdio_client(server) as streams, ClientSession(*streams) as client:
            await client.initialize()
            tools = (await client.list_tools()).tools
            return tools, await client.call_tool("total", {"items": ["tea"], "rebate": 1})

    tools, result = asyncio.run(listed())
    described = next(tool for tool in tools if tool.name == "total")
    assert described.description is not None
    assert described.description.startswith("The price of all items.")
    assert result.structured_content == {"result": 2}


def test_only_paths_are_imported(folder: Path) -> None:
    app = App("memory")
    with pytest.raises(NotFound):
        app.load(f"{folder}/reports.py:total")
    assert app.load(folder / "reports.py:total").name == "total"
