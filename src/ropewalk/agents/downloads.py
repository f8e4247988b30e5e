"""Images and documents at URLs, for APIs that take no URL: downloads from addresses that a project allows.

An SDK would download them by rules of its own. A file that cannot be downloaded is refused like a block that the API
refuses: the conversation continues without it, and a warning gives the reason.
"""

from __future__ import annotations

import asyncio
import mimetypes
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias
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
_FILES: Final = ("image", "document")
_SECONDS: Final = 30.0
_MAX_BYTES: Final = 50_000_000
_UNKNOWN_TYPES: Final = ("", "application/octet-stream", "binary/octet-stream")


async def with_files(request: Request, takes_url: TakesUrl, policy: AddressPolicy) -> Request:
    """Return a request that has the content of each file whose URL the API does not take."""
    messages = [await _with_content(message, takes_url, policy) for message in request.messages]
    return replace(request, messages=messages)


async def _with_content(
    holder: Mapping[str, Any], takes_url: TakesUrl, policy: AddressPolicy, document: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a message, a block or the source of a block with the content of the files in it."""
    content, source = holder.get("content"), holder.get("source")
    if isinstance(content, list):
        parts = [await _with_content(p, takes_url, policy, document) if isinstance(p, Mapping) else p for p in content]
        return {**holder, "content": parts}
    if holder.get("type") not in _FILES or not isinstance(source, Mapping):
        return dict(holder)
    if source.get("type") == "content":
        return {**holder, "source": await _with_content(source, takes_url, policy, document=holder)}
    if source.get("type") != "url" or takes_url(holder["type"], source["url"]):
        return dict(holder)
    try:
        return {**holder, "source": await _download(holder["type"], source["url"], policy)}
    except (ConfigError, AddressRefused, InvalidRequest, HttpFailure, ConnectionError) as error:
        why = f"the API of this model takes no URL of this {holder['type']}, and Ropewalk cannot download it: {error}"
        # An image inside a document goes with the document: a document is left out as a whole.
        raise ModelError(why, part={"block": block_digest(document or holder)}) from error


async def _download(kind: str, url: str, policy: AddressPolicy) -> dict[str, Any]:
    """Return the source of a block with the content of a file."""
    check_url(url, kind)
    http = Http({}, place=kind, policy=policy_for(policy, url), max_bytes=_MAX_BYTES)
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
    return source
