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
"""In every JSON text (as orjson writes it) of a value with content."""
MOST_KEPT: Final = 256_000_000
"""Bytes of content that a process keeps in memory; older content is then in the stores only."""
TYPES: Final = ("image", "audio", "resource", "resource_link")
_BLOB: Final = re.compile(rb'"blob":"([0-9a-f]{64})"')
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_KEPT_FIELDS: Final = ("name", "title", "description", "annotations", "_meta", "icons")


class Source(Protocol):
    """Has content: every open store is one."""

    def content(self, hash: str, /) -> bytes | None:
        """The bytes with this SHA-256 (hexadecimal), None where there are none."""
        ...


class Contents:
    """The content of this process, by SHA-256; safe for concurrent use.

    At most `most` bytes stay in memory, the newest. `count` is how often content was kept. What is not in memory any
    more is looked for in the open stores.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.most, self.count = most, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()

    def add_source(self, source: Source) -> None:
        """Look for content in this store, too, as long as it exists."""
        with self._lock:
            self._sources.add(source)

    def keep(self, data: bytes) -> str:
        """Keep bytes in memory and return their SHA-256."""
        hash = hashlib.sha256(data).hexdigest()
        with self._lock:
            self.count += 1
            if hash not in self._kept:
                self._kept[hash] = data
                self._bytes += len(data)
            self._kept.move_to_end(hash)
            while self._bytes > self.most and len(self._kept) > 1:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return hash

    def in_memory(self, hash: str) -> bytes | None:
        """The bytes, where this process still has them in memory."""
        with self._lock:
            return self._kept.get(hash)

    def find(self, hash: str) -> bytes | None:
        """The bytes, from memory or from an open store; None where nobody has them."""
        found = self.in_memory(hash)
        if found is not None:
            return found
        with self._lock:
            sources = list(self._sources)
        for source in sources:
            try:
                found = source.content(hash)
            except RopewalkError:  # a store that is closed or away; another one may have it
                continue
            if found is not None:
                self.keep(found)
                return found
        return None


contents: Final = Contents()
"""That of this process."""


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
    found = contents.find(hash) if _HASH.fullmatch(hash) else None
    if found is None:
        raise NotFound("content", hash, why="it is not in memory any more, and in no open store")
    return found


def about_of(value: Json) -> dict[str, Json] | None:
    """What a part of content says of itself; None for any other value."""
    if type(value) is dict and len(value) == 1:
        about = value.get(KEY)
        if type(about) is dict and type(about.get("type")) is str:
            return about
    return None


def parts_in(value: Json) -> Iterator[dict[str, Json]]:
    """What every part of content in a value says of itself, in order."""
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
    """The hashes of the content in a JSON text; quick where there is none."""
    if raw is None or MARK not in raw:
        return []
    return [found.decode() for found in dict.fromkeys(_BLOB.findall(raw))]


def hashes_of(value: Json) -> list[str]:
    """The hashes of the content in a value."""
    return [hash for about in parts_in(value) if type(hash := about.get("blob")) is str]


# --- MCP ----------------------------------------------------------------------------------------


def from_mcp(block: Mapping[str, Any]) -> Json:
    """A content block of MCP as a value: the string of a text, else a part of content; its bytes are kept."""
    kind, mime = block.get("type"), block.get("mimeType")
    if kind == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    about: dict[str, Any] = {"type": str(kind)}
    inner = block.get("resource") if kind == "resource" else None
    if isinstance(inner, Mapping):
        mime = inner.get("mimeType")
    if isinstance(mime, str):
        about["mimeType"] = mime
    if kind in ("image", "audio"):
        about |= _kept(block.get("data"))
    elif isinstance(inner, Mapping):
        about["uri"] = str(inner.get("uri") or "")
        text = inner.get("text")
        about |= {"text": text, "size": len(text.encode())} if isinstance(text, str) else _kept(inner.get("blob"))
    elif kind == "resource_link":
        about["uri"] = str(block.get("uri") or "")
        if isinstance(block.get("size"), (int, float)):
            about["size"] = block["size"]
    else:
        about |= {key: value for key, value in block.items() if key != "type"}
    about |= {key: block[key] for key in _KEPT_FIELDS if block.get(key) is not None}
    return {KEY: about if is_json(about) else {"type": str(kind), "error": "it is not JSON"}}


def _kept(data: Any) -> dict[str, Json]:
    try:
        raw = base64.b64decode(data if isinstance(data, str) else "", validate=True)
    except (binascii.Error, ValueError):
        # The call has happened: what it did counts, so it does not fail for this.
        return {"size": 0, "error": "the data is not base64"}
    return {"blob": contents.keep(raw), "size": len(raw)}


def to_mcp(about: Mapping[str, Json]) -> dict[str, Any]:
    """The content block of MCP for a part of content; a text block that says so where its bytes are gone."""
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


def expanded(value: Json) -> Any:
    """The value with the content block of MCP in the place of each part of content; the value itself without any."""
    about = about_of(value)
    if about is not None:
        return to_mcp(about)
    if type(value) is dict:
        return {key: expanded(item) for key, item in value.items()}
    if type(value) is list:
        return [expanded(item) for item in value]
    return value
