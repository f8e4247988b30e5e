"""Drawings of chains say what their documents say, in the same words; tools of servers that there are not, too."""

from __future__ import annotations

import asyncio

import pytest

from ropewalk import App
from ropewalk.draw import svg, text
from ropewalk.errors import NotFound
from ropewalk.notations.registry import notation_of
from ropewalk.tools.toolbox import Toolbox

TOOL = {"type": "tool", "tool": "t"}
CHAIN = {
    "id": "c",
    "nodes": [
        {"id": "l", "type": "loop", "items": "$input", "concurrency": 4, "maxIterations": 3,
         "nodes": [{"id": "a", **TOOL, "errorStrategy": "skip"}]},
        {"id": "m", "type": "loop", "items": "$input", "maxIterations": 5,
         "nodes": [{"id": "b", **TOOL, "errorStrategy": "continue"}]},
        {"id": "u", "type": "loop", "until": "false",
         "nodes": [{"id": "d", **TOOL, "errorStrategy": "fallback", "fallback": None}]},
        {"id": "p", "type": "parallel", "concurrency": 2, "nodes": [{"id": "e", **TOOL}]},
        {"id": "j", **TOOL, "onError": "k"},
        {"id": "k", **TOOL},
    ],
}  # fmt: skip


def test_numbers_and_failures_are_drawn_in_the_words_of_the_document() -> None:
    flow = notation_of(CHAIN).compile(CHAIN).flow
    lines = text(flow).splitlines()
    assert [line.lstrip("├─└│ ") for line in lines if "= " not in line][1:] == [
        "l  Map · concurrency: 4 · maxIterations: 3 · items: $input",
        "a  Call t · errorStrategy: skip",
        "m  Loop · maxIterations: 5 · items: $input",
        "b  Call t · errorStrategy: continue",
        "u  Loop · maxIterations: 10 · until: false",
        "d  Call t · fallback: null",
        "p  Block · concurrency: 2",
        "e  Call t",
        "j  Call t · onError: k",
        "k  Call t",
    ]
    drawn = svg(flow)
    assert all(word in drawn for word in ("concurrency: 4", "maxIterations: 3", "errorStrategy: skip", "onError: k"))
    assert "on error" not in drawn
    assert "limit: " not in drawn


def test_a_tool_of_a_server_that_there_is_not_is_told_as_that() -> None:
    async def work() -> None:
        box = Toolbox()
        box.add_mcp("notes", {"command": "nothing-there"})
        async with App("memory", toolbox=box) as app:
            nodes = [
                {"id": "a", "type": "tool", "tool": "git:git_log"},
                {"id": "b", "type": "tool", "tool": "note:add"},
            ]
            found = app.check(app.load({"id": "c", "kind": "chain", "nodes": nodes}))
            assert [str(one).partition(": ")[2] for one in found.warnings] == [
                "tool 'git:git_log': no server 'git' in ropewalk.toml or .mcp.json",
                "tool 'note:add': no server 'note' in ropewalk.toml or .mcp.json; did you mean 'notes'?",
            ]
            with pytest.raises(NotFound, match=r"no server 'note' in .*; did you mean 'notes'"):
                await box.find("note:add")

    asyncio.run(work())
