"""Run the YAML examples of the pages about compositions. tests/test_docs.py runs their Python examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from chains.test_docs import BLOCK
from ropewalk.app.app import App
from ropewalk.source.load import load

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(m["code"], m["runs"], id=f"{name}-line{m.string.count(chr(10), 0, m.start()) + 1}")
    for name in ("compositions.md", "compositions-reference.md")
    for m in BLOCK.finditer((DOCS / name).read_text("utf-8"))
    if m["kind"] == "yaml"
]


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(("code", "runs"), EXAMPLES)
def test_an_example_gives_what_it_promises(code: str, runs: str | None, address: str) -> None:
    assert runs is not None, "say what the example gives: <!-- runs: {tools, input, expect} -->"
    case: dict[str, Any] = json.loads(runs)

    async def body() -> None:
        async with App(address) as app:
            tools = ScriptedTools(case["tools"])
            result = await app.run(load(code, form="yaml").data, case["input"], executor=tools)
            assert result["data"] == case["expect"]

    run(body())
