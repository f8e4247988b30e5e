"""Never a poisoned request: whatever a caller, a tool or a server gives, the Messages API gets what it accepts.

Each case goes over the wire to a strict stand-in, which answers an invalid request with a 400.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.agents import ClaudeClient, Completion, Settings, complete_json_with_tools, complete_with_tools
from ropewalk.agents.model import Request
from ropewalk.agents.request_checks import to_sendable_request
from ropewalk.tools.tool import Tool
from tiers import examples

from .judge import judge
from .judged import counted
from .strict_api import StrictApi, use

pytestmark = pytest.mark.process

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 24).decode()
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
MARK = {"type": "ephemeral"}


def client(api: StrictApi) -> ClaudeClient:
    return ClaudeClient(Settings(base_url=api.url, stream=False, max_retries=0), api_key="no-key")


def tool_of(schema: dict[str, Any], name: str = "look", description: str = "Looks.") -> Tool:
    async def look(**given: Any) -> str:
        return f"saw {given}"

    return Tool(name, description, schema, handler=look)


def talk(api: StrictApi, **options: Any) -> Completion:
    return asyncio.run(complete_with_tools(client=client(api), **options))


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def assistant(*content: Any) -> dict[str, Any]:
    return {**user(*content), "role": "assistant"}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def image(data: Any, media: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def pdf(data: Any) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}


# --- schemas --------------------------------------------------------------------------------------

SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "tuple": ({"items": [{"type": "string"}], "additionalItems": False, "type": "array"}, "older draft"),
    "exclusive": ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, "older draft"),
    "not exclusive": ({"type": "number", "maximum": 9, "exclusiveMaximum": False}, "older draft"),
    "draft-03 type": ({"type": "any"}, "older draft"),
    "draft-03 required": ({"type": "string", "required": True}, "older draft"),
    "dependencies": ({"type": "object", "dependencies": {"a": ["b"], "b": {"required": ["c"]}}}, "older draft"),
    "nullable": ({"type": "string", "nullable": True}, ""),
    "no such type": ({"type": "bytes"}, "is 'bytes', which is not a JSON type"),
    "no types": ({"type": []}, "not a JSON type"),
    "not a schema": ("string", "is not a schema"),  # type: ignore[dict-item]
    "nothing": (None, "is not a schema"),  # type: ignore[dict-item]
    "remote": ({"$ref": "https://example.com/schema.json"}, "which is not in the schema"),
    "dangling": ({"$ref": "#/definitions/none"}, "which is not in the schema"),
    "definition": ({"$ref": "#/definitions/point"}, "older draft"),
    "into a tuple": ({"$ref": "#/definitions/pair/items/0"}, "older draft"),
    "dangling in an unknown keyword": ({"x-note": [{"$ref": "none"}]}, "which is not in the schema"),
    "recursive": ({"$ref": "#"}, ""),
    "wrong limit": ({"type": "string", "minLength": "3"}, "is not valid there"),
    "wrong enum": ({"enum": "a"}, "is not valid there"),
    "false": (False, ""),  # type: ignore[dict-item]
}
DEFINITIONS = {
    "point": {"id": "#point", "type": "object", "properties": {"next": {"$ref": "#/definitions/point"}}},
    "pair": {"type": "array", "items": [{"type": "string"}]},
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_of_any_draft_is_converted_and_the_tool_is_named(kind: str) -> None:
    inner, said = SCHEMAS[kind]
    around: dict[str, Any] = {"type": "object", "properties": {"arg": inner}}
    if "definitions" in str(inner):
        around["definitions"] = DEFINITIONS
    with StrictApi("done") as api:
        done = talk(api, prompt="go", tools=[tool_of(around), tool_of({"type": "object"}, "other")])
        assert (done.text, api.refused) == ("done", [])
        assert [tool["name"] for tool in api.bodies[0]["tools"]] == ["look", "other"]
    assert [line for line in done.warnings if line.startswith("look: ") and said in line] or not said
    assert not [line for line in done.warnings if line.startswith("other")]


TOPS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, True),
    "no type": ({"properties": {"a": {"type": "string"}}}, True),
    "draft-04": ({"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x", "type": "object"}, True),
    "draft-07": ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, True),
    "2019-09": ({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True}, True),
    "types": ({"type": ["object", "null"]}, True),
    "anyOf": ({"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object"}]}, True),
    "oneOf into itself": ({"oneOf": [{"properties": {"a": {"$ref": "#/oneOf/1"}}}, {"type": "object"}]}, True),
    "allOf": ({"allOf": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"type": "object"}}}, True),
    "names": ({"type": "object", "properties": {"a b": {}, "ü": {}, "n" * 70: {}, "fine": {}}}, True),
    "required twice": ({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}, True),
    "required of a property": ({"type": "object", "properties": {"a": {"type": "string"}}, "required": True}, True),
    "wrong properties": ({"type": "object", "properties": ["a"]}, True),
    "only an array": ({"allOf": [{"type": "array"}]}, False),
    "an impossible name": ({"type": "object", "properties": {"a b": {}}, "required": ["a b"]}, False),
    "leads nowhere": ({"$ref": "#/nowhere"}, False),
}


@pytest.mark.parametrize("kind", TOPS)
def test_a_schema_is_converted_at_its_top_or_its_tool_is_left_out_by_name(kind: str) -> None:
    schema, kept = TOPS[kind]
    with StrictApi("done") as api:
        done = talk(api, prompt="go", tools=[tool_of(schema), tool_of({"type": "object"}, "other")])
        assert (done.text, api.refused) == ("done", [])
        assert [tool["name"] for tool in api.bodies[0]["tools"]] == (["look", "other"] if kept else ["other"])
    assert kept or any(line.startswith("look: left out: ") for line in done.warnings)


def test_the_only_tool_left_out_leaves_a_conversation_without_tools() -> None:
    with StrictApi("done") as api:
        done = talk(api, prompt="go", tools=[tool_of({"$ref": "#/no"})], tool_choice={"type": "tool", "name": "look"})
        assert "tools" not in api.bodies[0]
        assert "tool_choice" not in api.bodies[0]
        talk(api, prompt="go", tool_choice={"type": "any"})
        assert api.refused == []
    assert any(line.startswith("tool_choice: ") for line in done.warnings)


def test_long_descriptions_are_cut_and_blank_ones_are_not_sent() -> None:
    with StrictApi("done") as api:
        tools = [tool_of({"type": "object"}, "long", "x" * 100_000), tool_of({"type": "object"}, "blank", " \n")]
        done = talk(api, prompt="go", tools=tools)
        long, blank = api.bodies[0]["tools"]
    assert len(long["description"]) == 20_000
    assert blank["description"] == "blank"
    assert done.warnings == ("long: its description has 100,000 characters; the model gets the first 20,000",)


# --- messages -------------------------------------------------------------------------------------

CONVERSATIONS: dict[str, tuple[list[Any], str]] = {
    "an echoed empty text": ([user("a"), assistant(text(""), USE), user(RESULT)], "messages[1].content[0]"),
    "a blank text": ([user("a"), assistant(text(" \n"), text("b")), user("c")], "messages[1].content[0]"),
    "empty content": ([user("a"), assistant("b"), user("")], "messages[2]"),
    "an empty message of the user": ([user("a"), assistant("b"), user(), user("c")], ""),
    "an empty message of the assistant": ([user("a"), assistant(), user("c")], ""),
    "null": ([user("a"), {"role": "assistant", "content": None}, user("c")], "messages[1]"),
    "an object": ([user("a"), assistant("b"), {"role": "user", "content": {"rows": [1]}}], ""),
    "strings as blocks": ([{"role": "user", "content": ["a", "b"]}], "messages[0].content[0]"),
    "the assistant first": ([assistant("b"), user("a")], "messages[0]"),
    "one role twice": ([user("a"), user("b"), assistant("c"), assistant("d"), user("e")], ""),
    "another role": ([user("a"), {"role": "tool", "content": "b"}], "messages[1]"),
    "a system prompt in the middle": (
        [user("a"), {"role": "system", "content": "Be brief."}, user("b")],
        "messages[1]",
    ),
    "a blank system prompt": ([{"role": "system", "content": "  "}, user("a")], "system"),
    "white space at the end": ([user("a"), assistant("The answer is ")], "messages[1]"),
    "nothing but white space at the end": ([user("a"), assistant("b"), user("c"), assistant(" ")], "messages[3]"),
    "fields of an answer": ([user("a"), {**assistant("b"), "id": "msg_1", "usage": {}}, user("c")], ""),
    "fields of a block": ([user(text("a", id=1, annotations=None))], "messages[0].content[0]"),
    "a call without a result": ([user("a"), assistant(USE), user("b")], "messages[2]"),
    "a call at the end": ([user("a"), assistant(USE)], "messages"),
    "a call after a call": ([user("a"), assistant(USE), assistant({**USE, "id": "t2"}), user(RESULT)], "messages[3]"),
    "a result without a call": ([user(RESULT)], "messages[0]"),
    "a result of long ago": ([user("a"), assistant(USE), user("b"), assistant("c"), user(RESULT)], "messages[4]"),
    "two results": ([user("a"), assistant(USE), user(RESULT, RESULT)], "messages[2]"),
    "a result that comes last": ([user("a"), assistant(USE), user(text("b"), RESULT)], ""),
    "one id for two calls": ([user("a"), assistant(USE, USE), user(RESULT, RESULT)], "messages[1]"),
    "an id used again": ([user("a"), assistant(USE), user(RESULT), assistant(USE), user(RESULT)], "messages[3]"),
    "an id of another API": (
        [user("a"), assistant({**USE, "id": "call:1.x"}), user({**RESULT, "tool_use_id": "call:1.x"})],
        "messages[1]",
    ),
    "no id": ([user("a"), assistant({**USE, "id": ""}), user({**RESULT, "tool_use_id": ""})], "messages[1]"),
    "a name of another API": ([user("a"), assistant({**USE, "name": "fs:read.file"}), user(RESULT)], "messages[1]"),
    "arguments that are a text": ([user("a"), assistant({**USE, "input": "{}"}), user(RESULT)], "messages[1]"),
    "a call of the user": ([user("a", ), assistant("b"), user(USE)], "messages[2].content[0]"),
    "a result of the assistant": ([user("a"), assistant(RESULT), user("b")], "messages[1].content[0]"),
    "a failure without words": ([user("a"), assistant(USE), user({**RESULT, "content": "", "is_error": True})], ""),
    "a failure with an image": (
        [user("a"), assistant(USE), user({**RESULT, "content": [image(PNG)], "is_error": True})],
        "messages[2].content[0].content[0]",
    ),
    "an empty text in a result": ([user("a"), assistant(USE), user({**RESULT, "content": [text("")]})], ""),
    "a number as a result": ([user("a"), assistant(USE), user({**RESULT, "content": 5})], "messages[2].content[0]"),
    "unsigned thinking": (
        [user("a"), assistant({"type": "thinking", "thinking": "b"}, text("c")), user("d")],
        "messages[1]",
    ),
    "an image that is not base64": ([user(image("not base64!"))], "messages[0].content[0]"),
    "an empty image": ([user(image(""))], "messages[0].content[0]"),
    "an image without data": ([user(image(None))], "messages[0].content[0]"),
    "an unknown media type": ([user(image(PNG[8:], "image/tiff"))], "messages[0].content[0]"),
    "the wrong media type": ([user(image(PNG, "image/jpeg"))], "messages[0].content[0]"),
    "jpg": ([user(image(base64.b64encode(b"\xff\xd8\xff" + b"0" * 9).decode(), "image/jpg"))], "messages[0]"),
    "a data URL": ([user(image("data:image/png;base64," + PNG))], ""),
    "lines of base64": ([user(image(PNG[:8] + "\n" + PNG[8:]))], ""),
    "an image too large": ([user(image(PNG + "A" * (6 << 20)))], "messages[0].content[0]"),
    "an image of MCP": ([user({"type": "image", "data": PNG, "mimeType": "image/png"})], "messages[0].content[0]"),
    "audio": ([user({"type": "audio", "data": PNG, "mimeType": "audio/wav"})], "messages[0].content[0]"),
    "a file as an address": ([user({"type": "image", "source": {"type": "url", "url": "file:///a"}})], "messages[0]"),
    "an image of the assistant": ([user("a"), assistant(image(PNG)), user("b")], "messages[1].content[0]"),
    "a PDF that is not base64": ([user(pdf("%PDF-1.4"))], "messages[0].content[0]"),
    "an empty document": ([user({"type": "document", "source": {"type": "text", "data": ""}})], "messages[0]"),
    "an image in a result": (
        [user("a"), assistant(USE), user({**RESULT, "content": [image("%"), text("b")]})],
        "messages[2].content[0].content[0]",
    ),
    "an unknown block": ([user({"type": "hologram", "data": 1})], "messages[0].content[0]"),
    "five marks": ([user(*[text(str(n), cache_control=MARK) for n in range(5)])], "messages[0]"),
    "a fifth mark inside a result": (
        [
            user(*[text(str(n), cache_control=MARK) for n in range(4)]),
            assistant(USE),
            user({**RESULT, "content": [text("b", cache_control=MARK)]}),
        ],
        "messages[0]",
    ),
    "an hour after five minutes": (
        [user(text("a", cache_control=MARK), text("b", cache_control={**MARK, "ttl": "1h"}))],
        "messages[0]",
    ),
    "a mark that is none": ([user(text("a", cache_control={"type": "forever"}))], "messages[0]"),
}  # fmt: skip


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "alone"])
@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_a_conversation_is_sent_as_the_api_accepts_it(kind: str, tools: bool) -> None:
    messages, place = CONVERSATIONS[kind]
    with StrictApi(use("look", 9), "done") as api:
        given = [tool_of({"type": "object"})] if tools else []
        done = talk(api, messages=messages, tools=given)
        assert (done.text, api.refused) == ("done", [])
        # What was said before and now can be said again.
        again = talk(api, messages=[*done.messages, {"role": "user", "content": "again"}], tools=given)
        assert (again.text, api.refused) == ("done", [])
    warned = [line for line in done.warnings if line.startswith(place)]
    assert warned if place else not done.warnings


OPTIONS: dict[str, dict[str, Any]] = {
    "a blank system prompt": {"system": " \n"},
    "a choice without tools": {"tool_choice": {"type": "auto"}},
    "no choice": {"tool_choice": {"type": "none", "disable_parallel_tool_use": True}, "tools": True},
    "thinking and force": {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}, "tools": True},
    "more thinking than answer": {"thinking": {"type": "enabled", "budget_tokens": 9000}, "max_tokens": 4000},
    "thinking without room": {"thinking": {"type": "enabled", "budget_tokens": 9000}, "max_tokens": 100},
    "little thinking": {"thinking": {"type": "enabled", "budget_tokens": 1}},
    "much thinking": {"thinking": {"type": "enabled", "budget_tokens": 99_000}},
    "a blank stop": {"stop_sequences": ["END", " "]},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_are_sent_as_the_api_accepts_them(kind: str) -> None:
    options = dict(OPTIONS[kind])
    tools = [tool_of({"type": "object"})] if options.pop("tools", False) else []
    with StrictApi("done") as api:
        done = talk(api, prompt="go", tools=tools, **options)
        assert (done.text, api.refused) == ("done", [])


def test_lone_surrogates_reach_nobody() -> None:
    broken = "a\ud800b"
    request = Request(
        messages=[
            user(broken),
            assistant(text(broken), {**USE, "input": {broken: broken}}),
            user({**RESULT, "content": broken}),
        ],
        system=broken,
        tools=[{"name": "look", "description": broken, "input_schema": {"type": "object", "title": broken}}],
        options={"stop_sequences": [broken]},
    )  # fmt: skip
    made, notes = to_sendable_request(request)
    assert judge(ClaudeClient().body(made)) == []
    assert made.system == "a\ufffdb"
    assert {note.partition(":")[0] for note in notes} >= {"system", "messages[0]", "messages[1]", "messages[2]"}
    with StrictApi("done") as api:
        answer = asyncio.run(client(api).turn(request, lambda kind, piece: None))
        assert api.refused == []
        assert answer.warnings == notes


def test_an_answer_schema_of_draft_07_is_converted() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"n": {"$ref": "#/definitions/count"}},
        "definitions": {"count": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    with StrictApi('{"n": 3}') as api:
        done = asyncio.run(complete_json_with_tools("go", schema, client=client(api)))
        assert (done.data, api.refused) == ({"n": 3}, [])
        assert api.bodies[0]["output_config"]["format"]["schema"]["properties"]["n"] == {"$ref": "#/$defs/count"}


@pytest.mark.parametrize("kind", ["tuple", "exclusive", "draft-03 required", "dependencies", "into a tuple"])
def test_a_tool_of_an_older_draft_can_be_called(kind: str) -> None:
    """A tool that the model knows and that refuses every call would be of no use."""
    good, bad = {"tuple": (["a"], [1]), "exclusive": (1, 0), "draft-03 required": ("a", 1),
                 "dependencies": ({"a": 1, "b": 2, "c": 3}, {"a": 1}), "into a tuple": ("a", 1)}[kind]  # fmt: skip
    schema = {"type": "object", "properties": {"arg": SCHEMAS[kind][0]}, "definitions": DEFINITIONS}
    with StrictApi(use("look", 1, arg=good), use("look", 2, arg=bad), "done") as api:
        done = talk(api, prompt="go", tools=[tool_of(schema)])
    outcomes: list[Any] = [call["outcome"] for call in done.trace]
    assert outcomes[0] == {"value": f"saw {{'arg': {good!r}}}"}
    assert "arg" in outcomes[1]["error"]


# --- random ---------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", " ", "a", "a\ud800", "\n", "b ", "x" * 50])
MARKS = st.sampled_from(
    [{}, {}, {}, {"cache_control": MARK}, {"cache_control": {"type": "x"}}, {"cache_control": None}]
)
IDS = st.sampled_from(["t1", "t2", "t.3", ""])
SOURCES = st.one_of(
    st.none(),
    st.builds(lambda data, media: {"type": "base64", "data": data, "media_type": media},
              st.sampled_from([PNG, "%", "", None, PNG[:7], "data:," + PNG, 3]),
              st.sampled_from(["image/png", "image/jpeg", "image/tiff", "application/pdf", "", None])),
    st.builds(lambda url: {"type": "url", "url": url}, st.sampled_from(["https://x.org/a", "file:///a", None])),
    st.builds(lambda kind: {"type": kind}, st.sampled_from(["file", "text", "content", "other"])),
)  # fmt: skip
PARTS = st.one_of(
    st.builds(lambda t, m: {"type": "text", "text": t, **m}, st.one_of(TEXTS, st.none(), st.just({"a": 1})), MARKS),
    st.builds(lambda k, s, m: {"type": k, "source": s, **m}, st.sampled_from(["image", "document"]), SOURCES, MARKS),
    st.builds(lambda k: {"type": k, "data": PNG, "mimeType": "image/png", "uri": "x:y"},
              st.sampled_from(["audio", "image", "resource_link", "resource", "search_result", "tool_reference"])),
    st.builds(lambda t: {"type": "search_result", "source": t, "title": t, "content": [{"type": "text", "text": t}]},
              TEXTS),
    st.sampled_from([{}, {"type": None}, "a", 5, None, []]),
)  # fmt: skip
BLOCKS = st.one_of(
    PARTS,
    st.builds(lambda i, n, a, m: {"type": "tool_use", "id": i, "name": n, "input": a, **m},
              IDS, st.sampled_from(["look", "a.b", "", "n" * 300]),
              st.sampled_from([{}, None, "x", {"a": "\udfff"}]), MARKS),
    st.builds(lambda i, c, e, m: {"type": "tool_result", "tool_use_id": i, "content": c, "is_error": e, **m},
              IDS, st.one_of(TEXTS, st.none(), st.lists(PARTS, max_size=3)), st.booleans(), MARKS),
    st.builds(lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, TEXTS, st.sampled_from(["", "s"])),
    st.builds(lambda d: {"type": "redacted_thinking", "data": d}, st.sampled_from(["d", None])),
)  # fmt: skip
MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "user", "assistant", "assistant", "system", "tool"]),
        st.one_of(TEXTS, st.none(), st.just({"a": 1}), st.lists(BLOCKS, max_size=4)),
    ),
    max_size=7,
)
WORDS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "anyOf", "$ref", "definitions", "$defs", "minimum", "id",
     "exclusiveMinimum", "additionalItems", "dependencies", "nullable", "additionalProperties", "oneOf", "$schema"]
)  # fmt: skip
SCHEMA = st.recursive(
    st.sampled_from(
        [True, False, None, "string", "object", 3, [], {}, "#/definitions/a", "#", "#/x", ["string", "null"]]
    ),
    lambda inner: st.one_of(
        st.dictionaries(WORDS, inner, max_size=4),
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b c", "id", "$ref"]), inner, max_size=3),
    ),
    max_leaves=12,
)
TOOLS = st.lists(
    st.builds(
        lambda name, schema, said: {"name": name, "description": said, "input_schema": schema},
        st.sampled_from(["look", "other", "a.b", "n" * 99, ""]),
        st.dictionaries(WORDS, SCHEMA, max_size=5),
        TEXTS,
    ),
    max_size=3,
)
CHOICES = st.sampled_from(
    [
        {},
        {"tool_choice": {"type": "any"}},
        {"tool_choice": {"type": "tool", "name": "look"}},
        {"thinking": {"type": "enabled", "budget_tokens": 99_999}},
        {"stop_sequences": [" "]},
    ]
)


def test_the_media_type_of_a_truncated_image_is_corrected() -> None:
    source = {"type": "base64", "data": "iVBORw0=", "media_type": "image/jpeg"}  # the first bytes of a PNG file
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    made, _ = to_sendable_request(Request(messages=messages, tools=[], system="", options={}))
    assert judge(ClaudeClient().body(made)) == []


@given(MESSAGES, TOOLS, TEXTS, CHOICES)
@examples(150)
def test_any_request_becomes_one_that_the_api_accepts(
    messages: list[Any], tools: list[Any], system: str, options: dict[str, Any]
) -> None:
    made, _ = to_sendable_request(Request(messages=messages, tools=tools, system=system, options=options))
    problems = judge(ClaudeClient().body(made))
    counted["judged"] += 1
    assert problems == []
    again, notes = to_sendable_request(
        Request(messages=made.messages, tools=made.tools, system=made.system, options=made.options)
    )
    assert (again.messages, again.tools, again.system) == (made.messages, made.tools, made.system)
    assert notes == ()
