"""Requests of MCP servers for a completion (sampling), answered by the model of the app.

The settings of a server allow it, and limit tokens and requests (`tools/mcp/local_client.py`). Refused here: tools in a
request, and content other than text and images.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import ModelError

if TYPE_CHECKING:
    from ..agents.model import ModelClient


class HasModel(Protocol):
    """An app, as far as servers can ask its model."""

    @property
    def model(self) -> ModelClient:
        """The model."""
        ...


log = logging.getLogger("ropewalk.mcp")

_STOP_REASONS: Final = {"end_turn": "endTurn", "max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


async def answer_model_request(context: HasModel, server: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the model of an app for an MCP server."""
    from mcp import MCPError
    from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

    from ..agents.model import Request

    if params.get("tools") or params.get("toolChoice"):
        raise MCPError(INVALID_PARAMS, "requests with tools are not supported")
    missing = getattr(context.model, "missing", None)
    if missing is not None and (why := missing()) is not None:
        log.warning("%s asks the model, and there is none: %s", server, why)
        raise MCPError(INVALID_REQUEST, "there is no model here")

    # A model takes turns; a server may send several messages of one role in a row.
    messages: list[dict[str, Any]] = []
    for message in params.get("messages") or ():
        content = message["content"] if isinstance(message["content"], list) else [message["content"]]
        blocks = [_block(block) for block in content]
        if messages and messages[-1]["role"] == message["role"]:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": message["role"], "content": blocks})

    stops = params.get("stopSequences")
    request = Request(
        messages=messages,
        system=params.get("systemPrompt") or "",
        max_tokens=params.get("maxTokens"),
        stream=False,
        options={"stop_sequences": stops} if stops else {},
    )
    try:
        answer = await context.model.turn(request, lambda kind, text: None)
    except ModelError as error:
        log.warning("%s asks the model, which failed: %s", server, error)
        raise MCPError(INTERNAL_ERROR, "the model did not answer") from error
    text = "".join(str(block["text"]) for block in answer.content if block.get("type") == "text")
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": answer.model or "unknown",
        "stopReason": _STOP_REASONS.get(answer.stop_reason, answer.stop_reason),
    }


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a content block of MCP as one of the Messages API."""
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    if block.get("type") == "text":
        return {"type": "text", "text": block["text"]}
    if block.get("type") == "image":
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        return {"type": "image", "source": source}
    raise MCPError(INVALID_PARAMS, f"content of type {block.get('type')!r} is not supported")
