"""Mypy and pyright take right calls of tools and of the language in a plan, and refuse wrong ones."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mypy import api as mypy

from ropewalk.tools.stubs import servers_stub
from ropewalk.tools.tool import Tool
from tools.mcp_lab import node_script

SOURCE = Path(__file__).parents[2] / "src"
TEXT = {"type": "string"}


def object_of(required: str = "", **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": required.split()}


ORDER = object_of("id lines", id={"type": "integer"}, lines={"type": "array", "items": object_of("sku", sku=TEXT)})
TREE = {**object_of("name", name=TEXT, parts={"type": "array", "items": {"$ref": "#/$defs/t"}})}
TOOLS = {
    "get": Tool("get", 'Says "hello".', object_of("id", id={"type": "integer"}, at=TEXT), output_schema=ORDER),
    "put": Tool("put", "Puts \\ it.", object_of("order", order=ORDER, mode={"enum": ["new", "old", 3, None]})),
    "list": Tool("list", "", object_of(limit={"type": ["integer", "null"], "default": None}),
                 output_schema={"type": "array", "items": {"type": "number"}}),
    "tag": Tool("tag", 'Ends in """', object_of("my-key", **{"my-key": TEXT, "class": TEXT, "self": TEXT})),
    "tree": Tool("tree", "", {"$ref": "#/$defs/t", "$defs": {"t": TREE}}, output_schema={"$ref": "#", **TREE,
                 "$defs": {"t": TREE}}),
    "open": Tool("open", "", {"type": "object"}, output_schema={"type": "object", "additionalProperties": TEXT}),
    "import": Tool("import", "", {"type": "object"}),
}  # fmt: skip
NEST = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 60} for at in range(12)}
ODD = [
    {"type": "object", "properties": {"a": True, "b": {}, "c": {"const": 1.5}, "d": {"enum": []}, "e": {"anyOf": []}}},
    {
        "type": "object",
        "properties": {"a": {"const": 'x\n"""\\'}, "b\n\"'": TEXT, "__x": {}, "": {}},
        "required": ["b\n\"'"],
    },
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}, object_of("a", a={"enum": [{"x": 1}, [2]]})]},
    {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}, "q": {"$ref": "#/$defs/a0"}}, "$defs": NEST},
    {"type": "object", "properties": {"a": object_of(__a=TEXT, **{"def": TEXT, "": TEXT}), "b": {"type": []}}},
]
for each, schema in enumerate(ODD):
    TOOLS[f"odd{each}"] = Tool(f"odd{each}", 'd"""\\N{x}"', schema, output_schema=schema)  # type: ignore[arg-type]
RIGHT = """
from datetime import datetime

from ropewalk import ToolError, plan
from ropewalk.plans import Rejected, approve, call_tool, now, random, uuid, value, wait_for
from ropewalk.servers import down, shop
from ropewalk.servers import shop as again

@plan
async def right(number: int) -> str:
    order = await shop.get(id=number, at="noon")
    first: str = order["lines"][0]["sku"]
    await shop.put(order={"id": 1, "lines": [{"sku": first}]}, mode="new")
    await shop.put(order=order, mode=None)
    total: float = sum(await again.list(limit=None))
    await shop.tag(**{"my-key": "a", "class": "b"}, self="c")
    tree = await shop.tree(name="a", parts=[{"name": "b", "parts": [{"name": "c"}]}])
    answers = await shop.open(anything=[1])
    try:
        await down.whatever()
    except ToolError as error:
        return str(error)
    return answers["a"] + tree["name"] + str(total)

@plan
async def asks(handle: str) -> str:
    begun: datetime = now()
    answer = await approve("Go?", timeout=60)
    if not answer:
        return answer.note or answer.by
    try:
        await approve(question="Again?")
    except Rejected as error:
        return str(error)
    paid = await wait_for("paid", timeout=3.5)
    rows = await call_tool("shop:import", {"a": 1}, b=2)
    rate: float = random()
    return uuid() + str([value(handle), paid, rows, rate, begun])
"""
WRONG = """
from ropewalk import plan
from ropewalk.plans import approve, call_tool, uuid, wait_for
from ropewalk.servers import shop
from ropewalk.servers import shopp

@plan
async def wrong(number: int) -> int:
    await shop.got(id=1)
    await shop.get()
    await shop.get(id="1")
    await shop.get(id=1, att="noon")
    await shop.put(order={"id": 1, "lines": [{"skuu": "a"}]})
    await shop.put(order={"id": 1, "lines": []}, mode="neww")
    await shop.tag(self="c")
    await shop.tree(name="a", parts=[{"name": "b", "parts": [{"name": 3}]}])
    await approve(uuid)
    await wait_for("paid", timeout="5s")
    await call_tool(name=3)
    return (await shop.get(id=1))["lines"]
"""
MYPY = f"""[mypy]
strict = true
mypy_path = typings:{SOURCE}
[mypy-ropewalk.*]
follow_imports = skip
"""
for each in ("", ".app.plan_function", ".errors", ".plans", ".servers"):  # the others take mypy most of a minute
    MYPY += f"[mypy-ropewalk{each}]\nfollow_imports = silent\n"


@pytest.mark.node
def test_both_checkers_take_right_calls_and_refuse_wrong_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubs = tmp_path / "typings" / "ropewalk" / "servers" / "__init__.pyi"
    stubs.parent.mkdir(parents=True)
    stubs.write_text(servers_stub({"shop": TOOLS, "Shop": {}, "int": TOOLS, "down": None, "class": {}}))
    for name, text in (("right.py", RIGHT), ("wrong.py", WRONG), ("mypy.ini", MYPY)):
        (tmp_path / name).write_text(text)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(SOURCE)], "reportUnusedExpression": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    monkeypatch.chdir(tmp_path)
    wrong = {number for number, line in enumerate(WRONG.splitlines(), 1) if "shopp" in line or "await" in line}
    assert len(wrong) == 13

    output, _, _ = mypy.run(["--cache-dir=/dev/null", "right.py", "wrong.py"])
    found = [(file, int(line)) for file, line in re.findall(r"^(\S+?):(\d+): error", output, re.MULTILINE)]
    assert {(file, line) for file, line in found} == {("wrong.py", line) for line in wrong}, output

    pyright = subprocess.run(
        ["node", node_script("pyright", scope="", file="index.js"), "--outputjson"], capture_output=True, check=False
    )
    report = json.loads(pyright.stdout)["generalDiagnostics"]
    places = {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in report}
    assert places == {("wrong.py", line) for line in wrong}, report
