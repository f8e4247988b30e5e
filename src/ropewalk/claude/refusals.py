"""Requests that the Messages API refuses: which part of one the refusal names, and what follows for the conversation.

A refusal is a turn of its own, journaled like every other, in which the model says nothing. The next turn leaves out
the part that was refused. A process that resumes the conversation knows it, too, and never sends that request again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..dialects.agent_flow import MOST_REFUSALS
from ..errors import ModelError
from ..values import Json, digest
from .blocks import block_digest

STATUSES: Final = (400, 413, 422)
_ACCOUNT: Final = r"credit balance|billing|usage limit|spend limit|organization|workspace|api key"
_TOOL: Final = r"^tools\.(\d+)\b"
_BLOCK: Final = r"^messages\.(\d+)\.content\.(\d+)((?:\.\w+)*)"
_NESTED: Final = r"^\.tool_result\.content\.(\d+)\b"
_SCHEMA: Final = r"output_config|output_format|output format|structured output|compiled grammar|schema is too complex"
_KEPT: Final = ("text", "tool_use", "tool_result")
"""Types of blocks that a conversation cannot do without."""


def refused_part(message: str, body: Mapping[str, Any]) -> dict[str, str] | None:
    """Find what a refusal is about.

    Args:
        message: The text of the error, such as `tools.3.custom.input_schema: JSON schema is invalid`.
        body: The request that was refused.

    Returns:
        `{"tool": name}`, `{"block": digest}`, `{"schema": digest}`; `{"request": digest}` for anything else in the
        request; None when the refusal is about the account, so that the same request may be accepted later.
    """
    if re.search(_ACCOUNT, message, re.IGNORECASE):
        return None
    tools = body.get("tools") or []
    found = re.search(_TOOL, message)
    if found and int(found[1]) < len(tools):
        return {"tool": str(tools[int(found[1])].get("name"))}
    named = next((tool for tool in tools if message.startswith("tool") and _names(message, tool)), None)
    if named is not None:
        return {"tool": str(named.get("name"))}
    block = _block(message, body)
    if block is not None:
        return {"block": block_digest(block)}
    form = (body.get("output_config") or {}).get("format")
    if form is not None and re.search(_SCHEMA, message, re.IGNORECASE):
        return {"schema": digest(form)}
    return {"request": digest(dict(body))}


def _names(message: str, tool: Mapping[str, Any]) -> bool:
    return re.search(rf"['\"`]{re.escape(str(tool.get('name')))}['\"`]", message) is not None


def _block(message: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The block that a refusal names, where the conversation can do without it."""
    found = re.search(_BLOCK, message)
    if found is None:
        return None
    block = _at(body.get("messages"), int(found[1]), int(found[2]))
    nested = re.search(_NESTED, found[3])
    if nested is not None and block is not None:
        inner = block.get("content")
        block = inner[int(nested[1])] if isinstance(inner, list) and int(nested[1]) < len(inner) else None
    return block if isinstance(block, Mapping) and block.get("type") not in _KEPT else None


def _at(messages: Any, number: int, at: int) -> Mapping[str, Any] | None:
    content = messages[number].get("content") if isinstance(messages, list) and number < len(messages) else None
    block = content[at] if isinstance(content, list) and at < len(content) else None
    return block if isinstance(block, Mapping) else None


def is_repairable(error: Exception, refused: Sequence[Mapping[str, Any]]) -> bool:
    """Return True when the conversation can continue after a refusal: something new can be left out or remembered."""
    part = error.part if isinstance(error, ModelError) else None
    known = [{key: one[key] for key in one if key != "why"} for one in refused]
    return part is not None and part not in known and len(refused) < MOST_REFUSALS


def parts(refused: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Give the names or digests of one kind that were refused so far."""
    return [str(one[kind]) for one in refused if kind in one]


def note_of(part: Mapping[str, Json], why: str) -> str | None:
    """Say what the conversation does without, for `Completion.warnings`."""
    if "tool" in part:
        return f"tool {part['tool']}: left out: {why}"
    if "schema" in part:
        return f"output schema: the model got it in words: {why}"
    return f"a block was left out: {why}" if "block" in part else None
