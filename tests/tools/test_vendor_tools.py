"""Lists of tools of other makers, and names of tools that an id cannot have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import Toolbox
from ropewalk.errors import InvalidTool
from ropewalk.select.selector import Selector
from ropewalk.tools.vendor_tools import read_tool_list
from ropewalk.values import distinct_names

RAW = Path(__file__).parent.parent / "mcp_servers" / "faulty.py"
SCHEMA: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOOK: Any = {"name": "look", "description": "Look."}
GEMINI: Any = {
    "type": "OBJECT",
    "properties": {
        "type": {"type": "STRING", "nullable": True, "enum": ["A"], "format": "enum"},
        "rows": {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1"},
        "any": {"anyOf": [{"type": "NUMBER"}, {"type": "TYPE_UNSPECIFIED"}]},
    },
    "propertyOrdering": ["type", "rows"],
}


@pytest.mark.parametrize(
    "tools",
    [
        [{**LOOK, "inputSchema": SCHEMA}],
        {"tools": [{**LOOK, "inputSchema": SCHEMA, "title": None}]},
        [{**LOOK, "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
        [{"type": "function", "function": {**LOOK, "parameters": SCHEMA, "strict": True}}],
        [{"type": "function", **LOOK, "parameters": SCHEMA, "strict": False}],
        {"functions": [{**LOOK, "parameters": SCHEMA}]},
        [{**LOOK, "parameters": {key: value for key, value in SCHEMA.items() if key != "type"}}],
        [{"functionDeclarations": [{**LOOK, "parametersJsonSchema": SCHEMA}]}],
        {"function_declarations": [{**LOOK, "parameters": {**SCHEMA, "type": "OBJECT"}}]},
        {"tools": [{"toolSpec": {**LOOK, "inputSchema": {"json": SCHEMA}}}]},
        [{**LOOK, "args_schema": SCHEMA, "return_direct": False, "metadata": None}],
    ],
)
def test_a_list_in_any_known_form_has_the_tools_schema(tools: Any) -> None:
    [entry] = read_tool_list(tools)
    assert {key: entry[key] for key in ("name", "description", "inputSchema")} == {**LOOK, "inputSchema": SCHEMA}
    [read] = Selector(tools).select("look").results
    assert read["inputSchema"] == SCHEMA
    box = Toolbox(providers={"p": {"url": "http://h", "tools": tools}})
    tool = box.get("p:look")
    assert tool is not None
    assert tool.input_schema == SCHEMA


def test_the_types_of_gemini_are_those_of_json_schema() -> None:
    [entry] = read_tool_list(
        [{"functionDeclarations": [{**LOOK, "parameters": GEMINI, "response": {"type": "STRING"}}]}]
    )
    assert entry["inputSchema"] == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"], "enum": ["A", None]},
            "rows": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "any": {"anyOf": [{"type": "number"}, {}]},
        },
    }
    assert entry["outputSchema"] == {"type": "string"}


def test_only_the_properties_of_langchain_are_a_schema() -> None:
    [entry] = read_tool_list([{**LOOK, "args": {"city": {"type": "string"}}}])
    assert entry["inputSchema"] == {"type": "object", "properties": {"city": {"type": "string"}}}
    assert "inputSchema" not in read_tool_list([LOOK])[0]


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({"look": LOOK}, "an object with one of: tools"),
        ("look", "must be a list, not str"),
        ([1], "tool 1 must be an object, not int"),
        ([{"description": "d"}], "tool 1 needs a name"),
        ([{**LOOK, "schema": SCHEMA}], "unknown key 'schema', and no schema of its arguments"),
        ([{**LOOK, "parameter": SCHEMA}], "did you mean 'parameters'"),
        ([{**LOOK, "parameters": {"city": "the city"}}], "parameters must be a JSON Schema"),
        ([{**LOOK, "parameters": [{"name": "city"}]}], "parameters must be an object, not list"),
        ([{**LOOK, "parameters": SCHEMA, "inputSchema": {"type": "object"}}], "two different schemas"),
        ([{"type": "web_search_20250305", "name": "web_search"}], "only its maker runs"),
        ([{"type": "code_interpreter", "container": {}}], "needs a name"),
        ([{"functionDeclarations": [LOOK], "googleSearch": {}}], "'googleSearch' next to"),
    ],
)
def test_a_list_of_an_unknown_form_is_refused_and_never_read_without_its_schema(tools: Any, said: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        read_tool_list(tools)
    assert said in str(caught.value)


@pytest.mark.parametrize("turn", [1, -1])
def test_names_that_an_id_cannot_have_stay_distinct_and_a_tools_own_name_is_kept(turn: int) -> None:
    names = ["空間", "時間", "a b", "a_b", "a/b", "go on", "ünï", "x" * 130, "x" * 129 + "y", "plain", ""][::turn]
    ids = distinct_names(names)
    assert len(set(ids.values())) == len(ids) == 10
    assert {name: ids[name] for name in ("a_b", "plain", "go on")} == {"a_b": "a_b", "plain": "plain", "go on": "go_on"}
    assert all(text.isascii() and 0 < len(text) <= 128 for text in ids.values())
    assert ids["空間"].startswith("tool_")
    assert ids == distinct_names(names[::-1])


def test_a_cursor_that_comes_again_keeps_the_tools_that_were_read(caplog: pytest.LogCaptureFixture) -> None:
    server = {"command": fork_server.program("python"), "args": [str(RAW), "same_page"]}

    async def case() -> None:
        async with Toolbox(mcp={"s": server}) as box:
            assert (box.ids(), box.failures) == (["s:go"], {})

    asyncio.run(case())
    assert "comes again" in caplog.text
