"""Content: images, audio, links and embedded resources as JSON values that pass from node to node.

A part of content is `{"$content": {"type", "mimeType", "blob" or "uri", "size", ...}}`. The bytes are not in it: `blob`
is their SHA-256, and they are kept once, in memory and in the store of the run. A tool written in Python makes a part
with `content` and reads one with `content_bytes`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from .errors import InvalidValue, NotFound, RopewalkError
from .values import Json, is_json

KEY: Final = "$content"
MARK: Final = b'"$content":{'
"""Text that occurs in the JSON of every value with content, as orjson writes it."""
MOST_KEPT: Final = 256_000_000
"""Bytes of content that a process keeps in memory; older content is only in the stores."""
TYPES: Final = ("image", "audio", "resource", "resource_link")
_BLOB: Final = re.compile(rb'"blob":"([0-9a-f]{64})"')
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_KEPT_FIELDS: Final = ("name", "title", "description", "annotations", "_meta", "icons")


class Source(Protocol):
    """A place that has content: every open store is one."""

    def content(self, hash: str, /) -> bytes | None:
        """Find content."""

        # `hash`: The SHA-256 of the bytes, in hexadecimal.
        ...


class Contents:
    """The content of this process, by SHA-256."""

    # Safe for concurrent use.
    # At most `limit` bytes stay in memory, the newest. Anything else is read from the open stores. `count` is how often
    # content was kept.

    def __init__(self, limit: int = MOST_KEPT) -> None:
        self.limit, self.count = limit, 0
        self._bytes_by_hash: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()

    def add_source(self, source: Source) -> None:
        """Look for content in this store as well, as long as it exists."""
        with self._lock:
            self._sources.add(source)

    def keep(self, data: bytes) -> str:
        """Keep bytes in memory."""

        # The least recently used ones go when the limit is exceeded.
        # `data`: The bytes.
        hash = hashlib.sha256(data).hexdigest()
        with self._lock:
            self.count += 1
            if hash not in self._bytes_by_hash:
                self._bytes_by_hash[hash] = data
                self._bytes += len(data)
            self._bytes_by_hash.move_to_end(hash)
            while self._bytes > self.limit and len(self._bytes_by_hash) > 1:
                self._bytes -= len(self._bytes_by_hash.popitem(last=False)[1])
        return hash

    def in_memory(self, hash: str) -> bytes | None:
        """Return the bytes if this process has them in memory; else None."""
        with self._lock:
            return self._bytes_by_hash.get(hash)

    def find(self, hash: str) -> bytes | None:
        """Look for bytes in memory, then in each open store."""
        data = self.in_memory(hash)
        if data is not None:
            return data
        with self._lock:
            sources = list(self._sources)
        for source in sources:
            try:
                data = source.content(hash)
            except RopewalkError:  # this store is closed or away; another one may have the content
                continue
            if data is not None:
                self.keep(data)
                return data
        return None


contents: Final = Contents()
"""The content of this process."""


def content(
    data: bytes, mime_type: str, *, type: str | None = None, uri: str | None = None, name: str | None = None
) -> dict[str, Json]:
    """Make a part of content, for a tool to return.

    Args:
        data: The bytes of the picture, sound or file.
        mime_type: Their media type, such as `image/png`.
        type: `image`, `audio` or `resource`. Default: what the media type says.
        uri: The address of a `resource`. Default: made from the hash of the bytes.
        name: A name to show to people.

    Returns:
        `{"$content": {...}}`. The bytes are kept by this process and by the store of the run.

    Raises:
        InvalidValue: An argument has a wrong type or value.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidValue("data", f"must be bytes, not {data.__class__.__name__}")
    if not isinstance(mime_type, str) or "/" not in mime_type:
        raise InvalidValue("mime_type", f"must be a media type such as 'image/png', not {mime_type!r}")
    kind = type or (mime_type.partition("/")[0] if mime_type.startswith(("image/", "audio/")) else "resource")
    if kind not in TYPES[:3]:
        raise InvalidValue("type", f"must be one of {', '.join(TYPES[:3])}, not {kind!r}")
    raw = bytes(data)
    hash = contents.keep(raw)
    part: dict[str, Json] = {"type": kind, "mimeType": mime_type, "blob": hash, "size": len(raw)}
    if uri is not None or kind == "resource":
        part["uri"] = uri or f"content:{hash}"
    if name is not None:
        part["name"] = name
    return {KEY: part}


def content_bytes(part: Json) -> bytes:
    """Get the bytes of a part of content.

    Args:
        part: `{"$content": {...}}`, as a tool gets it among its arguments.

    Returns:
        The bytes; of an embedded resource with text, the text in UTF-8.

    Raises:
        InvalidValue: `part` is not a part of content, or a link, whose bytes are elsewhere.
        NotFound: The bytes are not there any more: not in memory, and in no store that is open.
    """
    about = about_of(part)
    if about is None:
        raise InvalidValue("content", 'must be {"$content": {...}} with a type')
    text = about.get("text")
    if isinstance(text, str):
        return text.encode()
    hash = about.get("blob")
    if not isinstance(hash, str):
        where = f"a link to {about['uri']}" if about.get("uri") else "empty"
        raise InvalidValue("content", f"has no bytes: it is {where}")
    data = contents.find(hash) if _HASH.fullmatch(hash) else None
    if data is None:
        raise NotFound("content", hash, why="its bytes are no longer in memory or in an open store")
    return data


def about_of(value: Json) -> dict[str, Json] | None:
    """Return the description of a part of content; None for any other value."""
    if type(value) is dict and len(value) == 1:
        about = value.get(KEY)
        if type(about) is dict and type(about.get("type")) is str:
            return about
    return None


def parts_in(value: Json) -> Iterator[dict[str, Json]]:
    """Yield the description of every part of content in a value, in order."""
    about = about_of(value)
    if about is not None:
        yield about
    elif type(value) is dict:
        for item in value.values():
            yield from parts_in(item)
    elif type(value) is list:
        for item in value:
            yield from parts_in(item)


def hashes_in(raw: bytes | None) -> list[str]:
    """Return the hashes of the content in a JSON text; quick if there is none."""
    if raw is None or MARK not in raw:
        return []
    return [hash.decode() for hash in dict.fromkeys(_BLOB.findall(raw))]


def hashes_of(value: Json) -> list[str]:
    """Return the hashes of the content in a value."""
    return [hash for about in parts_in(value) if type(hash := about.get("blob")) is str]


# --- MCP ----------------------------------------------------------------------------------------


def from_mcp(block: Mapping[str, Any]) -> Json:
    """Convert a content block of MCP to a value, and keep its bytes."""
    kind, mime = block.get("type"), block.get("mimeType")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    about: dict[str, Any] = {"type": str(kind)}
    inner = block.get("resource") if kind == "resource" else None
    if isinstance(inner, Mapping):
        mime = inner.get("mimeType")
    if isinstance(mime, str):
        about["mimeType"] = mime
    # Each kind has its bytes or its address in another field; an unknown kind is kept as it is.
    if kind in ("image", "audio"):
        about |= _keep_base64(block.get("data"))
    elif isinstance(inner, Mapping):
        about["uri"] = str(inner.get("uri") or "")
        text = inner.get("text")
        about |= (
            {"text": text, "size": len(text.encode())} if isinstance(text, str) else _keep_base64(inner.get("blob"))
        )
    elif kind == "resource_link":
        about["uri"] = str(block.get("uri") or "")
        if isinstance(block.get("size"), (int, float)):
            about["size"] = block["size"]
    else:
        about |= {key: value for key, value in block.items() if key != "type"}
    about |= {key: block[key] for key in _KEPT_FIELDS if block.get(key) is not None}
    return {KEY: about if is_json(about) else {"type": str(kind), "error": "it is not JSON"}}


def _keep_base64(data: Any) -> dict[str, Json]:
    try:
        raw = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        # The call took effect, so it must not fail because of this.
        return {"size": 0, "error": "the data is not base64"}
    return {"blob": contents.keep(raw), "size": len(raw)}


def to_mcp(about: Mapping[str, Json]) -> dict[str, Any]:
    """Convert a part of content to a content block of MCP."""
    kind = about.get("type")
    more = {key: about[key] for key in _KEPT_FIELDS if about.get(key) is not None}
    mime = {"mimeType": about["mimeType"]} if about.get("mimeType") else {}
    if kind == "resource_link":
        size = {"size": about["size"]} if "size" in about else {}
        return {"type": kind, "name": str(about.get("uri")), "uri": about.get("uri"), **mime, **size, **more}
    marks: dict[str, Any] = {key: more[key] for key in ("annotations", "_meta") if key in more}
    if kind == "resource" and isinstance(about.get("text"), str):
        return {"type": kind, "resource": {"uri": about.get("uri"), **mime, "text": about["text"]}, **marks}
    try:
        data = base64.b64encode(content_bytes({KEY: dict(about)})).decode()
    except (InvalidValue, NotFound):
        return {"type": "text", "text": f"[{kind} {about.get('mimeType') or ''}: its bytes are not available]"}
    if kind == "resource":
        return {"type": kind, "resource": {"uri": about.get("uri"), **mime, "blob": data}, **marks}
    return {"type": kind, "data": data, "mimeType": "application/octet-stream", **mime, **marks}


def with_mcp_blocks(value: Json) -> Any:
    """Return the value with MCP content blocks in the place of its parts of content."""
    about = about_of(value)
    if about is not None:
        return to_mcp(about)
    if type(value) is dict:
        return {key: with_mcp_blocks(item) for key, item in value.items()}
    if type(value) is list:
        return [with_mcp_blocks(item) for item in value]
    return value
