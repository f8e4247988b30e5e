"""Convert messages to blocks and an order that the Messages API accepts.

`clean_blocks` converts a block that the API would refuse, usually to a text that describes it, or leaves it out. Every
change is noted with the place of the block. Unknown types pass in messages of the assistant, because only the API
writes them. `start_of_pause` finds a paused turn, which is not converted at all.

`order_messages` makes roles alternate, beginning with the user, joins consecutive messages of one role, and puts one
result for every call at the beginning of the next message.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from ..notations.agent import EMPTY, IMAGES, NO_TEXT, block_of_part
from ..values import Json, digest

Note: TypeAlias = Callable[[str, str], None]
"""Takes the place of a block and a sentence about its change."""
MAX_IMAGE_LENGTH: Final = 5 << 20
"""Characters of base64 that the API accepts for one image."""
_FIELDS: Final = {
    "text": ("text", "citations"),
    "image": ("source", "transformations"),
    "document": ("source", "citations", "context", "title"),
    "search_result": ("content", "source", "title", "citations"),
    "tool_result": ("tool_use_id", "content", "is_error", "toolset_name"),
    "container_upload": ("file_id",),
    "tool_reference": ("tool_name",),
}
_CACHEABLE_TYPES: Final = ("text", "image", "document", "search_result", "tool_result", "tool_use")
_USER_TYPES: Final = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_RESULT_TYPES: Final = ("text", "image", "document", "search_result", "tool_reference")
_NOT_ASSISTANT_TYPES: Final = (*_USER_TYPES[1:], "tool_reference", "audio", "resource", "resource_link")
_MCP_TYPES: Final = ("image", "audio", "resource", "resource_link")
_SERVER_TOOL_TYPE: Final = re.compile(r"(server|mcp)_tool_use|\w+_tool_result")
_BASE64_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_IMAGE_PREFIXES: Final = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def clean_blocks(
    content: Any, role: str, place: str, note: Note, refused: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the content of a message as blocks that the API accepts."""
    if not isinstance(content, list):
        text = content if isinstance(content, str) else "" if content is None else _as_json(content)
        return _clean_text({"type": "text", "text": text}, f"{place}.content", note)
    blocks: list[dict[str, Any]] = []
    for i, block in enumerate(content):
        blocks += _clean_block(block, role, f"{place}.content[{i}]", note, refused)
    return blocks


def start_of_pause(messages: Sequence[Mapping[str, Any]], refused: Collection[str] = ()) -> int:
    """Return the index where a paused turn at the end begins; the number of messages if there is none."""

    # The API pauses only turns with tools of its own. It continues one whose content comes back unchanged.
    start = len(messages)
    blocks: list[Any] = []
    while start and messages[start - 1].get("role") == "assistant":
        content = messages[start - 1].get("content")
        if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
            break
        start, blocks = start - 1, [*content, *blocks]
    is_paused = any(_SERVER_TOOL_TYPE.fullmatch(str(block.get("type"))) for block in blocks)
    is_refused = any(block_digest(block) in refused for block in blocks) if refused else False
    return start if is_paused and not is_refused else len(messages)


def block_digest(block: Mapping[str, Any]) -> str:
    """Return the digest that identifies a refused block."""
    return digest({key: value for key, value in block.items() if key != "cache_control"})


def _clean_block(block: Any, role: str, at: str, note: Note, refused: Collection[str]) -> list[dict[str, Any]]:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        note(at, "this is not a content block; it was sent as text")
        return _as_text_blocks(block if isinstance(block, str) else _as_json(block))
    block = dict(block)

    # A block that was refused once would be refused again. Thinking goes without a replacement.
    kind = block["type"]
    if refused and block_digest(block) in refused:
        return _leave_out(kind, at, note)

    # Users and assistants may send different types; tools of MCP return blocks in the form of MCP.
    if role == "assistant":
        return _clean_assistant_block(block, kind, at, note)
    if kind in _MCP_TYPES and "source" not in block:
        note(at, f"the MCP block of type {kind} was converted to a block of the Messages API")
        block = block_of_part(block)
        kind = block["type"]
    if kind not in _USER_TYPES:
        note(at, f"a user message cannot contain a block of type {kind}; it was sent as text")
        return _as_text_blocks(_as_json(block))
    if kind == "tool_result":
        return [_clean_result(block, at, note, refused)]
    return _clean_flat_block(block, kind, at, note, refused)


def _clean_assistant_block(block: dict[str, Any], kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    if kind == "text":
        provider = {"provider": block.pop("provider")} if "provider" in block else {}
        return [{**text, **provider} for text in _clean_text(block, at, note)]
    is_signed = bool(block.get("signature") or block.get("provider"))  # of Claude, or of another provider
    if kind == "thinking" and not (isinstance(block.get("thinking"), str) and is_signed):
        note(at, "a thinking block without a signature was left out")
        return []
    if kind == "redacted_thinking" and not isinstance(block.get("data"), str):
        note(at, "a redacted thinking block without data was left out")
        return []
    if kind in ("thinking", "redacted_thinking"):
        return [{key: value for key, value in block.items() if key != "cache_control"}]
    if kind in _NOT_ASSISTANT_TYPES:
        note(at, f"an assistant message cannot contain a block of type {kind}; it was sent as text")
        return _as_text_blocks(_as_text(block))
    return [block]


def _leave_out(kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    """Return what replaces a refused block."""
    note(at, f"this {kind} was refused; it was left out")
    return [] if "thinking" in kind else _as_text_blocks(f"[{kind}: it cannot be shown here]")


def _clean_flat_block(
    block: dict[str, Any], kind: str, at: str, note: Note, refused: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Clean a block that contains no results of tools."""
    if kind == "text":
        return _clean_text(block, at, note)
    fields = _known_fields(block, kind, at, note)
    if kind in ("image", "document"):
        files = _clean_file(fields, kind, at, note)
        # What was refused is the block as it was sent, without the fields that the API does not know.
        is_refused = refused and any(block_digest(file) in refused for file in files)
        return _leave_out(kind, at, note) if is_refused else files
    if kind == "search_result":
        return _clean_search_result(fields, at, note)
    required = _FIELDS[kind][0]
    if not isinstance(fields.get(required), str) or not fields[required]:
        note(at, f"{required} of the {kind} is missing; the block was sent as text")
        return _as_text_blocks(_as_json(fields))
    return [fields]


def _clean_text(block: dict[str, Any], at: str, note: Note) -> list[dict[str, Any]]:
    text = block.get("text")
    if not isinstance(text, str):
        note(at, "its text is not a string; it was sent as JSON")
        text = "" if text is None else _as_json(text)
    if not text.strip():
        note(at, "an empty text block was left out")
        return []
    fields = _known_fields(block, "text", at, note)
    if not isinstance(fields.get("citations"), (list, type(None))):
        del fields["citations"]
    return [{**fields, "text": text}]


def _known_fields(block: dict[str, Any], kind: str, at: str, note: Note) -> dict[str, Any]:
    """Return the block without fields that the API does not know for its type."""
    known = {"type", "cache_control", *_FIELDS[kind]}
    unknown = [key for key in block if key not in known]
    if unknown:
        note(at, f"a {kind} has no field {unknown[0]!r}; it was sent without")
    return {key: value for key, value in block.items() if key in known}


def _clean_result(block: dict[str, Any], at: str, note: Note, refused: Collection[str]) -> dict[str, Any]:
    """Clean a tool_result: its content becomes a text, or blocks of the types that a result may have."""
    result = _known_fields(block, "tool_result", at, note)
    result["tool_use_id"] = str(result.get("tool_use_id") or "")
    failed = bool(result.pop("is_error", False))
    content = result.get("content")
    if isinstance(content, list):
        blocks: list[dict[str, Any]] = []
        for i, inner in enumerate(content):
            blocks += _clean_result_part(inner, failed, f"{at}.content[{i}]", note, refused)
        result["content"] = blocks or NO_TEXT
    elif isinstance(content, str) or content is None:
        result["content"] = content if content and content.strip() else NO_TEXT
    else:
        note(at, "the content of the result is not a text or a list of blocks; it was sent as JSON")
        result["content"] = _as_json(content)
    return {**result, "is_error": True} if failed else result


def _clean_result_part(block: Any, failed: bool, at: str, note: Note, refused: Collection[str]) -> list[dict[str, Any]]:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        note(at, "this is not a content block; it was sent as text")
        return _as_text_blocks(block if isinstance(block, str) else _as_json(block))
    block = dict(block)

    # Convert first: a block is refused in the form in which it was sent.
    if block["type"] in _MCP_TYPES and "source" not in block:
        note(at, f"the MCP block of type {block['type']} was converted to a block of the Messages API")
        block = block_of_part(block)
    kind = block["type"]
    if refused and block_digest(block) in refused:
        return _leave_out(kind, at, note)
    if kind == "text" and isinstance(block.get("text"), str) and not block["text"].strip():
        return []  # an empty output needs no note

    # Results allow fewer types than messages, and failed ones only text.
    if kind not in _RESULT_TYPES:
        note(at, f"a tool result cannot contain a block of type {kind}; it was sent as text")
        return _as_text_blocks(_as_text(block))
    if failed and kind != "text":
        note(at, f"the result of a failed call cannot contain a block of type {kind}; it was sent as text")
        return _as_text_blocks(_as_text(block))
    return _clean_flat_block(block, kind, at, note, refused)


def _clean_search_result(block: dict[str, Any], at: str, note: Note) -> list[dict[str, Any]]:
    content = block.get("content")
    texts: list[dict[str, Any]] = []
    for i, inner in enumerate(content if isinstance(content, list) else []):
        if isinstance(inner, Mapping) and inner.get("type") == "text":
            texts += _clean_text(dict(inner), f"{at}.content[{i}]", note)
    if not texts or not all(isinstance(block.get(key), str) for key in ("source", "title")):
        note(at, "the search result is incomplete; it was sent as text")
        return _as_text_blocks(_as_json(block))
    return [{**block, "content": texts}]


# --- images and documents -------------------------------------------------------------------------


def _clean_file(block: dict[str, Any], kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    """Clean an image or a document; replace it by a text if the API cannot use its source."""
    source = block.get("source")
    problem: str | None = "it has no source"
    usable: dict[str, Any] = {}
    if isinstance(source, Mapping):
        usable, problem = clean_source(dict(source), kind)
    if problem is not None:
        note(at, f"the {kind} was replaced by a text: {problem}")
        return _as_text_blocks(f"[{kind}: it cannot be shown here: {problem}]")
    if usable.get("media_type") != dict(source or {}).get("media_type"):
        note(at, f"the {kind} is {usable.get('media_type')}; its media type was corrected")
    return [{**block, "source": usable}]


def clean_source(source: dict[str, Any], kind: str) -> tuple[dict[str, Any], str | None]:
    """Return a source as the API accepts it, and the problem with it or None."""
    source_type = source.get("type")
    # Addresses, uploaded files and plain texts have only one field to check.
    if source_type == "url":
        url = source.get("url")
        is_valid = isinstance(url, str) and url.startswith(("https://", "http://"))
        return {"type": source_type, "url": url}, None if is_valid else "its address is not http or https"
    if source_type == "file":
        is_valid = isinstance(source.get("file_id"), str) and bool(source["file_id"])
        return {"type": source_type, "file_id": source.get("file_id")}, None if is_valid else "it names no file"
    if kind == "document" and source_type == "text":
        is_valid = isinstance(source.get("data"), str) and bool(source["data"].strip())
        return {
            "type": source_type,
            "media_type": "text/plain",
            "data": source.get("data"),
        }, None if is_valid else "it is empty"
    if kind == "document" and source_type == "content":
        return _clean_content_source(source)
    if source_type != "base64":
        return {}, f"its source is of the type {source_type!r}"

    # Base64 data must decode and have a media type that the API knows.
    if source.get("data") == "":
        return {}, "it is empty"
    data = _to_plain_base64(source.get("data"))
    if data is None:
        return {}, "its data is not base64"
    return _check_media_type(data, str(source.get("media_type") or ""), kind)


def _check_media_type(data: str, media: str, kind: str) -> tuple[dict[str, Any], str | None]:
    """Return a base64 source with the media type that its first bytes show, and the problem with it or None."""
    if kind == "image":
        media = _detect_media_type(data) or media.split(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
        if media not in IMAGES:
            return {}, f"its media type is {media or 'missing'}, not one of {', '.join(IMAGES)}"
        if len(data) > MAX_IMAGE_LENGTH:
            return {}, f"it has {len(data):,} characters of base64; the API takes at most {MAX_IMAGE_LENGTH:,}"
    elif media.split(";")[0].strip().lower() != "application/pdf":
        return {}, f"its media type is {media or 'missing'}, not application/pdf"
    else:
        media = "application/pdf"
    return {"type": "base64", "media_type": media, "data": data}, None


def _clean_content_source(source: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    content = source.get("content")
    if isinstance(content, str):
        return {"type": "content", "content": content}, None if content.strip() else "it is empty"
    blocks: list[dict[str, Any]] = []
    for inner in content if isinstance(content, list) else []:
        if isinstance(inner, Mapping) and inner.get("type") in ("text", "image"):
            blocks += _clean_flat_block(dict(inner), inner["type"], "", lambda place, what: None)
    return {"type": "content", "content": blocks}, None if blocks else "it is empty"


def _to_plain_base64(data: Any) -> str | None:
    """Return data as plain base64, without line breaks or the prefix of a data URL; None if it is not base64."""
    if not isinstance(data, str):
        return None
    text: str = data.partition(",")[2] if data.startswith("data:") else data
    try:
        encoded = text.encode("ascii")
        if not encoded.strip():
            return None
        digits = encoded.rstrip(b"=")
        # Fast path: decoding a large image at every turn takes much longer.
        if len(encoded) % 4 == 0 and len(encoded) - len(digits) <= 2 and not digits.translate(None, _BASE64_ALPHABET):
            return text
        # Line breaks, the URL alphabet and missing padding still decode to the same bytes.
        plain = b"".join(encoded.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
        decoded = binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
        return b64encode(decoded).decode() if decoded else None
    except (binascii.Error, ValueError):
        return None


def _detect_media_type(data: str) -> str | None:
    head = binascii.a2b_base64(data[:24] + "=" * (-len(data[:24]) % 4))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _IMAGE_PREFIXES if head.startswith(magic)), None)


# --- texts ----------------------------------------------------------------------------------------


def _as_text(block: Mapping[str, Any]) -> str:
    """Return a block as a text, without the bytes of files."""
    if block.get("type") == "tool_result":
        content = block.get("content")
        return f"[result of a call: {content if isinstance(content, str) else _as_json(content)}]"
    if block.get("type") in ("image", "document", "audio"):
        return f"[{block['type']}: it cannot be shown here]"
    return _as_json(block)


def _as_json(value: Json | Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _as_text_blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


UNANSWERED: Final = "not called: this call has no result in the conversation"
_ID_PATTERN: Final = r"[A-Za-z0-9_-]{1,128}"
_NAME_PATTERN: Final = r"[A-Za-z0-9_-]{1,128}"

Message = dict[str, Any]


def order_messages(messages: Sequence[Message], note: Note) -> list[Message]:
    """Return messages in the order that the API accepts."""
    joined = _join_by_role(messages)
    if joined and joined[0]["role"] == "assistant":
        note(joined[0]["place"], "the conversation begins with the assistant; a user message was put before it")
        joined.insert(0, {"role": "user", "content": _as_text_blocks(EMPTY), "place": "messages", "plain": True})
    paired = _pair_calls(joined, note)
    if paired and paired[-1]["role"] == "assistant" and not paired[-1].get("paused"):
        _trim_end(paired, note)
    return [{"role": message["role"], "content": _sent_content(message)} for message in paired]


def _sent_content(message: Message) -> Any:
    """Return a message's blocks, or its text if it was a text originally."""
    content = message["content"]
    is_single_text = message.get("plain") and len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if is_single_text else content


def _join_by_role(messages: Sequence[Message]) -> list[Message]:
    """Join consecutive messages of one role and drop empty ones."""
    joined: list[Message] = []
    for message in messages:
        if not message["content"]:
            continue
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += message["content"]
            joined[-1]["plain"] = False
        else:
            joined.append({**message, "content": list(message["content"])})
    return joined


def _pair_calls(messages: list[Message], note: Note) -> list[Message]:
    """Answer every call right after the message that makes it."""
    used: dict[str, int] = {}  # ids of calls, with the number for the next duplicate
    pending: list[tuple[str, str]] = []  # calls without results yet: original id, sent id
    paired: list[Message] = []
    for message in messages:
        place, content = message["place"], list(message["content"])
        if message["role"] == "assistant":
            content, pending = _clean_calls(content, place, used, note)
        else:
            content, pending = _order_results(content, pending, place, note), []
        if content:
            paired.append({**message, "content": content})
    if pending:
        note("messages", f"{len(pending)} call(s) at the end have no result; they were answered as not called")
        paired.append({"role": "user", "content": [_missing_result(id) for _, id in pending], "place": "messages"})
    return paired


def _clean_calls(
    content: list[Any], place: str, used_ids: dict[str, int], note: Note
) -> tuple[list[Any], list[tuple[str, str]]]:
    """Give the calls of an assistant message valid unique ids, valid names and objects as input."""
    blocks: list[Any] = []
    pending: list[tuple[str, str]] = []
    for block in content:
        if block["type"] != "tool_use":
            blocks.append(block)
            continue
        original_id, name, input = str(block.get("id") or ""), str(block.get("name") or ""), block.get("input")
        # Only ids that are invalid or duplicate change, so that the journal and the API agree on the others.
        id = original_id
        if not re.fullmatch(_ID_PATTERN, id) or id in used_ids:
            id = _new_id(original_id, used_ids)
            note(place, f"the id {original_id!r} of a call is not valid or is used twice; it was sent as {id}")
        if not re.fullmatch(_NAME_PATTERN, name):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"
            note(place, f"the name of a call is not valid; it was sent as {name}")
        if not isinstance(input, dict):
            note(place, f"the input of the call {name} is not an object; the call was sent with an empty input")
            input = {}
        used_ids.setdefault(id, 1)
        pending.append((original_id, id))
        blocks.append({**block, "id": id, "name": name, "input": input})
    return blocks, pending


def _new_id(original_id: str, used_ids: dict[str, int]) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]", "_", original_id)[:100] or "call"
    number = used_ids.get(base, 1)
    while f"{base}_{number}" in used_ids:
        number += 1
    used_ids[base] = number + 1
    return f"{base}_{number}"


def _order_results(content: list[Any], pending: list[tuple[str, str]], place: str, note: Note) -> list[Any]:
    """Return the blocks of a user message: one result for each pending call, in order, then everything else."""
    results: dict[str, Any] = {}
    other_blocks: list[Any] = []
    unanswered: dict[str, deque[str]] = {}  # several calls may share an original id
    for original_id, id in pending:
        unanswered.setdefault(original_id, deque()).append(id)
    for block in content:
        if block["type"] != "tool_result":
            other_blocks.append(block)
            continue
        # A result without a call would be refused, so its content becomes plain blocks.
        open_calls = unanswered.get(block["tool_use_id"])
        if not open_calls:
            note(place, f"the result {block['tool_use_id']!r} belongs to no earlier call; its text was sent")
            other_blocks += _orphan_result_blocks(block)
            continue
        id = open_calls.popleft()
        results[id] = {**block, "tool_use_id": id}
    for original_id in (original_id for original_id, ids in unanswered.items() if ids):
        note(place, f"the call {original_id!r} has no result; the model reads that the tool was not called")
    return [*(results.get(id) or _missing_result(id) for _, id in pending), *other_blocks]


def _orphan_result_blocks(block: Message) -> list[Any]:
    content = block.get("content")
    if isinstance(content, list):
        return [inner for inner in content if inner["type"] in ("text", "image", "document", "search_result")]
    return _as_text_blocks(f"[result of a call: {content}]")


def _trim_end(messages: list[Message], note: Note) -> None:
    """Remove white space at the end of a last message of the assistant, which the API refuses."""
    *blocks, last = messages[-1]["content"]
    if last["type"] != "text" or last["text"] == last["text"].rstrip():
        return
    note(messages[-1]["place"], "the last text ends with white space; it was left out")
    messages[-1] = {**messages[-1], "content": [*blocks, {**last, "text": last["text"].rstrip()}]}


def _missing_result(id: str) -> Message:
    return {"type": "tool_result", "tool_use_id": id, "content": UNANSWERED, "is_error": True}
