"""Messages name files by their path from the working directory, and no place twice."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from ropewalk.doors.cli.dispatch import dispatch

TOOLS = """from ropewalk import tool

@tool
def up(text: str) -> str:
    "Up."
    return text.upper()

@tool
def boom(x: int) -> int:
    "Boom."
    return {"a": 1}["missing"] + x
"""
PYTHON = """from ropewalk import flow, plan
from places_tools import boom, up

class Client: ...

client = Client()

def helper(x: str) -> str:
    return missing

@plan
async def planned(n: int) -> str:
    client.get()
    helper("x")
    return await up(n)

@plan
async def failing(n: int) -> str:
    if n:
        raise ValueError("no")
    return await boom(x=n)

with flow("built") as built:
    built.result(built.call(up, text="a"))

with flow("raising") as raising:
    raising.result(raising.call(boom, x=1))
"""
NODE = "{id: a, type: tool, tool: up, params: {text: a}}"
FILES = {
    "ropewalk.toml": '[tools]\nmodules = ["places_tools"]\n[store]\nurl = "runs.db"\n[secrets]\nallow = ["KEY"]\n',
    "places_tools.py": TOOLS,
    "flows.py": PYTHON,
    "mistake.py": "from ropewalk import flow\nwith flow('f') as f:\n    f.call('up', 1)\n",
    "raises.py": "import os\nraise KeyError('no')\n",
    "syntax.py": "from ropewalk import plan\n@plan\nasync def p(:\n",
    "script.py": "import asyncio\nasync def main(): ...\nasyncio.run(main())\n",
    "good.yaml": f"kind: chain\nname: good\nnodes: [{NODE}]\n",
    "syntax.yaml": "kind: chain\nnodes: [",
    "keys.yaml": f"kind: chain\nsteps: [{NODE}]\n",
    "boom.yaml": "kind: chain\nname: boom\nnodes: [{id: a, type: tool, tool: boom, params: {x: 1}}]\n",
    "typed.yaml": f"kind: chain\nname: typed\ninputSchema: {{type: object, required: [n]}}\nnodes: [{NODE}]\n",
    "calls.yaml": "kind: chain\nname: calls\nnodes: [{id: a, type: tool, tool: ./keys.yaml, params: {}}]\n",
    "lacks.yaml": "kind: chain\nname: lacks\nnodes: [{id: a, type: tool, tool: ./lacking.yaml, params: {}}]\n",
    "plan.yaml": "kind: plan\nname: p\ncode: |\n  up(text=1)\n  return nope\n",
    "data.json": "{",
    "x/experience.yaml": "kind: experience\nname: x\ngraph: {nodes: [{id: a, kind: call, tool: ./tools/no.py}]}\n",
    "bad.test.yaml": "kind: test\nflow: nowhere.yaml\nexpect: {status: completed}\n",
    "differs.test.yaml": "kind: test\nflow: good.yaml\nexpect: {status: failed}\n",
    "other/ropewalk.toml": "[tools]\nmodules = ['raises_here']\n[store]\nurl = 'no/such/dir/runs.db'\n",
    "other/raises_here.py": "def f():\n    raise KeyError('no')\nf()\n",
    "third/ropewalk.toml": "[tools]\nmodules = ['nothing', 'bad/name', 'third_syntax']\nwrong = 1\n[mcp.x]\n",
    "third/third_syntax.py": "def f(:\n",
    "fourth/ropewalk.toml": "[tools]\nmodules = [\n",
    "fifth/ropewalk.toml": "[providers.shop]\nopenapi = 'no.json'\n[mcp]\nfile = 'bad.json'\n",
    "fifth/bad.json": "{",
    "fifth/a.yaml": "kind: chain\nnodes: [{id: a, type: tool, tool: 'shop:x'}]\n",
}
COMMANDS = """\
validate
validate good.yaml syntax.yaml keys.yaml
validate flows.py:planned
validate flows.py:nothing
validate nowhere.yaml
validate mistake.py:f
validate raises.py:p
validate syntax.py:p
validate script.py
validate script.py:p
validate plan.yaml
validate calls.yaml
validate lacks.yaml
validate x
validate {home}/keys.yaml
validate {home}/flows.py:planned
validate {home}/nowhere.yaml
validate other/a.yaml
validate -C other
validate -C third
validate -C fourth
validate -C fifth
validate -C nowhere
validate fifth/a.yaml
preview syntax.yaml
graph flows.py:planned
convert boom.yaml --to agent
convert good.yaml --to plan -o nowhere/plan.yaml
run boom.yaml
run {home}/boom.yaml --log json
run flows.py:failing n=1
run flows.py:failing n=0
run flows.py:raising
run typed.yaml
run typed.yaml --input @data.json
run typed.yaml --input @nowhere.json
run typed.yaml --state nowhere.yaml
run good.yaml --store nowhere/runs.db
run good.yaml --store {home}/data.json
runs show nothing
runs ls --store {home}/nowhere/runs.db
runs export nothing --as-test
test
test bad.test.yaml
test {home}/differs.test.yaml
test nowhere.test.yaml
tools call boom x=1
tools call nothing
tools show nothing
new x
resume nothing
doctor -C other
doctor -C third
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("command", COMMANDS.splitlines())
def test_a_message_names_places_by_relative_paths_and_once(
    home: Path, command: str, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    code = dispatch(shlex.split(command.format(home=home)))
    out, err = capfd.readouterr()
    assert (code != 0, str(home) in out + err) == (True, False), err or out
    for line in (out + err).splitlines():
        places = re.findall(r"[\w./-]+\.\w+:\d+", line)
        assert len(places) == len(set(places)), line
