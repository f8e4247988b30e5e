"""Translate requests and answers between the shapes of the Messages API and the messages of pydantic-ai.

A conversation is kept in the shapes of the Messages API, whichever model answers. The parts that only one
provider understands, such as the signature of its thinking, stay in the block under `provider`, and go back only there.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ..values import Json, parse_json
from .model import Request

PROVIDER: Final = "provider"
"""The member of a block with what only its provider understands."""
STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
    "tool_call": "tool_use",
}
MAX_NAME: Final = 64
_KEPT: Final = ("id", "signature", "provider_name", "provider_details")
_API: Final = "api"
"""The member of `provider` that names the API of a thinking block: OpenAI's two do not take that of each other."""
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


class Names:
    """A provider, and the names of tools as it takes them; Gemini's begin with a letter or an underscore."""

    def __init__(self, provider: str, tools: Iterable[Mapping[str, Any]]) -> None:
        self.provider = "openai" if provider == "openai-responses" else provider
        self._is_google = provider.startswith("google")
        self._received: dict[str, str] = {}
        for name in (str(tool["name"]) for tool in tools):
            self._received.setdefault(self.sent(name), name)

    def sent(self, name: str) -> str:
        """Return the name to send."""
        if not self._is_google or name[:1].isalpha() or name.startswith("_"):
            return name
        return f"_{name}" if len(name) < MAX_NAME else f"_{name[1:]}"

    def received(self, name: str) -> str:
        """Return the name that the request had for what a model calls."""
        return self._received.get(name, name)


# --- requests -------------------------------------------------------------------------------------


def to_messages(request: Request, tools: Names) -> list[ModelMessage]:
    """Return the messages of a request; the system prompt is the instructions of the last one."""
    names: dict[str, str] = {}
    messages: list[ModelMessage] = []
    for message in request.messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            names.update((block["id"], block["name"]) for block in blocks if block["type"] == "tool_use")
            parts = [part for block in blocks if (part := _response_part(block, tools)) is not None]
            # The Responses API refuses thinking that nothing follows.
            if not all(isinstance(part, ThinkingPart) for part in parts):
                messages.append(ModelResponse(parts=parts))
        else:
            messages.append(
                ModelRequest(parts=_request_parts(blocks, names, tools), instructions=request.system or None)
            )
    return messages


def _request_parts(
    blocks: Iterable[Mapping[str, Any]], names: Mapping[str, str], tools: Names
) -> list[ModelRequestPart]:
    results: list[ModelRequestPart] = []
    content: list[UserContent] = []
    for block in blocks:
        if block["type"] == "tool_result":
            id = block["tool_use_id"]
            result = _result_content(block.get("content", ""))
            outcome: Literal["success", "failed"] = "failed" if block.get("is_error") else "success"
            results.append(ToolReturnPart(tools.sent(names.get(id, "")), result, id, outcome=outcome))
        else:
            content += _user_content(block)
    if content:
        results.append(UserPromptPart(content[0] if len(content) == 1 and isinstance(content[0], str) else content))
    return results


def _result_content(content: Any) -> Any:
    """Return the result of a tool: its text, or a list if it has other content."""
    if isinstance(content, str):
        return content
    parts = [part for block in content for part in _user_content(block)]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(map(str, parts))
    return parts


def _user_content(block: Mapping[str, Any]) -> list[UserContent]:
    kind, source = block["type"], block.get("source")
    if kind == "text":
        return [block["text"]]
    if kind in ("image", "document") and isinstance(source, Mapping):
        if source.get("type") == "base64":
            return [BinaryContent(b64decode(source["data"]), media_type=source["media_type"])]
        if source.get("type") == "url":
            return [ImageUrl(source["url"]) if kind == "image" else DocumentUrl(source["url"])]
        if source.get("type") == "text":
            return [str(source["data"])]
        if source.get("type") == "content":
            inner = source["content"]
            return [inner] if isinstance(inner, str) else [part for each in inner for part in _user_content(each)]
    if kind == "search_result":
        return [f"{block['title']} ({source})", *(text["text"] for text in block["content"])]
    return [f"[{kind}: this model cannot see it]"]


def _response_part(block: Mapping[str, Any], tools: Names) -> ModelResponsePart | None:
    """Return the part of a block; None for thinking of another provider."""
    kept = {key: value for key, value in (block.get(PROVIDER) or {}).items() if key in _KEPT}
    if block["type"] == "text":
        kept.pop("signature", None)
        return TextPart(block["text"], **kept)
    if block["type"] == "tool_use":
        kept.pop("signature", None)
        return ToolCallPart(tools.sent(block["name"]), block.get("input"), block["id"], **kept)
    if block["type"] in ("thinking", "redacted_thinking"):
        is_own = (block.get(PROVIDER) or {}).get(_API) == tools.provider
        return ThinkingPart(block["thinking"], **kept) if is_own else None
    return TextPart(f"[{block['type']}: this model cannot see it]")


def to_parameters(request: Request, names: Names, *, native: bool) -> ModelRequestParameters:
    """Return the tools and the answer's schema of a request; `native` if the model answers by a schema."""
    # Strict schemas would change what an argument that is left out means.
    tools = [
        ToolDefinition(
            name=names.sent(tool["name"]),
            parameters_json_schema=tool["input_schema"],
            description=tool.get("description"),
            strict=False,
        )
        for tool in request.tools
    ]
    if request.schema is None or not native:
        return ModelRequestParameters(function_tools=tools)
    answer = OutputObjectDefinition(json_schema=as_object(request.schema), name="answer", strict=False)
    return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=answer)


def lost_keywords(before: Json, after: Json) -> list[str]:
    """Return the keywords of a JSON Schema that a provider does not take."""
    replaced = {"const": "enum", "format": "description", "title": "type", "$schema": "type"}
    kept = set(_keywords(after))
    return sorted({word for word in _keywords(before) if word not in kept and replaced.get(word) not in kept})


def _keywords(schema: Json) -> Iterator[str]:
    if isinstance(schema, list):
        for inner in schema:
            yield from _keywords(inner)
    elif isinstance(schema, dict):
        for word, inner in schema.items():
            yield word
            if word in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"):
                yield from _keywords(list(as_object(inner).values()))
            elif word not in ("enum", "const", "default", "examples", "example", "required"):
                yield from _keywords(inner)


def as_object(schema: Json) -> dict[str, Any]:
    """Return a JSON Schema as an object."""
    return schema if isinstance(schema, dict) else {}


def to_settings(request: Request, options: Mapping[str, Any], names: Names) -> ModelSettings:
    """Return the settings of a request, over the options of the model."""
    settings: dict[str, Any] = dict(options)
    if request.max_tokens is not None:
        settings["max_tokens"] = request.max_tokens
    thinking, effort = request.options.get("thinking"), request.options.get("effort")
    if isinstance(thinking, Mapping):
        settings["thinking"] = thinking.get("type") != "disabled"
    if effort and settings.get("thinking") is not False:
        settings["thinking"] = effort
    if stops := request.options.get("stop_sequences"):
        settings["stop_sequences"] = stops
    choice = request.options.get("tool_choice")
    if isinstance(choice, Mapping):
        named = choice.get("type") == "tool"
        settings["tool_choice"] = (
            [names.sent(choice["name"])] if named else _CHOICES.get(str(choice.get("type")), "auto")
        )
        if choice.get("disable_parallel_tool_use"):
            settings["parallel_tool_calls"] = False
    return cast(ModelSettings, settings)


# --- answers --------------------------------------------------------------------------------------


def to_content(response: ModelResponse, names: Names) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the blocks of an answer, and a warning for each part that has no block."""
    blocks: list[dict[str, Any]] = []
    warnings: list[str] = []
    for part in response.parts:
        kept = {key: value for key in _KEPT if (value := getattr(part, key, None)) is not None}
        provider = {PROVIDER: kept} if kept.keys() - {"provider_name"} else {}
        if isinstance(part, TextPart):
            if part.content:
                blocks.append({"type": "text", "text": part.content, **provider})
        elif isinstance(part, ThinkingPart):
            kept.setdefault("provider_name", response.provider_name or "")
            blocks.append({"type": "thinking", "thinking": part.content, PROVIDER: {**kept, _API: names.provider}})
        elif isinstance(part, ToolCallPart):
            call = {"id": part.tool_call_id, "name": names.received(part.tool_name)}
            blocks.append({"type": "tool_use", **call, "input": _arguments(part.args), **provider})
        else:
            warnings.append(f"a part of the answer of the kind {part.part_kind} was left out")
    return blocks, warnings


def _arguments(arguments: Any) -> Json:
    """Return the arguments of a call; a text that is not JSON stays text, which the loop answers with an error."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return parse_json(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments


def stop_reason(response: ModelResponse, blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return the reason why a model stopped, in the words of the Messages API."""
    reason = STOP_REASONS.get(response.finish_reason or "", response.finish_reason or "end_turn")
    calls = any(block["type"] == "tool_use" for block in blocks)
    return "tool_use" if calls and reason == "end_turn" else reason


def to_usage(response: ModelResponse) -> dict[str, int]:
    """Return the tokens of an answer by kind; those that a cache holds do not count as `input_tokens`."""
    usage = response.usage
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    return {
        "input_tokens": max(0, usage.input_tokens - cached - written),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
