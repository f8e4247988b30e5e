"""OpenAI's responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .openai_rules import format_problems, function_problems, image_problem, sampling_problems
from .stand_in import Turn, pieces
from .typed import type_problems


class ResponsesWire:
    """`POST /v1/responses`."""

    def judge(self, path: str, body: dict[str, Any]) -> list[str]:
        from openai.types.responses import response_create_params as params

        if not path.endswith("/responses"):
            return [f"Invalid URL (POST {path})"]
        kind = params.ResponseCreateParamsStreaming if body.get("stream") else params.ResponseCreateParamsNonStreaming
        found = list(type_problems(kind, body, "Unknown parameter: '{}'."))
        for rule in (_input, _tools, _options):
            found += rule(body)
        return found

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = "invalid_request_error" if status == 400 else "requests" if status == 429 else "server_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def answer(self, turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]:
        return _response(number, body, "completed", _items(turn, number), turn)

    def events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for sequence, event in enumerate(_events(turn, number, body)):
            yield event["type"], {**event, "sequence_number": sequence}


def _events(turn: Turn, number: int, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = _response(number, body, "in_progress", [], None)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    items = _items(turn, number)
    for at, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": at}
        empty = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, **empty[item["type"]]}}
        yield from _item_events(item, place)
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": "response.completed", "response": _response(number, body, "completed", items, turn)}


def _item_events(item: Mapping[str, Any], place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
    elif item["type"] == "reasoning":
        for index, part in enumerate(item["summary"]):
            where = {**place, "summary_index": index}
            blank = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **where, "part": blank}
            for piece in pieces(part["text"]):
                yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
            yield {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **where, "part": part}
    else:
        for index, part in enumerate(item["content"]):
            where, kind = {**place, "content_index": index}, part["type"]
            key = "refusal" if kind == "refusal" else "text"
            name = "refusal" if kind == "refusal" else "output_text"
            more = {} if kind == "refusal" else {"logprobs": []}
            yield {"type": "response.content_part.added", **where, "part": {**part, key: ""}}
            for piece in pieces(part[key]):
                yield {"type": f"response.{name}.delta", **where, "delta": piece, **more}
            yield {"type": f"response.{name}.done", **where, key: part[key], **more}
            yield {"type": "response.content_part.done", **where, "part": part}


def _items(turn: Turn, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        items.append(
            {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{number}"}
        )
    content: list[dict[str, Any]] = []
    if turn.text:
        content.append({"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []})
    if turn.refusal:
        content.append({"type": "refusal", "refusal": turn.refusal})
    if content:
        items.append(
            {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": content}
        )
    for index, call in enumerate(turn.calls):
        items.append(
            {
                "id": f"fc_{number}_{index}",
                "type": "function_call",
                "call_id": f"call_{number}_{index}",
                "name": call.name,
                "arguments": json.dumps(call.input),
                "status": "completed",
            }
        )
    return items


def _response(
    number: int, body: Mapping[str, Any], status: str, output: list[dict[str, Any]], turn: Turn | None
) -> dict[str, Any]:
    usage = None
    if turn is not None:
        usage = {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": turn.cached, "cache_write_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 110,
        }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "text": {"format": {"type": "text"}},
        "usage": usage,
    }


# --- documented rules -----------------------------------------------------------------------------

_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs"}


def _input(body: dict[str, Any]) -> Iterator[str]:
    items = body.get("input")
    if items in (None, [], "") and not body.get("prompt"):
        yield "Missing required parameter: 'input'."
    if not isinstance(items, list):
        return
    called: dict[str, bool] = {}
    for at, item in enumerate(items):
        kind, id = item.get("type", "message"), item.get("id")
        if id is not None and kind in _PREFIXES and not str(id).startswith(_PREFIXES[kind]):
            yield f"Invalid 'input[{at}].id': '{id}'. Expected an ID that begins with '{_PREFIXES[kind]}'."
        if kind == "function_call":
            if item["call_id"] in called:
                yield f"Duplicate function call with call_id {item['call_id']}."
            called[item["call_id"]] = False
        elif kind == "function_call_output":
            if item["call_id"] not in called:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            called[item["call_id"]] = True
        elif kind == "reasoning":
            after = items[at + 1] if at + 1 < len(items) else {}
            if (after.get("type", "message") == "message" and after.get("role") != "assistant") or not after:
                yield f"Item '{id}' of type 'reasoning' was provided without its required following item."
            if body.get("store") is False and item.get("encrypted_content") is None:
                yield f"Item with id '{id}' not found. Items are not persisted when 'store' is set to false."
        elif kind == "message":
            yield from _message(item, at)
    for id, answered in called.items():
        if not answered:
            yield f"No tool output found for function call {id}."


def _message(item: Mapping[str, Any], at: int) -> Iterator[str]:
    content = item.get("content")
    if content in (None, []):
        yield f"Invalid value for 'input[{at}].content': expected a string or a non-empty array."
    for part in content if isinstance(content, list) else ():
        wanted = (
            ("output_text", "refusal")
            if item.get("role") == "assistant"
            else ("input_text", "input_image", "input_file")
        )
        if part.get("type") not in wanted:
            yield f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(wanted)}."
        if (
            part.get("type") == "input_image"
            and part.get("image_url")
            and (problem := image_problem(part["image_url"]))
        ):
            yield problem


def _tools(body: dict[str, Any]) -> Iterator[str]:
    functions = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    yield from function_problems(functions)
    choice = body.get("tool_choice")
    if choice == "required" and not body.get("tools"):
        yield "Tool choice 'required' must be specified with 'tools' parameter."
    if isinstance(choice, dict) and choice.get("type") == "function":
        if choice["name"] not in [function["name"] for function in functions]:
            yield f"Tool choice '{choice['name']}' not found in 'tools' parameter."


def _options(body: dict[str, Any]) -> Iterator[str]:
    if body.get("max_output_tokens") is not None and body["max_output_tokens"] < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        yield "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    yield from sampling_problems(body)
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        yield from format_problems(form, "text.format")
    if form.get("type") == "json_object" and "json" not in json.dumps(body.get("input")).lower():
        yield "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
