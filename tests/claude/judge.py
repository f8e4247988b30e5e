"""What the Messages API accepts, written from its documentation, its errors and the types of its SDK.

`judge` says everything that is wrong with a request, in the words of the API. It shares no code with what it judges.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

IMAGES = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG", "image/gif": b"GIF8", "image/webp": b"RIFF"}
OF_USERS = ("text", "image", "document", "search_result", "tool_result", "container_upload")
NOT_OF_ASSISTANTS = ("image", "document", "tool_result", "search_result", "container_upload")
UNMARKED = ("thinking", "redacted_thinking")


def judge(body: dict[str, Any]) -> list[str]:
    """Everything for which the API would refuse this request."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return ["the request body is not valid JSON: lone surrogate"]
    found = list(_types(body))
    for rule in (_request, _messages, _pairs, _tools, _options, _marks, _format):
        found += rule(body)
    return found


# --- the SDK's types ------------------------------------------------------------------------------


@cache
def _adapter(streaming: bool) -> Any:
    from anthropic.types import message_create_params as params
    from pydantic import TypeAdapter

    kind = params.MessageCreateParamsStreaming if streaming else params.MessageCreateParamsNonStreaming
    return TypeAdapter(kind)


@cache
def _parameters(streaming: bool) -> frozenset[str]:
    from typing import get_type_hints

    from anthropic.types import message_create_params as params

    kind = params.MessageCreateParamsStreaming if streaming else params.MessageCreateParamsNonStreaming
    return frozenset(get_type_hints(kind))


def _types(body: dict[str, Any]) -> Iterator[str]:
    from pydantic import ValidationError

    unknown = set(body) - _parameters(bool(body.get("stream")))
    if unknown:
        yield f"{sorted(unknown)[0]}: Extra inputs are not permitted"
    try:
        _consume(_adapter(bool(body.get("stream"))).validate_python(json.loads(json.dumps(body))))
    except ValidationError as error:
        first = error.errors()[0]
        yield f"{'.'.join(map(str, first['loc']))}: {first['msg']} ({error.error_count()} errors by the SDK's types)"


def _consume(value: Any) -> None:
    """Have every part looked at: an Iterable is only checked as it is gone through."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _consume(inner)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for inner in value:
            _consume(inner)


# --- documented rules -----------------------------------------------------------------------------


def _request(body: dict[str, Any]) -> Iterator[str]:
    if not 0 < len(str(body.get("model", ""))) <= 256:
        yield "model: String should have 1 to 256 characters"
    if body.get("max_tokens", 0) < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    system = body.get("system")
    texts = [system] if isinstance(system, str) else [block.get("text") for block in system or ()]
    if system is not None and not all(isinstance(text, str) and text.strip() for text in texts):
        yield "system: text content blocks must be non-empty"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _messages(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    # A paused turn comes back unchanged; only a server tool can pause one.
    is_paused = any(block.get("type") == "server_tool_use" for block in _blocks(messages[-1]))
    for i, message in enumerate(messages):
        if set(message) - {"role", "content"}:
            yield f"messages.{i}: Extra inputs are not permitted"
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{i}.role: Input should be 'user' or 'assistant'"
        if not message["content"]:
            yield f"messages.{i}: all messages must have non-empty content"
        for j, block in enumerate(_blocks(message)):
            if not (is_paused and message is messages[-1] and message["role"] == "assistant"):
                yield from _block(block, message["role"], f"messages.{i}.content.{j}")
    last = messages[-1]
    blocks = _blocks(last)
    if last["role"] == "assistant" and blocks and blocks[-1].get("type") == "text" and not is_paused:
        text = blocks[-1]["text"]
        if text != text.rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _block(block: dict[str, Any], role: str, at: str) -> Iterator[str]:
    kind = block.get("type")
    if (role == "user" and kind not in OF_USERS) or (role == "assistant" and kind in NOT_OF_ASSISTANTS):
        yield f"{at}: {kind} blocks are not permitted for the role {role}"
    if kind == "text":
        yield from _text(block, at)
    elif kind in ("image", "document"):
        yield from _source(block, f"{at}.{kind}.source")
    elif kind == "thinking" and not block.get("signature"):
        yield f"{at}.thinking.signature: Field required"
    elif kind == "tool_use":
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            yield f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]):
            yield f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    elif kind == "tool_result":
        yield from _result(block, f"{at}.tool_result")


def _text(block: dict[str, Any], at: str) -> Iterator[str]:
    if not block["text"].strip():
        yield f"{at}: text content blocks must contain non-whitespace text"
    if set(block) - {"type", "text", "cache_control", "citations"}:
        yield f"{at}.text: Extra inputs are not permitted"


def _result(block: dict[str, Any], at: str) -> Iterator[str]:
    content = block.get("content")
    if set(block) - {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}:
        yield f"{at}: Extra inputs are not permitted"
    if block.get("is_error") and not content:
        yield f"{at}: content cannot be empty if `is_error` is true"
    for i, inner in enumerate(content if isinstance(content, list) else ()):
        if inner["type"] not in ("text", "image", "document", "search_result", "tool_reference"):
            yield f"{at}.content.{i}: {inner['type']} blocks are not permitted in a tool_result"
        if block.get("is_error") and inner["type"] != "text":
            yield f"{at}: all content must be type 'text' if `is_error` is true"
        yield from _block(inner, "user", f"{at}.content.{i}") if inner["type"] != "tool_reference" else ()


def _source(block: dict[str, Any], at: str) -> Iterator[str]:
    source = block["source"]
    if source["type"] == "url" and not re.match("https?://", source["url"]):
        yield f"{at}.url: Only HTTPS URLs are supported"
    if source["type"] != "base64":
        return
    try:
        raw = base64.b64decode(source["data"], validate=True)
    except ValueError:
        yield f"{at}.base64.data: Invalid base64 data"
        return
    if not raw:
        yield f"{at}.base64.data: cannot be empty"
    if block["type"] == "document":
        return
    if len(source["data"]) > 5 << 20:
        yield f"{at}.base64: image exceeds 5 MB maximum"
    seen = next((media for media, magic in IMAGES.items() if raw.startswith(magic)), None)
    if seen is not None and seen != source["media_type"]:
        yield f"{at}.base64: specified as {source['media_type']}, but the image appears to be {seen}"


def _pairs(body: dict[str, Any]) -> Iterator[str]:
    waiting: list[str] = []
    seen: set[str] = set()
    for i, message in enumerate(_combined(body.get("messages") or [])):
        blocks = _blocks(message)
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        missing, more = set(waiting) - set(answers), [id for id in answers if id not in waiting]
        if missing:
            yield f"messages.{i}: `tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}"
        if more:
            yield f"messages.{i}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(more)}"
        if len(set(answers)) < len(answers):
            yield f"messages.{i}: each tool_use must have a single result"
        if any(block["type"] != "tool_result" for block in blocks[: len(answers)]):
            yield f"messages.{i}: `tool_result` blocks must come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if message["role"] != "assistant" and waiting:
            yield f"messages.{i}: `tool_use` blocks can only be in `assistant` messages"
        if len(set(waiting)) < len(waiting) or seen & set(waiting):
            yield f"messages.{i}: `tool_use` ids must be unique"
        seen |= set(waiting)
    if waiting:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {', '.join(waiting)}"


def _combined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        if found and found[-1]["role"] == message["role"]:
            found[-1] = {**message, "content": [*_blocks(found[-1]), *_blocks(message)]}
        else:
            found.append(message)
    return found


# --- tools ----------------------------------------------------------------------------------------


@cache
def _meta() -> Any:
    return jsonschema_rs.Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})


def _tools(body: dict[str, Any]) -> Iterator[str]:
    names = set()
    for i, tool in enumerate(body.get("tools", ())):
        at = f"tools.{i}.custom"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
            yield f"{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        if tool["name"] in names:
            yield "tools: Tool names must be unique."
        names.add(tool["name"])
        if not isinstance(tool.get("description", ""), str) or not tool.get("description", "x").strip():
            yield f"{at}.description: Input should be a valid string"
        schema = tool["input_schema"]
        if schema.get("type") != "object":
            yield f"{at}.input_schema.type: Input should be 'object'"
        if {"oneOf", "anyOf", "allOf", "$ref"} & set(schema):
            yield f"{at}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        if not _meta().is_valid(schema):
            yield f"{at}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
        properties = schema.get("properties")
        for name in properties if isinstance(properties, dict) else ():
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                yield f"{at}.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        for ref in _references(schema):
            if not _leads_somewhere(ref, schema):
                yield f"{at}.input_schema: {ref} does not resolve"


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for key, inner in node.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _leads_somewhere(ref: str, at: Any) -> bool:
    if not ref.startswith("#"):
        return False
    for step in ref.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, list) and step.isdecimal() and int(step) < len(at):
            at = at[int(step)]
        elif isinstance(at, dict) and step in at:
            at = at[step]
        else:
            return False
    return True


def _options(body: dict[str, Any]) -> Iterator[str]:
    choice, tools, thinking = body.get("tool_choice"), body.get("tools") or [], body.get("thinking") or {}
    if choice is not None and not tools:
        yield "tool_choice: may only be specified while providing tools"
    if choice is not None and choice["type"] == "tool" and choice["name"] not in {tool["name"] for tool in tools}:
        yield f"tool_choice: Tool '{choice['name']}' not found in provided tools"
    if choice is not None and choice["type"] == "none" and len(choice) > 1:
        yield "tool_choice.none: Extra inputs are not permitted"
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        if thinking["budget_tokens"] >= body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if choice is not None and choice["type"] in ("any", "tool") and thinking.get("type") in ("enabled", "adaptive"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if not all(text.strip() for text in body.get("stop_sequences", ())):
        yield "stop_sequences: each stop sequence must contain non-whitespace"


def _marks(body: dict[str, Any]) -> Iterator[str]:
    found: list[Any] = []

    def look(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            mark = value.get("cache_control")
            if mark is not None:
                found.append(mark)
                if value.get("type") in UNMARKED:
                    yield f"cache_control cannot be set for {value['type']} blocks"
            yield from look(value.get("content"))
        elif isinstance(value, list):
            for inner in value:
                yield from look(inner)

    for part in (body.get("tools"), body.get("system"), body.get("messages")):
        yield from look(part)
    if body.get("cache_control") is not None:
        found.append(body["cache_control"])
    if len(found) > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(found)}."
    ttls = [mark.get("ttl", "5m") for mark in found]
    if ttls != sorted(ttls):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _format(body: dict[str, Any]) -> Iterator[str]:
    form = (body.get("output_config") or {}).get("format")
    if form is None:
        return
    if not _meta().is_valid(form["schema"]):
        yield "output_config.format.schema: JSON schema is invalid"
    yield from _objects(form["schema"])


def _objects(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            yield "output_config.format.schema: 'additionalProperties' must be false for 'object' types"
        for inner in node.values():
            yield from _objects(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _objects(inner)
