"""OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .openai_rules import REASONING, format_problems, function_problems, image_problem, sampling_problems
from .stand_in import Turn, pieces
from .typed import type_problems


class ChatWire:
    """`POST /v1/chat/completions`."""

    def judge(self, path: str, body: dict[str, Any]) -> list[str]:
        from openai.types.chat import completion_create_params as params

        if not path.partition("?")[0].endswith("/chat/completions"):
            return [f"Invalid URL (POST {path})"]
        kind = (
            params.CompletionCreateParamsStreaming if body.get("stream") else params.CompletionCreateParamsNonStreaming
        )
        found = list(type_problems(kind, body, "Unrecognized request argument supplied: {}"))
        for rule in (_messages, _tools, _options):
            found += rule(body)
        return found

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "invalid_request_error" if status == 400 else "requests" if status == 429 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def answer(self, turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": turn.refusal or None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
        if turn.calls:
            message["tool_calls"] = [call for _, call in _calls(turn, number)]
        choice = {"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}
        return {**_head(number, body, "chat.completion"), "choices": [choice], "usage": _usage(turn)}

    def events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        head = _head(number, body, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
            return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(turn.thinking):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(turn.text):
            yield chunk({"content": piece})
        if turn.refusal:
            yield chunk({"refusal": turn.refusal})
        for index, call in _calls(turn, number):
            function = call["function"]
            first = {**call, "index": index, "function": {**function, "arguments": ""}}
            yield chunk({"tool_calls": [first]})
            for piece in pieces(function["arguments"]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, _finish(turn))
        if (body.get("stream_options") or {}).get("include_usage"):
            yield "", {**head, "choices": [], "usage": _usage(turn)}
        yield "", "[DONE]"


def _head(number: int, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _calls(turn: Turn, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": json.dumps(call.input)}
        yield index, {"id": f"call_{number}_{index}", "type": "function", "function": function}


def _finish(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _usage(turn: Turn) -> dict[str, Any]:
    details = {"prompt_tokens_details": {"cached_tokens": turn.cached}}
    return {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110, **details}


# --- documented rules -----------------------------------------------------------------------------


def _messages(body: dict[str, Any]) -> Iterator[str]:
    messages = body.get("messages") or []
    if not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls") or []
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
            )
            open_calls = []
        if role == "assistant":
            if content is None and not calls and message.get("refusal") is None:
                yield f"Invalid value for 'messages.[{at}].content': expected a string, got null."
            ids = [call.get("id") for call in calls]
            if len(set(ids)) < len(ids):
                yield f"Duplicate value for 'tool_call_id' in messages.[{at}]."
            open_calls = ids
        elif content in (None, []):
            yield f"Invalid value for 'messages.[{at}].content': expected a string or a non-empty array."
        for part in content if isinstance(content, list) else ():
            if role in ("tool", "system", "developer") and part.get("type") != "text":
                yield f"Invalid value: '{part.get('type')}'. Supported values are: 'text'."
            if (
                role == "user"
                and part.get("type") == "image_url"
                and (problem := image_problem(part["image_url"]["url"]))
            ):
                yield problem
    if open_calls:
        yield "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."


def _tools(body: dict[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if tools == []:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    functions = [tool["function"] for tool in tools or () if tool.get("type") == "function"]
    yield from function_problems(functions)
    choice = body.get("tool_choice")
    if choice not in (None, "none") and not tools:
        yield "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    if body.get("parallel_tool_calls") is not None and not tools:
        yield "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified."
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice["function"]["name"] not in [function["name"] for function in functions]:
            yield f"Tool choice '{choice['function']['name']}' not found in 'tools' parameter."


def _options(body: dict[str, Any]) -> Iterator[str]:
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if isinstance(body.get("stop"), list) and len(body["stop"]) > 4:
        yield "Invalid 'stop': array too long. Expected an array with maximum length 4."
    if body.get("max_tokens") is not None and REASONING.match(str(body.get("model"))):
        yield "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    if body.get("max_completion_tokens") is not None and body["max_completion_tokens"] < 1:
        yield "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 1."
    yield from sampling_problems(body)
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        yield from format_problems(form.get("json_schema") or {}, "response_format.json_schema")
    if form.get("type") == "json_object" and "json" not in json.dumps(body.get("messages")).lower():
        yield "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
