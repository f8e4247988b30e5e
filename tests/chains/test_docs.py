"""Run the examples of the pages about chains: Python blocks run, YAML blocks give the promised results."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from ropewalk.app.app import App
from ropewalk.source.load import load

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {name: (DOCS / name).read_text("utf-8") for name in ("chains.md", "chains-reference.md", "chains-failures.md")}
BLOCK = re.compile(r"^(?:<!-- runs: (?P<runs>.*?) -->\n)?```(?P<kind>python|yaml)\n(?P<code>.*?)^```$", re.M | re.S)
BLOCKS = [(name, match) for name, text in PAGES.items() for match in BLOCK.finditer(text)]


def of(kind: str) -> list[Any]:
    return [
        pytest.param(m["code"], m["runs"], id=f"{name}-line{m.string.count(chr(10), 0, m.start()) + 1}")
        for name, m in BLOCKS
        if m["kind"] == kind
    ]


def test_the_page_has_examples() -> None:
    assert len(of("python")) >= 3
    assert len(of("yaml")) >= 4


@pytest.mark.parametrize(("code", "runs"), of("python"))
def test_a_python_example_runs(code: str, runs: str | None, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("code", "runs"), of("yaml"))
def test_a_yaml_example_gives_what_it_promises(code: str, runs: str | None, address: str) -> None:
    assert runs is not None, "say what the example gives: <!-- runs: {tools, context, expect} -->"
    case = json.loads(runs)

    async def body() -> None:
        async with App(address) as app:
            made = await app.chains.create_chain(load(code, form="yaml").data)
            result = await app.chains.execute_chain(made.id, case.get("context"), ScriptedTools(case["tools"]))
            assert result.errors == []
            assert result.results == case["expect"]

    run(body())
