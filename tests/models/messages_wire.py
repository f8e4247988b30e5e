"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from claude.judge import judge

from .stand_in import Turn, pieces


class MessagesWire:
    """`POST /v1/messages`."""

    def judge(self, path: str, body: dict[str, Any]) -> list[str]:
        return judge(body) if path.split("?")[0].endswith("/v1/messages") else [f"not found: {path}"]

    def error(self, status: int, message: str) -> dict[str, Any]:
        kinds = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}

    def streams(self, path: str, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def answer(self, turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]:
        stop = "refusal" if turn.refusal else "tool_use" if turn.calls else "end_turn"
        head = _head(turn, number, body)
        return {**head, "content": _blocks(turn, number), "stop_reason": stop}

    def events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for event in self._events(turn, number, body):
            yield event["type"], event

    def _events(self, turn: Turn, number: int, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": _head(turn, number, body)}
        for index, block in enumerate(_blocks(turn, number)):
            place = {"index": index}
            if block["type"] == "tool_use":
                start, text, key, kind = (
                    {**block, "input": {}},
                    json.dumps(block["input"]),
                    "partial_json",
                    "input_json",
                )
            elif block["type"] == "thinking":
                start, text, key, kind = (
                    {**block, "thinking": "", "signature": ""},
                    block["thinking"],
                    "thinking",
                    "thinking",
                )
            else:
                start, text, key, kind = {**block, "text": ""}, block["text"], "text", "text"
            yield {"type": "content_block_start", **place, "content_block": start}
            for piece in pieces(text):
                yield {"type": "content_block_delta", **place, "delta": {"type": f"{kind}_delta", key: piece}}
            if block["type"] == "thinking":
                sign = {"type": "signature_delta", "signature": block["signature"]}
                yield {"type": "content_block_delta", **place, "delta": sign}
            yield {"type": "content_block_stop", **place}
        stop = self.answer(turn, number, body)["stop_reason"]
        delta = {"stop_reason": stop, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}
        yield {"type": "message_stop"}


def _head(turn: Turn, number: int, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 100 - turn.cached,
            "cache_read_input_tokens": turn.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": 10,
        },
    }


def _blocks(turn: Turn, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": f"sealed-{number}"})
    if turn.text:
        blocks.append({"type": "text", "text": turn.text})
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": call.name, "input": call.input}
        for index, call in enumerate(turn.calls)
    ]
    return blocks
