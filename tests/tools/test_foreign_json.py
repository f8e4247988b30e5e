"""JSON text that comes from outside: what we cannot keep exactly is told, never changed in silence."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from ropewalk import App, Runner, Toolbox
from ropewalk.errors import InvalidFlow
from ropewalk.tools.directory.rows import DatasetFailed, parse_rows
from ropewalk.values import parse_json

from .pipeline import MCP, Recorder, resolving, run

PAST = 2**64 + 1


def called(lab: Any) -> Any:
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]

    async def case() -> Any:
        async with Toolbox(providers={"p": {"url": lab.url, "tools": tools}}) as toolbox:
            return (await Runner(toolbox).run("p:t")).structured

    return asyncio.run(case())


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '["18446744073709551617", 1.5e30]', "[-9223372036854775808]", "7"]
)
def test_what_can_be_kept_is_the_same_as_ever(text: str) -> None:
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)


def test_an_mcp_text_that_is_but_a_long_number_stays_text() -> None:
    answer = {"content": [{"type": "text", "text": str(PAST)}], "isError": False}
    assert run(resolving([MCP], mcp=Recorder(answer))).structured == str(PAST)


@pytest.mark.parametrize(("format", "place"), [("json", "[1].n"), ("jsonl", "[1].n")])
def test_a_datasets_integer_past_64_bits_is_refused(format: str, place: str) -> None:
    rows = ['{"n": 1}', f'{{"n": {PAST}}}']
    text = f"[{','.join(rows)}]" if format == "json" else "\n".join(rows)
    with pytest.raises(DatasetFailed, match=re.escape(f"{place}: integer past 64 bits")):
        parse_rows(text.encode(), format, "d")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (f'[{{"id": "a", "type": "tool", "tool": "t", "params": {{"n": {PAST}}}}}]', "integer past 64 bits"),
        ('[{"id": "a", "id": "b", "type": "tool", "tool": "t"}]', "repeated key 'id'"),
        ("[", "the text ends where a value is expected"),
    ],
)
def test_an_imported_definition_is_read_as_strictly_as_a_file(nodes: str, said: str) -> None:
    async def case() -> None:
        async with App("memory") as app:
            await app.chains.import_chain(f'{{"nodes": {nodes}}}' if said[:3] != "the" else nodes)

    with pytest.raises(InvalidFlow, match=said):
        asyncio.run(case())
