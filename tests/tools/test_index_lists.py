"""The index lists namespaces and summaries page by page, and asks a searcher of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fork_server
from ropewalk import Tool, Toolbox
from ropewalk.errors import InvalidCursor, NotFound
from ropewalk.tools.tool import tool_from_dict


def box_of(*ids: str, description: str = "d") -> Toolbox:
    box = Toolbox()
    for id in ids:
        space, _, name = id.rpartition(":")
        box.register(Tool(name, description, {"type": "object"}, namespace=space or None), handler=lambda: None)
    return box


@given(st.sets(st.sampled_from(["t", "a:t", "b:t", "b:u", "c:t", "d:t"])), st.integers(1, 4))
def test_namespaces_come_page_by_page_the_empty_one_too(ids: set[str], limit: int) -> None:
    box = box_of(*sorted(ids))
    found: list[str] = []
    cursor = None
    while True:
        page = box.list_namespaces(limit=limit, cursor=cursor)
        assert len(page.namespaces) <= limit
        found += page.namespaces
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == sorted({id.rpartition(":")[0] for id in ids})


def test_a_cursor_is_of_one_list_and_of_one_state() -> None:
    box = box_of("a:t", "b:t")
    cursor = box.list_namespaces(limit=1).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidCursor, match="belongs to another search"):
        box.search(cursor=cursor)
    with pytest.raises(InvalidCursor, match="belongs to another search"):
        box.list_namespaces(cursor=box.search(limit=1).next_cursor)
    box.remove("b:t")
    with pytest.raises(InvalidCursor, match="have changed"):
        box.list_namespaces(cursor=cursor)
    for wrong in (0, 1001):
        with pytest.raises(ValueError, match="1 to 1000"):
            box.list_namespaces(limit=wrong)


def test_summaries_are_short() -> None:
    box = box_of("web:search", "sum", description="First line.\n\nMore of it.")
    page = box.summaries("first", limit=1)
    assert [summary.to_dict() for summary in page.summaries] == [
        {"id": "sum", "name": "sum", "namespace": "", "shortDescription": "First line.", "tags": []}
    ]
    assert [one.id for one in box.summaries("first", cursor=page.next_cursor).summaries] == ["web:search"]
    [long] = box_of("t", description="x" * 500).summaries().summaries
    assert len(long.short_description) == 120


def test_a_searcher_of_ones_own_finds_and_ranks() -> None:
    box = box_of("a", "b", "c")
    asked: list[str] = []

    def searcher(query: str, tools: Sequence[Tool]) -> list[Tool | str]:
        asked.append(query)
        return [tools[2], "a", "a"] if query else list(tools)

    box.searcher = searcher
    page = box.search("Best", limit=1)
    assert [tool.id for tool in page.tools] == ["c"]
    assert [tool.id for tool in box.search("Best", cursor=page.next_cursor).tools] == ["a"]
    assert [one.id for one in box.summaries("Best").summaries] == ["c", "a"]
    assert asked == ["Best"] * 3
    box.searcher = lambda query, tools: ["nope"]
    with pytest.raises(NotFound, match="the searcher found it"):
        box.search("x")


def test_icons_and_meta_of_mcp_tools_are_kept(tmp_path: Path) -> None:
    icons = [{"src": "https://example.org/i.png", "mimeType": "image/png"}]
    server = Path(__file__).parent.parent / "mcp_servers" / "payments.py"
    listed = server.read_text().replace(
        '"annotations": hints.get(name, {})', f'"icons": {icons!r}, "_meta": {{"team": "x"}}'
    )
    (tmp_path / "server.py").write_text(listed)

    async def run() -> Tool | None:
        async with Toolbox() as box:
            box.add_mcp("bank", {"command": fork_server.program("python"), "args": [str(tmp_path / "server.py")]})
            await box.connect("bank")
            return box.get("bank:text")

    tool = asyncio.run(run())
    assert tool is not None
    assert tool.to_dict()["icons"] == icons
    assert tool.to_dict()["_meta"] == {"team": "x"}
    assert tool_from_dict(tool.to_dict()) == tool
