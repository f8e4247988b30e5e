"""Each numbered problem of docs/troubleshooting.md is caused here, and gives the message that the page quotes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pages.example_runner import ExampleRunner
from pages.page import DOCS, Page

PAGE = DOCS / "troubleshooting.md"
TOOLS = '''
import asyncio

from ropewalk import tool


@tool
def price(item: str) -> int:
    """Look up a price."""
    return {"rope": 4}[item]


@tool(timeout=0.5)
async def slow() -> str:
    """Wait."""
    await asyncio.sleep(5)
    return ""


@tool
def today() -> object:
    """Return an object without a JSON form."""
    return object()
'''


def chain(*nodes: str) -> str:
    listed = "".join(f"  - {{{node}}}\n" for node in nodes)
    return f"cat > t.yaml <<'END'\nkind: chain\nname: t\nnodes:\n{listed}END\n"


def project(toml: str) -> str:
    return f"mkdir -p p && cat > p/ropewalk.toml <<'END'\n{toml}\nEND\n"


PRICE = "id: a, type: tool, tool: price, params: {item: $input.item}"
ASK = 'id: a, type: wait, approval: "ok?"'
NO_UVICORN = "import sys; sys.modules['uvicorn'] = None; sys.argv = ['ropewalk', 'serve']"
CAUSES = {
    1: chain("id: a, type: tool, tool: prize") + "ropewalk validate t.yaml",
    2: chain("id: a, type: tool, tool: price, params: {itm: rope}") + "ropewalk validate t.yaml",
    3: chain("id: a, type: tool, tool: today, tmeout: 3") + "ropewalk validate t.yaml",
    4: chain("id: a, type: transform, input: ${input.x}") + "ropewalk validate t.yaml",
    5: chain("id: a, type: transform, input: $output.b", "id: b, type: transform, input: 1")
    + "ropewalk validate t.yaml",
    6: chain('id: a, type: transform, input: "${$input.n + }"') + "ropewalk validate t.yaml",
    7: chain("id: a, type: transform, input: $secret.API_KEY") + "ropewalk validate t.yaml",
    8: project('[tools]\nmodles = ["tools"]') + "ropewalk tools ls -C p",
    9: project('[tools]\nmodules = ["nope"]') + "ropewalk tools ls -C p",
    10: project('[mcp.clock]\ncommand = "no-such-server"') + "ropewalk tools ls -C p",
    11: project('[mcp.clock]\ncommand = "mcp-server-time"\nenv = {TOKEN = "${SURELY_NOT_SET}"}')
    + "ropewalk tools ls -C p",
    12: project('[mcp.time]\ncommand = "mcp-server-time"')
    + "ropewalk tools pin time:convert_time --approve -C p >/dev/null\n"
    + "ropewalk tools call time:get_current_time -C p",
    13: chain("id: a, type: tool, tool: slow") + "ropewalk run t.yaml",
    14: chain("id: a, type: tool, tool: today") + "ropewalk run t.yaml",
    15: chain(PRICE) + "ropewalk run t.yaml --input '{\"item\": rope}'",
    16: chain(PRICE) + 'ropewalk run t.yaml --input \'{"item": "sail"}\'',
    17: chain(PRICE + ", errorStrategy: continue") + 'ropewalk run t.yaml --input \'{"item": "sail"}\'',
    18: chain(ASK) + "ropewalk run t.yaml",
    19: chain(PRICE) + 'for item in rope sail; do ropewalk run t.yaml --id x --input "{\\"item\\": \\"$item\\"}"; done',
    20: chain(PRICE) + 'ropewalk run t.yaml --input \'{"item": "rope"}\'\nropewalk runs show nonesuch',
    21: chain(PRICE) + 'ropewalk run t.yaml --id y --input \'{"item": "rope"}\'\nropewalk resume y',
    22: chain(ASK) + "ropewalk run t.yaml --id z\nsed -i 's/ok/sure/' t.yaml\nropewalk resume z t.yaml",
    23: "python -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); "
    + "import subprocess; subprocess.run(['ropewalk', 'serve', '--port', str(s.getsockname()[1])])\"",
    24: f'python -c "{NO_UVICORN}; from ropewalk.doors.cli.main import main; main()"',
    25: "ropewalk worker --store memory",
    26: "ropewalk runs ls --store postgresql://nobody@127.0.0.1:1/none",
}


def quoted() -> dict[int, list[str]]:
    rows = re.findall(r"^\| (\d\d?) \| ([^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    return {int(number): re.findall(r"`([^`]+)`", cell) for number, cell in rows}


def test_every_numbered_problem_is_tried() -> None:
    assert quoted().keys() == CAUSES.keys()
    assert all(quoted().values())


@pytest.mark.process
@pytest.mark.parametrize("number", CAUSES)
def test_a_problem_gives_the_message_of_the_page(number: int, tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n')
    (tmp_path / "tools.py").write_text(TOOLS)
    code = CAUSES[number].replace("python -c", f"{sys.executable} -c")
    done = ExampleRunner(Page(PAGE), tmp_path).execute(["bash", "-c", code])
    printed = " ".join(done.stdout.split())
    assert [text for text in quoted()[number] if text not in printed] == [], done.stdout
