"""Content blocks as the Messages API accepts them.

A block that the API would refuse is converted to one that it accepts, usually a text that says what was there, or left
out. Every change is noted with the place of the block. Blocks of types that are not known here pass in messages of the
assistant, because only the API itself writes them.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import orjson

from ..dialects.agent_blocks import IMAGES, NO_TEXT, block_of_part
from ..values import Json, digest

Note: TypeAlias = Callable[[str, str], None]
"""Takes the place of a block and what was done with it."""
LARGEST_IMAGE: Final = 5 << 20
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
_MARKED: Final = ("text", "image", "document", "search_result", "tool_result", "tool_use")
_OF_USERS: Final = ("text", "image", "document", "search_result", "tool_result", "container_upload")
_IN_RESULTS: Final = ("text", "image", "document", "search_result", "tool_reference")
_NOT_OF_ASSISTANTS: Final = (*_OF_USERS[1:], "tool_reference", "audio", "resource", "resource_link")
_OF_MCP: Final = ("image", "audio", "resource", "resource_link")
_BASE64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)


def clean_blocks(
    content: Any, role: str, place: str, note: Note, refused: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the content of a message as blocks that the API accepts.

    Args:
        content: A text, a list of blocks, or any other JSON, which becomes its text.
        role: `user` or `assistant`.
        place: Where the message is, such as `messages[2]`.
        note: Is called with the place of each block that was changed.
        refused: Digests of blocks that the API has refused before.

    Returns:
        The blocks; empty when nothing is left.
    """
    if not isinstance(content, list):
        text = content if isinstance(content, str) else "" if content is None else _as_json(content)
        return _text_block({"type": "text", "text": text}, f"{place}.content", note)
    found: list[dict[str, Any]] = []
    for i, block in enumerate(content):
        found += _clean(block, role, f"{place}.content[{i}]", note, refused)
    return found


def block_digest(block: Mapping[str, Any]) -> str:
    """Return the digest by which a refused block is known again."""
    return digest({key: value for key, value in block.items() if key != "cache_control"})


def _clean(block: Any, role: str, at: str, note: Note, refused: Collection[str]) -> list[dict[str, Any]]:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        note(at, "it is not a content block; its text was sent")
        return _said(block if isinstance(block, str) else _as_json(block))
    block = dict(block)
    kind = block["type"]
    if refused and block_digest(block) in refused:
        note(at, f"the Messages API refused this {kind}; it was left out")
        return [] if "thinking" in kind else _said(f"[{kind}: it cannot be shown here]")
    if role == "assistant":
        return _of_assistant(block, kind, at, note)
    if kind in _OF_MCP and "source" not in block:
        note(at, f"it is a block of MCP ({kind}); it was converted")
        block = block_of_part(block)
        kind = block["type"]
    if kind not in _OF_USERS:
        note(at, f"the API takes no {kind} from a user; its text was sent")
        return _said(_as_json(block))
    if kind == "tool_result":
        return [_result(block, at, note, refused)]
    return _plain(block, kind, at, note)


def _of_assistant(block: dict[str, Any], kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    if kind == "text":
        return _text_block(block, at, note)
    if kind == "thinking" and not (isinstance(block.get("thinking"), str) and block.get("signature")):
        note(at, "it is thinking without a signature; it was left out")
        return []
    if kind == "redacted_thinking" and not isinstance(block.get("data"), str):
        note(at, "it is redacted thinking without data; it was left out")
        return []
    if kind in ("thinking", "redacted_thinking"):
        return [{key: value for key, value in block.items() if key != "cache_control"}]
    if kind in _NOT_OF_ASSISTANTS:
        note(at, f"the API takes no {kind} from an assistant; its text was sent")
        return _said(_as_text(block))
    return [block]


def _plain(block: dict[str, Any], kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    """A block without blocks of its own."""
    if kind == "text":
        return _text_block(block, at, note)
    kept = _known_fields(block, kind, at, note)
    if kind in ("image", "document"):
        return _file(kept, kind, at, note)
    if kind == "search_result":
        return _search_result(kept, at, note)
    name = _FIELDS[kind][0]
    if not isinstance(kept.get(name), str) or not kept[name]:
        note(at, f"{name} of the {kind} is missing; its text was sent")
        return _said(_as_json(kept))
    return [kept]


def _text_block(block: dict[str, Any], at: str, note: Note) -> list[dict[str, Any]]:
    text = block.get("text")
    if not isinstance(text, str):
        note(at, "its text is not a string; it was sent as JSON")
        text = "" if text is None else _as_json(text)
    if not text.strip():
        note(at, "it is an empty text; it was left out")
        return []
    kept = _known_fields(block, "text", at, note)
    if not isinstance(kept.get("citations"), (list, type(None))):
        del kept["citations"]
    return [{**kept, "text": text}]


def _known_fields(block: dict[str, Any], kind: str, at: str, note: Note) -> dict[str, Any]:
    """The block with the fields that the API has for its type."""
    known = {"type", "cache_control", *_FIELDS[kind]}
    other = [key for key in block if key not in known]
    if other:
        note(at, f"a {kind} has no field {other[0]!r}; it was sent without")
    return {key: value for key, value in block.items() if key in known}


def _result(block: dict[str, Any], at: str, note: Note, refused: Collection[str]) -> dict[str, Any]:
    """A tool_result: its content is a text, or blocks of the types that a result may have."""
    kept = _known_fields(block, "tool_result", at, note)
    kept["tool_use_id"] = str(kept.get("tool_use_id") or "")
    failed = bool(kept.pop("is_error", False))
    content = kept.get("content")
    if isinstance(content, list):
        blocks: list[dict[str, Any]] = []
        for i, inner in enumerate(content):
            blocks += _in_result(inner, failed, f"{at}.content[{i}]", note, refused)
        kept["content"] = blocks or NO_TEXT
    elif isinstance(content, str) or content is None:
        kept["content"] = content if content and content.strip() else NO_TEXT
    else:
        note(at, "the content of the result is not a text or a list of blocks; it was sent as JSON")
        kept["content"] = _as_json(content)
    return {**kept, "is_error": True} if failed else kept


def _in_result(block: Any, failed: bool, at: str, note: Note, refused: Collection[str]) -> list[dict[str, Any]]:
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        note(at, "it is not a content block; its text was sent")
        return _said(block if isinstance(block, str) else _as_json(block))
    block = dict(block)
    if block["type"] in _OF_MCP and "source" not in block:
        note(at, f"it is a block of MCP ({block['type']}); it was converted")
        block = block_of_part(block)
    kind = block["type"]
    if refused and block_digest(block) in refused:
        note(at, f"the Messages API refused this {kind}; it was left out")
        return _said(f"[{kind}: it cannot be shown here]")
    if kind == "text" and isinstance(block.get("text"), str) and not block["text"].strip():
        return []  # an empty output is nothing to warn of
    if kind not in _IN_RESULTS:
        note(at, f"a result may have no {kind}; its text was sent")
        return _said(_as_text(block))
    if failed and kind != "text":
        note(at, f"the result of a failed call may have no {kind}; its text was sent")
        return _said(_as_text(block))
    return _plain(block, kind, at, note)


def _search_result(block: dict[str, Any], at: str, note: Note) -> list[dict[str, Any]]:
    content = block.get("content")
    texts: list[dict[str, Any]] = []
    for i, inner in enumerate(content if isinstance(content, list) else []):
        if isinstance(inner, Mapping) and inner.get("type") == "text":
            texts += _text_block(dict(inner), f"{at}.content[{i}]", note)
    if not texts or not all(isinstance(block.get(key), str) for key in ("source", "title")):
        note(at, "the search result is incomplete; its text was sent")
        return _said(_as_json(block))
    return [{**block, "content": texts}]


# --- images and documents -------------------------------------------------------------------------


def _file(block: dict[str, Any], kind: str, at: str, note: Note) -> list[dict[str, Any]]:
    """An image or a document; a text in its place where its source is of no use."""
    source = block.get("source")
    wrong: str | None = "it has no source"
    made: dict[str, Any] = {}
    if isinstance(source, Mapping):
        made, wrong = _source(dict(source), kind)
    if wrong is not None:
        note(at, f"the {kind} was replaced by a text: {wrong}")
        return _said(f"[{kind}: it cannot be shown here: {wrong}]")
    if made.get("media_type") != dict(source or {}).get("media_type"):
        note(at, f"the {kind} is {made.get('media_type')}; its media type was corrected")
    return [{**block, "source": made}]


def _source(source: dict[str, Any], kind: str) -> tuple[dict[str, Any], str | None]:
    """The source as the API accepts it, and what is wrong with it."""
    form = source.get("type")
    if form == "url":
        url = source.get("url")
        fine = isinstance(url, str) and url.startswith(("https://", "http://"))
        return {"type": form, "url": url}, None if fine else "its address is not http or https"
    if form == "file":
        fine = isinstance(source.get("file_id"), str) and bool(source["file_id"])
        return {"type": form, "file_id": source.get("file_id")}, None if fine else "it names no file"
    if kind == "document" and form == "text":
        fine = isinstance(source.get("data"), str) and bool(source["data"].strip())
        return {"type": form, "media_type": "text/plain", "data": source.get("data")}, None if fine else "it is empty"
    if kind == "document" and form == "content":
        return _content_source(source)
    if form != "base64":
        return {}, f"its source is of the type {form!r}"
    data = _base64(source.get("data"))
    if data is None:
        return {}, "its data is not base64"
    return _typed(data, str(source.get("media_type") or ""), kind)


def _typed(data: str, media: str, kind: str) -> tuple[dict[str, Any], str | None]:
    """Base64 data under the media type that its first bytes show."""
    if kind == "image":
        media = _media_type(data) or media.split(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
        if media not in IMAGES:
            return {}, f"its media type is {media or 'missing'}, not one of {', '.join(IMAGES)}"
        if len(data) > LARGEST_IMAGE:
            return {}, f"it has {len(data):,} characters of base64; the API takes {LARGEST_IMAGE:,}"
    elif media.split(";")[0].strip().lower() != "application/pdf":
        return {}, f"its media type is {media or 'missing'}, not application/pdf"
    else:
        media = "application/pdf"
    return {"type": "base64", "media_type": media, "data": data}, None


def _content_source(source: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    content = source.get("content")
    if isinstance(content, str):
        return {"type": "content", "content": content}, None if content.strip() else "it is empty"
    kept: list[dict[str, Any]] = []
    for inner in content if isinstance(content, list) else []:
        if isinstance(inner, Mapping) and inner.get("type") in ("text", "image"):
            kept += _plain(dict(inner), inner["type"], "", lambda place, what: None)
    return {"type": "content", "content": kept}, None if kept else "it is empty"


def _base64(data: Any) -> str | None:
    """The data as plain base64: without line breaks, and without the beginning of a data URL."""
    if not isinstance(data, str):
        return None
    text: str = data.partition(",")[2] if data.startswith("data:") else data
    try:
        raw = text.encode("ascii")
        if not raw.strip():
            return None
        digits = raw.rstrip(b"=")
        # Much faster than to decode a large image in every turn.
        if len(raw) % 4 == 0 and len(raw) - len(digits) <= 2 and not digits.translate(None, _BASE64):
            return text
        # Line breaks, the alphabet of URLs and missing padding still say which bytes are meant.
        plain = b"".join(raw.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
        decoded = binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
        return b64encode(decoded).decode() if decoded else None
    except (binascii.Error, ValueError):
        return None


def _media_type(data: str) -> str | None:
    head = binascii.a2b_base64(data[:24] + "=" * (-len(data[:24]) % 4))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for magic, media in _MAGIC if head.startswith(magic)), None)


# --- texts ----------------------------------------------------------------------------------------


def _as_text(block: Mapping[str, Any]) -> str:
    """A block as a text, without the bytes of a file."""
    if block.get("type") == "tool_result":
        content = block.get("content")
        return f"[result of a call: {content if isinstance(content, str) else _as_json(content)}]"
    if block.get("type") in ("image", "document", "audio"):
        return f"[{block['type']}: it cannot be shown here]"
    return _as_json(block)


def _as_json(value: Json | Mapping[str, Any]) -> str:
    return orjson.dumps(value).decode()


def _said(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


__all__ = ["LARGEST_IMAGE", "Note", "block_digest", "clean_blocks"]
