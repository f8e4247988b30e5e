"""The YAML examples of docs/compositions.md give what they promise; its Python examples are run with all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chains.conftest import run
from chains.scripted import ScriptedTools
from chains.test_docs import BLOCK
from ropewalk.app import App
from ropewalk.source import load

TEXT = (Path(__file__).parents[2] / "docs" / "compositions.md").read_text("utf-8")
EXAMPLES = [pytest.param(m["code"], m["runs"], id=f"line{TEXT.count(chr(10), 0, m.start()) + 1}")
            for m in BLOCK.finditer(TEXT) if m["kind"] == "yaml"]  # fmt: skip


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
