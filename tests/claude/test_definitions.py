"""Tools as the model is told of them, and results as it reads them: what the Messages API refuses never gets there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ropewalk.agents import complete_with_tools
from ropewalk.agents.tool_definitions import convert_input_schema, make_cards
from ropewalk.app.app import App
from ropewalk.journal.memory import MemoryStore
from ropewalk.notations.agent import rendered, result
from ropewalk.schema import compile_schema
from ropewalk.testing import ScriptedModel, results_in, wants
from ropewalk.tools.tool import Tool
from tools.mcp_lab import node

from .wire import check_pairs

OBJECT: dict[str, Any] = {"type": "object"}


def names(*ids: str) -> list[str]:
    tools = [Tool(id.split(":")[-1], "", OBJECT, namespace=id.split(":")[0] if ":" in id else None) for id in ids]
    return [card.name for card in make_cards(tools).cards]


def test_names_are_safe_unique_and_short() -> None:
    assert names("add", "fs:read_file") == ["add", "read_file"]
    assert names("a:read", "b:read", "c:write") == ["a_read", "b_read", "write"]
    assert names("get.user-info", "x:get.item") == ["get_user-info", "get_item"]
    long = "n" * 100
    found = names(long, long[:-1] + "m", "a.b", "a_b", "x:a", "x_a", "y:a")
    assert len(set(found)) == 7
    assert all(len(name) <= 64 for name in found)
    assert names(long) == names(long)
    assert names("read", "b:read")[1] == "b_read"


def test_a_renamed_tool_is_called_by_its_own_name() -> None:
    async def run() -> None:
        def named(space: str) -> Tool:
            async def handler() -> str:
                return f"read by {space}"

            return Tool("read.file", "Reads.", OBJECT, namespace=space, handler=handler)

        model = ScriptedModel([wants("one_read_file"), wants("two_read_file")], "done")
        tools = [named("one"), named("two")]
        done = await complete_with_tools("go", tools=tools, client=model)
        assert [one["name"] for one in model.requests[0].tools] == ["one_read_file", "two_read_file"]
        assert [(use["tool"], use["outcome"]["value"]) for use in done.trace] == [
            ("one:read.file", "read by one"),
            ("two:read.file", "read by two"),
        ]

    asyncio.run(run())


BY_ID = {"properties": {"id": {"type": "integer"}}, "required": ["id", "kind"]}
BY_NAME = {"properties": {"name": {"type": "string"}, "id": {"type": "string"}}, "required": ["name", "kind"]}


@pytest.mark.parametrize("choice", ["oneOf", "anyOf"])
def test_a_choice_at_the_top_is_one_object_that_all_forms_fit(choice: str) -> None:
    original = {"type": "object", "properties": {"kind": {"type": "string"}}, choice: [BY_ID, BY_NAME]}
    [card] = make_cards([Tool("find", "Finds.", original)]).cards
    schema: Any = card.definition["input_schema"]
    assert set(schema) == {"type", "properties", "required"}
    assert schema["required"] == ["kind"]
    assert schema["properties"]["id"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    told = compile_schema(schema)
    for fitting in ({"kind": "k", "id": 3}, {"kind": "k", "name": "n"}):
        assert compile_schema(original).is_valid(fitting)
        assert told.is_valid(fitting)
    assert "of these forms: " in str(card.definition["description"])
    assert '"name"' in str(card.definition["description"])
    assert make_cards([Tool("find", "Finds.", original)]).notes == (
        f"find: {choice} at the top of its input schema is described in words; calls are checked against the original",
    )


def test_all_of_and_references_at_the_top_are_put_together() -> None:
    original = {
        "$ref": "#/$defs/Whole",
        "$defs": {
            "Whole": {
                "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"$ref": "#/$defs/B"}}, "required": ["b"]}]
            },
            "A": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            "B": {"type": "integer"},
        },
    }  # fmt: skip
    schema, notes = convert_input_schema(original)
    assert schema is not None
    assert notes == []
    assert not {"allOf", "$ref"} & set(schema)
    assert (set(schema["properties"]), set(schema["required"])) == ({"a", "b"}, {"a", "b"})
    assert compile_schema(schema).is_valid({"a": "x", "b": 1})
    assert not compile_schema(schema).is_valid({"a": "x", "b": "1"})


def test_what_cannot_be_told_is_left_out_and_said() -> None:
    around = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    tools = [
        Tool("round", "", around, handler=str),
        Tool("gone", "", {"$ref": "#/$defs/none"}, handler=str),
        Tool("odd", "", {"type": "object", "properties": {"a b": {}, "ok": {}}}, handler=str),
        Tool("needs", "", {"type": "object", "properties": {"a b": {}}, "required": ["a b"]}, handler=str),
    ]
    found = make_cards(tools)
    assert [card.tool for card in found.cards] == ["odd"]
    assert list(found.cards[0].definition["input_schema"]["properties"]) == ["ok"]  # type: ignore[index,call-overload]
    assert len(found.notes) == 4
    assert all("left out" in note or "does not accept" in note for note in found.notes)
    done = asyncio.run(complete_with_tools("go", tools=tools, client=ScriptedModel("done")))
    assert done.warnings == found.notes


def test_an_empty_description_is_never_sent() -> None:
    [card] = make_cards([Tool("x", "", OBJECT, annotations={"title": "The X"})]).cards
    assert card.definition["description"] == "The X"


# --- results --------------------------------------------------------------------------------------


def test_large_results_are_cut_for_the_model_and_kept_in_the_trace() -> None:
    large = "x" * 10_000_000

    async def run() -> None:
        async def dump() -> str:
            return large

        model = ScriptedModel(wants("dump"), "done")
        tool = Tool("dump", "Gives a lot.", OBJECT, handler=dump)
        async with App(MemoryStore(durable=True), tools=[tool], model=model) as app:
            done = await complete_with_tools("go", tools=["dump"], app=app, result_size=1000)
            assert done.trace[0]["outcome"]["value"] == large
            kept = next(e for e in app.runs.history(done.run_id) if e.path.endswith("call.dump"))
            assert kept.data == {"value": large}
        [sent] = results_in(model.requests[1])
        assert sent["content"].startswith("x" * 1000 + "\n[cut: the first 1,000 of 10,000,000 characters")
        assert len(sent["content"]) < 1100
        assert done.messages[2]["content"] == [sent]

    asyncio.run(run())


PNG = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
        (
            {"type": "image", "data": PNG, "mimeType": "image/png"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        ),
        (
            {"type": "image", "data": PNG, "mimeType": "image/tiff"},
            {"type": "text", "text": "[image image/tiff, 9 bytes: it cannot be shown here]"},
        ),
        (
            {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
            {"type": "text", "text": "[audio audio/wav, 9 bytes: it cannot be played here]"},
        ),
        (
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "description": "The a."},
            {"type": "text", "text": "[link file:///a.txt: a, The a.]"},
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            {"type": "text", "text": "[file:///a.txt]\ninside"},
        ),
        (
            {"type": "resource", "resource": {"uri": "f", "mimeType": "application/pdf", "blob": PNG}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}},
        ),
        (
            {"type": "resource", "resource": {"uri": "f", "mimeType": "application/zip", "blob": PNG}},
            {"type": "text", "text": "[f application/zip, 9 bytes: it cannot be shown here]"},
        ),
        ({"type": "new", "x": 1}, {"type": "text", "text": '{"type":"new","x":1}'}),
        ({"type": "text", "text": ""}, {"type": "text", "text": "(no output)"}),
    ],
)
def test_parts_of_results_become_blocks_that_the_api_knows(part: dict[str, Any], block: dict[str, Any]) -> None:
    from anthropic.types import ToolResultBlockParam
    from pydantic import TypeAdapter

    found = result({"value": None, "content": [part]})
    assert found == {"content": [block]}
    TypeAdapter(ToolResultBlockParam).validate_python({"type": "tool_result", "tool_use_id": "1", **found})


def test_values_are_told_as_json_and_nothing_as_no_output() -> None:
    assert result({"value": {"a": [1]}}) == {"content": '{"a":[1]}'}
    assert result({"value": None}) == {"content": "(no output)"}
    assert result({"value": ""}) == {"content": ""}
    assert result({"error": "bad"}) == {"content": "bad", "is_error": True}
    assert result({"error": "e" * 50}, 10)["content"].startswith("e" * 10 + "\n[cut")


def test_all_texts_of_a_result_share_the_size_it_may_have() -> None:
    parts = [{"type": "text", "text": "a" * 80}, {"type": "image", "data": PNG, "mimeType": "image/png"}]
    found = result({"value": None, "content": [*parts, *parts, *parts]}, 100)["content"]
    assert [block["type"] for block in found] == ["text", "image", "text", "image", "image"]
    assert found[2]["text"].startswith("a" * 20 + "\n[cut")


@pytest.mark.node
def test_pictures_and_links_of_a_real_mcp_server_reach_the_model() -> None:
    async def run() -> None:
        model = ScriptedModel([wants("get-tiny-image"), wants("get-resource-links", {"count": 2})], "done")
        async with App("memory", model=model) as app:
            app.toolbox.add_mcp("every", node("server-everything", "stdio"))
            done = await complete_with_tools("go", tools=["get-tiny-image", "every:get-resource-links"], app=app)
        picture, links = results_in(model.requests[1])
        assert "image" in [block["type"] for block in picture["content"]]
        assert [block["type"] for block in links["content"]] == ["text"] * 3
        assert links["content"][1]["text"].startswith("[link ")
        assert done.warnings == ()
        check_pairs(done.messages)

    asyncio.run(run())


def test_messages_without_content_are_not_sent() -> None:
    system, sent = rendered(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": {"rows": [1]}},
            {"role": "assistant", "content": []},
            {"role": "user", "content": ""},
        ],
        [],
    )
    assert system == "Be brief."
    assert sent == [{"role": "user", "content": '{"rows":[1]}'}, {"role": "user", "content": ""}]
