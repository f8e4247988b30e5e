"""Every failure says which line of which file defines what failed: in Python, in the store, over HTTP, in commands."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from ropewalk import App
from ropewalk.errors import errors_in

TOOLS = """
from ropewalk import plan, tool
from ropewalk.errors import ModelError
from ropewalk.testing import ScriptedModel

@tool
def boom() -> str:
    raise RuntimeError("no wind")

@tool
def name() -> dict:
    return {"x": "Ann"}

class Down(ScriptedModel):
    def __init__(self):
        super().__init__(ModelError("the model is down"))
"""
SHOP = """
from ropewalk import plan, tool

@tool
def sink(x: int) -> int:
    raise RuntimeError("no water")

@plan
async def call(x: int = 1) -> int:
    y = x + 1

    return await sink(y)

@plan
async def own(x: int = 1) -> int:
    return [0][x]

@plan
async def typed(x: int = 1) -> int:
    return "no" if x else 0
"""
CHAIN = """\
kind: chain

name: sail
nodes:
  - id: each
    type: parallel
    nodes:
      - {id: b, type: tool, tool: boom}
"""
FILES = {
    "flows/sail.yaml": CHAIN,
    "flows/outer.yaml": "kind: chain\nnodes:\n  - {id: go, type: tool, tool: ./sail.yaml}\n",
    "flows/typed.yaml": "kind: chain\nnodes:\n  - {id: a, type: tool, tool: name}\nresult: ${ $output.a.x * 2 }\n",
    "agent.yaml": "kind: agent\nprompt: go\nmodel: rw_place_tools:Down\n",
    "code.yaml": "kind: plan\nname: coded\ncode: |\n  x = 1\n  if x:\n\n    await boom()\n",
    "own.yaml": "kind: plan\nname: own\ncode: |\n  x = 1\n  return [0][x]\n",
}
PLACES = [
    ("flows/sail.yaml", "flows/sail.yaml:8"),
    ("flows/outer.yaml", "flows/outer.yaml:3"),
    ("flows/typed.yaml", "flows/typed.yaml:4"),
    ("rw_shop.py:call", "rw_shop.py:12"),
    ("rw_shop.py:own", "rw_shop.py:16"),
    ("rw_shop.py:typed", "rw_shop.py:19"),
    ("agent.yaml", "agent.yaml:3"),
    ("code.yaml", "code.yaml:7"),
    ("own.yaml", "own.yaml:5"),
]


@pytest.fixture
def harbour(project):
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_place_tools']\nflows = ['*.yaml', 'flows/*', '*.py']\n")
    project.write("rw_place_tools.py", TOOLS)
    project.write("rw_shop.py", SHOP)
    for name, text in FILES.items():
        project.write(name, text)
    return project


def _http(app: App) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app.asgi(hosts=["testserver"]))
    return httpx2.AsyncClient(transport=transport, base_url="http://testserver/api")


def _place(result: Any) -> str:
    return str(errors_in(result)[-1]["place"])


@pytest.mark.parametrize(("file", "place"), PLACES)
def test_an_error_says_where_its_flow_is_defined(harbour, file, place):
    async def case() -> None:
        async with App.open(harbour.home) as app, _http(app) as http:
            outcome = await app.run(harbour.home / file, run_id="python")
            assert _place(outcome) == place
            row = app.runs.row("python")
            assert row is not None
            assert (_place(row.result), row.error["place"]) == (place, place)
            run = (await http.get("/runs/python")).json()
            assert run["error"]["place"] == place
            failed = [node["error"] for node in run["nodes"] if node["status"] == "failed"]
            assert all(error["place"] == place for error in failed)
            assert failed or "result: " in run["error"]["message"]
            body = {"definition": {"kind": "file", "id": file}, "wait": 20}
            assert _place((await http.post("/runs", json=body)).json()) == place

    asyncio.run(case())
    started = harbour("run", file, "--id", "command")
    assert f"{place}: " in started.out
    shown = harbour("runs", "show", "command").out
    assert place in next(line for line in shown.splitlines() if line.startswith("error: "))


def test_an_outer_run_says_which_line_of_the_inner_flow_failed(harbour):
    failed = harbour("run", "flows/outer.yaml", "--id", "outer")
    assert "  flows/outer.yaml:3: go (tool flow:flows.sail): " in failed.out
    assert "(rw_place_tools.py:8 in boom, called at flows/sail.yaml:8)\n" in failed.out
    assert "error: flows/sail.yaml:8: " in harbour("runs", "show", "outer/go").out
    assert "\n✗ go  " in harbour("runs", "show", "outer").out


def test_a_document_has_no_places_and_a_large_file_has(harbour):
    lines = "".join(f"  - {{id: a{i}, type: tool, tool: name}}\n" for i in range(900))
    text = f"kind: chain\nnodes:\n{lines}  - {{id: b, type: tool, tool: boom}}\n"
    large = harbour.write("large.yaml", text)
    document = {"kind": "chain", "nodes": [{"id": "b", "type": "tool", "tool": "boom"}]}

    async def case() -> None:
        async with App.open(harbour.home) as app, _http(app) as http:
            assert _place(await app.run(large)) == "large.yaml:903"
            for source in (document, CHAIN):
                [error] = errors_in(await app.run(source))
                assert "place" not in error
            [error] = errors_in((await http.post("/runs", json={"document": CHAIN, "wait": 20})).json())
            assert "place" not in error

    asyncio.run(case())


def test_a_run_that_another_process_continues_has_places(harbour):
    harbour.write(
        "wait.yaml",
        "kind: chain\nnodes:\n  - {id: ask, type: wait, approval: go?}\n  - {id: b, type: tool, tool: boom}\n",
    )
    assert harbour("run", "wait.yaml", "--id", "w").code == 4
    harbour("runs", "approve", "w", "ask")
    assert "  wait.yaml:4: b (tool boom): " in harbour("resume", "w").out


def test_failures_at_different_lines_are_one_group(harbour):
    async def case() -> None:
        async with App.open(harbour.home) as app, _http(app) as http:
            for text in (CHAIN, f"# earlier\n{CHAIN}"):
                file = harbour.write("flows/sail.yaml", text)
                await app.run(file)
            [a, b] = app.runs.list()
            assert {row["error"]["place"] for row in (a, b)} == {"flows/sail.yaml:8", "flows/sail.yaml:9"}
            assert app.runs.diff(a.id, b.id)["error"] is None
            assert [group["count"] for group in (await http.get("/overview")).json()["failures"]] == [2]

    asyncio.run(case())
