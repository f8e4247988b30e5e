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
from ropewalk.errors import FlowFailed, InvalidFlow, NotFound
from ropewalk.source.document import render_problem

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
    assert "reports.py:total (line 13)" in ropewalk(folder, "run", "reports.py").stderr


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


SCRIPT = """import asyncio
from ropewalk import App, plan, tool

@tool
async def price(item: str) -> int:
    return 3

@tool
def stock(item: str) -> int:
    return 3

class Shop: ...

shop = Shop()

def helper(item: str) -> int:
    return stock(item)

@plan
async def total(item: str) -> int:
    price(item)
    shop.open()
    helper(item)
    return await price(unknown)

async def main() -> None:
    print(await total("tea"))
"""


def problems_of(source: Path) -> list[str]:
    async def check() -> list[str]:
        async with App("memory") as app:
            return [
                f"{p.place.line if p.place else 0}: {str(p).removeprefix(f'{p.place.spot}: ' if p.place else '')}"
                for p in (await app.validate(source)).problems
            ]

    return asyncio.run(check())


@pytest.mark.parametrize("name", ["script.py", "script.py:total"])
@pytest.mark.parametrize("start", ["asyncio.run(main())", "result = asyncio.run(main())", "print(asyncio.run(main()))"])
def test_a_file_that_starts_its_program_says_where(tmp_path: Path, name: str, start: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(f"{SCRIPT}\n{start}\n")
    call = start.removeprefix("result = ")
    advice = f'move this line below `if __name__ == "__main__":`, and name the flow: {file}:total'
    found = problems_of(tmp_path / name)
    assert found == [
        f"29: {'asyncio.run(main())' if 'print' in call else call} starts the program of this file; {advice}"
    ]
    file.write_text(f"{SCRIPT}\nif __name__ == '__main__':\n    {start}\n")
    assert "starts the program" not in str(problems_of(tmp_path / name))


def test_a_program_without_flows_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import asyncio\nasync def main(): ...\nasyncio.run(main())\n")
    assert problems_of(tmp_path / "job.py")[0].endswith(
        f"it has no flow with @plan; start it with: python {tmp_path / 'job.py'}"
    )


def test_a_failed_import_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def f():\n    raise KeyError('no')\nf()\n")
    assert problems_of(tmp_path / "bad.py:x") == ["2: cannot be imported: KeyError: 'no'"]


def test_a_missing_await_is_reported_with_everything_else(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "p.yaml").write_text(
        "kind: plan\nname: p\nextra: 1\ntools: {send: {id: send}}\ncode: |\n  send(to=1)\n  yield 2\n"
    )
    found = problems_of(tmp_path / "script.py:total")
    assert sorted(problem.partition(";")[0] for problem in found) == [
        "17: helper calls a tool",
        "21: price(item) is never awaited",
        "22: shop is a Shop, which is not JSON",
        "23: helper(item) is never awaited",
        "24: name 'unknown' is not defined",
    ]
    assert [problem.partition(";")[0] for problem in problems_of(tmp_path / "p.yaml")] == [
        "3: extra: unknown key",
        "6: code: line 1: send(to=1) is never awaited",
        "7: code: line 2: yield outside of a function",
    ]


WRONG = """
from ropewalk import plan, tool


@tool
def price(item: str) -> int:
    return len(item)


@plan
async def argument(item: str) -> int:
    return await price(itm=item)


@plan
async def name(item: str) -> int:
    return await prise(item)


@tool
def count(item: str) -> int:
    return {}[item]


@plan
async def call(item: str) -> int:
    return await count(item)


@plan
async def result(item: str) -> str:
    return await price(item)
"""


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("argument", "wrong.py:12: price has no parameter 'itm'; did you mean item?"),
        ("name", "wrong.py:17: name 'prise' is not defined; did you mean price?"),
    ],
)
def test_the_text_of_an_error_names_the_line_of_the_function(tmp_path: Path, flow: str, message: str) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)

    async def run() -> None:
        async with App("memory") as app:
            await app.run(tmp_path / f"wrong.py:{flow}", {"item": "rope"})

    with pytest.raises(InvalidFlow) as refused:
        asyncio.run(run())
    assert str(refused.value) == message
    shown = render_problem(refused.value.problems[0])
    assert "wrong.py:" not in shown.partition("wrong.py:")[2]  # once, with the column


CALL = "program[0-1:14.1]/count (tool count): KeyError: 'rope' (wrong.py:22 in count, called at wrong.py:27)"


@pytest.mark.parametrize(
    ("flow", "store", "why"),
    [
        ("call", "memory", CALL),
        ("call", "runs.db", f"{CALL}; to retry what failed: await app.runs.retry('R')"),
        ("result", "runs.db", 'result: output: 4 is not of type "string"'),
    ],
)
def test_a_failed_run_says_where_it_failed_and_what_can_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flow: str, store: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)

    async def run() -> None:
        async with App(store) as app:
            outcome = await app.run(tmp_path / f"wrong.py:{flow}", {"item": "rope"}, run_id="R")
        outcome.raise_if_failed()

    with pytest.raises(FlowFailed) as failed:
        asyncio.run(run())
    assert str(failed.value) == f"run R of wrong.py:{flow} did not complete (status failed): {why}"
