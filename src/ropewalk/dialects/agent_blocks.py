"""Results of tools as the blocks a model reads: text, pictures, documents, cut where they are too large.

What a tool gave stays whole in the trace; only what is sent is cut, with a note that says so. Whatever a result
says, it is the content of a tool result: data, for the model to read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from ..content import about_of, parts_in, to_mcp
from ..values import Json

RESULT_SIZE: Final = 100_000
"""Characters of text that are sent of one result, unless `result_size` says otherwise."""
IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
LARGEST_FILE: Final = 5_000_000
"""Characters of base64 that a picture or a document may have."""
NO_TEXT: Final = "(no output)"
EMPTY: Final = "(empty message)"
"""What is sent for a message without content; the API refuses one that is blank."""


def rendered(
    messages: Sequence[Mapping[str, Any]], trace: Sequence[Mapping[str, Any]], size: int = RESULT_SIZE
) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt, and the messages as they are sent: results filled in from the trace."""
    outcomes = {str(use.get("id")): use.get("outcome") for use in trace}
    system: list[str] = []
    found: list[dict[str, Any]] = []
    for message in messages:
        role, content = str(message.get("role")), message.get("content")
        if role == "system" and not found:
            system.append(_text(content))
        elif isinstance(content, list):
            blocks = [_filled(block, outcomes, size) for block in content]
            if blocks:
                found.append({"role": role, "content": blocks})
        else:
            found.append({"role": role, "content": _text(content)})
    return "\n\n".join(system), found


def _filled(block: Any, outcomes: Mapping[str, Any], size: int) -> Any:
    if not isinstance(block, Mapping) or block.get("type") != "tool_result" or "content" in block:
        return block
    id = str(block.get("tool_use_id"))
    return {"type": "tool_result", "tool_use_id": id, **result(_resolved(id, outcomes), size)}


def told_whole(trace: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The calls, those that were not made again with what the first gave."""
    outcomes = {str(use.get("id")): use.get("outcome") for use in trace}
    found = []
    for use in trace:
        again = (use.get("outcome") or {}).get("same_as")
        whole = {} if again is None else {"outcome": {**_resolved(str(use.get("id")), outcomes), "same_as": again}}
        found.append({**use, **whole})
    return found


def _resolved(id: str, outcomes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The outcome of a call; of one that was not made again, that of the first."""
    outcome = outcomes.get(id) or {}
    again = outcome.get("same_as")
    return outcomes.get(str(again)) or {} if again is not None else outcome


def result(outcome: Mapping[str, Any], size: int = RESULT_SIZE) -> dict[str, Any]:
    """`content`, and `is_error` where the call failed."""
    error = outcome.get("error")
    if error is not None:
        return {"content": _cut(_text(error), size), "is_error": True}
    parts = outcome.get("content")
    if isinstance(parts, list):
        blocks = _within([block_of_part(part) for part in parts if isinstance(part, (Mapping, str))], size)
        return {"content": blocks or NO_TEXT}
    value = outcome.get("value")
    if found := _shown(value):
        return {"content": _within(found, size)}
    return {"content": _cut(_text(value), size) if value is not None else NO_TEXT}


def _shown(value: Json) -> list[dict[str, Any]]:
    """A value with parts of content as blocks: a list of texts and parts in its order, any other value as its JSON and
    then each part once. Nothing for a value without any."""
    inside = list(parts_in(value))
    if not inside:
        return []
    listed = value if isinstance(value, list) else [value]
    if all(isinstance(item, str) or about_of(item) is not None for item in listed):
        return [block_of_part(item) for item in listed]
    once = {orjson.dumps(about): about for about in inside}
    return [_said(_text(value)), *(block_of_part(to_mcp(about)) for about in once.values())]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def _cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[:size]}\n[cut: the first {size:,} of {len(text):,} characters; the rest was not sent]"


def _within(blocks: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """The blocks with at most so many characters of text together."""
    left = size
    found = []
    for block in blocks:
        if block["type"] == "text":
            if left <= 0:
                continue
            block = {"type": "text", "text": _cut(block["text"], left)}
            left -= len(block["text"])
        found.append(block)
    return found


def block_of_part(part: Mapping[str, Any] | str) -> dict[str, Any]:
    """One part of a result: a text, a part of content, or a content block of MCP."""
    if isinstance(part, str):
        return _said(part or NO_TEXT)
    about = about_of(part)
    if about is not None:
        part = to_mcp(about)
    kind, mime = part.get("type"), str(part.get("mimeType") or "")
    if kind == "text":
        return _said(_text(part.get("text")) or NO_TEXT)
    if kind == "image":
        return _file("image", mime, part.get("data"))
    if kind == "audio":
        return _said(f"[audio {mime}, {_size(part.get('data'))}: it cannot be played here]")
    if kind == "resource_link":
        words = [str(part[key]) for key in ("title", "name", "description") if part.get(key)]
        return _said(f"[link {part.get('uri')}{': ' if words else ''}{', '.join(words)}]")
    if kind == "resource" and isinstance(part.get("resource"), Mapping):
        return _resource(part["resource"])
    return _said(_text(dict(part)))


def _resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    mime, uri = str(resource.get("mimeType") or ""), str(resource.get("uri") or "")
    text = resource.get("text")
    if isinstance(text, str):
        return _said(f"[{uri}]\n{text}" if uri else text or NO_TEXT)
    if mime in IMAGES:
        return _file("image", mime, resource.get("blob"))
    if mime == "application/pdf":
        return _file("document", mime, resource.get("blob"))
    return _said(f"[{uri} {mime}, {_size(resource.get('blob'))}: it cannot be shown here]")


def _file(kind: str, mime: str, data: Any) -> dict[str, Any]:
    if not isinstance(data, str) or not data or (kind == "image" and mime not in IMAGES) or len(data) > LARGEST_FILE:
        return _said(f"[{kind} {mime}, {_size(data)}: it cannot be shown here]")
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _size(data: Any) -> str:
    return f"{len(data) * 3 // 4:,} bytes" if isinstance(data, str) else "empty"
