"""Images and documents at URLs, for APIs that take no URL: downloads from addresses that a project allows.

An SDK would download them by rules of its own. A file that cannot be downloaded is refused like a block that the API
refuses: the conversation continues without it, and a warning gives the reason.
"""

from __future__ import annotations

import asyncio
import mimetypes
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from ..config.network import AddressPolicy
from ..errors import ConfigError, ModelError
from ..tools.backends.http import AddressRefused, Http, HttpFailure, InvalidRequest, check_url, policy_for
from ..tools.backends.http import Request as HttpRequest
from ..tools.backends.http_answers import decode
from .content_blocks import block_digest, clean_source
from .model import Request

TakesUrl: TypeAlias = Callable[[str, str], bool]
"""Returns True if an API takes a URL for a kind of block, and this URL."""
_Load: TypeAlias = Callable[[str, str], Awaitable["dict[str, Any] | None"]]
"""Returns the source of a block with the content of a file; None if the API takes its URL."""
_FILES: Final = ("image", "document")
_SECONDS: Final = 30.0
_MAX_BYTES: Final = 50_000_000
"""Of one file, of all files in a request, and of those in memory."""
_TTL: Final = 600.0
_UNKNOWN_TYPES: Final = ("", "application/octet-stream", "binary/octet-stream")


class _File(NamedTuple):
    source: dict[str, Any]
    size: int
    # A reading of `time.monotonic` before the download.
    asked: float


class Downloads:
    """The files that one client of a model downloads; the newest ones stay in memory for the next turns."""

    def __init__(self, policy: AddressPolicy, *, max_bytes: int = _MAX_BYTES, ttl: float = _TTL) -> None:
        self._policy = policy
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._kept: OrderedDict[tuple[str, str], _File] = OrderedDict()
        self._lock = Lock()

    async def with_files(self, request: Request, takes_url: TakesUrl) -> Request:
        """Return a request that has the content of each file whose URL the API does not take."""
        left = self._max_bytes

        async def load(kind: str, url: str) -> dict[str, Any] | None:
            nonlocal left
            if takes_url(kind, url):
                return None
            file = await self._file(kind, url)
            left -= file.size
            if left < 0:
                raise InvalidRequest(f"the files of this request are larger than {self._max_bytes:,} bytes, the limit")
            return file.source

        return replace(request, messages=[await _with_content(message, load) for message in request.messages])

    async def _file(self, kind: str, url: str) -> _File:
        asked = time.monotonic()
        with self._lock:
            kept = self._kept.pop((kind, url), None)
        if kept is None or asked - kept.asked >= self._ttl:
            kept = _File(*await _download(kind, url, self._policy, self._max_bytes), asked)
        with self._lock:
            self._kept[kind, url] = kept
            while sum(file.size for file in self._kept.values()) > self._max_bytes:
                self._kept.popitem(last=False)
        return kept


async def _with_content(
    holder: Mapping[str, Any], load: _Load, document: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a message, a block or the source of a block with the content of the files in it."""
    content, source = holder.get("content"), holder.get("source")
    if isinstance(content, list):
        parts = [await _with_content(p, load, document) if isinstance(p, Mapping) else p for p in content]
        return {**holder, "content": parts}
    if holder.get("type") not in _FILES or not isinstance(source, Mapping):
        return dict(holder)
    if source.get("type") == "content":
        return {**holder, "source": await _with_content(source, load, document=holder)}
    if source.get("type") != "url":
        return dict(holder)
    try:
        found = await load(holder["type"], source["url"])
    except (ConfigError, AddressRefused, InvalidRequest, HttpFailure, ConnectionError) as error:
        why = f"the API of this model takes no URL of this {holder['type']}, and Ropewalk cannot download it: {error}"
        # An image inside a document goes with the document: a document is left out as a whole.
        raise ModelError(why, part={"block": block_digest(document or holder)}) from error
    return dict(holder) if found is None else {**holder, "source": found}


async def _download(kind: str, url: str, policy: AddressPolicy, max_bytes: int) -> tuple[dict[str, Any], int]:
    """Return the source of a block with the content of a file, and the bytes of the file."""
    check_url(url, kind)
    http = Http({}, place=kind, policy=policy_for(policy, url), max_bytes=max_bytes)
    try:
        async with asyncio.timeout(_SECONDS):
            content_type, data = await http.read(HttpRequest(method="GET", url=url))
    except TimeoutError as error:
        raise ConnectionError(f"no answer within {_SECONDS:g} s") from error
    finally:
        await http.close()
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type in _UNKNOWN_TYPES:
        media_type = mimetypes.guess_type(urlsplit(url).path)[0] or media_type
    if kind == "document" and media_type.startswith("text/"):
        text = decode(data, parameters.partition("charset=")[2].strip(' "') or None)
        text = data.decode(errors="replace") if text is None else text
        found = {"type": "text", "media_type": "text/plain", "data": text}
    elif kind == "document" and media_type != "application/pdf":
        raise InvalidRequest(f"its type is {media_type or 'not known'}; a document must be a PDF or a text")
    else:
        found = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}

    # The file gets the checks of one whose content came with the message.
    source, problem = clean_source(found, kind)
    if problem is not None:
        raise InvalidRequest(problem)
    return source, len(data)
